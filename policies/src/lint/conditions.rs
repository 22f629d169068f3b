//! L6: whether a policy refuses at all.

use super::{Findings, Rule, Severity, Together, resources};
use crate::model::{Binding, Policy, PolicyKind};
use crate::source::Spanned;

pub(super) fn judge(policy: &Policy, together: &Together<'_>, findings: &mut Findings<'_>) {
    for problem in &policy.problems {
        let fix = "correct it: the API server refuses it, or reads it otherwise";
        findings.add(
            Rule::Enforcement,
            Severity::Error,
            problem.at,
            problem.what.clone(),
            fix,
        );
    }
    if let Some(fail) = policy
        .failure_policy
        .as_ref()
        .filter(|fail| fail.value == "Ignore")
    {
        let what = "with failurePolicy Ignore, an error lets the request through";
        let fix = "write Fail, and guard the expressions so that none errs";
        findings.add(Rule::Enforcement, Severity::Warning, fail.at, what, fix);
    }
    match policy.kind {
        PolicyKind::ValidatingAdmissionPolicy => bound(policy, together, findings),
        PolicyKind::KyvernoValidatingPolicy | PolicyKind::ImageValidatingPolicy => {
            acts(policy, findings);
        }
        PolicyKind::WebhookConfiguration => {}
    }
}

fn bound(policy: &Policy, together: &Together<'_>, findings: &mut Findings<'_>) {
    let bindings: Vec<&&Binding> = together
        .bindings
        .iter()
        .filter(|b| {
            b.policy_name
                .as_ref()
                .is_some_and(|n| n.value == policy.name.value)
        })
        .collect();
    if bindings.is_empty() {
        let what = "no binding of the policy is among the files: without one it does nothing";
        let fix = "add a ValidatingAdmissionPolicyBinding with `validationActions: [Deny]`";
        findings.add(Rule::Enforcement, Severity::Note, policy.name.at, what, fix);
    } else if !bindings.iter().any(|b| has(&b.validation_actions, "Deny")) {
        let what = "no binding of the policy says Deny: it only warns or notes";
        let fix = "add Deny to a binding's validationActions";
        findings.add(Rule::Enforcement, Severity::Note, policy.name.at, what, fix);
    }
}

fn acts(policy: &Policy, findings: &mut Findings<'_>) {
    match &policy.validation_actions {
        None if resources::is_about_others(policy) => {}
        None if policy.kyverno.generate_admission_policy != Some(true) => {
            let what = "validationActions is not said: Kyverno takes it for Deny";
            let fix = "write `validationActions: [Deny]`, so that readers know";
            findings.add(Rule::Enforcement, Severity::Note, policy.name.at, what, fix);
        }
        None => {
            let what = "validationActions is not said: the binding that Kyverno makes is invalid \
                        in some releases, and then nothing is enforced";
            let fix = "write `validationActions: [Deny]`";
            findings.add(
                Rule::Enforcement,
                Severity::Warning,
                policy.name.at,
                what,
                fix,
            );
        }
        Some(actions) => {
            both(actions, findings);
            if !has(actions, "Deny") && !actions.is_empty() {
                let what = "validationActions has no Deny: the policy refuses nothing";
                let fix = "write Deny once it is to be enforced";
                let at = actions.first().map_or(policy.name.at, |action| action.at);
                findings.add(Rule::Enforcement, Severity::Note, at, what, fix);
            }
        }
    }
}

pub(super) fn binding(binding: &Binding, findings: &mut Findings<'_>) {
    for problem in &binding.problems {
        let fix = "correct it: the API server refuses it, or reads it otherwise";
        findings.add(
            Rule::Enforcement,
            Severity::Error,
            problem.at,
            problem.what.clone(),
            fix,
        );
    }
    if binding.validation_actions.is_empty() {
        let what = "validationActions is missing: the API server refuses the binding";
        let fix = "write `validationActions: [Deny]`";
        findings.add(Rule::Enforcement, Severity::Error, binding.at, what, fix);
    }
    both(&binding.validation_actions, findings);
}

fn both(actions: &[Spanned<String>], findings: &mut Findings<'_>) {
    if has(actions, "Deny")
        && let Some(warn) = actions.iter().find(|action| action.value == "Warn")
    {
        let what = "Deny and Warn together are refused by the API server";
        findings.add(
            Rule::Enforcement,
            Severity::Error,
            warn.at,
            what,
            "keep Deny",
        );
    }
    for action in actions {
        if !matches!(action.value.as_str(), "Deny" | "Warn" | "Audit") {
            let what = format!("`{}` is no action", action.value);
            let fix = "write Deny, Warn or Audit";
            findings.add(Rule::Enforcement, Severity::Error, action.at, what, fix);
        }
    }
}

fn has(actions: &[Spanned<String>], action: &str) -> bool {
    actions.iter().any(|a| a.value == action)
}
