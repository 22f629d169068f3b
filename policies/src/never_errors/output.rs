//! The answer as text, as JSON and as SARIF.

use super::{Checked, Counterexample};
use crate::lint::Severity;
use crate::sarif::{self, Finding, Rule, Sources};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// For people: each policy with its errors, and how much was tried.
#[must_use]
pub fn as_text(all: &[Checked]) -> String {
    let mut text = String::new();
    for checked in all {
        let _ = writeln!(text, "`{}`: {}", checked.policy, verdict(checked));
        for error in &checked.errors {
            let _ = writeln!(text, "  {}: {}", error.place, error.error);
            let _ = writeln!(text, "    on {}", error.request);
        }
        if checked.bases == 0 {
            continue;
        }
        let Checked {
            bases,
            paths,
            deviations,
            pairs,
            requests,
            ..
        } = checked;
        let _ = writeln!(
            text,
            "  tried: {bases} requests, {deviations} changes of the {paths} places that are read, \
             {pairs} pairs of changes; {requests} evaluations"
        );
        if !checked.without_sample.is_empty() {
            let places = checked.without_sample.join(", ");
            let _ = writeln!(
                text,
                "  tried without a value, since no case has one: {places}"
            );
        }
    }
    text.trim_end().to_owned()
}

fn verdict(checked: &Checked) -> String {
    match (checked.bases, checked.errors.len()) {
        (_, 1) => "an expression fails".to_owned(),
        (_, 2..) => "expressions fail".to_owned(),
        (0, 0) => "no case is about it, so nothing was tried".to_owned(),
        (_, 0) => "no expression fails".to_owned(),
    }
}

/// For programs.
#[must_use]
pub fn as_json(all: &[Checked]) -> Value {
    let one = |checked: &Checked| {
        let error = |error: &Counterexample| {
            json!({
                "place": error.place,
                "error": error.error,
                "request": error.request,
            })
        };
        json!({
            "policy": checked.policy,
            "errors": checked.errors.iter().map(error).collect::<Vec<Value>>(),
            "requests": checked.bases,
            "places": checked.paths,
            "placesWithoutValue": checked.without_sample,
            "changes": checked.deviations,
            "pairs": checked.pairs,
            "evaluations": checked.requests,
        })
    };
    json!({ "policies": all.iter().map(one).collect::<Vec<Value>>() })
}

const FAILS: Rule = Rule {
    id: "never-errors/fails",
    name: "an expression fails",
    why: "An expression that fails refuses a request for no reason that anybody gave, or lets it \
          through where failures are ignored (P-4).",
};

/// For code scanning: each failing expression at its place.
#[must_use]
pub fn as_sarif(all: &[Checked], sources: &Sources<'_>) -> Value {
    let finding = |error: &Counterexample| Finding {
        rule: FAILS.id,
        level: Severity::Error,
        message: format!("{}: {}; on {}", error.place, error.error, error.request),
        place: sources.place(&error.policy, &error.place),
    };
    let findings: Vec<Finding> = all
        .iter()
        .flat_map(|checked| &checked.errors)
        .map(finding)
        .collect();
    let untried = all.iter().filter(|one| one.bases == 0);
    let untried: Vec<String> = untried
        .map(|one| format!("no case is about `{}`, so nothing was tried", one.policy))
        .collect();
    sarif::log("never-errors", &[FAILS], &findings, &untried)
}
