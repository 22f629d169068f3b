//! Walks an expression and says what it needs that is not sure to be there.

use super::facts::{Basis, Case, Fact, Facts, Question, Variables, View};
use super::paths::{self, Bound, Path, Root, Scope, Step};
use super::required;
use super::work::Work;
use crate::cel::ast::{Binary, Kind, Macro, MacroKind, Node};
use crate::source::{Position, Spanned};
use std::collections::{HashMap, HashSet};

/// What may be missing, and where it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Need {
    pub(super) what: Missing,
    pub(super) at: Position,
    /// The requests that it may be missing in, in words.
    pub(super) when: String,
    /// Whether the table knows every kind that is concerned.
    pub(super) certain: bool,
}

/// What may be missing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Missing {
    /// The path may be absent.
    Absent(Path),
    /// The name may be null, where this path is read of it.
    Null(Path),
    /// The function is called on what is no optional.
    NoOptional(String),
}

/// What each variable needs, to be asked for where it is used.
pub(super) type NeedsOf = HashMap<String, Vec<Need>>;

pub(super) struct Walk<'a> {
    cases: &'a [Case],
    variables: &'a Variables,
    work: &'a Work,
    needs_of: &'a NeedsOf,
    text: &'a Spanned<String>,
    known: HashMap<Fact, u32>,
    /// For each case, how many facts rule it out.
    ruled_out: Vec<u32>,
    scope: Scope,
    numbers: u32,
    said: HashSet<Missing>,
    needs: Vec<Need>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(basis: &Basis<'a>, needs_of: &'a NeedsOf, text: &'a Spanned<String>) -> Self {
        let Basis {
            cases,
            variables,
            work,
        } = *basis;
        work.spend(cases.len());
        Self {
            cases,
            variables,
            work,
            needs_of,
            text,
            known: HashMap::new(),
            ruled_out: vec![0; cases.len()],
            scope: Vec::new(),
            numbers: 0,
            said: HashSet::new(),
            needs: Vec::new(),
        }
    }

    /// What the expression needs, where the facts hold.
    pub(super) fn needs(mut self, node: &Node, facts: &Facts) -> Vec<Need> {
        self.under(facts.clone(), |walk| walk.check(node));
        self.needs
    }

    fn view(&self, read: bool) -> View<'_> {
        View {
            cases: self.cases,
            variables: self.variables,
            work: self.work,
            scope: &self.scope,
            read,
        }
    }

    /// Does something while facts hold; nothing where they cannot.
    fn under(&mut self, facts: Facts, what: impl FnOnce(&mut Self)) {
        let Some(facts) = facts else { return };
        self.work.spend(facts.len());
        for fact in &facts {
            *self.known.entry(fact.clone()).or_default() += 1;
            self.rule(fact, 1);
        }
        what(self);
        for fact in &facts {
            self.rule(fact, -1);
            if let Some(count) = self.known.get_mut(fact) {
                *count -= 1;
                if *count == 0 {
                    self.known.remove(fact);
                }
            }
        }
    }

    fn rule(&mut self, fact: &Fact, by: i32) {
        let Fact::Not(question, answer) = fact else {
            return;
        };
        self.work.spend(self.cases.len());
        for (case, count) in self.cases.iter().zip(&mut self.ruled_out) {
            if case.answer(*question) == answer {
                *count = count.saturating_add_signed(by);
            }
        }
    }

    fn left(&self) -> impl Iterator<Item = &'a Case> {
        self.cases
            .iter()
            .zip(&self.ruled_out)
            .filter(|(_, out)| **out == 0)
            .map(|(case, _)| case)
    }

    fn check(&mut self, node: &Node) {
        if !self.work.spend(1) {
            return;
        }
        match &node.kind {
            Kind::Literal(_) | Kind::Name(_) => {}
            Kind::Select {
                operand,
                field,
                optional,
            } => {
                if let Some(name) = paths::variable(node, &self.scope) {
                    return self.variable(name);
                }
                self.check(operand);
                if !optional {
                    let of = paths::resolve(operand, &self.scope, self.variables);
                    let path = of
                        .filter(|of| !of.optional)
                        .and_then(|of| of.path.field(field));
                    self.read(path, node);
                }
            }
            Kind::Index {
                operand,
                index,
                optional,
            } => {
                self.check(operand);
                self.check(index);
                if !optional {
                    self.read(self.element(operand, index), node);
                }
            }
            Kind::Binary {
                operator: Binary::And,
                left,
                right,
            } => self.sides(left, right, true),
            Kind::Binary {
                operator: Binary::Or,
                left,
                right,
            } => self.sides(left, right, false),
            Kind::Conditional { condition, yes, no } => {
                self.check(condition);
                let (held, failed) = (
                    self.view(true).when(condition, true),
                    self.view(true).when(condition, false),
                );
                self.under(held, |walk| walk.check(yes));
                self.under(failed, |walk| walk.check(no));
            }
            Kind::Macro(inner) => self.each(inner),
            Kind::Call {
                function,
                target,
                arguments,
            } => {
                self.call(function, target.as_deref(), arguments, node);
            }
            Kind::Has { .. }
            | Kind::Unary { .. }
            | Kind::Binary { .. }
            | Kind::List(_)
            | Kind::Map(_) => {
                for child in node.children() {
                    self.check(child);
                }
            }
        }
    }

    /// The path of `operand[index]`, where that is no optional.
    fn element(&self, operand: &Node, index: &Node) -> Option<Path> {
        let of = paths::resolve(operand, &self.scope, self.variables)?;
        if of.optional {
            return None;
        }
        paths::indexed(of.path, index, &self.scope, self.variables)
    }

    /// Either side counts only where the other one does not decide alone.
    fn sides(&mut self, left: &Node, right: &Node, outcome: bool) {
        let established = self.view(false).when(right, outcome);
        self.under(established, |walk| walk.check(left));
        let held = self.view(true).when(left, outcome);
        self.under(held, |walk| walk.check(right));
    }

    fn call(&mut self, function: &str, target: Option<&Node>, arguments: &[Node], node: &Node) {
        if let Some(target) = target {
            let of_optionals = match function {
                "orValue" | "or" | "optMap" | "optFlatMap" => arguments.len() == 1,
                "hasValue" | "value" => arguments.is_empty(),
                _ => false,
            };
            if of_optionals
                && paths::is_optional(target, &self.scope, self.variables) == Some(false)
            {
                self.say(Missing::NoOptional(function.to_owned()), node, true);
            }
            self.check(target);
        }
        for argument in arguments {
            self.check(argument);
        }
    }

    fn each(&mut self, inner: &Macro) {
        self.check(&inner.range);
        self.numbers += 1;
        let names = paths::bindings(inner, self.numbers, &self.scope, self.variables);
        let mut facts = Facts::default();
        let known = facts.get_or_insert_default();
        if let Some((_, Bound::Element(path))) = names.first() {
            known.insert(Fact::Present(path.clone()));
            // There is an element, so there is what it is an element of.
            let within = path
                .parent()
                .filter(|_| paths::gives_its_own(&inner.range, &self.scope));
            known.extend(
                within
                    .iter()
                    .flat_map(Path::as_far_as_one_item)
                    .map(Fact::Present),
            );
        }
        if let Some((_, bound)) = names.first() {
            for (name, body) in filters(&inner.range, self.variables) {
                let mut scope = self.scope.clone();
                scope.push((name, bound.clone()));
                let view = View {
                    scope: &scope,
                    ..self.view(true)
                };
                known.extend(view.when(&body, true).into_iter().flatten());
            }
        }
        let depth = self.scope.len();
        self.scope.extend(names);
        self.under(facts, |walk| {
            let condition = inner.condition.as_ref();
            if let Some(condition) = condition {
                walk.check(condition);
            }
            let held = condition.map_or_else(
                || Some(std::collections::BTreeSet::new()),
                |condition| walk.view(true).when(condition, true),
            );
            walk.under(held, |walk| walk.check(&inner.body));
        });
        self.scope.truncate(depth);
    }

    fn variable(&mut self, name: &str) {
        let needs = self.needs_of.get(name).map_or(&[][..], Vec::as_slice);
        self.work.spend(needs.len());
        for need in needs {
            let met = match &need.what {
                Missing::Absent(path) => self.is_there(path),
                Missing::Null(path) => !self.may_be_null(path.root),
                Missing::NoOptional(_) => false,
            };
            if !met && self.said.insert(need.what.clone()) {
                self.needs.push(need.clone());
            }
        }
    }

    fn read(&mut self, path: Option<Path>, node: &Node) {
        let Some(path) = path else { return };
        self.work.spend(self.cases.len());
        let root = Path::root(path.root);
        if self.may_be_null(path.root) {
            if !self
                .said
                .iter()
                .any(|said| matches!(said, Missing::Null(p) if p.root == root.root))
            {
                self.say(Missing::Null(path.clone()), node, true);
            }
            return;
        }
        let mut above = path.parent();
        while let Some(parent) = above {
            if self.said.contains(&Missing::Absent(parent.clone())) {
                return;
            }
            above = parent.parent();
        }
        if !self.is_there(&path) {
            let certain = self.left().all(required::is_known) && path.root != Root::Request;
            self.say(Missing::Absent(path), node, certain);
        }
    }

    fn say(&mut self, what: Missing, node: &Node, certain: bool) {
        if !self.said.insert(what.clone()) {
            return;
        }
        let concerned: Vec<&Case> = self
            .left()
            .filter(|case| match &what {
                Missing::Absent(path) => !required::always(case, path),
                Missing::Null(path) => is_null(case, path.root),
                Missing::NoOptional(_) => true,
            })
            .collect();
        let at = self.text.place_of(node.at.line, node.at.column);
        self.needs.push(Need {
            what,
            at,
            when: in_words(&concerned),
            certain,
        });
    }

    fn may_be_null(&self, root: Root) -> bool {
        !self.known.contains_key(&Fact::Present(Path::root(root)))
            && self.left().any(|case| is_null(case, root))
    }

    /// The first of a list that may be absent, and is there: an empty one is left out of the
    /// objects of kinds that are known.
    fn is_first(&self, path: &Path) -> bool {
        let (Some(Step::At(0)), Some(list)) = (path.steps.last(), path.parent()) else {
            return false;
        };
        matches!(path.root, Root::Object | Root::OldObject)
            && self.known.contains_key(&Fact::Present(list.clone()))
            && self
                .left()
                .all(|case| required::is_known(case) && !required::always(case, &list))
    }

    fn is_there(&self, path: &Path) -> bool {
        self.known.contains_key(&Fact::Present(path.clone()))
            || matches!(path.steps.last(), Some(Step::Item(_)) | None)
            || self.is_first(path)
            || self.left().all(|case| required::always(case, path))
    }
}

