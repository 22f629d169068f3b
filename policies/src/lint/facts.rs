//! What holds where an expression came out true, or false.
//!
//! CEL's `&&` and `||` are commutative: an error on one side is absorbed by the other. So each
//! side may rely on what the other's outcome *establishes* (`has`, `in`, `!= null`), before or
//! behind it; on what the other merely *read* without an error it may rely only behind it, or two
//! sides would each vouch for the other.

use super::paths::{self, Path, Resolved, Root, Scope, Step};
use super::required;
use super::work::Work;
use crate::cel::ast::{Binary, Kind, Literal, Macro, MacroKind, Node, Unary};
use std::collections::{BTreeSet, HashMap};

/// Something that is known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Fact {
    /// The path is there, and what it is in is not null.
    Present(Path),
    /// The request is none of these.
    Not(Question, String),
}

/// What a policy may ask to tell requests apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Question {
    Operation,
    Kind,
    Resource,
    SubResource,
}

/// A kind of request that reaches the policy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Case {
    pub(super) operation: String,
    /// `?` where it is not in the table of required fields.
    pub(super) kind: String,
    pub(super) resource: String,
    pub(super) sub_resource: String,
}

impl Case {
    pub(super) fn answer(&self, question: Question) -> &str {
        match question {
            Question::Operation => &self.operation,
            Question::Kind => &self.kind,
            Question::Resource => &self.resource,
            Question::SubResource => &self.sub_resource,
        }
    }
}

/// What is known of a variable.
#[derive(Debug, Clone, Default)]
pub(super) struct Variable {
    pub(super) path: Option<Resolved>,
    pub(super) when_true: Facts,
    pub(super) when_false: Facts,
    /// Whether it is an optional; `None` where that is not known.
    pub(super) optional: Option<bool>,
    /// The filters that its elements have been through: the name that each binds, and its body.
    pub(super) filters: Vec<(String, Node)>,
}

/// The variables before the expression at hand.
pub(super) type Variables = HashMap<String, Variable>;

/// Facts; `None` where the outcome cannot be.
pub(super) type Facts = Option<BTreeSet<Fact>>;

fn both(left: Facts, right: Facts) -> Facts {
    let (mut left, right) = (left?, right?);
    left.extend(right);
    Some(left)
}

fn either(left: Facts, right: Facts) -> Facts {
    match (left, right) {
        (Some(left), Some(right)) => Some(left.intersection(&right).cloned().collect()),
        (one, other) => one.or(other),
    }
}

/// What every expression of a policy is judged from.
#[derive(Clone, Copy)]
pub(super) struct Basis<'a> {
    pub(super) cases: &'a [Case],
    pub(super) variables: &'a Variables,
    pub(super) work: &'a Work,
}

impl<'a> Basis<'a> {
    pub(super) fn view(self, scope: &'a Scope, read: bool) -> View<'a> {
        let Self {
            cases,
            variables,
            work,
        } = self;
        View {
            cases,
            variables,
            work,
            scope,
            read,
        }
    }
}

/// What is looked at for facts.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) cases: &'a [Case],
    pub(super) variables: &'a Variables,
    pub(super) work: &'a Work,
    pub(super) scope: &'a Scope,
    /// Whether what was read counts, besides what was established.
    pub(super) read: bool,
}

