//! Each rule on what it is for, on what it must let pass, and on public reports.

use super::*;
use crate::model::Policy;

mod dialect;
mod formats;
mod public;

/// A ValidatingAdmissionPolicy with its binding.
fn policy(rule: &str, condition: &str, expression: &str) -> String {
    let condition = match condition {
        "" => String::new(),
        text => format!("  matchConditions:\n  - name: c\n    expression: |-\n      {text}\n"),
    };
    format!(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\n\
         metadata: {{name: p}}\nspec:\n  failurePolicy: Fail\n  matchConstraints:\n    \
         resourceRules:\n    - {rule}\n{condition}  validations:\n  - expression: |-\n      \
         {expression}\n---\napiVersion: admissionregistration.k8s.io/v1\n\
         kind: ValidatingAdmissionPolicyBinding\nmetadata: {{name: b}}\n\
         spec: {{policyName: p, validationActions: [Deny]}}\n"
    )
}

fn rule(group: &str, resources: &str, operations: &str) -> String {
    format!(
        "{{apiGroups: [\"{group}\"], apiVersions: [v1], resources: [{resources}], \
         operations: [{operations}]}}"
    )
}

fn report(text: &str) -> Report {
    let documents = Policy::parse_all("f.yaml", text.as_bytes());
    lint(
        &[("f.yaml".to_owned(), documents)],
        KubernetesVersion::new(34).unwrap(),
    )
}

#[test]
fn each_judged_file_is_told() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let files: Vec<Read> = ["a.yaml", "b.yaml"]
        .map(|name| {
            (
                name.to_owned(),
                Policy::parse_all(name, b"kind: Pod\napiVersion: v1"),
            )
        })
        .to_vec();
    let judged = AtomicUsize::new(0);
    let count = || {
        judged.fetch_add(1, Ordering::Relaxed);
    };
    let report = lint_telling(&files, KubernetesVersion::NEWEST, &count);
    assert_eq!((report.passed_over, judged.into_inner()), (2, 2));
}

fn ids(text: &str) -> Vec<&'static str> {
    let report = report(text);
    assert_eq!(report.unread, [], "{text}");
    report
        .findings
        .iter()
        .map(|finding| finding.rule.id())
        .collect()
}

/// What is found in an expression on ConfigMaps, created and updated.
fn of_config_map(expression: &str) -> Vec<&'static str> {
    ids(&policy(
        &rule("", "configmaps", "CREATE, UPDATE"),
        "",
        expression,
    ))
}

#[test]
fn what_is_guarded_in_any_of_cels_ways_is_not_reported() {
    for expression in [
        "object.metadata.name == 'x'",
        "has(object.data) && has(object.data.k) && object.data.k == 'v'",
        "object.data.k == 'v' && has(object.data.k) && has(object.data)",
        "!has(object.data) || !('k' in object.data) || object.data['k'] == 'v'",
        "!(has(object.data) && 'k' in object.data) || object.data.k == 'v'",
        "has(object.data) ? object.data.all(k, object.data[k] != '') : true",
        "!has(object.data) ? true : size(object.data) > 0",
        "object.?data.?k.orValue('') == 'v'",
        "object.data[?'k'].orValue('') == 'v' || !has(object.data)",
        "has(object.data) && object.data.exists(k, k == 'a') && object.data['a'] == 'x'",
        "object.?metadata.labels[?'a'].hasValue() && object.metadata.labels['a'] == 'x'",
        "object.metadata.?labels['a'].orValue('') == '' || object.metadata.labels['a'] == 'x'",
        "object.?data.orValue({}).all(k, object.data[k] == 'x')",
        "(has(object.data) ? object.data : {}).all(k, object.data[k] == 'x')",
        "has(object.metadata.ownerReferences) && \
         object.metadata.ownerReferences.all(o, o.kind == 'x')",
        "has(object.metadata.ownerReferences) && object.metadata.ownerReferences\
         .filter(o, has(o.controller)).all(o, o.controller)",
        "has(object.metadata.ownerReferences) && object.metadata.ownerReferences\
         .exists(o, has(o.controller) && o.controller)",
        "has(object.metadata.ownerReferences) && size(object.metadata.ownerReferences) > 0 && \
         object.metadata.ownerReferences[0].kind == 'x'",
        "oldObject == null || (has(oldObject.data) && size(oldObject.data) > 0)",
        "request.operation != 'UPDATE' || oldObject.metadata.name == 'x'",
        "request.operation == 'CREATE' || oldObject.metadata.name == 'x'",
        "request.operation in ['UPDATE'] ? oldObject.metadata.name == 'x' : true",
        "has(oldObject.data) && has(object.data)",
        "object.kind == 'Pod' ? object.spec.containers.size() > 0 : true",
    ] {
        assert_eq!(of_config_map(expression), [""; 0], "{expression}");
    }
}