pub(super) fn is_null(case: &Case, root: Root) -> bool {
    match root {
        Root::Object => case.operation == "DELETE",
        Root::OldObject => matches!(case.operation.as_str(), "CREATE" | "CONNECT"),
        Root::Request => false,
        Root::Namespace => required::is_known(case) && required::may_be_cluster_scoped(case),
    }
}

/// The filters that a macro's range has been through, in variables too: names and bodies.
pub(super) fn filters(range: &Node, variables: &Variables) -> Vec<(String, Node)> {
    let mut found = Vec::new();
    let mut node = range;
    while let Kind::Macro(inner) = &node.kind {
        if inner.kind != MacroKind::Filter {
            break;
        }
        found.push((inner.name.clone(), inner.body.clone()));
        node = &inner.range;
    }
    let variable = paths::variable(node, &Vec::new()).and_then(|name| variables.get(name));
    found.extend(
        variable
            .iter()
            .flat_map(|variable| variable.filters.clone()),
    );
    found
}

/// `CREATE of Pod, UPDATE of Pod and 3 more`.
fn in_words(cases: &[&Case]) -> String {
    let mut words: Vec<String> = cases
        .iter()
        .map(|case| {
            let kind = if case.answer(Question::Kind) == "?" {
                "*"
            } else {
                &case.kind
            };
            format!("{} of {kind}", case.operation)
        })
        .collect();
    words.sort();
    words.dedup();
    let more = words.len().saturating_sub(3);
    words.truncate(3);
    let text = words.join(", ");
    if more > 0 {
        format!("{text} and {more} more")
    } else {
        text
    }
}
