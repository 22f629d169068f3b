//! Cases from public reports about what Kyverno itself makes of the fence: each test carries its
//! report's row.

use super::super::*;
use super::images;
use super::{Place, ground, with_kyverno};
use breakglass_tests::policy_cases::good_grant;
use std::collections::BTreeMap;

const COMPILED: [&str; 4] = [
    "rolebinding",
    "debug-container",
    "pod-delete",
    "pod-annotate",
];
const WEBHOOKS: &str = "validatingwebhookconfigurations/kyverno-resource-validating-webhook-cfg";

fn vpol(policy: &str) -> String {
    format!("{}/tower-breakglass-{policy}", world::VALIDATING_POLICIES)
}

fn native(policy: &str) -> String {
    format!("{NATIVE}/validatingadmissionpolicies/vpol-tower-breakglass-{policy}")
}

fn binding(policy: &str) -> String {
    format!("{NATIVE}/validatingadmissionpolicybindings/vpol-tower-breakglass-{policy}-binding")
}

async fn get(world: &World, path: &str) -> Value {
    world.as_admin(Method::GET, path, &Value::Null).await.1
}

/// What Kyverno is asked about by the webhooks that it makes for policies, less what is this
/// cluster's own: the address and the authority.
async fn webhooks(world: &World) -> Value {
    let mut webhooks = get(world, &format!("{NATIVE}/{WEBHOOKS}")).await["webhooks"].take();
    for webhook in webhooks.as_array_mut().into_iter().flatten() {
        let url = webhook["clientConfig"]["url"].as_str().unwrap_or_default();
        let path = url.splitn(4, '/').nth(3).unwrap_or_default();
        webhook["clientConfig"] = json!({ "path": path });
    }
    webhooks
}

/// With `UPDATE_GOLDEN=1` the file is written instead of compared.
fn as_reviewed(name: &str, value: &Value) -> Result<(), String> {
    let path = root().join("tests/golden/kyverno").join(name);
    let text = format!("{value:#}\n");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(&path, &text).expect("written");
    }
    let reviewed = std::fs::read_to_string(&path).unwrap_or_default();
    let same = reviewed == text;
    same.then_some(())
        .ok_or(format!("{name}: run with UPDATE_GOLDEN=1; it is\n{text}"))
}

/// `CREATE pods`, in the order in which they stand there.
fn matched(policy: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let rules = list(&policy["spec"]["matchConstraints"]["resourceRules"]);
    let said = rules.iter().flat_map(|rule| {
        let resources = list(&rule["resources"]);
        let operations = list(&rule["operations"]);
        operations.into_iter().flat_map(move |operation| {
            let resources = resources.clone().into_iter();
            resources.map(move |resource| format!("{operation} {resource}").replace('"', ""))
        })
    });
    said.collect()
}

#[tokio::test]
async fn qp6_qk8_qk11_what_kyverno_makes_matches_the_subresource_and_asks_no_more_than_it_must() {
    let Some(world) = with_kyverno().await else {
        return;
    };
    let world = world.furnished(&[]).await;
    let rendering = ground(&world).await;
    world.made(images::LIST, images::rendered(&rendering)).await;
    let image_policy = format!("{}/{}", images::LIST, images::NAME);
    // While a policy is not compiled, it too has a webhook.
    until("there is one webhook", async || {
        webhooks(&world).await.as_array().map(Vec::len) == Some(1)
    })
    .await;
    until("the policy of images is ready", async || {
        get(&world, &image_policy).await["status"]["conditionStatus"]["ready"] == true
    })
    .await;
    let mut subresources = BTreeMap::new();
    let mut statuses = Vec::new();
    for policy in COMPILED {
        subresources.insert(policy, matched(&get(&world, &native(policy)).await));
        statuses.push(get(&world, &vpol(policy)).await["status"].take());
    }
    statuses.push(get(&world, &image_policy).await["status"].take());
    let webhooks = webhooks(&world).await;
    let said = rendering.diff("real").1;
    world.take_away().await;

    // qP6: what is matched, subresources by their own name.
    let of = |policy: &str| subresources[policy].join(", ");
    assert_eq!(
        of("debug-container"),
        "UPDATE pods/ephemeralcontainers, CREATE pods"
    );
    assert_eq!(of("pod-delete"), "DELETE pods, CREATE pods/eviction");
    assert_eq!(
        of("pod-annotate"),
        "UPDATE pods, UPDATE pods/status, UPDATE pods/resize"
    );
    // qK8: one webhook, which fails closed, with both the selector and the condition.
    let reviewed = as_reviewed("webhooks.json", &webhooks);
    assert!(reviewed.is_ok(), "{}", reviewed.unwrap_err());
    // qK11: no controllers of pods, so that there is a native policy.
    for status in &statuses {
        assert_eq!(status["conditionStatus"]["ready"], true, "{status:#}");
        let controllers = &status["autogen"]["configs"];
        assert!(
            controllers
                .as_object()
                .is_none_or(serde_json::Map::is_empty),
            "{status:#}"
        );
    }
    let generated = statuses[..COMPILED.len()]
        .iter()
        .map(|status| &status["generated"]);
    assert!(
        generated.clone().all(|generated| generated == true),
        "{statuses:#?}"
    );
    // The image policy's glob was moved, and nothing else differs, its webhook included.
    assert!(
        said.len() == 1 && said[0].contains("matchImageReferences"),
        "{said:#?}"
    );
}

