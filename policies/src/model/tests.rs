//! What becomes of files, the odd ones above all.

use super::*;

const FLIGHT: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: tower-breakglass-no-exec}
spec:
  failurePolicy: Fail
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    matchPolicy: Equivalent
    namespaceSelector: {matchLabels: {a: b}}
    objectSelector: {}
    resourceRules:
      - {apiGroups: [""], apiVersions: [v1], operations: [CONNECT], resources: [pods/exec]}
  matchConditions:
    - name: people
      expression: "!('x' in request.userInfo.groups)"
  variables:
    - {name: n, expression: '1'}
  validations:
    - expression: >-
        object.x
        == 1
      messageExpression: "'no'"
      reason: Forbidden
  auditAnnotations:
    - {key: who, valueExpression: request.userInfo.username}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: b}
spec: {policyName: tower-breakglass-no-exec, validationActions: [Deny]}
"#;

fn policy(text: &str) -> Policy {
    match Policy::parse_all("f.yaml", text.as_bytes())
        .unwrap()
        .remove(0)
    {
        Document::Policy(policy) => *policy,
        other @ (Document::Binding(_) | Document::Exception(_) | Document::Unknown(_)) => {
            panic!("{other:?}")
        }
    }
}

#[test]
fn a_policy_and_its_binding_are_read_with_the_places_of_their_expressions() {
    let documents = Policy::parse_all("f.yaml", FLIGHT.as_bytes()).unwrap();
    let [Document::Policy(policy), Document::Binding(binding)] = &documents[..] else {
        panic!("{documents:?}");
    };
    assert_eq!(policy.name.value, "tower-breakglass-no-exec");
    let constraints = policy.match_constraints.as_ref().unwrap();
    assert_eq!(
        constraints.resource_rules[0].resources[0].value,
        "pods/exec"
    );
    assert!(constraints.object_selector.as_ref().unwrap().is_empty());
    assert!(!constraints.namespace_selector.as_ref().unwrap().is_empty());
    let expressions: Vec<_> = policy
        .expressions()
        .map(|(role, text)| (role, text.value.as_str(), text.at.to_string()))
        .collect();
    assert_eq!(
        expressions,
        [
            (
                Role::Condition,
                "!('x' in request.userInfo.groups)",
                "16:20".to_owned()
            ),
            (Role::Variable, "1", "18:30".to_owned()),
            (Role::Validation, "object.x == 1", "21:9".to_owned()),
            (Role::Message, "'no'", "23:27".to_owned()),
            (Role::Audit, "request.userInfo.username", "26:35".to_owned()),
        ]
    );
    assert_eq!(
        policy.validations[0].expression.place(9).to_string(),
        "22:9"
    );
    assert_eq!(policy.problems, []);
    assert_eq!(binding.validation_actions[0].value, "Deny");
}

#[test]
fn fields_of_the_wrong_type_are_left_out_and_named() {
    let policy = policy(concat!(
        "apiVersion: policies.kyverno.io/v1\nkind: ValidatingPolicy\nmetadata: [x]\nspec:\n",
        "  validations: nothing\n  matchConditions: [1, {name: n}]\n  failurePolicy: {}\n",
        "  variables:\n  - {name: v, expression: true}\n  evaluation: {admission: {enabled: 3}}\n",
    ));
    let lines: Vec<u32> = policy
        .problems
        .iter()
        .map(|problem| problem.at.line)
        .collect();
    assert_eq!(lines, [7, 6, 6, 9, 5, 10]);
    assert_eq!(policy.variables[0].expression.value, "true");
}

#[test]
fn whatever_is_no_policy_is_tolerated_and_said() {
    for text in [
        "x",
        "[1, 2]",
        "1",
        "{}",
        "kind: Policy",
        "kind: [a]\napiVersion: {}",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}",
        "apiVersion: example.org/v1\nkind: ValidatingAdmissionPolicy",
    ] {
        let documents = Policy::parse_all("f", text.as_bytes()).unwrap();
        assert!(
            matches!(documents[..], [Document::Unknown(_)]),
            "{text}: {documents:?}"
        );
    }
    let bare =
        policy("apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy");
    assert_eq!(bare.problems.len(), 1);
}

#[test]
fn a_list_is_its_objects_and_a_webhook_configuration_its_webhooks() {
    let text = concat!(
        "apiVersion: v1\nkind: List\nitems:\n- kind: ConfigMap\n",
        "- {apiVersion: kyverno.io/v2, kind: PolicyException, metadata: {name: e},",
        " spec: {exceptions: [{policyName: p}]}}\n",
        "---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\n",
        "webhooks:\n- name: a.b.c\n  rules: [{resources: [pods]}]\n",
        "  matchConditions: [{name: x, expression: 'true'}]\n- name: d.e.f\n",
    );
    let documents = Policy::parse_all("f", text.as_bytes()).unwrap();
    let [
        Document::Unknown(_),
        Document::Exception(exception),
        Document::Policy(first),
        Document::Policy(second),
    ] = &documents[..]
    else {
        panic!("{documents:?}");
    };
    assert_eq!(exception.policies[0].name.value, "p");
    assert_eq!(
        (first.kind, &*first.name.value),
        (PolicyKind::WebhookConfiguration, "a.b.c")
    );
    assert_eq!(first.match_conditions.len(), 1);
    assert_eq!(second.name.value, "d.e.f");
}

proptest::proptest! {
    #[test]
    fn any_tree_gives_documents(bytes in "[a-c:{}\\[\\], \n-]{0,80}") {
        let policy = format!(
            "apiVersion: policies.kyverno.io/v1\nkind: ValidatingPolicy\nspec: {{ {bytes} }}"
        );
        for text in [bytes, policy] {
            if let Ok(documents) = Policy::parse_all("f", text.as_bytes()) {
                drop(documents);
            }
        }
    }
}
