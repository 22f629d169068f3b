//! `breakglass policies eval`: what policies say of a request, without a cluster (P-6).
//!
//! Invariant: exit 0 only where every policy could be evaluated and none refuses. What is printed
//! is the whole answer; the exit code is its one word.

use super::super::failure::Failure;
use super::super::print;
use super::files::{self, Format, Named};
use clap::Args;
use policies::cel::KubernetesVersion;
use policies::eval::{Decision, Denial, Judgement, Outcome, PolicySet, Request, Rule, Verdict};
use policies::lint::Severity;
use policies::model::Document;
use policies::sarif::{self, Sources};
use serde_json::{Value, json};
use std::path::PathBuf;

#[derive(Args)]
pub(in crate::cli) struct EvalOptions {
    /// Files of policies and bindings; other objects in them are left out
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    policy: Vec<PathBuf>,
    /// The request: an AdmissionReview, or `object`, `oldObject`, `userInfo` …; `-` is stdin
    #[arg(long, value_name = "FILE")]
    request: PathBuf,
    /// How the answer is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// The release of Kubernetes whose expressions are meant, from 1.30 to 1.37
    #[arg(long, default_value = "1.34", value_parser = files::release)]
    kubernetes: KubernetesVersion,
}

pub(in crate::cli) fn run(options: &EvalOptions) -> Result<(), Failure> {
    let documents = files::documents(&options.policy).map_err(|why| cannot(&why))?;
    let judgement = judged(options, &documents)?;
    print(&match options.format {
        Format::Text => text(&judgement),
        Format::Json => format!("{:#}", as_json(&judgement)),
        Format::Sarif => format!("{:#}", as_sarif(&judgement, &sources(&documents))),
    })?;
    match judgement.decision() {
        Decision::Allowed => Ok(()),
        Decision::Denied => Err(Failure::Local("the request is denied".to_owned())),
        Decision::Undecided => Err(cannot("a policy could not be evaluated")),
    }
}

fn cannot(why: &str) -> Failure {
    Failure::Usage(format!("cannot say what becomes of the request: {why}"))
}

fn judged(options: &EvalOptions, documents: &[Named]) -> Result<Judgement, Failure> {
    let documents = documents.iter().map(|(_, document)| document.clone());
    let set = PolicySet::new(documents, options.kubernetes)
        .map_err(|error| cannot(&error.to_string()))?;
    if set.is_empty() {
        return Err(cannot("there is no policy in these files"));
    }
    let (name, bytes) = files::read(&options.request).map_err(|why| cannot(&why))?;
    let request = Request::parse(&name, &bytes).map_err(|error| cannot(&error.to_string()))?;
    Ok(set.judge(&request, None))
}

fn word(decision: Decision) -> &'static str {
    match decision {
        Decision::Allowed => "allowed",
        Decision::Denied => "denied",
        Decision::Undecided => "undecided",
    }
}

fn text(judgement: &Judgement) -> String {
    let mut lines = vec![word(judgement.decision()).to_owned()];
    if let Some((verdict, denial)) = judgement.denial() {
        lines.push(format!("  {} ({})", verdict.told(denial), denial.reason));
    }
    for verdict in &judgement.verdicts {
        let by = match &verdict.binding {
            Some(binding) => format!("`{}` by `{binding}`", verdict.policy),
            None => format!("`{}`, as if a binding denied", verdict.policy),
        };
        lines.push(format!("{by}: {}", said(&verdict.outcome)));
    }
    lines.join("\n")
}

fn said(outcome: &Outcome) -> String {
    match outcome {
        Outcome::NotMatched(why) => format!("does not match: {why}"),
        Outcome::Skipped(rule) => format!("does not apply: {} is false", named(rule)),
        Outcome::Allowed => "allows".to_owned(),
        Outcome::Denied(denial) => format!("denies: {}", because(denial)),
        Outcome::Noted(denial) => format!("would deny, and only notes: {}", because(denial)),
        Outcome::Undecided(why) => format!("cannot be evaluated: {why}"),
    }
}

