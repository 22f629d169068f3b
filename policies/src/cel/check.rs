//! What can be said of names and functions before anything is evaluated.
//!
//! Invariant: what passes calls only functions that exist in the release, with a number
//! of arguments that they take. Types are not checked: a wrong one is an error of evaluation.

use super::ast::{Kind, Literal, Macro, MacroKind, Node, Position};
use super::catalogue::{self, Function, Style};
use super::{CompileError, KubernetesVersion, regex};

/// The names that an admission expression may use.
pub(super) const VARIABLES: &[&str] = &[
    "object",
    "oldObject",
    "request",
    "namespaceObject",
    "params",
    "variables",
    "authorizer",
];

/// The names of types.
pub(super) const TYPES: &[&str] = &[
    "bool",
    "bytes",
    "double",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "type",
    "uint",
    "optional_type",
];

/// The fields of `request`; another is an error before anything is evaluated.
const REQUEST_FIELDS: &[&str] = &[
    "kind",
    "resource",
    "subResource",
    "requestKind",
    "requestResource",
    "requestSubResource",
    "name",
    "namespace",
    "operation",
    "userInfo",
    "dryRun",
    "options",
];

/// Checks a tree.
pub(super) fn check(node: &Node, version: KubernetesVersion) -> Result<(), CompileError> {
    Check {
        version,
        bound: Vec::new(),
    }
    .node(node)
}

struct Check<'a> {
    version: KubernetesVersion,
    /// The names that the macros around bind.
    bound: Vec<&'a str>,
}

impl<'a> Check<'a> {
    fn node(&mut self, node: &'a Node) -> Result<(), CompileError> {
        match &node.kind {
            Kind::Name(name) => self.name(name, node.at),
            Kind::Call {
                function,
                target,
                arguments,
            } => self.call(node.at, function, target.as_deref(), arguments),
            Kind::Macro(inner) => self.macro_(node.at, inner),
            Kind::Select {
                operand,
                field,
                optional,
            } => {
                self.optional(*optional, node.at)?;
                self.field(operand, field, node.at)
            }
            Kind::Has { operand, field } => self.field(operand, field, node.at),
            Kind::Index { optional, .. } => {
                self.optional(*optional, node.at)?;
                self.children(node)
            }
            Kind::List(elements) => {
                let optional = elements.iter().any(|(_, optional)| *optional);
                self.optional(optional, node.at)?;
                self.children(node)
            }
            Kind::Map(entries) => {
                self.optional(entries.iter().any(|entry| entry.optional), node.at)?;
                self.children(node)
            }
            Kind::Literal(_)
            | Kind::Unary { .. }
            | Kind::Binary { .. }
            | Kind::Conditional { .. } => self.children(node),
        }
    }

    fn children(&mut self, node: &'a Node) -> Result<(), CompileError> {
        node.children()
            .into_iter()
            .try_for_each(|child| self.node(child))
    }

    fn name(&self, name: &str, at: Position) -> Result<(), CompileError> {
        if self.bound.contains(&name) || VARIABLES.contains(&name) || TYPES.contains(&name) {
            return Ok(());
        }
        Err(undeclared(name, at))
    }

    fn optional(&self, used: bool, at: Position) -> Result<(), CompileError> {
        if used && self.version.minor() < catalogue::OPTIONALS_SINCE {
            return Err(self.too_new("optional syntax", catalogue::OPTIONALS_SINCE, at));
        }
        Ok(())
    }

    fn field(&mut self, operand: &'a Node, field: &str, at: Position) -> Result<(), CompileError> {
        if let Kind::Name(name) = &operand.kind
            && name == "request"
            && !self.bound.contains(&"request")
            && !REQUEST_FIELDS.contains(&field)
        {
            return Err(CompileError::new(format!("undefined field `{field}`"), at));
        }
        self.node(operand)
    }

