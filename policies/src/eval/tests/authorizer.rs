//! The authorizer's answers, as a request brings them.

use super::*;

const ASKS: &str = "  validations: [{expression: \"authorizer.group('apps').resource('deployments')\
                    .namespace('shop').check('get').allowed()\"}]";

fn answers(list: Value) -> Value {
    with(pod(), "authorizer", list)
}

fn listed(allowed: bool) -> Value {
    json!({"group": "apps", "resource": "deployments", "namespace": "shop", "verb": "get",
           "allowed": allowed})
}

#[test]
fn a_question_that_is_listed_is_answered_and_no_other() {
    let set = pods(ASKS);
    assert_eq!(
        outcome(&set, &answers(json!([listed(true)]))),
        Outcome::Allowed
    );
    assert!(matches!(
        outcome(&set, &answers(json!([listed(false)]))),
        Outcome::Denied(_)
    ));
    for (part, other) in [
        ("group", "batch"),
        ("resource", "pods"),
        ("namespace", "mail"),
        ("verb", "list"),
        ("name", "web"),
        ("subresource", "scale"),
        ("fieldSelector", "spec.nodeName=a"),
        ("labelSelector", "app=web"),
    ] {
        let other = with(listed(true), part, json!(other));
        let outcome = outcome(&set, &answers(json!([other])));
        assert!(matches!(outcome, Outcome::Undecided(_)), "{outcome:?}");
    }
    let other = json!({"namespace": "shop", "name": "x"});
    let other = answers(json!([with(listed(true), "serviceAccount", other)]));
    assert!(matches!(outcome(&set, &other), Outcome::Undecided(_)));
    assert!(matches!(
        outcome(&set, &answers(json!([]))),
        Outcome::Undecided(_)
    ));
}

/// No operator makes a value of what nobody answered.
#[test]
fn an_answer_that_is_not_given_is_not_absorbed() {
    let set = pods(
        "  failurePolicy: Ignore\n  validations: [{expression: \"true || \
                    authorizer.path('/x').check('get').allowed()\"}]",
    );
    assert_eq!(outcome(&set, &pod()), Outcome::Allowed, "it is not asked");
    let set = pods(
        "  failurePolicy: Ignore\n  validations: [{expression: \
                    \"authorizer.path('/x').check('get').allowed() || true\"}]",
    );
    assert!(matches!(outcome(&set, &pod()), Outcome::Undecided(_)));
}

#[test]
fn the_request_own_resource_an_account_and_a_path_can_be_answered() {
    for (expression, answer) in [
        (
            "authorizer.requestResource.check('update').reason() == 'because'",
            json!({"resource": "pods", "namespace": "shop", "name": "web", "verb": "update",
                   "allowed": true, "reason": "because"}),
        ),
        (
            "authorizer.group('').resource('pods').fieldSelector('spec.nodeName=a')\
             .labelSelector('app=web').check('list').allowed()",
            json!({"resource": "pods", "fieldSelector": "spec.nodeName=a",
                   "labelSelector": "app=web", "verb": "list", "allowed": true}),
        ),
        (
            "authorizer.serviceAccount('a', 'b').path('/x').check('get').error() == 'no'",
            json!({"path": "/x", "serviceAccount": {"namespace": "a", "name": "b"},
                   "verb": "get", "allowed": false, "error": "no"}),
        ),
    ] {
        let set = pods(&format!(
            "  validations: [{{expression: \"{expression}\"}}]"
        ));
        assert_eq!(
            outcome(&set, &answers(json!([answer]))),
            Outcome::Allowed,
            "{expression}"
        );
    }
}

#[test]
fn what_is_no_answer_is_refused() {
    for (list, told) in [
        (json!({}), "no list of answers"),
        (
            json!([{"path": "/x", "allowed": true}]),
            "missing field `verb`",
        ),
        (
            json!([{"path": "/x", "verb": "get"}]),
            "missing field `allowed`",
        ),
        (
            json!([with(listed(true), "user", json!("x"))]),
            "unknown field `user`",
        ),
        (json!([{"verb": "get", "allowed": true}]), "neither"),
        (json!([with(listed(true), "path", json!("/x"))]), "both"),
        (
            json!([{"path": "/x", "group": "apps", "verb": "get", "allowed": true}]),
            "about a path",
        ),
        (
            json!([listed(true), listed(false)]),
            "[1]` is answered before",
        ),
    ] {
        let error = Request::from_json(&answers(list.clone())).unwrap_err();
        assert!(error.contains(told), "{list}: {error}");
    }
}
