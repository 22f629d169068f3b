//! What the API server makes of a policy about another version of the request's resource, and
//! that `policies eval` says no more than it knows of it (P-6).

use super::world::{NATIVE, World};
use breakglass_tests::policy_cases::Actor;
use breakglass_tests::real_cluster::until;
use http::Method;
use policies::cel::KubernetesVersion;
use policies::eval::{Decision, PolicySet, Request};
use policies::model::Policy;
use serde_json::{Value, json};

const NAME: &str = "tower-breakglass-of-a-test";

/// A policy about autoscalers of `autoscaling/v1`, which refuses what it is asked about.
fn policy(match_policy: &str) -> [Value; 2] {
    let kind = |kind: &str, spec: Value| {
        json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
                "metadata": { "name": NAME }, "spec": spec })
    };
    let rules = json!([{ "apiGroups": ["autoscaling"], "apiVersions": ["v1"],
                         "operations": ["CREATE"], "resources": ["horizontalpodautoscalers"] }]);
    let message = "request.requestResource.version + ' as ' + object.apiVersion";
    [
        kind(
            "ValidatingAdmissionPolicy",
            json!({ "matchConstraints": { "matchPolicy": match_policy, "resourceRules": rules },
                    "validations": [{ "expression": "false", "messageExpression": message }] }),
        ),
        kind(
            "ValidatingAdmissionPolicyBinding",
            json!({ "policyName": NAME, "validationActions": ["Deny"] }),
        ),
    ]
}

fn autoscaler(version: &str) -> Value {
    json!({ "apiVersion": format!("autoscaling/{version}"), "kind": "HorizontalPodAutoscaler",
            "metadata": { "name": "x", "namespace": "default" },
            "spec": { "maxReplicas": 2, "scaleTargetRef":
                { "apiVersion": "apps/v1", "kind": "Deployment", "name": "x" } } })
}

/// The API server's answer: the status, and the message.
async fn asked(world: &World, version: &str) -> (u16, String) {
    let path = format!(
        "/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers?dryRun=All"
    );
    let body = autoscaler(version);
    let (status, answer) = world
        .send(Actor::Operator, Method::POST, &path, &body)
        .await;
    let message = answer["message"].as_str().unwrap_or_default();
    (status, message.to_owned())
}

fn evaluated(match_policy: &str, version: &str) -> Decision {
    let text = policy(match_policy)
        .map(|one| one.to_string())
        .join("\n---\n");
    let documents = Policy::parse_all("policy", text.as_bytes()).expect("policies");
    let set = PolicySet::new(documents, KubernetesVersion::NEWEST).expect("a policy");
    let request = Request::from_json(&json!({ "object": autoscaler(version) }));
    set.judge(&request.expect("a request"), None).decision()
}

#[tokio::test]
async fn p_6_another_version_of_the_resource_is_asked_about_unless_it_is_exact() {
    let Some(world) = World::of_this_run().await else {
        return;
    };
    let world = world.furnished(&[]).await;
    let kinds = [
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
    ];
    for (plural, object) in kinds.iter().zip(policy("Equivalent")) {
        let path = format!("{NATIVE}/{plural}");
        let (status, answer) = world
            .send(Actor::Operator, Method::POST, &path, &object)
            .await;
        assert_eq!(status, 201, "{answer}");
    }
    until("the policy refuses", async || {
        asked(&world, "v1").await.0 == 422
    })
    .await;
    let equivalent = (asked(&world, "v1").await, asked(&world, "v2").await);
    let exact = json!({ "spec": { "matchConstraints": { "matchPolicy": "Exact" } } });
    let path = format!("{NATIVE}/{}/{NAME}", kinds[0]);
    world.change(&path, &exact).await;
    until("the policy is exact", async || {
        asked(&world, "v2").await.0 == 201
    })
    .await;
    let still = asked(&world, "v1").await;
    world.take_away().await;

    let (own, other) = equivalent;
    assert!(
        own.1.ends_with("denied request: v1 as autoscaling/v1"),
        "{own:?}"
    );
    assert_eq!(other.0, 422, "{other:?}");
    assert!(
        other.1.ends_with("denied request: v2 as autoscaling/v1"),
        "{other:?}"
    );
    assert_eq!(still.0, 422, "{still:?}");
    assert_eq!(evaluated("Equivalent", "v1"), Decision::Denied);
    assert_eq!(evaluated("Equivalent", "v2"), Decision::Undecided);
    assert_eq!(evaluated("Exact", "v1"), Decision::Denied);
    assert_eq!(evaluated("Exact", "v2"), Decision::Allowed);
}
