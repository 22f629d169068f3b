//! Whether Ground and Flight decide alike, but for what is declared (P-8).
//!
//! Invariant: policies are compared one by one, in verdict and in words; a difference counts as
//! declared only where Flight refuses in the declared clause's own words, or by the declared
//! policy, and Ground does not. On the cases the judgements are compared, on the bounded domain
//! each condition and rule.

mod domain;

pub use domain::{Bounded, on_the_domain};

use crate::eval::{Judgement, Outcome, PolicySet, Request, Verdict};
use crate::fence::{FlightOnly, GENERATED_PREFIX, PREFIX};
use std::collections::BTreeSet;

/// What came of comparing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compared {
    /// How many requests were judged by both.
    pub requests: usize,
    /// Differences that nobody declared, as a person reads them.
    pub undeclared: Vec<String>,
    /// The places, in the list of the declared, of those that showed.
    pub shown: BTreeSet<usize>,
}

/// Judges every request by both fences (P-8). Each request comes with its name.
#[must_use]
pub fn compare<'r>(
    flight: &PolicySet,
    ground: &PolicySet,
    declared: &[FlightOnly],
    requests: impl IntoIterator<Item = (&'r str, &'r Request)>,
) -> Compared {
    let mut found = Compared::default();
    for (name, request) in requests {
        found.requests += 1;
        let on_ground = ground.judge(request, None);
        let on_flight = flight.judge(request, None);
        for verdict in &on_flight.verdicts {
            let other = of(&on_ground, &verdict.policy);
            match difference(verdict, other, declared) {
                Difference::None => {}
                Difference::Declared(at) => {
                    found.shown.insert(at);
                }
                Difference::Undeclared => found.undeclared.push(format!(
                    "{name}: {}: Flight says {:?}, Ground {:?}",
                    verdict.policy,
                    verdict.outcome,
                    other.map(|verdict| &verdict.outcome)
                )),
            }
        }
        for verdict in &on_ground.verdicts {
            let native = native_name(&verdict.policy);
            if of(&on_flight, &native).is_none() {
                let more = format!("{name}: Flight has no {native}");
                found.undeclared.push(more);
            }
        }
    }
    found
}

enum Difference {
    None,
    Declared(usize),
    Undeclared,
}

/// The name that a policy has before Kyverno compiles it.
fn native_name(name: &str) -> String {
    match name.strip_prefix(GENERATED_PREFIX) {
        Some(rest) => format!("{PREFIX}{rest}"),
        None => name.to_owned(),
    }
}

fn of<'j>(judgement: &'j Judgement, policy: &str) -> Option<&'j Verdict> {
    let is = |verdict: &&Verdict| native_name(&verdict.policy) == policy;
    judgement.verdicts.iter().find(is)
}

/// What the one who asks is told; nothing where the request goes through.
fn told(verdict: &Verdict) -> Option<&str> {
    match &verdict.outcome {
        Outcome::Denied(denial) => Some(&denial.message),
        Outcome::Undecided(why) => Some(why),
        Outcome::NotMatched(_) | Outcome::Skipped(_) | Outcome::Allowed | Outcome::Noted(_) => None,
    }
}

/// The declared clause that a message is of.
fn clause_of(declared: &[FlightOnly], of: &str, message: &str) -> Option<usize> {
    declared.iter().position(|one| match one {
        FlightOnly::Clause { policy, text, .. } => {
            *policy == of && !message.is_empty() && text.contains(message)
        }
        FlightOnly::Policy { .. } => false,
    })
}

fn difference(flight: &Verdict, ground: Option<&Verdict>, declared: &[FlightOnly]) -> Difference {
    let said = told(flight);
    let is_declared = |one: &FlightOnly| match (one, ground) {
        (FlightOnly::Policy { policy, .. }, None) => *policy == flight.policy,
        (FlightOnly::Clause { policy, text, .. }, Some(ground)) => {
            let words = said.is_some_and(|message| text.contains(message));
            *policy == flight.policy && told(ground).is_none() && words
        }
        (FlightOnly::Policy { .. }, Some(_)) | (FlightOnly::Clause { .. }, None) => false,
    };
    if ground.is_some_and(|ground| told(ground) == said) {
        return Difference::None;
    }
    match declared.iter().position(is_declared) {
        // A policy that only Flight has shows where it refuses.
        Some(at) if said.is_some() => Difference::Declared(at),
        Some(_) => Difference::None,
        None => Difference::Undeclared,
    }
}
