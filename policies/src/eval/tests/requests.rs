//! What is read as a request, and what is refused as none.

use super::*;

#[test]
fn a_request_is_what_a_review_says_or_follows_from_its_objects() {
    let seen = |request: &Value, expression: &str| {
        let set = set(&format!(
            "{HEAD}  matchConstraints:\n    resourceRules: [{{apiGroups: ['*'], apiVersions: \
             ['*'], operations: ['*'], resources: ['*/*']}}]\n  validations: [{{expression: \
             \"{expression}\"}}]"
        ));
        outcome(&set, request)
    };
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "1", "kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
            "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
            "operation": "DELETE", "name": "d", "namespace": "n", "userInfo": {"username": "u",
            "groups": ["g"]}, "object": null, "oldObject": {"metadata": {"name": "d"}}}});
    for expression in [
        "request.operation == 'DELETE' && object == null && oldObject.metadata.name == 'd'",
        "request.resource.resource == 'deployments' && request.kind.kind == 'Deployment'",
        "'g' in request.userInfo.groups && !has(request.subResource)",
    ] {
        assert_eq!(seen(&review, expression), Outcome::Allowed, "{expression}");
    }
    for (request, expression) in [
        (
            pod(),
            "request.operation == 'CREATE' && request.name == 'web'",
        ),
        (
            pod(),
            "request.resource.resource == 'pods' && request.namespace == 'shop'",
        ),
        (
            json!({"oldObject": {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"}}),
            "request.operation == 'DELETE' && request.resource.resource == 'networkpolicies' && \
             !has(request.name)",
        ),
        (
            json!({"object": {"apiVersion": "v1", "kind": "Pod"}, "oldObject": {"apiVersion": "v1",
            "kind": "Pod"}, "subResource": "ephemeralcontainers"}),
            "request.operation == 'UPDATE' && request.subResource == 'ephemeralcontainers'",
        ),
    ] {
        assert_eq!(seen(&request, expression), Outcome::Allowed, "{request}");
    }
}

#[test]
fn what_is_no_request_is_said() {
    for (text, message) in [
        (
            "[]",
            "r: an AdmissionReview is wanted, or its request; nothing was evaluated",
        ),
        (
            "{}",
            "r: there is neither `object` nor `oldObject`; nothing was evaluated",
        ),
        (
            "{kind: AdmissionReview}",
            "r: the AdmissionReview has no `request`; nothing was evaluated",
        ),
        (
            "{objekt: {}}",
            "r: a request has no `objekt`; nothing was evaluated",
        ),
        (
            "{object: 1}",
            "r: `object` is no object; nothing was evaluated",
        ),
        (
            "{object: {a: 1}}",
            "r: the object has no `apiVersion` and `kind`, and the request no `kind`; nothing was \
             evaluated",
        ),
        (
            "{operation: PATCH}",
            "r: `PATCH` is no operation; nothing was evaluated",
        ),
        (
            "a: 1\n---\nb: 2",
            "r: one request is wanted, the file has 2 documents; nothing was evaluated",
        ),
    ] {
        assert_eq!(
            Request::parse("r", text.as_bytes())
                .unwrap_err()
                .to_string(),
            message
        );
    }
    assert!(Request::parse("r", &vec![b'['; 9 << 20]).is_err());
    for (kind, told) in [
        (
            "ImageValidatingPolicy",
            "`i` is of the kind ImageValidatingPolicy, which",
        ),
        ("PolicyException", "`i` excepts from policies, which"),
    ] {
        let text =
            format!("apiVersion: policies.kyverno.io/v1\nkind: {kind}\nmetadata: {{name: i}}");
        let documents = Policy::parse_all("p", text.as_bytes()).unwrap();
        let error = PolicySet::new(documents, KubernetesVersion::NEWEST).unwrap_err();
        assert!(error.to_string().starts_with(told), "{error}");
    }
}
