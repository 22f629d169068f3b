//! Whether two sets of policies decide alike, but for what is declared (P-8): native ones and
//! Kyverno's, such as the fences of Flight and of Ground.
//!
//! Invariant: policies are compared one by one, in verdict and in words; a difference counts as
//! declared only where the native one refuses in the declared rule's own words, or by the declared
//! policy, and Kyverno's does not. On the cases the judgements are compared, on the bounded domain
//! each condition and rule.

mod declared;
mod domain;
mod output;

#[cfg(test)]
mod tests;

pub use declared::NativeOnly;
pub use domain::{Bounded, on_the_domain};
pub use output::{Answer, as_json, as_sarif, as_text};

use crate::eval::{Judgement, Outcome, PolicySet, Request, Verdict};
use crate::model::{GENERATED, Policy};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A difference that nobody declared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    /// The policy's name.
    pub policy: String,
    /// What of it, such as `validation 3` (from 0) of the native one; empty: the whole.
    pub part: String,
    /// What differs, and on which request.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { policy, part, what } = self;
        match part.is_empty() {
            true => write!(f, "{policy}: {what}"),
            false => write!(f, "{policy}: {part}: {what}"),
        }
    }
}

/// What came of comparing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compared {
    /// How many requests were judged by both.
    pub requests: usize,
    /// What differs and is not declared.
    pub undeclared: Vec<Difference>,
    /// What could not be evaluated, and so was not compared, in words.
    pub undecided: Vec<String>,
    /// The places, in the list of the declared, of those that showed.
    pub shown: BTreeSet<usize>,
}

/// Judges every request by both sets (P-8). Each request comes with its name.
#[must_use]
pub fn compare<'r>(
    native: &PolicySet,
    kyverno: &PolicySet,
    declared: &[NativeOnly],
    requests: impl IntoIterator<Item = (&'r str, &'r Request)>,
) -> Compared {
    let mut found = Compared {
        undeclared: actions(native, kyverno).collect(),
        ..Compared::default()
    };
    for (name, request) in requests {
        found.requests += 1;
        let by_kyverno = kyverno.judge(request, None);
        let by_native = native.judge(request, None);
        for policy in names(&by_native) {
            let (Some(verdict), other) = (of(&by_native, policy), of(&by_kyverno, policy)) else {
                continue;
            };
            if let Some(why) = undecided(verdict).or_else(|| other.and_then(undecided)) {
                let what = format!("the case `{name}`: `{policy}` cannot be evaluated: {why}");
                found.undecided.push(what);
                continue;
            }
            match difference(verdict, other, declared) {
                Differs::Not => {}
                Differs::Declared(at) => {
                    found.shown.insert(at);
                }
                Differs::Undeclared => found.undeclared.push(Difference {
                    policy: policy.to_owned(),
                    part: part(&verdict.outcome),
                    what: format!(
                        "the case `{name}`: the native one {}, Kyverno's {}",
                        said(Some(verdict)),
                        said(other)
                    ),
                }),
            }
        }
        let known = names(&by_native);
        for policy in names(&by_kyverno).difference(&known) {
            found.undeclared.push(Difference {
                policy: (*policy).to_owned(),
                part: String::new(),
                what: format!("the case `{name}`: there is no native one"),
            });
        }
    }
    found
}

/// Policies of which one refuses, and the other only notes.
fn actions(native: &PolicySet, kyverno: &PolicySet) -> impl Iterator<Item = Difference> {
    let by_kyverno: BTreeMap<&str, bool> = kyverno
        .enforced()
        .map(|(name, denies)| (source(name), denies))
        .collect();
    let differs = native.enforced().filter_map(move |(name, denies)| {
        let other = *by_kyverno.get(source(name))?;
        (denies != other).then_some((source(name), denies))
    });
    differs.map(|(name, native)| {
        let [denies, notes] = match native {
            true => ["the native one", "Kyverno's"],
            false => ["Kyverno's", "the native one"],
        };
        Difference {
            policy: name.to_owned(),
            part: String::new(),
            what: format!("{denies} refuses, {notes} only notes"),
        }
    })
}