#[test]
fn what_may_be_absent_or_null_is_reported() {
    for (expression, expected) in [
        ("object.data.k == 'v'", &["L1"][..]),
        ("has(object.data) && object.data.k == 'v'", &["L1"]),
        ("has(object.data.k)", &["L1"]),
        ("has(object.data.k) && has(object.data.l)", &["L1"]),
        ("object.data.k == 'v' || has(object.data)", &["L1"]),
        ("has(object.data) || size(object.data) == 0", &["L1"]),
        ("'k' in object.data", &["L1"]),
        ("object.metadata.labels['a'] == 'x'", &["L1"]),
        ("!has(object.data) && size(object.data) > 0", &["L1"]),
        (
            "object.metadata.?labels['a'].orValue('') != '' || object.metadata.labels['a'] == ''",
            &["L1"],
        ),
        (
            "object.?data.orValue({'a': 'b'}).all(k, object.data[k] == 'x')",
            &["L1"],
        ),
        (
            "(object.?data.orValue([]) + ['a']).all(k, object.data[k] == 'x')",
            &["L1"],
        ),
        (
            "has(object.metadata.ownerReferences) && \
          object.metadata.ownerReferences.all(o, o.controller)",
            &["L1"],
        ),
        (
            "has(object.metadata.ownerReferences) && object.metadata.ownerReferences\
          .exists(o, has(o.controller)) && object.metadata.ownerReferences\
          .all(o, o.controller)",
            &["L1"],
        ),
        ("oldObject.metadata.name == 'x'", &["L2"]),
        (
            "request.operation != 'CREATE' || oldObject.metadata.name == 'x'",
            &["L2"],
        ),
        ("object.data.k == 'v' && object.data.l == 'w'", &["L1"]),
    ] {
        assert_eq!(of_config_map(expression), expected, "{expression}");
    }
}

#[test]
fn a_finding_stands_where_the_read_stands() {
    let text = policy(
        &rule("", "configmaps", "CREATE"),
        "",
        "true &&\n      object.data.k == 'v'",
    );
    let report = report(&text);
    let [finding] = &report.findings[..] else {
        panic!("{report:?}")
    };
    let line = text.lines().nth(finding.line as usize - 1).unwrap();
    let rest: String = line.chars().skip(finding.column as usize - 1).collect();
    assert!(rest.starts_with(".data.k"), "{rest}");
    assert_eq!(
        finding.what,
        "`object.data` may be absent (CREATE of ConfigMap)"
    );
    assert_eq!(report.exit_code(), 1);
}

#[test]
fn variables_are_judged_where_they_are_used() {
    let with = |expression: &str| {
        let text = policy(&rule("", "configmaps", "CREATE, UPDATE"), "", expression);
        ids(&text.replace(
            "  validations:",
            "  variables:\n  - {name: d, expression: object.data}\n  \
             - {name: has, expression: has(object.data)}\n  \
             - {name: o, expression: 'object.?data.orValue({})'}\n  validations:",
        ))
    };
    assert_eq!(with("true"), [""; 0]);
    assert_eq!(with("size(variables.d) > 0"), ["L1"]);
    assert_eq!(with("!has(object.data) || size(variables.d) > 0"), [""; 0]);
    assert_eq!(with("!variables.has || size(variables.d) > 0"), [""; 0]);
    assert_eq!(with("size(variables.o) > 0"), [""; 0]);
    // As for `object.data.k`: the first step that may be absent is the finding.
    assert_eq!(with("variables.d.k == 'v'"), ["L1"]);
    assert_eq!(with("!has(object.data) || variables.d.k == 'v'"), ["L1"]);
    assert_eq!(with("variables.o.k == 'v'"), ["L1"]);
}

#[test]
fn conditions_guard_rules_and_each_other() {
    let with = |condition: &str| {
        let rule = rule("", "configmaps", "CREATE");
        ids(&policy(&rule, condition, "size(object.data) > 0"))
    };
    assert_eq!(with("has(object.data)"), [""; 0]);
    assert_eq!(with("object.metadata.name == 'x'"), ["L1"]);
}

/// Findings in a policy on pods, without the hints at ways around it.
fn on(resources: &str, operations: &str, condition: &str, expression: &str) -> Vec<&'static str> {
    ids(&policy(
        &rule("", resources, operations),
        condition,
        expression,
    ))
}

