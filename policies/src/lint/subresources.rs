//! L8: ways around a policy through subresources of a pod.

use super::expressions::Trees;
use super::resources::{covers, operations};
use super::{Findings, Rule, Severity, Together};
use crate::cel::ast::{Kind, Node};
use crate::cel::parse;
use crate::model::{Policy, PolicyKind};
use std::collections::BTreeSet;

/// Where an ephemeral container is added.
const ADDED: &str = "pods/ephemeralcontainers";
const LISTS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];
/// What the API refuses in an ephemeral container.
const NEVER: [&str; 7] = [
    "lifecycle",
    "livenessProbe",
    "ports",
    "readinessProbe",
    "resizePolicy",
    "resources",
    "startupProbe",
];
/// What else there is to judge in a container.
const OTHERWISE: [&str; 11] = [
    "args",
    "command",
    "env",
    "envFrom",
    "image",
    "imagePullPolicy",
    "securityContext",
    "stdin",
    "tty",
    "volumeDevices",
    "volumeMounts",
];

pub(super) fn subresources(
    policy: &Policy,
    trees: &Trees<'_>,
    together: &Together<'_>,
    findings: &mut Findings<'_>,
) {
    if policy.kind == PolicyKind::WebhookConfiguration {
        return;
    }
    let rule_for = |operation: &str| {
        let rules = policy
            .match_constraints
            .iter()
            .flat_map(|all| &all.resource_rules);
        rules
            .filter(|rule| operations(rule).contains(&operation))
            .find_map(|rule| rule.resources.iter().find(|r| r.value == "pods"))
    };
    if let Some(pods) = ["CREATE", "UPDATE"].into_iter().find_map(rule_for)
        && !matches(policy, ADDED, "UPDATE")
    {
        let mut fields = BTreeSet::new();
        trees.all().for_each(|tree| selected(tree, &mut fields));
        let fix = "add `pods/ephemeralcontainers` with UPDATE, and judge spec.ephemeralContainers";
        if fields.contains("ephemeralContainers") {
            let what = "ephemeral containers are judged, but they come by \
                        `pods/ephemeralcontainers` alone, which is not matched";
            findings.add(Rule::Subresources, Severity::Error, pods.at, what, fix);
        } else if fields.contains("containers")
            && may_be_ephemeral(&fields)
            && !judged_elsewhere(fields, together)
        {
            let what = "containers are judged, but ephemeral ones, added by \
                        `pods/ephemeralcontainers`, are not";
            findings.add(Rule::Subresources, Severity::Warning, pods.at, what, fix);
        }
    }
    if let Some(pods) = rule_for("DELETE")
        && !matches(policy, "pods/eviction", "CREATE")
    {
        let what = "an eviction deletes a pod without a DELETE that admission sees";
        let fix = "add `pods/eviction` with CREATE";
        findings.add(Rule::Subresources, Severity::Warning, pods.at, what, fix);
    }
}

/// What a policy for ephemeral containers asks; nothing of any other policy.
pub(super) fn of_ephemeral(policy: &Policy) -> Option<BTreeSet<String>> {
    if !matches(policy, ADDED, "UPDATE") {
        return None;
    }
    let mut fields = BTreeSet::new();
    for (_, text) in policy.expressions() {
        if let Ok(tree) = parse(&text.value) {
            selected(&tree, &mut fields);
        }
    }
    let judges = fields.contains("ephemeralContainers");
    fields.retain(|field| !LISTS.contains(&field.as_str()));
    judges.then_some(fields)
}

/// Whether something that is judged can be said of an ephemeral container at all.
fn may_be_ephemeral(fields: &BTreeSet<String>) -> bool {
    let reads = |names: &[&str]| names.iter().any(|name| fields.contains(*name));
    !reads(&NEVER) || reads(&OTHERWISE)
}

/// Whether another policy of the files asks just that of ephemeral containers.
fn judged_elsewhere(mut fields: BTreeSet<String>, together: &Together<'_>) -> bool {
    fields.retain(|field| !LISTS.contains(&field.as_str()));
    let mut others = together.ephemeral.iter();
    !fields.is_empty() && others.any(|other| *other == fields)
}

fn matches(policy: &Policy, resource: &str, operation: &str) -> bool {
    let mut rules = policy
        .match_constraints
        .iter()
        .flat_map(|all| &all.resource_rules);
    rules.any(|rule| {
        operations(rule).contains(&operation)
            && rule.resources.iter().any(|r| covers(&r.value, resource))
    })
}

/// The fields that an expression reads, and in quotes the texts and numbers that stand in it: of
/// two policies that agree in both, one is the other's twin.
fn selected(node: &Node, fields: &mut BTreeSet<String>) {
    match &node.kind {
        Kind::Select { field, .. } | Kind::Has { field, .. } => {
            fields.insert(field.clone());
        }
        Kind::Literal(literal) => {
            fields.insert(format!("'{literal:?}'"));
        }
        _ => {}
    }
    for child in node.children() {
        selected(child, fields);
    }
}
