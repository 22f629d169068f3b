//! What reaches a policy; and L3 and L5: what never does, and what should not.

use super::expressions::Trees;
use super::facts::Case;
use super::paths::{Path, Root, Step};
use super::{Findings, Rule, Severity, Together, required, subresources::subresources};
use crate::model::{MatchConstraints, Policy, ResourceRule};
use crate::source::Spanned;
use std::collections::BTreeSet;

const OPERATIONS: [&str; 4] = ["CREATE", "UPDATE", "DELETE", "CONNECT"];

/// Subresources whose objects have no labels of their own that anybody sets.
const UNLABELLED: [&str; 8] = [
    "exec",
    "attach",
    "portforward",
    "proxy",
    "eviction",
    "binding",
    "token",
    "log",
];

/// Whether the policy is not about requests to Kubernetes at all: about JSON, HTTP or Envoy.
pub(super) fn is_about_others(policy: &Policy) -> bool {
    policy
        .kyverno
        .mode
        .as_ref()
        .is_some_and(|mode| !mode.value.eq_ignore_ascii_case("kubernetes"))
}

/// More are one: of resources that nothing is known of it does not matter which they are.
const MAX_UNKNOWN: usize = 100;

/// The kinds of request that reach the policy.
pub(super) fn cases(policy: &Policy) -> Vec<Case> {
    let mut cases = BTreeSet::new();
    for rule in policy
        .match_constraints
        .iter()
        .flat_map(|all| &all.resource_rules)
    {
        let names: BTreeSet<&str> = rule.resources.iter().map(|r| r.value.as_str()).collect();
        for operation in operations(rule) {
            for name in &names {
                cases.extend(of_resource(name, rule, operation));
            }
        }
    }
    if cases.is_empty() {
        cases.extend(["CREATE", "UPDATE"].map(|operation| unknown("?", "", operation)));
    }
    let not_known = |case: &Case| case.kind == "?";
    if cases.iter().filter(|case| not_known(case)).count() > MAX_UNKNOWN {
        let one = |case: Case| match not_known(&case) {
            true => unknown("?", "", &case.operation),
            false => case,
        };
        cases = cases.into_iter().map(one).collect();
    }
    cases.into_iter().collect()
}

pub(super) fn operations(rule: &ResourceRule) -> Vec<&'static str> {
    let named = |operation: &str| rule.operations.iter().any(|o| o.value == operation);
    OPERATIONS
        .into_iter()
        .filter(|o| named("*") || named(o))
        .collect()
}

fn unknown(resource: &str, sub_resource: &str, operation: &str) -> Case {
    Case {
        operation: operation.to_owned(),
        kind: "?".to_owned(),
        resource: resource.to_owned(),
        sub_resource: sub_resource.to_owned(),
    }
}

fn of_resource(name: &str, rule: &ResourceRule, operation: &str) -> Vec<Case> {
    let (wanted, sub) = name.split_once('/').unwrap_or((name, ""));
    let group_fits = |group: &str| {
        rule.api_groups
            .iter()
            .any(|g| g.value == "*" || g.value == group)
    };
    let mut cases: Vec<Case> = required::KINDS
        .iter()
        .filter(|known| {
            let (resource, under) = known
                .resource
                .split_once('/')
                .unwrap_or((known.resource, ""));
            (wanted == "*" || wanted == resource)
                && (sub == "*" || sub == under)
                && group_fits(known.group)
                && connects(under) == (operation == "CONNECT")
                && (under != "eviction" || operation == "CREATE")
        })
        .map(|known| {
            let (resource, under) = known
                .resource
                .split_once('/')
                .unwrap_or((known.resource, ""));
            Case {
                operation: operation.to_owned(),
                kind: known.kind.to_owned(),
                resource: resource.to_owned(),
                sub_resource: under.to_owned(),
            }
        })
        .collect();
    let known = wanted == "*" && rule.api_groups.iter().all(|g| required::is_whole(&g.value));
    if wanted == "*" && !known || wanted != "*" && required::resource(name).is_none() {
        cases.push(unknown(wanted, sub, operation));
    }
    cases
}

/// Whether a field is there in every request about a resource, once its parent is: for who
/// enumerates requests (P-4). Of a kind that is not in the table, what every object has.
pub(crate) fn always_there(
    operation: &str,
    resource: &str,
    sub_resource: &str,
    root: &str,
    pattern: &str,
) -> bool {
    let name = match sub_resource {
        "" => resource.to_owned(),
        sub => format!("{resource}/{sub}"),
    };
    let case = Case {
        operation: operation.to_owned(),
        kind: required::resource(&name)
            .map_or("?", |known| known.kind)
            .to_owned(),
        resource: resource.to_owned(),
        sub_resource: sub_resource.to_owned(),
    };
    let root = match root {
        "object" => Root::Object,
        "oldObject" => Root::OldObject,
        "namespaceObject" => Root::Namespace,
        _ => Root::Request,
    };
    let steps = vec![Step::Field(pattern.to_owned())];
    required::always(&case, &Path { root, steps })
}

fn connects(sub: &str) -> bool {
    matches!(sub, "exec" | "attach" | "portforward" | "proxy")
}

pub(super) fn judge(
    policy: &Policy,
    trees: &Trees<'_>,
    together: &Together<'_>,
    findings: &mut Findings<'_>,
) {
    let Some(constraints) = &policy.match_constraints else {
        return;
    };
    if is_about_others(policy) {
        return;
    }
    selectors(constraints, findings);
    for rule in &constraints.resource_rules {
        never_matches(rule, findings);
    }
    selects_itself(policy, findings);
    scope(policy, constraints, findings);
    subresources(policy, trees, together, findings);
}

