//! What an expression reads, as paths from the request's names.

use super::facts::Variables;
use crate::cel::ast::{Binary, Kind, Literal, Macro, MacroKind, Node};
use std::fmt;

/// Where a path begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Root {
    Object,
    OldObject,
    Request,
    Namespace,
}

/// One step of a path. A key in brackets and a field are the same thing in JSON.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Step {
    Field(String),
    /// The element, or the key's value, of the macro with this number.
    Item(u32),
    /// A fixed index of a list.
    At(i64),
    /// A key that is a name or a path itself.
    By(String),
}

/// A path, such as `object.spec.containers[*].image`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Path {
    pub(super) root: Root,
    pub(super) steps: Vec<Step>,
}

/// Longer paths are nobody's; what is not known to be a path is not judged.
const MAX_STEPS: usize = 48;

impl Path {
    pub(super) const fn root(root: Root) -> Self {
        Self {
            root,
            steps: Vec::new(),
        }
    }

    pub(super) fn then(mut self, step: Step) -> Option<Self> {
        self.steps.push(step);
        (self.steps.len() <= MAX_STEPS).then_some(self)
    }

    pub(super) fn field(self, name: &str) -> Option<Self> {
        self.then(Step::Field(name.to_owned()))
    }

    pub(super) fn parent(&self) -> Option<Self> {
        let (_, steps) = self.steps.split_last()?;
        Some(Self {
            root: self.root,
            steps: steps.to_vec(),
        })
    }

    /// The path and those above it, up to the element of a macro: where that element comes from
    /// its own macro knows.
    pub(super) fn as_far_as_one_item(&self) -> Vec<Self> {
        let mut paths = Vec::new();
        let mut above = Some(self.clone());
        while let Some(path) = above {
            above = match path.steps.last() {
                Some(Step::Item(_)) => None,
                _ => path.parent(),
            };
            paths.push(path);
        }
        paths
    }

    /// As the table of required fields writes it, without the root: `spec.containers[*].name`.
    pub(super) fn pattern(&self) -> String {
        let mut text = String::new();
        for step in &self.steps {
            match step {
                Step::Field(name) => {
                    if !text.is_empty() {
                        text.push('.');
                    }
                    text.push_str(name);
                }
                Step::Item(_) | Step::At(_) => text.push_str("[*]"),
                Step::By(_) => text.push_str("[?]"),
            }
        }
        text
    }
}

/// A selector's requirement always has a key and an operator.
pub(super) fn selects(pattern: &str) -> bool {
    ["key", "operator"]
        .iter()
        .any(|of| pattern.ends_with(&format!("matchExpressions[*].{of}")))
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.root {
            Root::Object => "object",
            Root::OldObject => "oldObject",
            Root::Request => "request",
            Root::Namespace => "namespaceObject",
        })?;
        for step in &self.steps {
            match step {
                Step::Field(name) if is_name(name) => write!(f, ".{name}")?,
                Step::Field(name) => write!(f, "['{name}']")?,
                Step::Item(_) => f.write_str("[*]")?,
                Step::At(index) => write!(f, "[{index}]")?,
                Step::By(key) => write!(f, "[{}]", key.split('#').next().unwrap_or_default())?,
            }
        }
        Ok(())
    }
}

/// What a name of a macro stands for.
#[derive(Debug, Clone)]
pub(super) enum Bound {
    /// An element of a list, or a key of a map, whose value is at the path.
    Element(Path),
    /// Something that is no path; the number tells it from others of its name.
    Opaque(u32),
}

/// The names that macros bind, the innermost last.
pub(super) type Scope = Vec<(String, Bound)>;

/// Finds the innermost binding of a name.
pub(super) fn bound<'s>(scope: &'s Scope, name: &str) -> Option<&'s Bound> {
    scope
        .iter()
        .rev()
        .find(|(bound, _)| bound == name)
        .map(|(_, bound)| bound)
}

/// A path, and whether what stands there is an optional (`.?`).
#[derive(Debug, Clone)]
pub(super) struct Resolved {
    pub(super) path: Path,
    pub(super) optional: bool,
}

