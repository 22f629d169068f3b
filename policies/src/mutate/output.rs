//! The answer as text, as JSON and as SARIF.

use super::{Equivalent, Problem, Score};
use crate::lint::Severity;
use crate::sarif::{self, Finding, Rule, Sources};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// For people: the score, and what is wrong.
#[must_use]
pub fn as_text(score: &Score, listed: &[Equivalent]) -> String {
    let mut text = format!(
        "{} mutants: {} killed, {} survive, {} of them listed",
        score.mutants(),
        score.killed.len(),
        score.survivors.len(),
        score.listed(listed),
    );
    for (policy, cases) in &score.cases {
        let _ = write!(text, "\n`{policy}`: tried on {cases} cases");
    }
    for problem in score.problems(listed) {
        let _ = write!(text, "\n{problem}");
    }
    text
}

/// For programs. The survivors have the form of the list's entries.
#[must_use]
pub fn as_json(score: &Score, listed: &[Equivalent]) -> Value {
    let survivor = |id: &super::Id| {
        json!({
            "policy": id.policy,
            "place": id.place,
            "operator": id.operator,
            "change": id.change,
            "reason": listed.iter().find(|one| one.id() == *id).map(|one| &one.reason),
        })
    };
    json!({
        "mutants": score.mutants(),
        "killed": score.killed.len(),
        "stillborn": score.stillborn,
        "cases": score.cases,
        "survivors": score.survivors.iter().map(survivor).collect::<Vec<Value>>(),
        "problems": words(&score.problems(listed)),
    })
}

fn words(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

const UNMET: Rule = Rule {
    id: "mutate/unmet",
    name: "a case is decided wrongly",
    why: "The policy does not do what its case says (P-9).",
};
const SURVIVES: Rule = Rule {
    id: "mutate/survives",
    name: "no case notices a change",
    why: "Somebody may change the policy so, and nothing would tell (P-9).",
};
const LISTED: Rule = Rule {
    id: "mutate/listed",
    name: "the list of equivalents does not fit",
    why: "What is listed is not looked at, so the list must be right (P-9).",
};

/// For code scanning: each problem at the part of the policy that it is about.
#[must_use]
pub fn as_sarif(score: &Score, listed: &[Equivalent], sources: &Sources<'_>) -> Value {
    let finding = |problem: &Problem| {
        let (rule, place) = match problem {
            Problem::Unmet { policy, .. } => (UNMET, sources.place(policy, "")),
            Problem::Survives(id) => (SURVIVES, sources.place(&id.policy, &id.place)),
            Problem::Listed(_) => (LISTED, None),
        };
        Finding {
            rule: rule.id,
            level: Severity::Error,
            message: problem.to_string(),
            place,
        }
    };
    let findings: Vec<Finding> = score.problems(listed).iter().map(finding).collect();
    sarif::log("mutate", &[UNMET, SURVIVES, LISTED], &findings, &[])
}
