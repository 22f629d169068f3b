//! The answer as text and as JSON.

use super::{Equivalent, Score};
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
        "problems": score.problems(listed),
    })
}
