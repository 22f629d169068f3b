//! The answer as text, as JSON and as SARIF.

use super::{Bounded, Compared, Difference, NativeOnly};
use crate::lint::Severity;
use crate::sarif::{self, Finding, Rule, Sources};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// What both ways of comparing came to, and what was declared.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// On the cases.
    pub compared: &'a Compared,
    /// On the bounded domain.
    pub bounded: &'a Bounded,
    /// What was declared.
    pub declared: &'a [NativeOnly],
}

impl<'a> Answer<'a> {
    /// What differs and is not declared.
    pub fn differences(&self) -> impl Iterator<Item = &'a Difference> + use<'a> {
        let (compared, bounded) = (self.compared, self.bounded);
        compared.undeclared.iter().chain(&bounded.undeclared)
    }

    /// What is declared and never showed, neither on the cases nor on the domain.
    pub fn idle(&self) -> impl Iterator<Item = &'a NativeOnly> + use<'a> {
        let Self {
            compared,
            bounded,
            declared,
        } = *self;
        let shown = move |at: &usize| compared.shown.contains(at) || bounded.shown.contains(at);
        let all = declared.iter().enumerate();
        all.filter(move |(at, _)| !shown(at)).map(|(_, one)| one)
    }

    /// What was not compared, in words.
    #[must_use]
    pub fn undone(&self) -> Vec<String> {
        let untried = self.bounded.untried.iter();
        let untried = untried.map(|name| format!("no case is about `{name}`"));
        let undecided = self.compared.undecided.iter();
        let undecided = undecided.chain(&self.bounded.undecided).cloned();
        undecided.chain(untried).collect()
    }

    /// Whether nothing differs but what is declared, and all of that does.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.differences().next().is_none() && self.idle().next().is_none()
    }
}

fn named(declared: &NativeOnly) -> String {
    let NativeOnly {
        policy, message, ..
    } = declared;
    match message {
        None => format!("`{policy}`"),
        Some(words) => format!("a rule of `{policy}`, \"{words}\""),
    }
}

fn idle_words(declared: &NativeOnly) -> String {
    format!(
        "declared to be native alone, and nothing shows it: {}",
        named(declared)
    )
}

/// For people: what differs, and how much was compared.
#[must_use]
pub fn as_text(answer: &Answer<'_>) -> String {
    let mut text = String::new();
    for difference in answer.differences() {
        let _ = writeln!(text, "{difference}");
    }
    for declared in answer.idle() {
        let _ = writeln!(text, "{}", idle_words(declared));
    }
    for undone in answer.undone() {
        let _ = writeln!(text, "not compared: {undone}");
    }
    for declared in answer.declared {
        let NativeOnly { reason, .. } = declared;
        let _ = writeln!(text, "declared: {}: {reason}", named(declared));
    }
    let Bounded {
        policies,
        compared,
        changes,
        pairs,
        requests,
        ..
    } = answer.bounded;
    let _ = write!(
        text,
        "compared: {} requests; of {policies} policies {compared} conditions, rules and messages, \
         on {changes} changes and {pairs} pairs of changes, {requests} times",
        answer.compared.requests
    );
    text
}

/// For programs.
#[must_use]
pub fn as_json(answer: &Answer<'_>) -> Value {
    let difference =
        |one: &Difference| json!({ "policy": one.policy, "part": one.part, "what": one.what });
    let declared = |one: &NativeOnly| {
        let NativeOnly {
            policy,
            message,
            reason,
        } = one;
        json!({ "policy": policy, "message": message, "reason": reason })
    };
    let bounded = answer.bounded;
    json!({
        "differences": answer.differences().map(difference).collect::<Vec<Value>>(),
        "declaredAndNeverSeen": answer.idle().map(declared).collect::<Vec<Value>>(),
        "notCompared": answer.undone(),
        "requests": answer.compared.requests,
        "policies": bounded.policies,
        "conditionsAndRules": bounded.compared,
        "changes": bounded.changes,
        "pairs": bounded.pairs,
        "comparisons": bounded.requests,
    })
}

const DIFFERS: Rule = Rule {
    id: "equivalent/differs",
    name: "the two decide otherwise",
    why: "What one cluster refuses the other lets through, and nobody declared it (P-8).",
};
const IDLE: Rule = Rule {
    id: "equivalent/declared",
    name: "a declared difference is none",
    why: "What is declared is not looked at, so it must be a difference (P-8).",
};

/// For code scanning: each difference at the native policy's part.
#[must_use]
pub fn as_sarif(answer: &Answer<'_>, sources: &Sources<'_>) -> Value {
    let differs = answer.differences().map(|one| Finding {
        rule: DIFFERS.id,
        level: Severity::Error,
        message: match one.part.is_empty() {
            true => one.what.clone(),
            false => format!("{}: {}", one.part, one.what),
        },
        place: sources.place(&one.policy, &one.part),
    });
    let idle = answer.idle().map(|one| Finding {
        rule: IDLE.id,
        level: Severity::Error,
        message: idle_words(one),
        place: sources.place(&one.policy, ""),
    });
    let findings: Vec<Finding> = differs.chain(idle).collect();
    sarif::log("equivalent", &[DIFFERS, IDLE], &findings, &answer.undone())
}