fn because(denial: &Denial) -> String {
    let how = if denial.error {
        "failed"
    } else {
        "does not hold"
    };
    format!("{} {how}: {}", named(&denial.rule), denial.message)
}

fn named(rule: &Rule) -> String {
    match rule {
        Rule::Condition(at, name) => format!("matchConditions[{at}] `{name}`"),
        Rule::Validation(at) => format!("validations[{at}]"),
        Rule::AuditAnnotation(at, key) => format!("auditAnnotations[{at}] `{key}`"),
        Rule::Budget => "the validations' budget".to_owned(),
    }
}

fn as_json(judgement: &Judgement) -> Value {
    let told = judgement
        .denial()
        .map(|(verdict, denial)| json!({"message": verdict.told(denial), "reason": denial.reason}));
    let verdicts: Vec<Value> = judgement.verdicts.iter().map(verdict_json).collect();
    json!({"decision": word(judgement.decision()), "told": told, "verdicts": verdicts})
}

fn verdict_json(verdict: &Verdict) -> Value {
    let mut object = json!({"policy": verdict.policy, "binding": verdict.binding});
    let (outcome, rest) = match &verdict.outcome {
        Outcome::NotMatched(why) => ("not matched", json!({"why": why})),
        Outcome::Skipped(rule) => ("skipped", json!({"rule": named(rule)})),
        Outcome::Allowed => ("allowed", json!({})),
        Outcome::Denied(denial) => ("denied", denial_json(denial)),
        Outcome::Noted(denial) => ("noted", denial_json(denial)),
        Outcome::Undecided(why) => ("undecided", json!({"why": why})),
    };
    if let (Value::Object(object), Value::Object(rest)) = (&mut object, rest) {
        object.insert("outcome".to_owned(), outcome.into());
        object.extend(rest);
    }
    object
}

fn denial_json(denial: &Denial) -> Value {
    json!({
        "rule": named(&denial.rule),
        "message": denial.message,
        "reason": denial.reason,
        "error": denial.error,
    })
}

fn sources(documents: &[Named]) -> Sources<'_> {
    let policies = documents
        .iter()
        .filter_map(|(file, document)| match document {
            Document::Policy(policy) => Some((file.as_str(), &**policy)),
            Document::Binding(_) | Document::Exception(_) | Document::Unknown(_) => None,
        });
    policies.collect()
}

const DENIES: sarif::Rule = sarif::Rule {
    id: "eval/denies",
    name: "a policy denies the request",
    why: "The API server would refuse it (P-6).",
};
const NOTES: sarif::Rule = sarif::Rule {
    id: "eval/notes",
    name: "a policy would deny, and only notes",
    why: "Its binding warns or audits (P-6).",
};

/// Each refusal at the part of the policy that speaks; what cannot be evaluated was not judged.
fn as_sarif(judgement: &Judgement, sources: &Sources<'_>) -> Value {
    let (mut findings, mut undone) = (Vec::new(), Vec::new());
    for verdict in &judgement.verdicts {
        let (rule, level, denial) = match &verdict.outcome {
            Outcome::Denied(denial) => (DENIES, Severity::Error, denial),
            Outcome::Noted(denial) => (NOTES, Severity::Warning, denial),
            Outcome::Undecided(why) => {
                undone.push(format!("`{}` cannot be evaluated: {why}", verdict.policy));
                continue;
            }
            Outcome::NotMatched(_) | Outcome::Skipped(_) | Outcome::Allowed => continue,
        };
        findings.push(sarif::Finding {
            rule: rule.id,
            level,
            message: because(denial),
            place: sources.place(&verdict.policy, &denial.rule.part()),
        });
    }
    sarif::log("eval", &[DENIES, NOTES], &findings, &undone)
}

#[cfg(test)]
mod tests;