/// The path that an expression reads; `None` where it is not one path.
pub(super) fn resolve(node: &Node, scope: &Scope, variables: &Variables) -> Option<Resolved> {
    let plain = |path| {
        Some(Resolved {
            path,
            optional: false,
        })
    };
    match &node.kind {
        Kind::Name(name) => match bound(scope, name) {
            Some(Bound::Element(path)) => plain(path.clone()),
            Some(Bound::Opaque(_)) => None,
            None => plain(Path::root(root(name)?)),
        },
        Kind::Select {
            operand,
            field,
            optional,
        } => {
            if let Some(variable) = variable(node, scope) {
                return variables.get(variable)?.path.clone();
            }
            let of = resolve(operand, scope, variables)?;
            Some(Resolved {
                path: of.path.field(field)?,
                optional: of.optional || *optional,
            })
        }
        Kind::Index {
            operand,
            index,
            optional,
        } => {
            let of = resolve(operand, scope, variables)?;
            let path = indexed(of.path, index, scope, variables)?;
            Some(Resolved {
                path,
                optional: of.optional || *optional,
            })
        }
        Kind::Call {
            function,
            target: Some(target),
            ..
        } if matches!(function.as_str(), "orValue" | "value") => {
            plain(resolve(target, scope, variables)?.path)
        }
        Kind::Call {
            function,
            target: None,
            arguments,
        } if function == "dyn" => resolve(arguments.first()?, scope, variables),
        Kind::Macro(inner) if inner.kind == MacroKind::Filter => {
            resolve(&inner.range, scope, variables)
        }
        Kind::Binary {
            operator: Binary::Add,
            left,
            right,
        } => resolve(left, scope, variables).or_else(|| resolve(right, scope, variables)),
        Kind::Conditional { yes, no, .. } => match (is_constant(yes), is_constant(no)) {
            (true, false) => resolve(no, scope, variables),
            (false, true) => resolve(yes, scope, variables),
            _ => None,
        },
        _ => None,
    }
}

fn root(name: &str) -> Option<Root> {
    match name {
        "object" => Some(Root::Object),
        "oldObject" => Some(Root::OldObject),
        "request" => Some(Root::Request),
        "namespaceObject" => Some(Root::Namespace),
        _ => None,
    }
}

/// The variable that `variables.x` reads.
pub(super) fn variable<'n>(node: &'n Node, scope: &Scope) -> Option<&'n str> {
    let Kind::Select {
        operand,
        field,
        optional: false,
    } = &node.kind
    else {
        return None;
    };
    let name = matches!(&operand.kind, Kind::Name(name) if name == "variables");
    (name && bound(scope, "variables").is_none()).then_some(field)
}

/// A path with an index behind it.
pub(super) fn indexed(
    of: Path,
    index: &Node,
    scope: &Scope,
    variables: &Variables,
) -> Option<Path> {
    match &index.kind {
        Kind::Literal(Literal::String(key)) => of.field(key),
        Kind::Literal(Literal::Int(number)) => of.then(Step::At(*number)),
        Kind::Name(name) => match bound(scope, name)? {
            // `m.all(k, m[k] …)`: the value of the key that is gone through.
            Bound::Element(path) if path.parent().as_ref() == Some(&of) => Some(path.clone()),
            Bound::Element(path) => of.then(Step::By(format!("{name}#{path:?}"))),
            Bound::Opaque(number) => of.then(Step::By(format!("{name}#{number}"))),
        },
        Kind::Select { .. } => match variable(index, scope) {
            Some(name) => of.then(Step::By(format!("variables.{name}"))),
            None => {
                let key = resolve(index, scope, variables)?.path;
                of.then(Step::By(format!("{key}#{key:?}")))
            }
        },
        _ => None,
    }
}