#[test]
fn qk1_labels_that_are_absent_are_found() {
    let bindings = rule("rbac.authorization.k8s.io", "rolebindings", "CREATE");
    let text = policy(&bindings, "", "object.metadata.labels['a.b/c'] == 'x'");
    assert_eq!(ids(&text), ["L1"]);
    let guarded = "has(object.metadata.labels) && 'a.b/c' in object.metadata.labels && \
                   object.metadata.labels['a.b/c'] == 'x'";
    assert_eq!(ids(&policy(&bindings, "", guarded)), [""; 0]);
}

#[test]
fn qk2_volumes_that_are_absent_are_found() {
    let rule = rule("apps", "deployments", "CREATE, UPDATE");
    let unguarded = "object.spec.template.spec.volumes.all(v, !has(v.hostPath))";
    assert_eq!(ids(&policy(&rule, "", unguarded)), ["L1"]);
    let guarded = format!("!has(object.spec.template.spec.volumes) || {unguarded}");
    assert_eq!(ids(&policy(&rule, "", &guarded)), [""; 0]);
    let all = "!has(object.spec.selector.matchExpressions) || \
               object.spec.selector.matchExpressions.all(e, e.key != '' && e.operator != '')";
    assert_eq!(ids(&policy(&rule, "", all)), [""; 0]);
    let values = all.replace("e.key", "e.values[0]");
    assert_eq!(ids(&policy(&rule, "", &values)), ["L1"]);
}

#[test]
fn qk4_has_of_a_map_key_is_refused_and_the_index_found() {
    assert_eq!(of_config_map("has(object.metadata.labels['k'])"), ["L10"]);
    assert_eq!(of_config_map("object.metadata.labels['k'] == 'x'"), ["L1"]);
}

#[test]
fn qk7_the_namespace_in_match_conditions_is_found() {
    let found = on(
        "configmaps",
        "CREATE",
        "namespaceObject.metadata.name == 'x'",
        "true",
    );
    assert_eq!(found, ["L4"]);
}

#[test]
fn qk25_and_qk38_object_on_delete_is_found() {
    assert_eq!(
        on("configmaps", "DELETE", "", "object.metadata.name == 'x'"),
        ["L2"]
    );
    assert_eq!(
        on("configmaps", "DELETE", "", "oldObject.metadata.name == 'x'"),
        [""; 0]
    );
    let both = "request.operation == 'DELETE' || object.metadata.name == 'x'";
    assert_eq!(on("configmaps", "DELETE, UPDATE", "", both), [""; 0]);
}

#[test]
fn qk37_a_name_that_a_collections_deletion_lacks_is_found() {
    assert_eq!(
        on("configmaps", "DELETE", "", "request.name == 'x'"),
        ["L1"]
    );
    assert_eq!(
        on("configmaps", "UPDATE", "", "request.name == 'x'"),
        [""; 0]
    );
}

#[test]
fn qk40_and_qk17_ways_around_a_pod_policy_are_found() {
    assert_eq!(
        on("pods", "DELETE", "", "oldObject.metadata.name != 'x'"),
        ["L8"]
    );
    let images = "object.spec.containers.all(c, c.image.startsWith('x'))";
    assert_eq!(on("pods", "CREATE", "", images), ["L8"]);
}

#[test]
fn qk41_an_object_selector_on_an_eviction_is_found() {
    let text = policy(&rule("", "pods/eviction", "CREATE"), "", "true").replace(
        "    resourceRules:",
        "    objectSelector: {matchLabels: {a: b}}\n    resourceRules:",
    );
    assert_eq!(ids(&text), ["L3"]);
}

#[test]
fn qk47_and_qp17_ephemeral_containers_without_their_subresource_are_an_error() {
    let expression = "!has(object.spec.ephemeralContainers)";
    let report = report(&policy(&rule("", "pods", "CREATE, UPDATE"), "", expression));
    let found: Vec<_> = report
        .findings
        .iter()
        .map(|f| (f.rule, f.severity))
        .collect();
    assert_eq!(found, [(Rule::Subresources, Severity::Error)]);
    let both = "pods, pods/ephemeralcontainers";
    assert_eq!(on(both, "CREATE, UPDATE", "", expression), [""; 0]);
}

#[test]
fn qp9_and_qp11_an_exec_rule_without_connect_is_found() {
    assert_eq!(on("pods/exec", "CREATE", "", "false"), ["L3"]);
    assert_eq!(on("pods", "CONNECT", "", "false"), ["L3"]);
    assert_eq!(on("pods/exec", "CONNECT", "", "false"), [""; 0]);
}

#[test]
fn optionals_and_dialects_are_found() {
    assert_eq!(
        of_config_map("object.metadata.name.orValue('') == ''"),
        ["L7"]
    );
    assert_eq!(of_config_map("cel.bind(x, 1, x == 1)"), ["L10"]);
    assert_eq!(of_config_map("object.metadata.name.matches('a')"), ["L10"]);
    assert_eq!(
        of_config_map("object.metadata.name.matches('^a$')"),
        [""; 0]
    );
    assert_eq!(of_config_map("object.metadata.name =="), ["L10"]);
    assert_eq!(of_config_map("params.x == 1"), ["L9"]);
}

