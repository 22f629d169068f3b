//! What a field says that says no more than its absence.
//!
//! Invariant: the table is what Kyverno's own definitions fill in (`default` in its CRDs of
//! 1.19) and switches that are off unless they are on. What is not in it is a difference: a field
//! that Kyverno learns later is told rather than passed over. Native objects have no entry: they
//! are rendered with every field that the API server would fill in.

use serde_json::Value;

/// Kyverno's policies, by their kind; positions in lists are left out of the paths.
const KYVERNO: [&str; 2] = ["ValidatingPolicy", "ImageValidatingPolicy"];

/// Whether an object of this kind that says `value` at this path says nothing by it.
pub(super) fn adds_nothing(kind: &str, at: &str, value: &Value) -> bool {
    if !KYVERNO.contains(&kind) {
        return false;
    }
    match without_positions(at).as_str() {
        "spec.evaluation.mode" => value == "Kubernetes",
        "spec.evaluation.admission.enabled"
        | "spec.evaluation.background.enabled"
        | "spec.validationConfigurations.mutateDigest"
        | "spec.validationConfigurations.required"
        | "spec.validationConfigurations.verifyDigest" => value == true,
        "spec.attestors.cosign.ctlog.insecureIgnoreTlog"
        | "spec.attestors.cosign.ctlog.insecureIgnoreSCT"
        | "spec.autogen.validatingAdmissionPolicy.enabled"
        | "spec.credentials.allowInsecureRegistry" => value == false,
        _ => false,
    }
}

fn without_positions(at: &str) -> String {
    let parts = at.split(['[', ']']).step_by(2); // every second one is a position
    parts.collect()
}