enum Differs {
    Not,
    Declared(usize),
    Undeclared,
}

/// The name that a policy has before Kyverno compiles it.
fn source(name: &str) -> &str {
    name.strip_prefix(GENERATED).unwrap_or(name)
}

fn names(judgement: &Judgement) -> BTreeSet<&str> {
    let verdicts = judgement.verdicts.iter();
    verdicts.map(|verdict| source(&verdict.policy)).collect()
}

/// What becomes of the request by a policy: of its bindings the one that refuses counts.
fn of<'j>(judgement: &'j Judgement, policy: &str) -> Option<&'j Verdict> {
    let all = judgement.verdicts.iter();
    let all = all.filter(|verdict| source(&verdict.policy) == policy);
    all.min_by_key(|verdict| match &verdict.outcome {
        Outcome::Denied(_) => 0,
        Outcome::Undecided(_) => 1,
        Outcome::NotMatched(_) | Outcome::Skipped(_) | Outcome::Allowed | Outcome::Noted(_) => 2,
    })
}

fn undecided(verdict: &Verdict) -> Option<&str> {
    match &verdict.outcome {
        Outcome::Undecided(why) => Some(why),
        Outcome::NotMatched(_)
        | Outcome::Skipped(_)
        | Outcome::Allowed
        | Outcome::Denied(_)
        | Outcome::Noted(_) => None,
    }
}

/// The rule that spoke.
fn part(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Denied(denial) | Outcome::Noted(denial) => denial.rule.part(),
        Outcome::NotMatched(_) | Outcome::Skipped(_) | Outcome::Allowed | Outcome::Undecided(_) => {
            String::new()
        }
    }
}

/// A name that two policies have: it would not be known which of them is compared.
#[must_use]
pub fn name_of_two(policies: &[Policy]) -> Option<&str> {
    let mut seen = BTreeSet::new();
    let mut names = policies.iter().map(|one| source(&one.name.value));
    names.find(|name| !seen.insert(*name))
}

/// What it says, for a person.
fn said(verdict: Option<&Verdict>) -> String {
    match verdict.map(|verdict| &verdict.outcome) {
        None => "is not there".to_owned(),
        Some(Outcome::Denied(denial)) => format!("refuses it: {}", denial.message),
        Some(Outcome::Noted(denial)) => format!("only notes: {}", denial.message),
        Some(Outcome::Undecided(why)) => format!("cannot be evaluated: {why}"),
        Some(Outcome::NotMatched(_)) => "does not match it".to_owned(),
        Some(Outcome::Skipped(_)) => "does not speak, by a condition".to_owned(),
        Some(Outcome::Allowed) => "lets it through".to_owned(),
    }
}

/// What the one who asks is told; nothing where the request goes through.
fn told(verdict: &Verdict) -> Option<&str> {
    match &verdict.outcome {
        Outcome::Denied(denial) => Some(&denial.message),
        Outcome::NotMatched(_)
        | Outcome::Skipped(_)
        | Outcome::Allowed
        | Outcome::Noted(_)
        | Outcome::Undecided(_) => None,
    }
}

fn difference(native: &Verdict, kyverno: Option<&Verdict>, declared: &[NativeOnly]) -> Differs {
    let said = told(native);
    if kyverno.is_some_and(|kyverno| told(kyverno) == said) {
        return Differs::Not;
    }
    let is_declared = |one: &NativeOnly| match kyverno {
        None => one.is_policy(source(&native.policy)),
        Some(kyverno) => {
            let in_its_words = said.is_some_and(|said| one.is_rule(source(&native.policy), said));
            told(kyverno).is_none() && in_its_words
        }
    };
    match declared.iter().position(is_declared) {
        // A policy that is only native shows where it refuses.
        Some(at) if said.is_some() => Differs::Declared(at),
        Some(_) => Differs::Not,
        None => Differs::Undeclared,
    }
}