    fn macro_(&mut self, at: Position, inner: &'a Macro) -> Result<(), CompileError> {
        let optional = matches!(inner.kind, MacroKind::OptMap | MacroKind::OptFlatMap);
        self.optional(optional, at)?;
        if inner.second.is_some() && self.version.minor() < catalogue::TWO_NAMES_SINCE {
            let what = format!("`{}` with two names", inner.kind.name());
            return Err(self.too_new(&what, catalogue::TWO_NAMES_SINCE, at));
        }
        if inner.kind == MacroKind::SortBy && self.version.minor() < catalogue::SORT_BY_SINCE {
            return Err(self.too_new("`sortBy`", catalogue::SORT_BY_SINCE, at));
        }
        self.node(&inner.range)?;
        let before = self.bound.len();
        self.bound.push(&inner.name);
        self.bound.extend(inner.second.as_deref());
        let inside = inner
            .condition
            .iter()
            .chain([&inner.body])
            .try_for_each(|node| self.node(node));
        self.bound.truncate(before);
        inside
    }

    fn call(
        &mut self,
        at: Position,
        name: &str,
        target: Option<&'a Node>,
        arguments: &'a [Node],
    ) -> Result<(), CompileError> {
        let style = match target {
            None => Style::Global,
            Some(target) => self.space(target).map_or(Style::Member, Style::Of),
        };
        let Some(function) = catalogue::find(name, style, arguments.len()) else {
            return Err(self.unknown(name, style, arguments.len(), at));
        };
        if !function.is_in(self.version) {
            return Err(self.too_new(&format!("`{name}`"), function.since, at));
        }
        literal_regex(function, arguments)?;
        if style == Style::Member {
            target.map_or(Ok(()), |target| self.node(target))?;
        }
        arguments
            .iter()
            .try_for_each(|argument| self.node(argument))
    }

    /// What the API server has not either, as far as its functions are listed.
    fn unknown(&self, name: &str, style: Style, given: usize, at: Position) -> CompileError {
        if self.version.minor() > catalogue::LISTED_UNTIL {
            let until = catalogue::LISTED_UNTIL;
            let message =
                format!("`{name}`, called so, is no function of Kubernetes up to 1.{until}");
            return CompileError::limit(message, at);
        }
        let mut all = catalogue::ALL.iter();
        let message = if all.any(|known| known.name == name && known.style == style) {
            format!("found no matching overload for `{name}` with {given} arguments")
        } else if catalogue::ALL.iter().any(|known| known.name == name) {
            format!("found no matching overload for `{name}`")
        } else {
            format!("undeclared reference to `{name}`")
        };
        CompileError::new(message, at)
    }

    /// The name space that a target names, unless a macro has bound the name.
    fn space(&self, target: &Node) -> Option<&'static str> {
        let Kind::Name(name) = &target.kind else {
            return None;
        };
        if self.bound.contains(&name.as_str()) {
            return None;
        }
        catalogue::SPACES
            .iter()
            .copied()
            .find(|space| space == name)
    }

    fn too_new(&self, what: &str, since: u32, at: Position) -> CompileError {
        CompileError::new(
            format!(
                "{what} can be written from Kubernetes 1.{since} on, not for {}",
                self.version
            ),
            at,
        )
    }
}

fn undeclared(name: &str, at: Position) -> CompileError {
    CompileError::new(format!("undeclared reference to `{name}`"), at)
}

/// The API server refuses a bad pattern when a policy is written, if it is written out.
fn literal_regex(function: &Function, arguments: &[Node]) -> Result<(), CompileError> {
    let pattern = match (function.name, function.style) {
        ("matches", Style::Global) => arguments.get(1),
        ("matches" | "find" | "findAll", Style::Member) => arguments.first(),
        _ => None,
    };
    let Some(node) = pattern else { return Ok(()) };
    let Kind::Literal(Literal::String(pattern)) = &node.kind else {
        return Ok(());
    };
    regex::compile(pattern)
        .map(|_| ())
        .map_err(|error| CompileError {
            message: error.to_string(),
            at: node.at,
            engine_limit: error.is_limit(),
        })
}