/// As Break-glass, a pod that is nobody's copy is deleted: who refuses, and how.
async fn refused_to_delete(world: &World) -> String {
    let path = format!("{}/known-bad?dryRun=All", images::pods(world));
    let (status, answer) = world
        .send(Actor::Backend, Method::DELETE, &path, &Value::Null)
        .await;
    let message = answer["message"].as_str().unwrap_or_default();
    for (who, words) in [
        (
            "the native policy",
            "ValidatingAdmissionPolicy 'vpol-tower-breakglass-pod-delete'",
        ),
        ("Kyverno", "admission webhook \"vpol.validate.kyverno.svc"),
    ] {
        if status >= 400 && message.contains(words) {
            return who.to_owned();
        }
    }
    format!("{status} {message}")
}

#[tokio::test]
async fn qk13_qk14_what_is_generated_follows_its_policy_and_a_fence_without_it_is_told() {
    let Some(world) = with_kyverno().await else {
        return;
    };
    let world = world.furnished(&[]).await;
    let rendering = ground(&world).await;
    // qK14: with the rights of Kyverno's chart and no others, all is there.
    let mut there = Vec::new();
    for path in COMPILED
        .iter()
        .flat_map(|policy| [native(policy), binding(policy)])
    {
        there.push(world.as_admin(Method::GET, &path, &Value::Null).await.0);
    }
    // qK13: what is generated follows.
    let (policy, generated) = (vpol("pod-delete"), native("pod-delete"));
    let mut validations = get(&world, &policy).await["spec"]["validations"].take();
    validations[0]["message"] = json!("changed");
    let changed = json!({ "spec": { "validations": validations } });
    world.change(&policy, &changed).await;
    until("the native policy follows", async || {
        get(&world, &generated).await["spec"]["validations"][0]["message"] == "changed"
    })
    .await;

    // Not to be compiled any more: what is generated goes, and Kyverno itself refuses.
    let by_itself = json!({ "spec": { "autogen": {
        "validatingAdmissionPolicy": { "enabled": false } } } });
    world.change(&policy, &by_itself).await;
    for path in [&generated, &binding("pod-delete")] {
        super::gone(&world, path).await;
    }
    until("Kyverno refuses by itself", async || {
        refused_to_delete(&world).await == "Kyverno"
    })
    .await;
    let (differs, missing) = rendering.diff("real");

    let applied = rendering.apply(&world);
    until("the native policy is back as rendered", async || {
        says_nothing(&rendering.diff("real").1)
    })
    .await;
    until("the native policy refuses again", async || {
        refused_to_delete(&world).await == "the native policy"
    })
    .await;
    world.take_away().await;
    assert_eq!(there, [200; 2 * COMPILED.len()]);
    assert_eq!(differs, 1, "a deployment can fail by it");
    let told = |words: &str| missing.iter().any(|line| line.contains(words));
    assert!(
        told("`vpol-tower-breakglass-pod-delete` is not there: Kyverno"),
        "{missing:#?}"
    );
    assert!(applied, "kubectl applies what is rendered");
}

