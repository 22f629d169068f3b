//! What an expression reads of a request, through variables and in macros too.
//!
//! Invariant: two requests with the same [`Reads::part`] give the expression the same value. The
//! check holds this to every base, on the whole request and on its part.

use crate::cel::ast::{Binary, Kind, Literal, Macro, MacroKind, Node};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// One step of a path. Every path begins with the field `object`, `request` …
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// A field, or a key that is written out.
    Field(String),
    /// Every element of a list, or every value of a map.
    Each,
}

pub(crate) type Path = Vec<Step>;

/// The names that an expression finds a request under.
pub(super) const ROOTS: [&str; 4] = ["object", "oldObject", "request", "namespaceObject"];

/// The paths that are read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reads {
    /// With those above them.
    pub(super) paths: BTreeSet<Path>,
    /// Those whose value counts, and not only what is found below it.
    whole: BTreeSet<Path>,
    /// The variables that it needs, and those that they need.
    pub(super) variables: BTreeSet<String>,
}

impl Reads {
    fn add(&mut self, other: &Self) {
        self.paths.extend(other.paths.iter().cloned());
        self.whole.extend(other.whole.iter().cloned());
        self.variables.extend(other.variables.iter().cloned());
    }

    /// What is read by either.
    pub(crate) fn and(&self, other: &Self) -> Self {
        let mut both = self.clone();
        both.add(other);
        both
    }

    /// The part of a request that the expression sees.
    pub(super) fn part(&self, seen: &Value) -> Value {
        self.part_of(seen, &mut Vec::new())
    }

    fn part_of(&self, value: &Value, path: &mut Path) -> Value {
        if self.whole.contains(path) {
            return value.clone();
        }
        let mut below = |step: Step, value: &Value| {
            path.push(step);
            let part = self.paths.contains(path).then(|| self.part_of(value, path));
            path.pop();
            part
        };
        match value {
            Value::Object(fields) => {
                let mut kept = Map::new();
                for (key, value) in fields {
                    let named = below(Step::Field(key.clone()), value);
                    if let Some(part) = merged(named, below(Step::Each, value)) {
                        kept.insert(key.clone(), part);
                    }
                }
                Value::Object(kept)
            }
            Value::Array(items) => {
                let parts = items.iter().map(|item| below(Step::Each, item));
                Value::Array(parts.map(|part| part.unwrap_or(Value::Null)).collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
        }
    }
}

/// Of a key that is read by its name and with all others: both parts.
fn merged(one: Option<Value>, other: Option<Value>) -> Option<Value> {
    match (one, other) {
        (Some(Value::Object(mut one)), Some(Value::Object(other))) => {
            for (key, value) in other {
                let before = one.remove(&key);
                if let Some(value) = merged(before, Some(value)) {
                    one.insert(key, value);
                }
            }
            Some(Value::Object(one))
        }
        (one, other) => one.or(other),
    }
}

/// Which paths a value may come from.
#[derive(Debug, Clone, Default)]
pub(super) struct Stands {
    itself: BTreeSet<Path>,
    /// Of a list that the expression made: where its elements come from.
    elements: BTreeSet<Path>,
}

impl Stands {
    fn or(mut self, other: Self) -> Self {
        self.itself.extend(other.itself);
        self.elements.extend(other.elements);
        self
    }
}

/// The variables before an expression, and what each stands for and reads.
pub(super) type Variables = BTreeMap<String, (Stands, Reads)>;

/// What a variable stands for and reads.
pub(super) fn of_variable(node: &Node, variables: &Variables) -> (Stands, Reads) {
    let mut reader = Reader::new(variables);
    let stands = reader.value(node);
    (stands, reader.reads)
}

/// What an expression reads.
pub(super) fn of(node: &Node, variables: &Variables) -> Reads {
    let mut reader = Reader::new(variables);
    reader.read(node);
    reader.reads
}

struct Reader<'a> {
    variables: &'a Variables,
    reads: Reads,
    /// What macros bind, the innermost last.
    scope: Vec<(String, Stands)>,
}

impl<'a> Reader<'a> {
    fn new(variables: &'a Variables) -> Self {
        Self {
            variables,
            reads: Reads::default(),
            scope: Vec::new(),
        }
    }

    /// A value that counts whole.
    fn read(&mut self, node: &Node) -> Stands {
        let stands = self.value(node);
        let all = stands.itself.iter().chain(&stands.elements);
        self.reads.whole.extend(all.cloned());
        stands
    }

