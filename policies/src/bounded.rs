//! The bounded domain of requests that a policy's expressions are tried on (P-4, P-8).
//!
//! Invariants: an expression is tried as if every other one let the request through, so that none
//! hides behind a match condition. Two changes are tried together only where one expression reads
//! both places: no other expression could meet them. Of two requests in which an expression reads
//! the same, one is visited.
//!
//! Not here: a value of a type that the API does not give the field, which
//! no API server sends.

mod changes;
mod reads;

use crate::cel::{
    self, Activation, Budget, CompileError, Expression, InputError, KubernetesVersion,
};
use crate::eval::Case;
use crate::model::{Policy, Role};
pub use changes::Required;
pub(crate) use reads::{Path, Reads};

use changes::{About, Deviation, Samples};
use reads::Variables;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// An expression of a policy.
pub(crate) struct Tried {
    /// Which it is: `condition 0`, `variable labels`, `validation 3` (from 0), `message 3` of that.
    pub(crate) place: String,
    in_conditions: bool,
    expression: Expression,
    pub(crate) reads: Reads,
}

impl Tried {
    pub(crate) fn source(&self) -> &str {
        self.expression.source()
    }

    /// The places that it reads.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.reads.paths.iter()
    }
}

/// A variable, by its name.
type Variable = (String, Result<Expression, CompileError>);

/// What of a policy is tried.
#[derive(Default)]
pub(crate) struct Expressions {
    pub(crate) tried: Vec<Tried>,
    /// What makes the message of a validation.
    messages: Vec<Tried>,
    /// Those that do not compile: their places, and why.
    pub(crate) broken: Vec<(String, CompileError)>,
    variables: Vec<Variable>,
}

impl Expressions {
    pub(crate) fn of(policy: &Policy, version: KubernetesVersion) -> Self {
        let mut all = Self::default();
        let mut variables = Variables::new();
        let mut of_role: BTreeMap<Role, usize> = BTreeMap::new();
        let mut named = policy.variables.iter().map(|one| one.name.as_ref());
        let mut sources: Vec<_> = policy.expressions().collect();
        // Conditions may name variables too, so the variables come first.
        sources.sort_by_key(|(role, _)| *role != Role::Variable);
        for (role, source) in sources {
            let count = of_role.entry(role).or_default();
            let number = *count;
            *count += 1;
            let validations = of_role.get(&Role::Validation).copied().unwrap_or(1);
            let place = match role {
                Role::Condition => format!("condition {number}"),
                Role::Validation => format!("validation {number}"),
                Role::Audit => format!("audit annotation {number}"),
                Role::Variable => named
                    .next()
                    .flatten()
                    .map_or_else(String::new, |name| format!("variable {}", name.value)),
                // It follows its validation.
                Role::Message => format!("message {}", validations - 1),
            };
            let compiled = Expression::compile(&source.value, version);
            if role == Role::Variable {
                let name = place.trim_start_matches("variable ").to_owned();
                if let Ok(expression) = &compiled {
                    let stands = reads::of_variable(expression.ast(), &variables);
                    variables.insert(name.clone(), stands);
                }
                all.variables.push((name, compiled.clone()));
            }
            match compiled {
                Ok(expression) => {
                    let tried = Tried {
                        in_conditions: role == Role::Condition,
                        reads: reads::of(expression.ast(), &variables),
                        expression,
                        place,
                    };
                    match role {
                        Role::Message => all.messages.push(tried),
                        Role::Condition | Role::Variable | Role::Validation | Role::Audit => {
                            all.tried.push(tried);
                        }
                    }
                }
                // One that makes no message leaves the rule's own.
                Err(_) if role == Role::Message => {}
                Err(error) => all.broken.push((place, error)),
            }
        }
        all
    }

    /// All of them, and what makes messages.
    pub(crate) fn with_messages(&self) -> impl Iterator<Item = &Tried> {
        self.tried.iter().chain(&self.messages)
    }

    /// The value of one of them.
    ///
    /// # Errors
    ///
    /// What the API server would meet, or why that is not known.
    pub(crate) fn evaluate(&self, one: &Tried, seen: &Value) -> Result<cel::Value, NoValue> {
        let activation = activation(seen, one.in_conditions).map_err(|error| NoValue {
            why: error.to_string(),
            is_known: false,
        })?;
        let needed = |(name, _): &&Variable| one.reads.variables.contains(name);
        let activation = activation.variables(self.variables.iter().filter(needed).cloned());
        let value = one.expression.evaluate(&activation, &mut Budget::policy());
        value.map_err(|error| NoValue {
            why: error.to_string(),
            is_known: !error.is_final(),
        })
    }
}

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoValue {
    pub(crate) why: String,
    /// Whether the API server meets the same: it is no matter of the engine or its bounds.
    pub(crate) is_known: bool,
}

/// In match conditions there is no namespace's object.
fn activation(seen: &Value, in_conditions: bool) -> Result<Activation, InputError> {
    let root = |name: &str| seen.get(name).unwrap_or(&Value::Null);
    let namespace = match in_conditions {
        true => &Value::Null,
        false => root("namespaceObject"),
    };
    Activation::new()
        .object(root("object"))?
        .old_object(root("oldObject"))?
        .request(root("request"))?
        .namespace_object(namespace)
}

