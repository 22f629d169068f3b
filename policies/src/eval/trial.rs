//! One policy, tried with small changes on many requests (P-9).
//!
//! Invariant: only what a change touches is evaluated again; for the unchanged policy the answer
//! is that of [`super::PolicySet::judge`], which a test holds it to. What cannot be known counts
//! as a refusal, as everywhere.

use super::matching::{Matched, Matcher};
use super::program::{Compiled, Program, ProgramError};
use super::{Case, Request};
use crate::cel::ast::{Kind, Node};
use crate::cel::{
    Activation, Budget, CompileError, Expression, InputError, KubernetesVersion, Value,
};
use crate::model::{MatchConstraints, Policy};
use std::collections::BTreeSet;

/// A change of a policy.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    /// Another match condition at this place, or none.
    Condition(usize, Option<Node>),
    /// Another variable.
    Variable(usize, Node),
    /// Another validation, or none.
    Validation(usize, Option<Node>),
    /// Another match.
    Matching(MatchConstraints),
}

/// What the conditions say together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    /// The policy has nothing to say.
    Skip,
    Yes,
    /// One cannot be evaluated.
    Refuses,
}

/// What a rule says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Says {
    Passes,
    Refuses,
    /// It cannot be evaluated.
    Fails,
}

/// What the policy says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Decided {
    Allowed,
    /// By the rule at this place.
    Refused(usize),
    /// By what cannot be evaluated.
    Failed,
}

/// A request, and what the unchanged policy makes of it.
struct Tried<'a> {
    case: &'a Case,
    conditions: Activation,
    rules: Activation,
    matched: bool,
    holds: Holds,
    passes: Vec<Says>,
}

impl Tried<'_> {
    fn request(&self) -> &Request {
        &self.case.request
    }
}

/// A policy with the requests that it is tried on.
pub(crate) struct Trial<'a> {
    program: Program,
    version: KubernetesVersion,
    tried: Vec<Tried<'a>>,
}

impl<'a> Trial<'a> {
    /// The policy and the cases in which no other policy refuses.
    pub(crate) fn new(
        policy: &Policy,
        version: KubernetesVersion,
        cases: &'a [Case],
    ) -> Result<Self, ProgramError> {
        let mut trial = Self {
            program: Program::new(policy, version)?,
            version,
            tried: Vec::new(),
        };
        let ours = |case: &&Case| {
            let by = case.denied.as_ref();
            by.is_none_or(|denied| denied.by == trial.program.name)
        };
        for case in cases.iter().filter(ours) {
            // What nests too deep is no request that a case could be about.
            if let Ok(tried) = trial.tried(case) {
                trial.tried.push(tried);
            }
        }
        Ok(trial)
    }

    /// How many cases it is tried on.
    pub(crate) fn len(&self) -> usize {
        self.tried.len()
    }

    fn tried(&self, case: &'a Case) -> Result<Tried<'a>, InputError> {
        let variables = || {
            let all = self.program.variables.iter();
            all.map(|one| (one.name.clone(), one.compiled.clone()))
        };
        let rules = case.request.activation(false)?.variables(variables());
        let conditions = case.request.activation(true)?.variables(variables());
        Ok(Tried {
            matched: matches(&self.program.matcher, &case.request),
            holds: self.holds(&conditions, None),
            passes: self
                .program
                .validations
                .iter()
                .map(|one| self.passes(&one.compiled, &rules))
                .collect(),
            case,
            conditions,
            rules,
        })
    }

    fn passes(&self, compiled: &Compiled, activation: &Activation) -> Says {
        match value(compiled, activation) {
            Some(Value::Bool(true)) => Says::Passes,
            Some(_) => Says::Refuses,
            None if self.program.fails_closed => Says::Fails,
            None => Says::Passes,
        }
    }

    fn holds(&self, activation: &Activation, change: Option<(usize, Option<&Compiled>)>) -> Holds {
        let mut holds = Holds::Yes;
        for (at, condition) in self.program.conditions.iter().enumerate() {
            let compiled = match change {
                Some((changed, other)) if changed == at => other,
                Some(_) | None => Some(&condition.compiled),
            };
            match compiled.map(|compiled| value(compiled, activation)) {
                None | Some(Some(Value::Bool(true))) => {}
                Some(Some(Value::Bool(false))) => return Holds::Skip,
                Some(_) if self.program.fails_closed => holds = Holds::Refuses,
                Some(_) => return Holds::Skip,
            }
        }
        holds
    }

    fn compile(&self, node: &Node) -> Result<Compiled, CompileError> {
        Expression::compile(&node.to_string(), self.version).map(Ok)
    }

    /// The first case that the changed policy decides otherwise than it must; none: it survives.
    ///
    /// # Errors
    ///
    /// The change is no expression.
    pub(crate) fn killer(&self, change: &Change) -> Result<Option<&'a Case>, CompileError> {
        let found = match change {
            Change::Matching(constraints) => {
                let matcher = Matcher::new(Some(constraints));
                self.first(|tried| {
                    let matched = matches(&matcher, tried.request());
                    decided(matched, tried.holds, || tried.passes.iter().copied())
                })
            }
            Change::Condition(at, node) => {
                let compiled = node.as_ref().map(|node| self.compile(node)).transpose()?;
                self.first(|tried| {
                    let changed = Some((*at, compiled.as_ref()));
                    let holds = self.holds(&tried.conditions, changed);
                    decided(tried.matched, holds, || tried.passes.iter().copied())
                })
            }
            Change::Validation(at, node) => {
                let compiled = node.as_ref().map(|node| self.compile(node)).transpose()?;
                self.first(|tried| {
                    let this = || {
                        let passes = |compiled| self.passes(compiled, &tried.rules);
                        compiled.as_ref().map_or(Says::Passes, passes)
                    };
                    let rules = tried.passes.iter().enumerate();
                    decided(tried.matched, tried.holds, || {
                        rules.map(|(i, before)| if i == *at { this() } else { *before })
                    })
                })
            }
            Change::Variable(at, node) => self.with_variable(*at, &self.compile(node)?),
        };
        Ok(found)
    }

