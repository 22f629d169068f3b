//! The API server's semantics, row by row. Each row is a request, a policy, and what comes of it.

use super::*;
use crate::model::Policy;
use serde_json::{Value, json};

mod authorizer;
mod dialect;
mod requests;

const HEAD: &str = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\n\
                    metadata: {name: p}\nspec:\n";
const PODS: &str = "  matchConstraints:\n    resourceRules:\n    - {apiGroups: [''], apiVersions: \
                    [v1], operations: ['*'], resources: [pods]}\n";

fn set(yaml: &str) -> PolicySet {
    let documents = Policy::parse_all("p.yaml", yaml.as_bytes()).unwrap();
    PolicySet::new(documents, KubernetesVersion::new(34).unwrap()).unwrap()
}

/// The policy with the pods' rule and this rest of its `spec`.
fn pods(rest: &str) -> PolicySet {
    set(&format!("{HEAD}{PODS}{rest}"))
}

fn pod() -> Value {
    json!({"object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web",
        "namespace": "shop", "labels": {"app": "web"}}, "spec": {"n": 1}},
        "userInfo": {"username": "alice"},
        "namespaceObject": {"metadata": {"name": "shop", "labels": {"hangar.io/app": "x"}}}})
}

fn with(mut request: Value, key: &str, value: Value) -> Value {
    request[key] = value;
    request
}

fn outcome(set: &PolicySet, request: &Value) -> Outcome {
    let request = Request::from_json(request).unwrap();
    let mut judgement = set.judge(&request, None);
    assert_eq!(judgement.verdicts.len(), 1);
    judgement.verdicts.remove(0).outcome
}

