//! That no expression of a policy fails, on a bounded domain of requests (P-4).
//!
//! Invariants: an error is told apart from a refusal, and each is told with the request's change;
//! an expression is tried as if every other one let the request through, so that none hides
//! behind a match condition. Two changes are tried together only where one expression reads both
//! places: no other expression could meet them.
//!
//! Not here: what makes a message, whose error changes no verdict; a value of a type that the API
//! does not give the field, which no API server sends.

mod domain;
mod reads;

use crate::cel::{
    self, Activation, Budget, CompileError, Expression, InputError, KubernetesVersion,
};
use crate::eval::{Case, Program, ProgramError};
use crate::model::{Policy, Role};
use domain::{Deviation, Samples};
use reads::{Path, Reads, Variables};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;

/// An expression that fails, and on what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counterexample {
    /// The policy's name.
    pub policy: String,
    /// Which expression: `condition 0`, `variable labels`, `validation 3` (from 0).
    pub place: String,
    /// The base, and what is changed in it, in words.
    pub request: String,
    /// What happened.
    pub error: String,
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            policy,
            place,
            request,
            error,
        } = self;
        write!(f, "{policy}: {place}: {error}: {request}")
    }
}

/// What was tried on a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// Requests that are changed: the cases that the policy matches, and the full ones.
    pub bases: usize,
    /// Places that its expressions read.
    pub paths: usize,
    /// Places of which no case has a value, so that nothing but absence was tried.
    pub without_sample: Vec<String>,
    /// Changes of a base, of one place each.
    pub deviations: usize,
    /// Pairs of them.
    pub pairs: usize,
    /// Evaluations: of two requests in which an expression reads the same, one.
    pub requests: usize,
    /// The first of each expression's errors.
    pub errors: Vec<Counterexample>,
}

/// An expression of the policy.
struct Tried {
    place: String,
    in_conditions: bool,
    expression: Expression,
    reads: Reads,
}

/// A request of the domain, before it is changed.
struct Base {
    name: String,
    seen: Value,
    /// Whether changes are made to it two at a time.
    paired: bool,
}

/// Tries every expression of a policy on the domain that the cases span (P-4).
///
/// # Errors
///
/// [`ProgramError`]: the policy cannot be judged here; nothing was tried.
pub fn check(
    policy: &Policy,
    version: KubernetesVersion,
    cases: &[Case],
) -> Result<Checked, ProgramError> {
    let program = Program::new(policy, version)?;
    let mut checked = Checked::default();
    let mut check = Check {
        policy,
        variables: Vec::new(),
        checked: &mut checked,
        samples: Samples::default(),
    };
    let tried = check.expressions(version);
    let paths: BTreeSet<Path> = tried
        .iter()
        .flat_map(|one| one.reads.paths.iter().cloned())
        .collect();
    let bases = check.bases(&program, cases, paths);
    for one in &tried {
        check.expression(one, &bases);
    }
    Ok(checked)
}

/// A variable, by its name.
type Variable = (String, Result<Expression, CompileError>);

struct Check<'a> {
    policy: &'a Policy,
    variables: Vec<Variable>,
    checked: &'a mut Checked,
    samples: Samples,
}