/// A request of the domain, before it is changed.
struct Base {
    name: String,
    about: About,
    seen: Value,
    /// Whether changes are made to it two at a time.
    paired: bool,
}

/// How much was tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Size {
    /// Changes of a base, of one place each.
    pub(crate) changes: usize,
    /// Pairs of them.
    pub(crate) pairs: usize,
    /// Distinct requests, as far as an expression reads them.
    pub(crate) requests: usize,
}

/// A request of the domain.
pub(crate) struct Visited<'a> {
    /// What an expression reads of it.
    pub(crate) part: &'a Value,
    /// The whole, where it is a base as it is.
    pub(crate) whole: Option<&'a Value>,
    words: &'a dyn Fn() -> String,
}

impl Visited<'_> {
    /// The base, and what is changed in it.
    pub(crate) fn words(&self) -> String {
        (self.words)()
    }
}

/// The requests that the cases span.
pub(crate) struct Domain {
    bases: Vec<Base>,
    paths: Vec<Path>,
    samples: Samples,
}

impl Domain {
    /// The cases, and of each operation and resource one request in which everything is there
    /// that is read.
    pub(crate) fn of<'p>(
        required: Required,
        cases: impl Iterator<Item = &'p Case>,
        paths: impl Iterator<Item = &'p Path>,
    ) -> Self {
        let paths: BTreeSet<Path> = paths.cloned().collect();
        let mut paths: Vec<Path> = paths.into_iter().collect();
        paths.sort_by_key(Vec::len);
        let mut samples = Samples::new(required);
        let mut bases: Vec<Base> = Vec::new();
        let mut full: BTreeMap<About, Value> = BTreeMap::new();
        // Those that are let through first: the full requests are made from them.
        let (good, bad): (Vec<&Case>, Vec<&Case>) = cases.partition(|case| case.denied.is_none());
        for case in good.into_iter().chain(bad) {
            let seen = case.request.seen();
            paths.iter().for_each(|path| samples.add(&seen, path));
            let about = About::of(&seen);
            full.entry(about.clone()).or_insert_with(|| seen.clone());
            bases.push(Base {
                name: case.name.clone(),
                about,
                seen,
                paired: false,
            });
        }
        for (about, mut seen) in full {
            samples.fill(&mut seen, &paths);
            bases.push(Base {
                name: format!("all of {about}"),
                about,
                seen,
                paired: true,
            });
        }
        Self {
            bases,
            paths,
            samples,
        }
    }

    /// How many requests are changed.
    pub(crate) fn bases(&self) -> usize {
        self.bases.len()
    }

    /// How many places are changed.
    pub(crate) fn paths(&self) -> usize {
        self.paths.len()
    }

    /// Places of which no case has a value.
    pub(crate) fn without_sample(&self) -> Vec<String> {
        let unknown = self.paths.iter().filter(|path| !self.samples.has(path));
        unknown.map(changes::words).collect()
    }

    /// Visits every request of the domain, as far as this is read of it.
    pub(crate) fn each(&self, reads: &Reads, mut visit: impl FnMut(&Visited<'_>)) -> Size {
        let mut walk = Walk {
            size: Size::default(),
            known: HashSet::new(),
            visit: &mut visit,
        };
        let mut paired = Vec::new();
        let mut begun = HashSet::new();
        for base in &self.bases {
            let part = reads.part(&base.seen);
            let first = begun.insert((part.clone(), &base.about));
            if !first && !base.paired {
                continue;
            }
            walk.visit(&part, Some(&base.seen), &|| base.name.clone());
            let all: Vec<Deviation> = reads
                .paths
                .iter()
                .flat_map(|path| self.samples.deviations(&base.about, &part, path))
                .collect();
            walk.size.changes += all.len();
            // From the leaves up, so that the nearest change is the one that is told.
            for deviation in all.iter().rev() {
                let mut changed = part.clone();
                if deviation.apply(&mut changed) {
                    walk.visit(&changed, None, &|| format!("{}: {deviation}", base.name));
                }
            }
            if base.paired {
                paired.push((base, part, all));
            }
        }
        // After all single changes, so that what one change is enough for is told with one.
        for (base, part, all) in &paired {
            walk.pairs(base, part, all);
        }
        walk.size
    }
}

struct Walk<'v> {
    size: Size,
    known: HashSet<Value>,
    visit: &'v mut dyn FnMut(&Visited<'_>),
}

impl Walk<'_> {
    /// Visits a request, unless one like it was visited.
    fn visit(&mut self, part: &Value, whole: Option<&Value>, words: &dyn Fn() -> String) {
        if self.known.contains(part) {
            return;
        }
        self.known.insert(part.clone());
        self.size.requests += 1;
        (self.visit)(&Visited { part, whole, words });
    }

    fn pairs(&mut self, base: &Base, part: &Value, all: &[Deviation]) {
        for (at, deviation) in all.iter().enumerate() {
            let mut changed = part.clone();
            if !deviation.apply(&mut changed) {
                continue;
            }
            let others = all.iter().skip(at + 1);
            for other in others.filter(|other| deviation.goes_with(other)) {
                let mut both = changed.clone();
                if !other.apply(&mut both) {
                    continue;
                }
                self.size.pairs += 1;
                let words = || format!("{}: {deviation} and {other}", base.name);
                self.visit(&both, None, &words);
            }
        }
    }
}