fn message(set: &PolicySet, request: &Value) -> String {
    match outcome(set, request) {
        Outcome::Denied(denial) => denial.message,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn check(rest: &str, expected: &Outcome) {
    assert_eq!(outcome(&pods(rest), &pod()), *expected, "{rest}");
}

fn denied(rule: Rule, message: &str) -> Outcome {
    Outcome::Denied(Denial {
        rule,
        message: message.to_owned(),
        reason: "Invalid".to_owned(),
        error: false,
    })
}

fn failed(rule: Rule, message: &str) -> Outcome {
    Outcome::Denied(Denial {
        rule,
        message: message.to_owned(),
        reason: "Invalid".to_owned(),
        error: true,
    })
}

#[test]
fn a_rule_that_does_not_hold_refuses_with_its_message() {
    let zero = || Rule::Validation(0);
    check("  validations: [{expression: 'true'}]", &Outcome::Allowed);
    check(
        "  validations: [{expression: 'true'}, {expression: ' 1 > 2 '}]",
        &denied(Rule::Validation(1), "failed expression: 1 > 2"),
    );
    check(
        "  validations: [{expression: 'false', message: ' not so '}]",
        &denied(zero(), "not so"),
    );
    check(
        "  validations: [{expression: 'false', message: not so, messageExpression: \"'by ' + \
         request.userInfo.username\"}]",
        &denied(zero(), "by alice"),
    );
    for bad in [
        "object.spec.nope",
        "'a\\\\nb'",
        "1",
        "''",
        "authorizer.path('/').check('get').reason()",
    ] {
        check(
            &format!(
                "  validations: [{{expression: 'false', message: not so, messageExpression: \
                 \"{bad}\"}}]"
            ),
            &denied(zero(), "not so"),
        );
    }
    let long = "a".repeat(MAX + 1);
    check(
        &format!("  validations: [{{expression: 'false', messageExpression: \"'{long}'\"}}]"),
        &denied(zero(), "failed expression: false"),
    );
    let most = "a".repeat(MAX);
    check(
        &format!("  validations: [{{expression: 'false', messageExpression: \"'{most}'\"}}]"),
        &denied(zero(), &most),
    );
    check(
        "  validations: [{expression: '1'}]",
        &denied(zero(), "failed expression: 1"),
    );
    let Outcome::Denied(denial) = outcome(
        &pods("  validations: [{expression: 'false', reason: Forbidden}]"),
        &pod(),
    ) else {
        panic!("it is refused")
    };
    assert_eq!(denial.reason, "Forbidden");
}

const MAX: usize = 5 * 1024;

#[test]
fn an_error_is_what_the_failure_policy_makes_of_it() {
    let rule = || Rule::Validation(0);
    check(
        "  validations: [{expression: object.spec.nope}]",
        &failed(
            rule(),
            "expression 'object.spec.nope' resulted in error: no such key: nope",
        ),
    );
    check(
        "  failurePolicy: Ignore\n  validations: [{expression: object.spec.nope}]",
        &Outcome::Allowed,
    );
    check(
        "  failurePolicy: Ignore\n  validations: [{expression: object.spec.nope}, {expression: \
         'false'}]",
        &denied(Rule::Validation(1), "failed expression: false"),
    );
    check(
        "  variables: [{name: v, expression: object.spec.nope}]\n  validations: [{expression: \
         variables.v == 1}]",
        &failed(
            rule(),
            "expression 'variables.v == 1' resulted in error: composited variable \"v\" fails to \
             evaluate: no such key: nope",
        ),
    );
    check(
        "  variables: [{name: v, expression: object.spec.nope}]\n  validations: [{expression: \
         'true'}]",
        &Outcome::Allowed,
    );
    check(
        "  validations: [{expression: nobody}]",
        &failed(
            rule(),
            "compilation error: compilation failed: ERROR: <input>:1:1: undeclared reference to \
             `nobody`",
        ),
    );
}

#[test]
fn a_condition_that_is_false_decides_over_errors() {
    let conditions = |list: &str, rest: &str| {
        format!("  matchConditions: [{list}]\n{rest}  validations: [{{expression: 'false'}}]")
    };
    let bad = "{name: bad, expression: object.spec.nope}";
    let no = "{name: other, expression: \"request.userInfo.username == 'bob'\"}";
    let yes = "{name: good, expression: 'true'}";
    let skipped = |at| Outcome::Skipped(Rule::Condition(at, "other".to_owned()));
    check(&conditions(no, ""), &skipped(0));
    check(&conditions(&format!("{bad}, {no}"), ""), &skipped(1));
    check(&conditions(&format!("{no}, {bad}"), ""), &skipped(0));
    check(
        &conditions(yes, ""),
        &denied(Rule::Validation(0), "failed expression: false"),
    );
    let text = "expression 'object.spec.nope' resulted in error: no such key: nope";
    let rule = || Rule::Condition(1, "bad".to_owned());
    check(
        &conditions(&format!("{yes}, {bad}"), ""),
        &failed(rule(), text),
    );
    check(
        &conditions(
            &format!("{yes}, {bad}, {{name: b, expression: object.x}}"),
            "",
        ),
        &failed(
            rule(),
            &format!("[{text}, expression 'object.x' resulted in error: no such key: x]"),
        ),
    );
    check(
        &conditions(bad, "  failurePolicy: Ignore\n"),
        &Outcome::Allowed,
    );
}

#[test]
fn qk7_the_namespace_is_null_in_conditions_and_there_in_rules() {
    check(
        "  matchConditions: [{name: app, expression: \"'hangar.io/app' in \
         namespaceObject.metadata.labels\"}]\n  validations: [{expression: 'true'}]",
        &failed(
            Rule::Condition(0, "app".to_owned()),
            "expression ''hangar.io/app' in namespaceObject.metadata.labels' resulted in error: no \
             such key: metadata",
        ),
    );
    check(
        "  validations: [{expression: \"'hangar.io/app' in namespaceObject.metadata.labels\"}]",
        &Outcome::Allowed,
    );
    let reads = pods("  validations: [{expression: namespaceObject.metadata.name == 'shop'}]");
    let without = with(pod(), "namespaceObject", Value::Null);
    assert!(matches!(outcome(&reads, &without), Outcome::Undecided(_)));
}

fn rules(rules: &str) -> PolicySet {
    set(&format!(
        "{HEAD}  matchConstraints:\n{rules}  validations: [{{expression: 'false'}}]"
    ))
}

fn rule(group: &str, operation: &str, resource: &str) -> String {
    format!(
        "    resourceRules: [{{apiGroups: ['{group}'], apiVersions: ['*'], operations: \
         ['{operation}'], resources: ['{resource}']}}]\n"
    )
}

#[test]
fn resources_and_subresources_match_exactly() {
    let exec = json!({"object": {"apiVersion": "v1", "kind": "PodExecOptions"}, "operation":
        "CONNECT", "resource": {"group": "", "version": "v1", "resource": "pods"}, "subResource":
        "exec", "name": "web", "namespace": "shop"});
    for (group, operation, resource, pod_matches, exec_matches) in [
        ("", "*", "pods", true, false),
        ("", "*", "pods/exec", false, true),
        ("", "*", "pods/*", true, true),
        ("*", "*", "*/exec", false, true),
        ("*", "*", "*", true, false),
        ("*", "*", "*/*", true, true),
        ("", "CREATE", "pods", true, false),
        ("", "UPDATE", "pods", false, false),
        ("", "CONNECT", "*/*", false, true),
        ("apps", "*", "*/*", false, false),
        ("", "*", "services", false, false),
    ] {
        let set = rules(&rule(group, operation, resource));
        for (request, matches) in [(&pod(), pod_matches), (&exec, exec_matches)] {
            let found = !matches!(outcome(&set, request), Outcome::NotMatched(_));
            // `pods/*` takes the pod too only where its subresource is empty.
            let matches = if resource == "pods/*" { true } else { matches };
            assert_eq!(found, matches, "{group} {operation} {resource} {request}");
        }
    }
}

#[test]
fn qk41_a_selector_on_what_has_no_metadata_never_matches() {
    let selected = rules(&format!(
        "{}    objectSelector: {{matchExpressions: [{{key: app, operator: DoesNotExist}}]}}\n",
        rule("", "*", "*/*")
    ));
    let attach = json!({"object": {"apiVersion": "v1", "kind": "PodAttachOptions"}, "operation":
        "CONNECT", "resource": "pods", "subResource": "attach", "namespace": "shop"});
    assert!(matches!(
        outcome(&selected, &attach),
        Outcome::NotMatched(_)
    ));
    let evict = json!({"object": {"apiVersion": "policy/v1", "kind": "Eviction", "metadata":
        {"name": "web", "namespace": "shop"}}, "resource": {"group": "", "version": "v1",
        "resource": "pods"}, "subResource": "eviction"});
    assert!(matches!(outcome(&selected, &evict), Outcome::Denied(_)));
}

#[test]
fn selectors_look_at_both_objects_and_at_the_namespace() {
    let all = rule("", "*", "*");
    for (selector, matches) in [
        ("objectSelector: {matchLabels: {app: web}}", true),
        ("objectSelector: {matchLabels: {app: other}}", false),
        ("objectSelector: {}", true),
        (
            "objectSelector: {matchExpressions: [{key: app, operator: In, values: [web]}]}",
            true,
        ),
        (
            "objectSelector: {matchExpressions: [{key: app, operator: NotIn, values: [web]}]}",
            false,
        ),
        (
            "objectSelector: {matchExpressions: [{key: x, operator: NotIn, values: [web]}]}",
            true,
        ),
        (
            "objectSelector: {matchExpressions: [{key: app, operator: Exists}]}",
            true,
        ),
        ("namespaceSelector: {matchLabels: {hangar.io/app: x}}", true),
        (
            "namespaceSelector: {matchLabels: {hangar.io/app: y}}",
            false,
        ),
        (
            "excludeResourceRules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], \
             resources: [pods]}]",
            false,
        ),
        (
            "excludeResourceRules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], \
             resources: [pods], resourceNames: [db]}]",
            true,
        ),
    ] {
        let set = rules(&format!("{all}    {selector}\n"));
        let found = matches!(outcome(&set, &pod()), Outcome::Denied(_));
        assert_eq!(found, matches, "{selector}");
    }
    let by_label = rules(&format!(
        "{all}    objectSelector: {{matchLabels: {{app: web}}}}\n"
    ));
    let relabelled = with(pod(), "oldObject", pod()["object"].clone());
    let relabelled = with(
        relabelled,
        "object",
        json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop"}}),
    );
    assert!(matches!(
        outcome(&by_label, &relabelled),
        Outcome::Denied(_)
    ));
    let by_namespace = rules(&format!(
        "{all}    namespaceSelector: {{matchLabels: {{a: b}}}}\n"
    ));
    let unknown = with(pod(), "namespaceObject", Value::Null);
    assert!(matches!(
        outcome(&by_namespace, &unknown),
        Outcome::Undecided(_)
    ));
    let node = json!({"object": {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}});
    assert!(matches!(outcome(&by_namespace, &node), Outcome::Denied(_)));
}

#[test]
fn a_binding_narrows_and_only_deny_refuses() {
    let bound = |spec: &str| {
        set(&format!(
            "{HEAD}{PODS}  validations: [{{expression: 'false'}}]\n---\napiVersion: \
             admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: \
             {{name: b}}\nspec: {{policyName: p, {spec}}}\n"
        ))
    };
    assert!(matches!(
        outcome(&bound("validationActions: [Deny]"), &pod()),
        Outcome::Denied(_)
    ));
    assert!(matches!(
        outcome(&bound("validationActions: [Warn, Audit]"), &pod()),
        Outcome::Noted(_)
    ));
    let elsewhere = bound(
        "validationActions: [Deny], matchResources: {namespaceSelector: {matchLabels: {a: b}}}",
    );
    assert!(matches!(
        outcome(&elsewhere, &pod()),
        Outcome::NotMatched(_)
    ));
    let request = Request::from_json(&pod()).unwrap();
    let judgement = bound("validationActions: [Deny]").judge(&request, None);
    let (verdict, denial) = judgement.denial().unwrap();
    assert_eq!(
        verdict.told(denial),
        "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed expression: false"
    );
}

#[test]
fn an_audit_annotation_that_fails_refuses_whatever_the_binding_does() {
    let noting = set(&format!(
        "{HEAD}{PODS}  auditAnnotations: [{{key: k, valueExpression: object.nope}}]\n---\n\
         apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\n\
         metadata: {{name: b}}\nspec: {{policyName: p, validationActions: [Audit]}}\n"
    ));
    assert_eq!(
        message(&noting, &pod()),
        "expression 'object.nope' resulted in error: no such key: nope"
    );
    check(
        "  auditAnnotations: [{key: k, valueExpression: 'null'}]",
        &Outcome::Allowed,
    );
    check(
        "  auditAnnotations: [{key: k, valueExpression: '1'}]",
        &failed(
            Rule::AuditAnnotation(0, "k".to_owned()),
            "valueExpression '1' resulted in unsupported return type: int. Return type must be \
             either string or null",
        ),
    );
}

#[test]
fn kyvernos_policy_is_judged_as_what_it_becomes() {
    let vpol = |rest: &str| {
        set(&format!(
            "apiVersion: policies.kyverno.io/v1\nkind: ValidatingPolicy\nmetadata: {{name: p}}\n\
             spec:\n{PODS}{rest}"
        ))
    };
    let ignores = vpol(
        "  failurePolicy: Ignore\n  validationActions: [Deny]\n  validations: [{expression: \
         object.nope}]",
    );
    let request = Request::from_json(&pod()).unwrap();
    let judgement = ignores.judge(&request, None);
    let (verdict, denial) = judgement.denial().unwrap();
    assert_eq!((verdict.policy.as_str(), denial.error), ("vpol-p", true));
    assert_eq!(verdict.binding.as_deref(), Some("vpol-p-binding"));
    let audits = vpol("  validationActions: [Audit]\n  validations: [{expression: 'false'}]");
    assert!(matches!(outcome(&audits, &pod()), Outcome::Noted(_)));
}

#[test]
fn what_only_the_api_server_knows_is_undecided_and_lets_nothing_through() {
    for expression in [
        "authorizer.requestResource.check(\"get\").allowed()",
        "timestamp(\"2024-01-01T00:00:00Z\").getHours(\"Local\") == 1",
        "object.metadata.name.matches(\"\\\\Qa\")",
    ] {
        let set = pods(&format!("  validations: [{{expression: '{expression}'}}]"));
        let request = Request::from_json(&pod()).unwrap();
        assert_eq!(
            set.judge(&request, None).decision(),
            Decision::Undecided,
            "{expression}"
        );
    }
    let refused = pods(
        "  validations: [{expression: 'authorizer.path(\"/\").check(\"get\").allowed()'}, {expression: 'false'}]",
    );
    let request = Request::from_json(&pod()).unwrap();
    assert_eq!(refused.judge(&request, None).decision(), Decision::Denied);
}

#[test]
fn a_policy_that_costs_too_much_is_refused_as_a_whole() {
    let numbers = format!("[{}0]", "0,".repeat(99));
    let bomb =
        format!("{numbers}.all(a, {numbers}.all(b, {numbers}.all(c, {numbers}.all(d, d == 0))))");
    let one = format!("  validations: [{{expression: '{bomb}'}}, {{expression: 'true'}}]");
    check(
        &one,
        &failed(
            Rule::Validation(0),
            &format!(
                "expression '{bomb}' resulted in error: operation cancelled: actual cost limit \
                 exceeded"
            ),
        ),
    );
    let all = vec![format!("{{expression: '{bomb}'}}"); 11].join(", ");
    check(
        &format!("  validations: [{all}]"),
        &failed(
            Rule::Budget,
            "validation failed due to running out of cost budget, no further validation rules \
             will be run",
        ),
    );
}

#[test]
fn what_is_compiled_once_can_serve_every_thread() {
    fn shared<T: Send + Sync>() {}
    shared::<PolicySet>();
    shared::<Request>();
}