/// Whether it reads nothing: a literal, `[]`, `{}`.
pub(super) fn is_constant(node: &Node) -> bool {
    match &node.kind {
        Kind::Literal(_) => true,
        Kind::List(items) => items.iter().all(|(item, _)| is_constant(item)),
        Kind::Map(entries) => entries
            .iter()
            .all(|entry| is_constant(&entry.key) && is_constant(&entry.value)),
        _ => false,
    }
}

/// Whether every element of what is gone through is one of the path that it resolves to: not of a
/// default, of another list, or of what a variable may have filled in.
pub(super) fn gives_its_own(node: &Node, scope: &Scope) -> bool {
    match &node.kind {
        Kind::Name(_) => true,
        Kind::Select { operand, .. } => {
            variable(node, scope).is_none() && gives_its_own(operand, scope)
        }
        Kind::Index { operand, .. } => gives_its_own(operand, scope),
        Kind::Call {
            function,
            target: Some(target),
            arguments,
        } if matches!(function.as_str(), "orValue" | "value") => {
            arguments.iter().all(is_empty) && gives_its_own(target, scope)
        }
        Kind::Macro(inner) if inner.kind == MacroKind::Filter => gives_its_own(&inner.range, scope),
        Kind::Conditional { yes, no, .. } => {
            (is_empty(yes) && gives_its_own(no, scope))
                || (is_empty(no) && gives_its_own(yes, scope))
        }
        _ => false,
    }
}

fn is_empty(node: &Node) -> bool {
    match &node.kind {
        Kind::List(items) => items.is_empty(),
        Kind::Map(entries) => entries.is_empty(),
        _ => false,
    }
}

/// What the macro's first name stands for, and its second.
pub(super) fn bindings(
    inner: &Macro,
    number: u32,
    scope: &Scope,
    variables: &Variables,
) -> Vec<(String, Bound)> {
    let resolved = resolve(&inner.range, scope, variables);
    let opaque = matches!(
        inner.range.kind,
        Kind::Binary {
            operator: Binary::Add,
            ..
        }
    ) && resolved.is_none();
    let bound = match (inner.kind, resolved) {
        (MacroKind::OptMap | MacroKind::OptFlatMap, Some(of)) => Bound::Element(of.path),
        (_, Some(of)) if !opaque => of
            .path
            .then(Step::Item(number))
            .map_or(Bound::Opaque(number), Bound::Element),
        _ => Bound::Opaque(number),
    };
    match &inner.second {
        // The key and its value are found by one path: `m[k]` is `v`.
        Some(second) => vec![(inner.name.clone(), bound.clone()), (second.clone(), bound)],
        None => vec![(inner.name.clone(), bound)],
    }
}

/// Whether an expression is an optional; `None` where that is not known.
pub(super) fn is_optional(node: &Node, scope: &Scope, variables: &Variables) -> Option<bool> {
    match &node.kind {
        Kind::Name(name) => match bound(scope, name) {
            Some(Bound::Element(_)) => Some(false),
            Some(Bound::Opaque(_)) => None,
            None => matches!(
                name.as_str(),
                "object" | "oldObject" | "request" | "namespaceObject"
            )
            .then_some(false),
        },
        Kind::Select { optional: true, .. } | Kind::Index { optional: true, .. } => Some(true),
        Kind::Select { operand, .. } => match variable(node, scope) {
            Some(name) => variables.get(name)?.optional,
            None => is_optional(operand, scope, variables),
        },
        Kind::Index { operand, .. } => is_optional(operand, scope, variables),
        Kind::Call { function, .. } if matches!(function.as_str(), "orValue" | "value") => None,
        Kind::Call { .. } => None,
        Kind::Macro(inner) => Some(matches!(
            inner.kind,
            MacroKind::OptMap | MacroKind::OptFlatMap
        )),
        Kind::Literal(_)
        | Kind::List(_)
        | Kind::Map(_)
        | Kind::Has { .. }
        | Kind::Unary { .. }
        | Kind::Binary { .. } => Some(false),
        Kind::Conditional { yes, no, .. } => {
            let (yes, no) = (
                is_optional(yes, scope, variables),
                is_optional(no, scope, variables),
            );
            if yes == no { yes } else { None }
        }
    }
}