/// A canary that refuses if it is evaluated at all. It looks at no image, so that no registry is
/// asked; that the debug image itself is found there and verified, the real signatures show
/// (`image_policy_on_a_real_cluster`).
#[tokio::test]
async fn qk16_a_rule_about_ephemeral_containers_is_evaluated() {
    let Some(world) = with_kyverno().await else {
        return;
    };
    let world = world.furnished(&[]).await;
    let rendering = Rendering::of(&world, Tier::Ground);
    let mut canary = images::rendered(&rendering);
    canary["metadata"]["name"] = json!("tower-breakglass-canary");
    canary["spec"]["validations"] = json!([{ "expression": "false", "message": "a canary" }]);
    canary["spec"]["matchImageReferences"] = json!([{ "glob": "nowhere.example/*" }]);
    world.made(images::LIST, canary).await;
    world.made(&images::pods(&world), images::pod("app")).await;
    let by = "Policy tower-breakglass-canary failed: a canary";
    until("the canary speaks", async || {
        // What Kyverno has generated for the test before may speak until it is collected.
        images::add_by(&world, Actor::Backend).await.1.contains(by)
    })
    .await;
    let (status, said) = images::add_by(&world, Actor::Backend).await;
    let others = images::add_by(&world, Actor::Operator).await;
    world.take_away().await;
    assert!(status >= 400 && said.contains(by), "{status} {said}");
    assert_eq!(others.0, 200, "nobody else's matter: {others:?}");
}

/// The right of one namespace is not what the cleanup controller asks for: it asks for the whole
/// cluster, and so does this question, which `kubectl auth can-i` can put.
#[tokio::test]
async fn qk64_a_right_in_one_namespace_is_none_for_the_cleanup_controller() {
    let Some(world) = with_kyverno().await else {
        return;
    };
    let world = world.furnished(&[]).await;
    let namespace = world.namespace(Place::App);
    let group = "rbac.authorization.k8s.io";
    let may = async || {
        world
            .may(Actor::KyvernoCleanup, "delete", group, "rolebindings")
            .await
    };
    until("there is no right yet", async || !may().await).await;
    // What an earlier test's right made it watch, the controller deletes by any right until then.
    super::round_passes(
        &world,
        [
            ("v1", "LimitRange", "limitranges"),
            ("coordination.k8s.io/v1", "Lease", "leases"),
        ],
    )
    .await;
    let roles = format!("{}/namespaces/{namespace}/roles", world::RIGHTS);
    let rule = json!({ "apiGroups": [group], "resources": ["rolebindings"],
                       "verbs": ["get", "list", "watch", "delete"] });
    world
        .made(
            &roles,
            json!({ "metadata": { "name": "grants" }, "rules": [rule] }),
        )
        .await;
    let bound = json!({ "metadata": { "name": "grants" },
        "roleRef": { "apiGroup": group, "kind": "Role", "name": "grants" },
        "subjects": [{ "kind": "ServiceAccount", "namespace": "kyverno",
                       "name": "kyverno-cleanup-controller" }] });
    world.made(&world::bindings(&namespace), bound).await;
    let mut grant = good_grant(BACKEND).expect("a grant");
    grant["metadata"]["labels"][super::TTL] = json!("1s");
    let metadata = grant["metadata"].as_object_mut().expect("metadata");
    metadata.remove("namespace");
    let path = format!(
        "{}/{}",
        world::bindings(&namespace),
        grant["metadata"]["name"].as_str().expect("a name")
    );
    world.made(&world::bindings(&namespace), grant).await;
    super::round_passes(
        &world,
        [
            ("v1", "Endpoints", "endpoints"),
            ("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"),
        ],
    )
    .await;
    let stays = world.as_admin(Method::GET, &path, &Value::Null).await.0;
    let in_one_namespace = may().await;

    let rendering = Rendering::of(&world, Tier::Ground);
    world.kubectl_apply(&[rendering.file("rbac-50-kyverno-cleanup.yaml")]);
    until("the rendered right is whole", async || may().await).await;
    super::gone(&world, &path).await;
    world.take_away().await;
    assert!(!in_one_namespace, "asked about the whole cluster");
    assert_eq!(stays, 200, "passed over in silence");
}