    fn value(&mut self, node: &Node) -> Stands {
        match &node.kind {
            Kind::Literal(_) => Stands::default(),
            Kind::Name(name) => self.name(name),
            Kind::Select { operand, field, .. } => self.select(operand, field),
            Kind::Has { operand, field } => {
                self.select(operand, field);
                Stands::default()
            }
            Kind::Index { operand, index, .. } => {
                let of = self.value(operand);
                let step = key(index).map_or(Step::Each, Step::Field);
                self.read(index);
                self.step(&of, &step)
            }
            Kind::Binary {
                operator,
                left,
                right,
            } => self.binary(*operator, left, right),
            Kind::Conditional { condition, yes, no } => {
                self.read(condition);
                self.value(yes).or(self.value(no))
            }
            Kind::List(elements) => {
                let mut stands = Stands::default();
                for (element, _) in elements {
                    stands.elements.extend(self.read(element).itself);
                }
                stands
            }
            Kind::Macro(inner) => self.macro_(inner),
            Kind::Unary { .. } | Kind::Call { .. } | Kind::Map(_) => {
                let parts = node.children().into_iter();
                parts.fold(Stands::default(), |all, part| all.or(self.read(part)))
            }
        }
    }

    fn name(&mut self, name: &str) -> Stands {
        let bound = self.scope.iter().rev().find(|(bound, _)| bound == name);
        if let Some((_, stands)) = bound {
            return stands.clone();
        }
        if !ROOTS.contains(&name) {
            return Stands::default();
        }
        let path = vec![Step::Field(name.to_owned())];
        self.reads.paths.insert(path.clone());
        Stands {
            itself: BTreeSet::from([path]),
            elements: BTreeSet::new(),
        }
    }

    fn select(&mut self, operand: &Node, field: &str) -> Stands {
        if operand.kind == Kind::Name("variables".to_owned()) {
            let Some((stands, reads)) = self.variables.get(field) else {
                return Stands::default();
            };
            self.reads.add(reads);
            self.reads.variables.insert(field.to_owned());
            return stands.clone();
        }
        let of = self.value(operand);
        self.step(&of, &Step::Field(field.to_owned()))
    }

    fn step(&mut self, of: &Stands, step: &Step) -> Stands {
        let further = |path: &Path| path.iter().chain([step]).cloned().collect();
        let mut itself: BTreeSet<Path> = of.itself.iter().map(further).collect();
        self.reads.paths.extend(itself.iter().cloned());
        if *step == Step::Each {
            itself.extend(of.elements.iter().cloned());
        }
        Stands {
            itself,
            elements: BTreeSet::new(),
        }
    }

    fn binary(&mut self, operator: Binary, left: &Node, right: &Node) -> Stands {
        match (operator, key(left)) {
            (Binary::Add, _) => self.value(left).or(self.value(right)),
            // A list is looked through for the text, a map only at the key.
            (Binary::In, Some(key)) => {
                let of = self.value(right);
                self.step(&of, &Step::Field(key));
                self.reads.whole.extend(of.elements);
                Stands::default()
            }
            _ => {
                self.read(left);
                self.read(right);
                Stands::default()
            }
        }
    }

    fn macro_(&mut self, inner: &Macro) -> Stands {
        let range = self.value(&inner.range);
        let element = match inner.kind {
            MacroKind::OptMap | MacroKind::OptFlatMap => range.clone(),
            MacroKind::All
            | MacroKind::Exists
            | MacroKind::ExistsOne
            | MacroKind::Map
            | MacroKind::Filter
            | MacroKind::TransformList
            | MacroKind::TransformMap
            | MacroKind::TransformMapEntry
            | MacroKind::SortBy => self.step(&range, &Step::Each),
        };
        let before = self.scope.len();
        for name in std::iter::once(&inner.name).chain(&inner.second) {
            self.scope.push((name.clone(), element.clone()));
        }
        if let Some(condition) = &inner.condition {
            self.read(condition);
        }
        let body = self.read(&inner.body);
        self.scope.truncate(before);
        match inner.kind {
            MacroKind::All | MacroKind::Exists | MacroKind::ExistsOne => Stands::default(),
            MacroKind::Filter | MacroKind::SortBy => range,
            MacroKind::OptMap | MacroKind::OptFlatMap => body,
            MacroKind::Map
            | MacroKind::TransformList
            | MacroKind::TransformMap
            | MacroKind::TransformMapEntry => Stands {
                itself: BTreeSet::new(),
                elements: body.itself,
            },
        }
    }
}

fn key(node: &Node) -> Option<String> {
    if let Kind::Literal(Literal::String(text)) = &node.kind {
        return Some(text.clone());
    }
    None
}