fn kyverno(kind: &str, spec: &str) -> Vec<&'static str> {
    ids(&format!(
        "apiVersion: policies.kyverno.io/v1\nkind: {kind}\nmetadata: {{name: p}}\n{spec}"
    ))
}

#[test]
fn qk10_and_qk11_kyvernos_traps_are_found() {
    let on = |rest: &str| {
        kyverno(
            "ValidatingPolicy",
            &format!(
                "spec:\n  matchConstraints:\n    resourceRules:\n    - {}\n{rest}",
                rule("", "pods", "CREATE")
            ),
        )
    };
    assert_eq!(on("  validations: [{expression: 'true'}]"), ["L6"]);
    let deny = "  validationActions: [Deny]\n  validations: [{expression: 'true'}]\n";
    assert_eq!(on(deny), [""; 0]);
    let vap = "  autogen: {validatingAdmissionPolicy: {enabled: true}}\n";
    assert_eq!(on(&format!("{deny}{vap}")), ["L12"]);
}

#[test]
fn qk19_image_policies_that_verify_less_are_found() {
    let with = |attestor: &str| {
        kyverno(
            "ImageValidatingPolicy",
            &format!(
                "spec:\n  validationActions: [Deny]\n  attestors:\n  - name: a\n    cosign: \
                 {attestor}\n  validations: [{{expression: 'true'}}]"
            ),
        )
    };
    assert_eq!(with("{ctlog: {insecureIgnoreSCT: true, url: u}}"), ["L11"]);
    assert_eq!(with("{ctlog: {rekorPubKey: k}}"), ["L11"]);
    assert_eq!(
        with("{keyless: {identities: [{issuer: i, subject: 'a/*'}]}}"),
        ["L11"]
    );
    assert_eq!(
        with("{keyless: {identities: [{issuer: i, subjectRegExp: 'a'}]}}"),
        ["L11"]
    );
    assert_eq!(
        with("{keyless: {identities: [{issuer: i, subject: s}]}}"),
        [""; 0]
    );
}

#[test]
fn qk23_and_qp5_an_exception_that_names_a_policy_of_ours_is_an_error() {
    let text = "apiVersion: policies.kyverno.io/v1\nkind: PolicyException\nmetadata: {name: e}\n\
                spec: {policyRefs: [{name: tower-breakglass-pod-delete, kind: ValidatingPolicy}]}";
    assert_eq!(report(text).findings[0].severity, Severity::Error);
}

#[test]
fn scope_and_enforcement_are_found() {
    let all = "{apiGroups: ['*'], apiVersions: ['*'], resources: ['*'], operations: [CREATE]}";
    assert_eq!(ids(&policy(all, "", "true")), ["L5"]);
    assert_eq!(
        ids(&policy(all, "request.userInfo.username == 'x'", "true")),
        [""; 0]
    );
    let configmaps = rule("", "configmaps", "CREATE");
    let enforced = "object.metadata.name == 'x'";
    assert_eq!(ids(&policy(&configmaps, enforced, enforced)), ["L5"]);
    let text = policy(&configmaps, "", "true");
    assert_eq!(ids(&text.replace("[Deny]", "[Deny, Warn]")), ["L6"]);
    assert_eq!(ids(text.split("---").next().unwrap()), ["L6"]);
    assert_eq!(ids(&text.replace("Fail", "Ignore")), ["L6"]);
}

#[test]
fn a_file_that_cannot_be_read_is_said_beside_the_others() {
    let good = policy(&rule("", "configmaps", "CREATE"), "", "true");
    let files = [("a.yaml", "a: [".to_owned()), ("b.yaml", good)]
        .map(|(name, text)| (name.to_owned(), Policy::parse_all(name, text.as_bytes())));
    let report = lint(&files, KubernetesVersion::new(34).unwrap());
    assert_eq!(
        (report.unread.len(), report.policies, report.exit_code()),
        (1, 1, 2)
    );
}

#[test]
fn expressions_of_any_size_are_judged_or_said_not_to_be() {
    let long = vec!["has(object.data.k)"; 3_000].join(" && ");
    let deep = format!("{}true{}", "(".repeat(40), ")".repeat(40));
    let chain = (0..900).fold("true".to_owned(), |all, i| {
        format!("has(object.data) && {all} || {i} > 1")
    });
    for expression in [long, deep, chain] {
        let _ = of_config_map(&expression);
    }
}