    fn with_variable(&self, at: usize, compiled: &Compiled) -> Option<&'a Case> {
        let variables: Vec<_> = self
            .program
            .variables
            .iter()
            .enumerate()
            .map(|(place, one)| {
                let other = if place == at { compiled } else { &one.compiled };
                (one.name.clone(), other.clone())
            })
            .collect();
        let touched = self.users(at);
        let in_conditions = self
            .program
            .conditions
            .iter()
            .any(|one| mentions_any(&one.compiled, &touched));
        self.first(|tried| {
            let holds = if in_conditions {
                let activation = tried.conditions.clone().variables(variables.clone());
                self.holds(&activation, None)
            } else {
                tried.holds
            };
            let rules = || {
                let activation = tried.rules.clone().variables(variables.clone());
                let validations = self.program.validations.iter().zip(&tried.passes);
                let touched = &touched;
                validations.map(move |(one, before)| {
                    if mentions_any(&one.compiled, touched) {
                        self.passes(&one.compiled, &activation)
                    } else {
                        *before
                    }
                })
            };
            decided(tried.matched, holds, rules)
        })
    }

    /// The variable and those that are made from it.
    fn users(&self, at: usize) -> BTreeSet<String> {
        let mut users = BTreeSet::new();
        for (place, one) in self.program.variables.iter().enumerate() {
            if place == at || mentions_any(&one.compiled, &users) {
                users.insert(one.name.clone());
            }
        }
        users
    }

    fn first(&self, decides: impl Fn(&Tried<'a>) -> Decided) -> Option<&'a Case> {
        let wrong = |tried: &&Tried<'a>| !self.is_as_said(tried.case, decides(tried));
        self.tried.iter().find(wrong).map(|tried| tried.case)
    }

    fn is_as_said(&self, case: &Case, decided: Decided) -> bool {
        match (&case.denied, decided) {
            (None, Decided::Allowed) => true,
            (Some(denied), Decided::Refused(at)) => {
                let rule = self.program.validations.get(at);
                rule.is_some_and(|rule| {
                    rule.message_expression.is_some() || rule.message.contains(&denied.says)
                })
            }
            (None, Decided::Refused(_) | Decided::Failed)
            | (Some(_), Decided::Allowed | Decided::Failed) => false,
        }
    }

    /// The first case that the policy as it is decides otherwise than it must.
    pub(crate) fn unmet(&self) -> Option<&'a Case> {
        self.first(|tried| decided(tried.matched, tried.holds, || tried.passes.iter().copied()))
    }
}

fn decided<R: Iterator<Item = Says>>(
    matched: bool,
    holds: Holds,
    rules: impl FnOnce() -> R,
) -> Decided {
    match holds {
        Holds::Skip => Decided::Allowed,
        Holds::Refuses if matched => Decided::Failed,
        Holds::Yes if matched => rules()
            .enumerate()
            .find_map(|(at, says)| match says {
                Says::Passes => None,
                Says::Refuses => Some(Decided::Refused(at)),
                Says::Fails => Some(Decided::Failed),
            })
            .unwrap_or(Decided::Allowed),
        Holds::Refuses | Holds::Yes => Decided::Allowed,
    }
}

fn matches(matcher: &Matcher, request: &Request) -> bool {
    !matches!(matcher.matches(request, false), Matched::No(_))
}

/// The value; none where there is none.
fn value(compiled: &Compiled, activation: &Activation) -> Option<Value> {
    let expression = compiled.as_ref().ok()?;
    expression.evaluate(activation, &mut Budget::policy()).ok()
}

fn mentions_any(compiled: &Compiled, names: &BTreeSet<String>) -> bool {
    fn walk(node: &Node, names: &BTreeSet<String>) -> bool {
        let this = match &node.kind {
            Kind::Select { operand, field, .. } | Kind::Has { operand, field } => {
                operand.kind == Kind::Name("variables".to_owned()) && names.contains(field)
            }
            _ => false,
        };
        this || node.children().into_iter().any(|child| walk(child, names))
    }
    compiled.as_ref().is_ok_and(|one| walk(one.ast(), names))
}
