//! The same with Kyverno itself beside the cluster (P-1, P-4a, P-10): what it makes of the rendered
//! policies, and what its cleanup controller removes.
//!
//! Runs where Kyverno does: `cargo xtask cluster kyverno up DIR`, for which its controllers have
//! their own accounts' tokens. `BREAKGLASS_SKIP` may name `kyverno`.

#[path = "real_kyverno/away.rs"]
mod away;
#[path = "real_kyverno/controllers.rs"]
mod controllers;
#[path = "real_kyverno/images.rs"]
mod images;
#[path = "real_kyverno/reports.rs"]
mod reports;

use super::*;
use breakglass_tests::policy_cases::{Place, good_copy, good_grant};
use breakglass_tests::real_cluster::left_out;
use world::{IMAGE_POLICIES, RIGHTS, VALIDATING_POLICIES, bindings};

const TTL: &str = "cleanup.kyverno.io/ttl";

async fn with_kyverno() -> Option<World> {
    if left_out("kyverno") {
        eprintln!("skipped: no Kyverno, as BREAKGLASS_SKIP says");
        return None;
    }
    let world = World::of_this_run().await?;
    let webhooks = "validatingwebhookconfigurations/kyverno-policy-validating-webhook-cfg";
    let there = world
        .as_admin(Method::GET, &format!("{NATIVE}/{webhooks}"), &Value::Null)
        .await;
    assert_eq!(
        there.0, 200,
        "Kyverno is not beside the cluster: run `cargo xtask cluster kyverno up DIR`, or leave \
         this part out with BREAKGLASS_SKIP=kyverno"
    );
    Some(world)
}

/// Ground as an operator applies it, and as Kyverno has compiled it.
async fn ground(world: &World) -> Rendering {
    let rendering = Rendering::of(world, Tier::Ground);
    assert!(rendering.apply(world), "kubectl applies what is rendered");
    for policy in [
        "rolebinding",
        "debug-container",
        "pod-delete",
        "pod-annotate",
    ] {
        let path = format!("{VALIDATING_POLICIES}/tower-breakglass-{policy}");
        until(
            &format!("Kyverno says that {policy} is compiled"),
            async || {
                let (_, policy) = world.as_admin(Method::GET, &path, &Value::Null).await;
                policy["status"]["generated"] == true
            },
        )
        .await;
    }
    world.refused(Tier::Ground).await;
    rendering
}

#[tokio::test]
async fn p_10_every_case_on_ground() {
    let Some(world) = with_kyverno().await else {
        return;
    };
    let mut cases = cases_of(Tier::Ground);
    for case in &mut cases {
        if let Some(first) = case.kyverno.take() {
            case.expected = first;
        }
    }
    let world = world.furnished(&cases).await;
    let rendering = ground(&world).await;
    // What Kyverno has made is, field by field, what the proofs and the preflight take it for.
    let (_, said) = rendering.diff("real");
    let mut wrong = Vec::new();
    let offline = crate::world::offline(Tier::Ground);
    for case in &cases {
        wrong.extend(judged(&world, &offline, case).await);
    }
    world.take_away().await;
    assert!(says_nothing(&said), "{said:#?}");
    assert_none(&wrong, cases.len(), Tier::Ground);
}

