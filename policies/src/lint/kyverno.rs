//! L12: what Kyverno makes of a policy besides what it says.

use super::{Findings, Rule, Severity};
use crate::model::{Exception, Policy, PolicyKind};
use crate::source::Spanned;

pub(super) fn judge(policy: &Policy, findings: &mut Findings<'_>) {
    let validating = match policy.kind {
        PolicyKind::KyvernoValidatingPolicy => true,
        PolicyKind::ImageValidatingPolicy => false,
        PolicyKind::ValidatingAdmissionPolicy | PolicyKind::WebhookConfiguration => return,
    };
    if policy.api_version.ends_with("/v1alpha1") {
        let what = "v1alpha1 is deprecated; from Kyverno 1.17 on there is v1";
        let fix = "write `apiVersion: policies.kyverno.io/v1`";
        findings.add(Rule::Kyverno, Severity::Note, policy.at, what, fix);
    }
    let generates = policy.kyverno.generate_admission_policy == Some(true);
    let autogen = on_pods_alone(policy)
        && policy
            .kyverno
            .autogen_controllers
            .as_ref()
            .is_none_or(|all| !all.is_empty());
    if validating && generates && autogen {
        let what = "the policy matches pods alone, so Kyverno derives rules for their controllers, \
                    and then makes no ValidatingAdmissionPolicy, or deletes it";
        let fix = "write `autogen.podControllers.controllers: []` and list a second resource, such \
                   as `pods/ephemeralcontainers`";
        findings.add(Rule::Kyverno, Severity::Error, policy.name.at, what, fix);
    }
    let deletes = policy
        .match_constraints
        .iter()
        .flat_map(|all| &all.resource_rules)
        .flat_map(|rule| &rule.operations)
        .find(|operation| matches!(operation.value.as_str(), "DELETE" | "*"));
    if autogen
        && !policy.match_conditions.is_empty()
        && let Some(operation) = deletes
    {
        let what = "with controllers derived, Kyverno wraps the conditions so that they read \
                    `object`, which is null on DELETE: deletions by anyone are refused";
        let fix = "write `autogen.podControllers.controllers: []` and list a second resource";
        findings.add(Rule::Kyverno, Severity::Warning, operation.at, what, fix);
    }
    if generates
        && let Some(fail) = policy
            .failure_policy
            .as_ref()
            .filter(|f| f.value == "Ignore")
    {
        let what = "failurePolicy is not copied into the generated ValidatingAdmissionPolicy: \
                    Ignore becomes Fail there";
        let fix = "write Fail, or do not generate one";
        findings.add(Rule::Kyverno, Severity::Warning, fail.at, what, fix);
    }
    let sleeps = policy.kyverno.admission == Some(false);
    if sleeps {
        let what = "evaluation.admission is off: the policy only reports";
        let fix = "switch it on to refuse requests";
        findings.add(Rule::Kyverno, Severity::Note, policy.name.at, what, fix);
    }
}

/// Whether Kyverno derives rules for pod controllers: one rule, core group, v1, `pods` alone.
fn on_pods_alone(policy: &Policy) -> bool {
    let Some(constraints) = &policy.match_constraints else {
        return false;
    };
    let [rule] = constraints.resource_rules.as_slice() else {
        return false;
    };
    let only = |texts: &[Spanned<String>], text: &str| matches!(texts, [one] if one.value == text);
    only(&rule.resources, "pods")
        && only(&rule.api_groups, "")
        && only(&rule.api_versions, "v1")
        && rule.resource_names.is_empty()
        && constraints.exclude_resource_rules.is_empty()
        && constraints
            .object_selector
            .as_ref()
            .is_none_or(super::super::model::Selector::is_empty)
}

pub(super) fn exception(exception: &Exception, findings: &mut Findings<'_>) {
    for policy in &exception.policies {
        let name = &policy.name.value;
        let ours = name.starts_with("tower-breakglass-") || name.contains('*');
        let severity = if ours {
            Severity::Error
        } else {
            Severity::Note
        };
        // Of Kyverno's kinds this one alone becomes a ValidatingAdmissionPolicy with conditions.
        let generated = match policy.kind.as_deref() {
            Some("ValidatingPolicy") => {
                ", in the generated policy too, even with exceptions disabled"
            }
            Some(_) | None => "",
        };
        let what = format!("the exception switches `{name}` off where it applies{generated}");
        let fix = "write the exception into the policy, where its review sees it";
        findings.add(Rule::Kyverno, severity, policy.name.at, what, fix);
    }
}