/// L3: an objectSelector on what has no labels.
fn selectors(constraints: &MatchConstraints, findings: &mut Findings<'_>) {
    let Some(selector) = constraints
        .object_selector
        .as_ref()
        .filter(|s| !s.is_empty())
    else {
        return;
    };
    let all = constraints
        .resource_rules
        .iter()
        .flat_map(|rule| &rule.resources);
    for resource in all {
        let Some((_, sub)) = resource.value.split_once('/') else {
            continue;
        };
        if !UNLABELLED.contains(&sub) {
            continue;
        }
        let what = format!(
            "objectSelector looks at the labels of the request's own object, and that of `{}` has \
             none: the policy never speaks about it",
            resource.value
        );
        let fix = "drop objectSelector and decide in a condition: by user, name or namespace";
        findings.add(
            Rule::NeverMatches,
            Severity::Error,
            selector.0.at,
            what,
            fix,
        );
    }
}

/// L3: rules that name what there is not.
fn never_matches(rule: &ResourceRule, findings: &mut Findings<'_>) {
    let only = operations(rule);
    for resource in &rule.resources {
        let (base, sub) = resource
            .value
            .split_once('/')
            .unwrap_or((&resource.value, ""));
        let bare = base != "*" && sub.is_empty();
        if only == ["CONNECT"] && bare {
            let what = format!("`{base}` is never asked for with CONNECT; its subresources are");
            let fix = format!("name them: `{base}/exec`, `{base}/attach`, `{base}/portforward`");
            findings.add(Rule::NeverMatches, Severity::Error, resource.at, what, fix);
        } else if connects(sub) && !only.is_empty() && !only.contains(&"CONNECT") {
            let what = format!("`{}` is asked for with CONNECT alone", resource.value);
            findings.add(
                Rule::NeverMatches,
                Severity::Error,
                resource.at,
                what,
                "add CONNECT to the operations",
            );
        } else if sub == "eviction" && !only.is_empty() && !only.contains(&"CREATE") {
            let what = format!("`{}` is asked for with CREATE alone", resource.value);
            let fix = "add CREATE to the operations";
            findings.add(Rule::NeverMatches, Severity::Error, resource.at, what, fix);
        } else if base != base.to_lowercase() {
            let what = format!("`{base}` is no resource: resources are plural and lower case");
            let fix = "write it as in the address of the API, such as `deployments`";
            findings.add(Rule::NeverMatches, Severity::Error, resource.at, what, fix);
        } else if let Some(known) = required::resource(&resource.value)
            && !rule.api_groups.is_empty()
            && !rule
                .api_groups
                .iter()
                .any(|g| g.value == "*" || g.value == known.group)
            && !shares_its_name(base)
        {
            let what = format!("`{}` is in the API group `{}`", resource.value, known.group);
            let fix = format!("name `{}` among the apiGroups", known.group);
            findings.add(
                Rule::NeverMatches,
                Severity::Warning,
                resource.at,
                what,
                fix,
            );
        }
    }
    if rule
        .operations
        .iter()
        .any(|o| !OPERATIONS.contains(&&*o.value) && o.value != "*")
    {
        let what = "an operation is CREATE, UPDATE, DELETE, CONNECT or `*`";
        findings.add(
            Rule::NeverMatches,
            Severity::Error,
            rule.at,
            what,
            "correct the operations",
        );
    }
}

/// Resources of these names are in several groups.
fn shares_its_name(resource: &str) -> bool {
    matches!(
        resource,
        "ingresses" | "services" | "deployments" | "pods" | "nodes" | "events"
    ) || resource == "networkpolicies"
}

/// L5: a policy that can stop everything.
fn scope(policy: &Policy, constraints: &MatchConstraints, findings: &mut Findings<'_>) {
    let selected = [
        &constraints.namespace_selector,
        &constraints.object_selector,
    ];
    let fails = policy
        .failure_policy
        .as_ref()
        .is_none_or(|fail| fail.value == "Fail");
    if !fails
        || !policy.match_conditions.is_empty()
        || selected
            .iter()
            .any(|s| s.as_ref().is_some_and(|selector| !selector.is_empty()))
    {
        return;
    }
    let all = |texts: &[Spanned<String>]| texts.iter().any(|t| matches!(&*t.value, "*" | "*/*"));
    for rule in &constraints.resource_rules {
        if all(&rule.api_groups) && all(&rule.resources) && rule.resource_names.is_empty() {
            let what = "the policy fails closed for every resource of every group, with nothing \
                        that narrows it: an error in it stops the cluster";
            let fix = "name the resources, or narrow it with matchConditions or a selector";
            findings.add(Rule::Scope, Severity::Warning, rule.at, what, fix);
        }
    }
}

/// L5: a rule that is a match condition too.
fn selects_itself(policy: &Policy, findings: &mut Findings<'_>) {
    let conditions: Vec<&str> = policy
        .match_conditions
        .iter()
        .map(|c| c.expression.value.trim())
        .collect();
    for validation in &policy.validations {
        if conditions.contains(&validation.expression.value.trim()) {
            let what = "the rule is a match condition too: what breaks it is not looked at";
            let fix = "scope by who asks, and keep what is enforced out of matchConditions";
            findings.add(
                Rule::Scope,
                Severity::Error,
                validation.expression.at,
                what,
                fix,
            );
        }
    }
}

/// Whether a rule's resource matches `resource/sub`.
pub(super) fn covers(rule: &str, resource: &str) -> bool {
    let (base, sub) = resource.split_once('/').unwrap_or((resource, ""));
    match rule.split_once('/') {
        Some((of, under)) => (of == "*" || of == base) && (under == "*" || under == sub),
        None => rule == resource,
    }
}