/// What Kyverno's definitions fill in is no difference, and what somebody adds is one, although no
/// rendered field has changed.
#[tokio::test]
async fn p_2_kyvernos_own_policies_are_as_rendered_and_softened_ones_are_told() {
    let Some(world) = with_kyverno().await else {
        return;
    };
    let world = world.furnished(&[]).await;
    let rendering = ground(&world).await;
    let applied = world.kubectl_apply(&[rendering.file("policy-60-debug-image.yaml")]);
    let image = format!("{IMAGE_POLICIES}/tower-breakglass-debug-image");
    let live = async || world.as_admin(Method::GET, &image, &Value::Null).await.1;
    until("Kyverno has taken the image policy", async || {
        live().await["status"]["conditionStatus"].is_object()
    })
    .await;
    let taken = live().await["spec"].clone();
    // Whether its webhook is there yet is another test's.
    let differs = || {
        let said = rendering.diff("real").1.into_iter();
        said.filter(|said| !(said.contains("webhook") || said.contains("is as rendered")))
            .collect::<Vec<_>>()
    };
    let untouched = differs();
    let mut unlogged = taken["attestors"].clone();
    unlogged[0]["cosign"]["ctlog"]["insecureIgnoreTlog"] = json!(true);
    let mut anybody = taken["attestors"].clone();
    anybody[0]["cosign"]["keyless"]["identities"][0]["subjectRegExp"] = json!(".*");
    let none = json!({ "matchLabels": { "no": "such" } });
    let role = format!("{RIGHTS}/clusterroles/breakglass-kyverno-cleanup");
    let label = "rbac.kyverno.io/aggregate-to-cleanup-controller";
    let spec = |field: &str, value: Value| json!({ "spec": { field: value } });
    let mut wrong = Vec::new();
    for (path, change, told) in [
        (&image, spec("attestors", unlogged), "insecureIgnoreTlog"),
        (&image, spec("attestors", anybody), "subjectRegExp"),
        (
            &image,
            spec("evaluation", json!({ "admission": { "enabled": false } })),
            "spec.evaluation.admission.enabled",
        ),
        (
            &image,
            spec("matchConstraints", json!({ "objectSelector": none })),
            "spec.matchConstraints.objectSelector",
        ),
        (
            &role,
            json!({ "metadata": { "labels": { label: null } } }),
            label,
        ),
    ] {
        world.change(path, &change).await;
        let said = differs();
        if said.len() != 1 || !said[0].contains(told) {
            wrong.push(format!("{told}: {said:#?}"));
        }
        // As it was, so that each is told alone.
        world.remove(&image).await;
        let files = ["policy-60-debug-image.yaml", "rbac-50-kyverno-cleanup.yaml"];
        let again = world.kubectl_apply(&files.map(|name| rendering.file(name)));
        assert!(again, "kubectl applies what is rendered");
    }
    world.take_away().await;
    assert!(applied, "kubectl applies what is rendered");
    assert!(untouched.is_empty(), "{untouched:#?}\n{taken:#}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The API server asks no policy about policies, so who has the right may change them. Kyverno,
/// with its own account's rights and the guard in place, puts back what it has made.
#[tokio::test]
async fn p_4a_what_is_changed_of_the_generated_is_put_back() {
    let Some(world) = with_kyverno().await else {
        return;
    };
    let world = world.furnished(&[]).await;
    let rendering = ground(&world).await;
    let policy = |name: &str| format!("{NATIVE}/validatingadmissionpolicies/{name}");
    let binding = |name: &str| format!("{NATIVE}/validatingadmissionpolicybindings/{name}-binding");
    let [delete, annotate] =
        ["pod-delete", "pod-annotate"].map(|n| format!("vpol-tower-breakglass-{n}"));
    let changes = [
        (
            Method::PATCH,
            policy(&delete),
            json!({ "spec": { "failurePolicy": "Ignore" } }),
        ),
        (
            Method::PATCH,
            binding(&annotate),
            json!({ "spec": { "validationActions": ["Audit"] } }),
        ),
        (Method::DELETE, policy(&annotate), Value::Null),
        (Method::DELETE, binding(&delete), Value::Null),
    ];
    let mut wrong = Vec::new();
    for (method, path, change) in changes {
        let uid = async || {
            world.as_admin(Method::GET, &path, &Value::Null).await.1["metadata"]["uid"].clone()
        };
        let before = uid().await;
        let (status, answer) = world
            .send(Actor::Developer, method.clone(), &path, &change)
            .await;
        if status != 200 {
            wrong.push(format!("{method} {path}: {status} {answer}"));
        }
        if method == Method::DELETE {
            until(&format!("{path} is made again"), async || {
                let now = uid().await;
                now.is_string() && now != before
            })
            .await;
        }
        until(
            &format!("after {method} {path}, all is as rendered"),
            async || says_nothing(&rendering.diff("real").1),
        )
        .await;
    }
    world.take_away().await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What the guard is for: Kyverno writes an exception into the native policy, although exceptions
/// are off in its own configuration.
#[tokio::test]
async fn p_4a_without_the_guard_an_exception_opens_the_fence_and_is_told() {
    let Some(world) = with_kyverno().await else {
        return;
    };
    let world = world.furnished(&[]).await;
    let rendering = ground(&world).await;
    let exceptions = format!(
        "/apis/policies.kyverno.io/v1/namespaces/{}/policyexceptions",
        world.namespace(Place::Plain)
    );
    let exception = json!({ "apiVersion": "policies.kyverno.io/v1", "kind": "PolicyException",
        "metadata": { "name": "all" },
        "spec": { "policyRefs": [{ "name": "tower-breakglass-pod-delete",
                                   "kind": "ValidatingPolicy" }],
                  "matchConditions": [{ "name": "all", "expression": "true" }] } });
    let guarded = world
        .send(Actor::Kyverno, Method::POST, &exceptions, &exception)
        .await;
    let guard = "validatingadmissionpolicybindings/tower-breakglass-guard";
    world.remove(&format!("{NATIVE}/{guard}")).await;
    until("the exception is taken", async || {
        world
            .send(Actor::Developer, Method::POST, &exceptions, &exception)
            .await
            .0
            == 201
    })
    .await;
    let mut said = Vec::new();
    let tells = |said: &[String], words: &str| said.iter().any(|line| line.contains(words));
    for (state, opened) in [("softened", true), ("whole again", false)] {
        until(&format!("the policy is {state}"), async || {
            tells(
                &rendering.diff("real").1,
                "applies to fewer or other requests",
            ) == opened
        })
        .await;
        said.extend(rendering.diff("real").1);
        world.remove(&format!("{exceptions}/all")).await;
    }
    world.take_away().await;
    assert_eq!(guarded.0, 403, "{guarded:?}");
    let words = guarded.1["message"].as_str().unwrap_or_default();
    assert!(
        words.contains("no exception from the Break-glass fence"),
        "{words}"
    );
    assert!(tells(&said, "excepts requests from"), "{said:#?}");
}

/// A kind of things that the cleanup controller may be let delete: its `apiVersion`, its name and
/// its resource.
type Kind = (&'static str, &'static str, &'static str);

/// Lets a whole round of the cleanup controller pass.
///
/// It looks in rounds, at all kinds that it may delete by then, and goes on with those until the
/// next one. When a thing of a second kind is gone whose right came after the first was, a round
/// began and ended in between. Each kind serves once: one that the controller knows already is
/// removed in no round.
async fn round_passes(world: &World, kinds: [Kind; 2]) {
    for (version, kind, resource) in kinds {
        let group = version.rsplit_once('/').map_or("", |(group, _)| group);
        let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": { "name": format!("breakglass-cases-{resource}"),
                          "labels": { "rbac.kyverno.io/aggregate-to-cleanup-controller": "true",
                                      "breakglass-cases": "round" } },
            "rules": [{ "apiGroups": [group], "resources": [resource],
                        "verbs": ["get", "list", "watch", "delete"] }] });
        world.made(&format!("{RIGHTS}/clusterroles"), role).await;
        let root = if group.is_empty() { "api" } else { "apis" };
        let things = format!(
            "/{root}/{version}/namespaces/{}/{resource}",
            world.namespace(Place::App)
        );
        let thing = json!({ "apiVersion": version, "kind": kind,
            "metadata": { "name": "due", "labels": { TTL: "1s" } } });
        world.made(&things, thing).await;
        gone(world, &format!("{things}/due")).await;
    }
}

async fn gone(world: &World, path: &str) {
    until(&format!("{path} is removed"), async || {
        world.as_admin(Method::GET, path, &Value::Null).await.0 == 404
    })
    .await;
}

/// The grant and the copy are the builders', but for the label: the fence allows 15 to 75 minutes,
/// which no test waits for. So the fence is not applied here, and the label says a second.
#[tokio::test]
async fn p_1_a_grant_lapses_by_the_rendered_right_and_stays_without() {
    let Some(world) = with_kyverno().await else {
        return;
    };
    let world = world.furnished(&[]).await;
    let namespace = world.namespace(Place::App);
    let may = async || {
        let group = "rbac.authorization.k8s.io";
        world
            .may(Actor::KyvernoCleanup, "delete", group, "rolebindings")
            .await
    };
    // Another test may have left the right until now, and the controller goes on until its round.
    until("the controller may not delete grants", async || {
        !may().await
    })
    .await;
    let core = |kind, resource| ("v1", kind, resource);
    round_passes(
        &world,
        [
            core("ServiceAccount", "serviceaccounts"),
            core("ResourceQuota", "resourcequotas"),
        ],
    )
    .await;
    let mut grant = good_grant(BACKEND).expect("a grant");
    let mut copy = good_copy().expect("a copy");
    for object in [&mut grant, &mut copy] {
        object["metadata"]["labels"][TTL] = json!("1s");
        object["metadata"]
            .as_object_mut()
            .expect("metadata")
            .remove("namespace");
    }
    copy["spec"]["schedulerName"] = json!("nobody"); // only the API sees it
    let mut paths = Vec::new();
    for (list, object) in [
        (bindings(&namespace), grant),
        (format!("/api/v1/namespaces/{namespace}/pods"), copy),
    ] {
        paths.push(format!(
            "{list}/{}",
            object["metadata"]["name"].as_str().expect("a name")
        ));
        world.made(&list, object).await;
    }
    round_passes(
        &world,
        [core("ConfigMap", "configmaps"), core("Secret", "secrets")],
    )
    .await;
    let mut stay = Vec::new();
    for path in &paths {
        stay.push(world.as_admin(Method::GET, path, &Value::Null).await.0);
    }

    let rendering = Rendering::of(&world, Tier::Ground);
    let applied = world.kubectl_apply(&[rendering.file("rbac-50-kyverno-cleanup.yaml")]);
    for path in &paths {
        gone(&world, path).await;
    }
    world.take_away().await;
    assert!(applied, "kubectl applies what is rendered");
    assert_eq!(stay, [200, 200], "without the right it stays");
}
