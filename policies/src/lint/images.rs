//! L11: what makes an ImageValidatingPolicy verify less than it seems to, or nothing.

use super::expressions::{Trees, loose};
use super::{Findings, Rule, Severity};
use crate::cel::ast::{Kind, Node as Tree};
use crate::model::{Attestor, ImageReference, Policy, PolicyKind};
use crate::source::{Node, Position};

pub(super) fn judge(policy: &Policy, trees: &Trees<'_>, findings: &mut Findings<'_>) {
    if policy.kind != PolicyKind::ImageValidatingPolicy {
        return;
    }
    for attestor in &policy.kyverno.attestors {
        judge_attestor(attestor, findings);
    }
    for condition in &policy.match_conditions {
        let kyvernos = trees.of(&condition.expression).and_then(foreign);
        if let Some(name) = kyvernos {
            let what = format!(
                "`{name}` is Kyverno's: with one such condition all of them are left out of the \
                 webhook, and every matching object depends on Kyverno"
            );
            let fix = "keep conditions in Kubernetes' own CEL, and move this one to a validation";
            findings.add(
                Rule::Images,
                Severity::Warning,
                condition.expression.at,
                what,
                fix,
            );
        }
    }
    for image in &policy.kyverno.images {
        if let ImageReference::Glob(glob) = image
            && matches!(glob.value.as_str(), "*" | "*/*" | "**")
            && policy.kyverno.image_checks.required != Some(false)
        {
            let what = "every image is matched: those that nobody signed are refused too";
            let fix = "name the images that are to be signed, or set `required: false`";
            findings.add(Rule::Images, Severity::Note, glob.at, what, fix);
        }
    }
    if policy.kyverno.attestors.is_empty() {
        let at = policy.name.at;
        if trees.all().any(verifies) {
            let what = "no attestor: there is nobody whose signature would be verified";
            findings.add(Rule::Images, Severity::Error, at, what, "name who signs");
        } else {
            let what = "no signature is verified: there is no attestor, and no rule asks for one";
            let fix = "name who signs, if signatures are meant to be verified";
            findings.add(Rule::Images, Severity::Note, at, what, fix);
        }
    }
}

/// Whether an expression asks for a signature.
fn verifies(tree: &Tree) -> bool {
    let here = match &tree.kind {
        Kind::Name(name) => name == "attestors",
        Kind::Call { function, .. } => function.starts_with("verify"),
        _ => false,
    };
    here || tree.children().into_iter().any(verifies)
}

/// A name that the API server's conditions do not have.
fn foreign(tree: &Tree) -> Option<&str> {
    let here = match &tree.kind {
        Kind::Name(name)
            if matches!(name.as_str(), "images" | "attestors" | "resource" | "http") =>
        {
            Some(name.as_str())
        }
        Kind::Call { function, .. }
            if matches!(
                function.as_str(),
                "verifyImageSignatures" | "image" | "GetMetadata"
            ) =>
        {
            Some(function.as_str())
        }
        _ => None,
    };
    here.or_else(|| tree.children().into_iter().find_map(foreign))
}

fn judge_attestor(attestor: &Attestor, findings: &mut Findings<'_>) {
    let Some(cosign) = attestor.node.get("cosign") else {
        return;
    };
    for key in ["insecureIgnoreTlog", "insecureIgnoreSCT"] {
        let Some(flag) = cosign.at_path(&["ctlog", key]) else {
            continue;
        };
        if flag.bool() == Some(true) {
            let what = format!("`{key}` leaves a check of the signature's log out");
            findings.add(Rule::Images, Severity::Warning, flag.at, what, "remove it");
        }
    }
    if let Some(log) = cosign.get("ctlog")
        && log.get("url").is_none()
        && log.get("insecureIgnoreTlog").and_then(Node::bool) != Some(true)
    {
        let what = "ctlog without `url`: verification fails, and with it every image";
        findings.add(
            Rule::Images,
            Severity::Error,
            log.at,
            what,
            "write Rekor's address",
        );
    }
    let identities = cosign
        .at_path(&["keyless", "identities"])
        .map_or(&[][..], Node::items);
    for identity in identities {
        for key in ["subject", "issuer"] {
            if let Some(text) = identity.get(key).and_then(Node::text)
                && text.value.contains('*')
            {
                let what = format!("`{key}` is compared exactly: `*` stands for itself");
                let fix = format!("write the whole {key}, or `{key}RegExp`, anchored");
                findings.add(Rule::Images, Severity::Error, text.at, what, fix);
            }
        }
        for key in ["subjectRegExp", "issuerRegExp"] {
            if let Some(text) = identity.get(key).and_then(Node::text) {
                pattern(&text.value, text.at, findings);
            }
        }
        if identity.get("issuer").is_none() && identity.get("issuerRegExp").is_none() {
            let what = "an identity without an issuer: anybody's issuer may vouch for the subject";
            findings.add(
                Rule::Images,
                Severity::Warning,
                identity.at,
                what,
                "name the issuer",
            );
        }
    }
}

fn pattern(pattern: &str, at: Position, findings: &mut Findings<'_>) {
    if matches!(pattern, ".*" | "^.*$") {
        let what = "the pattern fits anybody";
        findings.add(Rule::Images, Severity::Warning, at, what, "name who signs");
    } else if let Some((what, fix)) = loose(pattern) {
        findings.add(Rule::Images, Severity::Warning, at, what, fix);
    }
}
