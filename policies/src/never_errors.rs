//! That no expression of a policy fails, on a bounded domain of requests (P-4).
//!
//! Invariant: an error is told apart from a refusal, and each is told with the request's change.
//! The domain is [`crate::bounded`]'s.
//!
//! Not here: what makes a message, whose error changes no verdict.

mod output;
#[cfg(test)]
mod tests;

pub use output::{as_json, as_sarif, as_text};

pub use crate::bounded::Required;

use crate::bounded::{Domain, Expressions, Tried, Visited};
use crate::cel::KubernetesVersion;
use crate::eval::{Case, Program, ProgramError};
use crate::model::Policy;
use crate::progress::Progress;
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
    /// The policy's name.
    pub policy: String,
    /// Requests that are changed: the cases that the policy matches, and the full ones. With none
    /// nothing was tried.
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

impl Checked {
    fn tell(&mut self, place: &str, request: String, error: String) {
        let told = |one: &Counterexample| one.place == place && one.error == error;
        if self.errors.iter().any(told) {
            return;
        }
        self.errors.push(Counterexample {
            policy: self.policy.clone(),
            place: place.to_owned(),
            request,
            error,
        });
    }
}

/// Tries every expression of a policy on the domain that the cases span (P-4).
///
/// # Errors
///
/// [`ProgramError`]: the policy cannot be judged here; nothing was tried.
pub fn check(
    policy: &Policy,
    version: KubernetesVersion,
    required: Required,
    cases: &[Case],
    mut tell: impl FnMut(Progress<'_>),
) -> Result<Checked, ProgramError> {
    let program = Program::new(policy, version)?;
    let expressions = Expressions::of(policy, version);
    let matched = cases.iter().filter(|case| program.matches(&case.request));
    let paths = expressions.tried.iter().flat_map(Tried::paths);
    let domain = Domain::of(required, matched, paths);
    let mut checked = Checked {
        policy: policy.name.value.clone(),
        bases: domain.bases(),
        paths: domain.paths(),
        without_sample: domain.without_sample(),
        ..Checked::default()
    };
    for (place, error) in &expressions.broken {
        checked.tell(place, "any".to_owned(), error.to_string());
    }
    for (at, one) in expressions.tried.iter().enumerate() {
        let size = domain.each(&one.reads, |visited: &Visited<'_>| {
            let value = expressions.evaluate(one, visited.part);
            // What the domain leans on: what an expression is thought to read is all that it reads.
            let whole = |seen| expressions.evaluate(one, seen).map(|v| format!("{v:?}"));
            if let Some(seen) = visited.whole
                && whole(seen)
                    != value
                        .as_ref()
                        .map(|v| format!("{v:?}"))
                        .map_err(Clone::clone)
            {
                let why = "what is read of a request says otherwise than the request";
                checked.tell(&one.place, visited.words(), why.to_owned());
            }
            if let Err(error) = value {
                checked.tell(&one.place, visited.words(), error.why);
            }
        });
        checked.deviations += size.changes;
        checked.pairs += size.pairs;
        checked.requests += size.requests;
        tell(Progress {
            policy: &policy.name.value,
            done: at + 1,
            of: expressions.tried.len(),
        });
    }
    Ok(checked)
}