impl View<'_> {
    /// What holds where the expression gave `outcome`.
    pub(super) fn when(self, node: &Node, outcome: bool) -> Facts {
        if !self.work.spend(1) {
            return Some(BTreeSet::new());
        }
        match &node.kind {
            Kind::Literal(Literal::Bool(value)) => (*value == outcome).then(BTreeSet::new),
            Kind::Unary {
                operator: Unary::Not,
                operand,
            } => self.when(operand, !outcome),
            Kind::Binary {
                operator: Binary::And,
                left,
                right,
            } => self.joined(left, right, outcome, outcome),
            Kind::Binary {
                operator: Binary::Or,
                left,
                right,
            } => self.joined(left, right, outcome, !outcome),
            Kind::Conditional { condition, yes, no } => either(
                both(self.when(condition, true), self.when(yes, outcome)),
                both(self.when(condition, false), self.when(no, outcome)),
            ),
            _ => self.leaf(node, outcome),
        }
    }

    fn joined(self, left: &Node, right: &Node, outcome: bool, all: bool) -> Facts {
        let (left, right) = (self.when(left, outcome), self.when(right, outcome));
        let of = |facts: &Facts| facts.as_ref().map_or(0, BTreeSet::len);
        self.work.spend(of(&left).min(of(&right)));
        if all {
            both(left, right)
        } else {
            either(left, right)
        }
    }

    fn leaf(self, node: &Node, outcome: bool) -> Facts {
        let mut facts = BTreeSet::new();
        if let Some(name) = paths::variable(node, self.scope)
            && let Some(variable) = self.variables.get(name)
        {
            let known = if outcome {
                &variable.when_true
            } else {
                &variable.when_false
            };
            self.work.spend(known.as_ref().map_or(0, BTreeSet::len));
            facts.extend(known.clone()?);
        }
        self.established(node, outcome, &mut facts);
        if self.read {
            self.strict(node, &mut facts);
        }
        Some(facts)
    }

    fn path(self, node: &Node) -> Option<Path> {
        Some(paths::resolve(node, self.scope, self.variables)?.path)
    }

    fn present(self, path: Option<Path>, facts: &mut BTreeSet<Fact>) {
        let Some(path) = path else { return };
        // `has(null.x)` is false: where it is true, there is an object.
        facts.insert(Fact::Present(Path::root(path.root)));
        let without: &[&str] = match path.root {
            Root::Object => &["DELETE"],
            Root::OldObject => &["CREATE", "CONNECT"],
            Root::Request | Root::Namespace => &[],
        };
        let without = without.iter().map(|operation| (*operation).to_owned());
        facts.extend(without.map(|operation| Fact::Not(Question::Operation, operation)));
        if self.read {
            let mut above = path.parent();
            while let Some(path) = above {
                above = path.parent();
                facts.insert(Fact::Present(path));
            }
        }
        facts.insert(Fact::Present(path));
    }

    /// The path is not there: the request is of no kind whose objects always have it.
    fn absent(self, path: Option<&Path>, facts: &mut BTreeSet<Fact>) {
        let Some(path) = path.filter(|p| matches!(p.root, Root::Object | Root::OldObject)) else {
            return;
        };
        self.work.spend(self.cases.len());
        let always = |case: &&Case| {
            required::all_the_way(case, path) && !super::walk::is_null(case, path.root)
        };
        let (with, without): (Vec<&Case>, Vec<&Case>) = self.cases.iter().partition(always);
        for case in with {
            if without.iter().all(|other| other.kind != case.kind) {
                facts.insert(Fact::Not(Question::Kind, case.kind.clone()));
            }
        }
    }

    fn established(self, node: &Node, outcome: bool, facts: &mut BTreeSet<Fact>) {
        match &node.kind {
            Kind::Has { operand, field } if outcome => {
                self.present(self.path(operand).and_then(|path| path.field(field)), facts);
            }
            Kind::Has { operand, field } => {
                let path = self.path(operand).and_then(|path| path.field(field));
                self.absent(path.as_ref(), facts);
            }
            Kind::Call {
                function,
                target: Some(target),
                ..
            } if outcome => {
                // `x.?y.hasValue()`, and `x.?y.orValue(false)` that is true.
                if matches!(function.as_str(), "hasValue" | "orValue") {
                    self.present(self.path(target), facts);
                }
            }
            Kind::Macro(inner) => self.of_macro(inner, outcome, facts),
            Kind::Binary {
                operator,
                left,
                right,
            } => {
                self.compared(*operator, left, right, outcome, facts);
            }
            _ => {}
        }
    }

    fn compared(
        self,
        operator: Binary,
        left: &Node,
        right: &Node,
        outcome: bool,
        facts: &mut BTreeSet<Fact>,
    ) {
        match operator {
            Binary::In => self.contained(left, right, outcome, facts),
            Binary::Equal => self.equal(left, right, outcome, facts),
            Binary::NotEqual => self.equal(left, right, !outcome, facts),
            // `size(x) > n`: there are at least that many.
            Binary::Greater | Binary::GreaterOrEqual if outcome => {
                let Kind::Literal(Literal::Int(number)) = right.kind else {
                    return;
                };
                let least = if operator == Binary::Greater {
                    number + 1
                } else {
                    number
                };
                if let Some(path) = self.sized(left) {
                    self.at_least(&path, least, facts);
                }
            }
            _ => {}
        }
    }

    fn at_least(self, path: &Path, least: i64, facts: &mut BTreeSet<Fact>) {
        if least > 0 {
            self.present(Some(path.clone()), facts);
        }
        for index in 0..least.min(8) {
            facts.extend(path.clone().then(Step::At(index)).map(Fact::Present));
        }
    }

    fn sized(self, node: &Node) -> Option<Path> {
        match &node.kind {
            Kind::Call {
                function,
                target: Some(of),
                ..
            } if function == "size" => self.path(of),
            Kind::Call {
                function,
                target: None,
                arguments,
            } if function == "size" => self.path(arguments.first()?),
            _ => None,
        }
    }

    /// `left == right` came out `equal`.
    fn equal(self, left: &Node, right: &Node, equal: bool, facts: &mut BTreeSet<Fact>) {
        for (of, to) in [(left, right), (right, left)] {
            let Kind::Literal(literal) = &to.kind else {
                continue;
            };
            if *literal == Literal::Null {
                self.null(of, equal, facts);
            } else if let (Literal::Int(number), Some(path)) = (literal, self.sized(of)) {
                let least = if equal {
                    *number
                } else {
                    i64::from(*number == 0)
                };
                self.at_least(&path, least, facts);
            } else if let Literal::String(text) = literal {
                self.answered(of, std::slice::from_ref(text), equal, facts);
            }
            // `x.?y.orValue(default)` that is not the default.
            if let Kind::Call {
                function,
                target: Some(target),
                arguments,
            } = &of.kind
                && function == "orValue"
                && let Some(Kind::Literal(default)) = arguments.first().map(|node| &node.kind)
                && equal != (default == literal)
            {
                self.present(self.path(target), facts);
            }
        }
    }

    fn null(self, of: &Node, is_null: bool, facts: &mut BTreeSet<Fact>) {
        let Some(path) = self.path(of) else { return };
        if !is_null {
            self.present(Some(path), facts);
        } else if path.steps.is_empty() {
            let others: &[&str] = match path.root {
                Root::Object => &["CREATE", "UPDATE", "CONNECT"],
                Root::OldObject => &["UPDATE", "DELETE"],
                Root::Request | Root::Namespace => &[],
            };
            facts.extend(
                others
                    .iter()
                    .map(|o| Fact::Not(Question::Operation, (*o).to_owned())),
            );
        }
    }

    fn contained(self, key: &Node, within: &Node, outcome: bool, facts: &mut BTreeSet<Fact>) {
        if let Some(texts) = texts(within) {
            self.answered(key, &texts, outcome, facts);
        } else if outcome && let Some(path) = self.path(within) {
            let found = paths::indexed(path, key, self.scope, self.variables);
            self.present(found, facts);
        }
    }

    /// The expression is one of the texts, or none of them.
    fn answered(self, of: &Node, texts: &[String], is: bool, facts: &mut BTreeSet<Fact>) {
        let Some(question) = self.path(of).and_then(|path| question(&path)) else {
            return;
        };
        self.work.spend(self.cases.len());
        for case in self.cases {
            let answer = case.answer(question);
            if texts.iter().any(|text| text == answer) != is {
                facts.insert(Fact::Not(question, answer.to_owned()));
            }
        }
    }

    fn of_macro(self, inner: &Macro, outcome: bool, facts: &mut BTreeSet<Fact>) {
        let Kind::Binary {
            operator,
            left,
            right,
        } = &inner.body.kind
        else {
            return;
        };
        let name = |node: &Node| matches!(&node.kind, Kind::Name(name) if *name == inner.name);
        let other = match (name(left), name(right)) {
            (true, false) => right,
            (false, true) => left,
            _ => return,
        };
        match (inner.kind, operator) {
            // `['A', 'B'].exists(k, object.kind == k)` and its opposite.
            (MacroKind::Exists, Binary::Equal) | (MacroKind::All, Binary::NotEqual) => {
                let is = outcome == (inner.kind == MacroKind::Exists);
                if let Some(texts) = texts(&inner.range) {
                    self.answered(other, &texts, is, facts);
                } else if is && let Some(path) = self.path(&inner.range) {
                    // `labels.exists(k, k == 'app')`.
                    let found = paths::indexed(path, other, self.scope, self.variables);
                    self.present(found, facts);
                }
            }
            _ => {}
        }
    }

    /// What was read for certain, since the whole came out without an error.
    fn strict(self, node: &Node, facts: &mut BTreeSet<Fact>) {
        self.work.spend(1);
        match &node.kind {
            Kind::Select {
                optional: false, ..
            }
            | Kind::Index {
                optional: false, ..
            } => {
                if paths::variable(node, self.scope).is_none()
                    && let Some(of) = paths::resolve(node, self.scope, self.variables)
                    && !of.optional
                {
                    facts.insert(Fact::Present(Path::root(of.path.root)));
                    facts.insert(Fact::Present(of.path));
                }
            }
            Kind::Macro(inner) => return self.strict(&inner.range, facts),
            Kind::Binary {
                operator: Binary::And | Binary::Or,
                ..
            }
            | Kind::Conditional { .. } => {
                return;
            }
            _ => {}
        }
        for child in node.children() {
            self.strict(child, facts);
        }
    }
}

fn question(path: &Path) -> Option<Question> {
    let pattern = path.pattern();
    match (path.root, pattern.as_str()) {
        (Root::Request, "operation") => Some(Question::Operation),
        (Root::Object | Root::OldObject, "kind") | (Root::Request, "kind.kind") => {
            Some(Question::Kind)
        }
        (Root::Request, "resource.resource") => Some(Question::Resource),
        (Root::Request, "subResource") => Some(Question::SubResource),
        _ => None,
    }
}

/// A list that is written out as texts.
fn texts(node: &Node) -> Option<Vec<String>> {
    let Kind::List(items) = &node.kind else {
        return None;
    };
    items
        .iter()
        .map(|(item, _)| match &item.kind {
            Kind::Literal(Literal::String(text)) => Some(text.clone()),
            _ => None,
        })
        .collect()
}