impl Check<'_> {
    fn expressions(&mut self, version: KubernetesVersion) -> Vec<Tried> {
        let mut tried = Vec::new();
        let mut variables = Variables::new();
        let mut of_role: BTreeMap<Role, usize> = BTreeMap::new();
        let mut named = self.policy.variables.iter().map(|one| one.name.as_ref());
        let mut all: Vec<_> = self.policy.expressions().collect();
        // Conditions may name variables too, so the variables come first.
        all.sort_by_key(|(role, _)| *role != Role::Variable);
        for (role, source) in all {
            let count = of_role.entry(role).or_default();
            let number = *count;
            *count += 1;
            let place = match role {
                Role::Condition => format!("condition {number}"),
                Role::Validation => format!("validation {number}"),
                Role::Audit => format!("audit annotation {number}"),
                Role::Variable => named
                    .next()
                    .flatten()
                    .map_or_else(String::new, |name| format!("variable {}", name.value)),
                Role::Message => continue,
            };
            let compiled = Expression::compile(&source.value, version);
            if role == Role::Variable {
                let name = place.trim_start_matches("variable ").to_owned();
                if let Ok(expression) = &compiled {
                    let stands = reads::of_variable(expression.ast(), &variables);
                    variables.insert(name.clone(), stands);
                }
                self.variables.push((name, compiled.clone()));
            }
            match compiled {
                Ok(expression) => tried.push(Tried {
                    in_conditions: role == Role::Condition,
                    reads: reads::of(expression.ast(), &variables),
                    expression,
                    place,
                }),
                Err(error) => self.tell(&place, "any".to_owned(), error.to_string()),
            }
        }
        tried
    }

    /// The cases that the policy matches, and of each operation and resource one request in which
    /// everything is there that is read.
    fn bases(&mut self, program: &Program, cases: &[Case], paths: BTreeSet<Path>) -> Vec<Base> {
        let mut by_depth: Vec<Path> = paths.into_iter().collect();
        by_depth.sort_by_key(Vec::len);
        let mut bases: Vec<Base> = Vec::new();
        let mut kinds = BTreeSet::new();
        let mut full = Vec::new();
        let matched = cases.iter().filter(|case| program.matches(&case.request));
        // Those that are let through first: the full requests are made from them.
        let (good, bad): (Vec<&Case>, Vec<&Case>) = matched.partition(|case| case.denied.is_none());
        for case in good.into_iter().chain(bad) {
            let seen = case.request.seen();
            by_depth
                .iter()
                .for_each(|path| self.samples.add(&seen, path));
            let request = &seen["request"];
            let kind = [
                &request["operation"],
                &request["resource"]["resource"],
                &request["subResource"],
            ]
            .map(Value::to_string);
            if kinds.insert(kind.clone()) {
                full.push((kind.join(" "), seen.clone()));
            }
            bases.push(Base {
                name: case.name.clone(),
                seen,
                paired: false,
            });
        }
        for (kind, mut seen) in full {
            self.samples.fill(&mut seen, &by_depth);
            bases.push(Base {
                name: format!("all of {kind}"),
                seen,
                paired: true,
            });
        }
        self.checked.bases = bases.len();
        self.checked.paths = by_depth.len();
        let unknown = by_depth.iter().filter(|path| !self.samples.has(path));
        self.checked.without_sample = unknown.map(domain::words).collect();
        bases
    }

    fn expression(&mut self, one: &Tried, bases: &[Base]) {
        let mut known = HashSet::new();
        let mut paired = Vec::new();
        for base in bases {
            let part = one.reads.part(&base.seen);
            let first = known.insert(part.clone());
            if !first && !base.paired {
                continue;
            }
            if first {
                self.tried(one, || base.name.clone(), &part);
                self.part_is_enough(one, base, &part);
            }
            let paths = one.reads.paths.iter();
            let all: Vec<Deviation> = paths
                .flat_map(|path| self.samples.deviations(&part, path))
                .collect();
            self.checked.deviations += all.len();
            // From the leaves up, so that the nearest change is the one that is told.
            for deviation in all.iter().rev() {
                let mut changed = part.clone();
                if deviation.apply(&mut changed) && !known.contains(&changed) {
                    let words = || format!("{}: {deviation}", base.name);
                    self.tried(one, words, &changed);
                    known.insert(changed);
                }
            }
            if base.paired {
                paired.push((base, part, all));
            }
        }
        // After all single changes, so that what one change is enough for is told with one.
        for (base, part, all) in &paired {
            self.pairs(one, base, part, all, &mut known);
        }
    }

    fn pairs(
        &mut self,
        one: &Tried,
        base: &Base,
        part: &Value,
        all: &[Deviation],
        known: &mut HashSet<Value>,
    ) {
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
                self.checked.pairs += 1;
                if !known.contains(&both) {
                    let words = || format!("{}: {deviation} and {other}", base.name);
                    self.tried(one, words, &both);
                    known.insert(both);
                }
            }
        }
    }

    /// Holds what the rest leans on: what an expression is thought to read is all that it reads.
    fn part_is_enough(&mut self, one: &Tried, base: &Base, part: &Value) {
        let value = |seen| self.evaluate(one, seen).map(|value| format!("{value:?}"));
        if value(&base.seen) != value(part) {
            let why = "what is read of a request says otherwise than the request";
            self.tell(&one.place, base.name.clone(), why.to_owned());
        }
    }

    /// Tries an expression on a request.
    fn tried(&mut self, one: &Tried, words: impl FnOnce() -> String, seen: &Value) {
        self.checked.requests += 1;
        if let Err(error) = self.evaluate(one, seen) {
            self.tell(&one.place, words(), error);
        }
    }

    fn tell(&mut self, place: &str, request: String, error: String) {
        let told = |one: &Counterexample| one.place == place && one.error == error;
        if self.checked.errors.iter().any(told) {
            return;
        }
        self.checked.errors.push(Counterexample {
            policy: self.policy.name.value.clone(),
            place: place.to_owned(),
            request,
            error,
        });
    }

    fn evaluate(&self, one: &Tried, seen: &Value) -> Result<cel::Value, String> {
        let activation = activation(seen, one.in_conditions).map_err(|error| error.to_string())?;
        let needed = |(name, _): &&Variable| one.reads.variables.contains(name);
        let activation = activation.variables(self.variables.iter().filter(needed).cloned());
        let value = one.expression.evaluate(&activation, &mut Budget::policy());
        value.map_err(|error| error.to_string())
    }
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
