//! A session that may look into the app's processes and volumes: how its pod is marked, what its
//! container gets, and who may read its recording (C-5, C-8, C-13, C-17, S-7).

use crate::meanwhile::{opening_with, until_requested};
use crate::opening::{CONTAINER, on};
use crate::stand::{ALICE, Plan, SOON, Stand, request_for};
use breakglass_tests::sidecar::call;
use serde_json::{Value, json};
use standin::{AppSeed, Options, RequestFault};

const MARK: &str = "hangar.io/breakglass-process-access";
const TOKENS: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The app with a Secret, a folder, a part of a volume, and its pod's token.
fn shop(replicas: u32) -> Options {
    let token = json!({"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}});
    let seed = AppSeed::new("shop", "shop")
        .replicas(replicas)
        .volume(
            "credentials",
            &json!({"secret": {"secretName": "shop"}}),
            "/etc/credentials",
        )
        .volume("work", &json!({"emptyDir": {}}), "/work")
        .volume("kube-api-access", &token, TOKENS)
        .with(&json!({"spec": {
            "volumes": [{"name": "shared", "emptyDir": {}}],
            "containers": [{"name": "app", "volumeMounts": [
                {"name": "shared", "mountPath": "/srv/part", "subPath": "part"},
            ]}],
        }}));
    Options::empty()
        .namespace(
            "shop",
            &[("hangar.io/app", "shop"), ("hangar.io/env", "dev")],
        )
        .app(seed)
}

fn asking_for_both(pod: &str) -> Value {
    let mut body = request_for(pod);
    body["processAccess"] = true.into();
    body["volumeAccess"] = true.into();
    body
}

fn pod_of(stand: &Stand, uid: &str) -> Value {
    let pods = stand.pods();
    let found = pods.iter().find(|pod| pod["metadata"]["uid"] == uid);
    found.expect("the pod").clone()
}

fn mark(pod: &Value) -> &Value {
    &pod["metadata"]["annotations"][MARK]
}

async fn recording_for(stand: &Stand, user: &str, allowed: &[&str], id: &str) -> u16 {
    let caller = json!({"version": 1, "user": user, "app": "shop", "allowed": allowed});
    let path = format!("/v1/sessions/{id}/recording");
    let read = call(&stand.socket(), "GET", &path, Some(&caller), None).await;
    read.expect("an answer").0
}

#[tokio::test]
async fn c_8_the_pod_is_marked_before_it_gets_a_container_that_reads_and_never_writes() {
    let plan = Plan::on(shop(2)).change(|config| {
        let demo = config.clusters.get_mut("demo").expect("the cluster");
        demo.limits.call = SOON;
    });
    let stand = plan.start().await;
    let (name, uid) = stand.ready_pod();
    stand
        .faults()
        .apply(on(CONTAINER.0, CONTAINER.1, RequestFault::Hang, 1));
    let (id, posting) = opening_with(&stand, asking_for_both(&name)).await;
    until_requested(&stand, "patch", "/ephemeralcontainers").await;
    let before = pod_of(&stand, &uid);
    assert_eq!(mark(&before), &id, "marked with the session");
    assert!(!crate::opening::has_debug_container(&before));
    stand.faults().release();
    let (status, answer) = posting.await.expect("an answer");
    assert_eq!(status, 201, "{answer}");

    let pod = pod_of(&stand, &uid);
    let added = &pod["spec"]["ephemeralContainers"][0];
    assert_eq!(added["name"], format!("debug-{id}"));
    assert_eq!(added["targetContainerName"], "app");
    let security = &added["securityContext"];
    assert_eq!(
        (&security["runAsUser"], &security["runAsNonRoot"]),
        (&10001.into(), &true.into()),
        "the app's own user: {security}"
    );
    let mounts = added["volumeMounts"].as_array().expect("mounts");
    let places: Vec<_> = mounts
        .iter()
        .map(|mount| (mount["name"].clone(), mount["mountPath"].clone()))
        .collect();
    let expected = [
        ("credentials", "/etc/credentials"),
        ("work", "/work"),
        ("shared", "/volumes/shared"),
    ];
    assert_eq!(
        places,
        expected.map(|(name, path)| (name.into(), path.into())),
        "all but the token"
    );
    assert!(
        mounts
            .iter()
            .all(|m| m["readOnly"] == true && m["subPath"].is_null()),
        "{mounts:?}"
    );

    let row = stand.row(&id).await;
    assert_eq!(row["sensitive"], true);
    let told = row["volumes"].as_array().expect("volumes");
    let places: Vec<_> = told
        .iter()
        .map(|v| (v["name"].clone(), v["mountPath"].clone()))
        .collect();
    assert_eq!(
        places,
        expected.map(|(name, path)| (name.into(), path.into()))
    );
    assert!(
        told[2]["note"]
            .as_str()
            .is_some_and(|note| note.contains("whole volume")),
        "{told:?}"
    );
    let (_, shown) = stand.get(&format!("/v1/sessions/{id}")).await;
    assert_eq!(shown["session"]["volumes"], row["volumes"]);
    assert_eq!(shown["session"]["sensitive"], true);

    stand.attach(&id).await.echo().await;
    assert_eq!(stand.end(&id).await.0, 200);
    let row = stand.ended(&id).await;
    assert_eq!(row["recycled"], true, "{row:#}");
    stand.assert_nothing_is_left().await;
    let bob = "user:default/bob";
    for (user, allowed, expected) in [
        (bob, &["request"][..], 403),
        (bob, &["request", "self"][..], 403),
        (bob, &["request", "terminate"][..], 200),
        (ALICE, &["request"][..], 200),
    ] {
        let status = recording_for(&stand, user, allowed, &id).await;
        assert_eq!(status, expected, "{user} {allowed:?}");
    }
}

#[tokio::test]
async fn c_17_a_pod_that_stays_loses_its_mark_while_the_grant_is_still_there() {
    let stand = Plan::on(shop(1)).start().await;
    let (_, uid) = stand.ready_pod();
    let open = stand
        .open_with(|body| *body = asking_for_both(body["pod"].as_str().expect("a pod")))
        .await;
    assert_eq!(mark(&pod_of(&stand, &uid)), &open.id);
    let before = stand.standin.requests().len();
    assert_eq!(stand.end(&open.id).await.0, 200);
    let row = stand.ended(&open.id).await;
    assert_eq!(row["recycled"], false, "the last ready pod: {row:#}");
    assert!(mark(&pod_of(&stand, &uid)).is_null(), "the mark is off");
    assert!(stand.grants().is_empty());
    let since = stand.standin.requests().split_off(before);
    let at = |verb: &str, part: &str| {
        let is = |r: &standin::LoggedRequest| r.verb == verb && r.path.contains(part);
        since.iter().position(is)
    };
    let (unmarked, revoked) = (at("patch", "/pods/"), at("delete", "/rolebindings/"));
    assert!(unmarked.is_some() && unmarked < revoked, "{since:#?}");
}

#[tokio::test]
async fn what_was_not_asked_for_is_not_given() {
    let stand = Plan::on(shop(2)).start().await;
    let open = stand.open().await;
    let pod = pod_of(&stand, &open.uid);
    assert!(mark(&pod).is_null());
    let added = &pod["spec"]["ephemeralContainers"][0];
    for field in ["targetContainerName", "volumeMounts"] {
        assert!(added[field].is_null(), "{field}: {added}");
    }
    let row = stand.row(&open.id).await;
    assert_eq!(
        (&row["sensitive"], &row["process_access"]),
        (&false.into(), &false.into())
    );
    stand.end(&open.id).await;
    stand.ended(&open.id).await;
    let bob = "user:default/bob";
    let status = recording_for(&stand, bob, &["request"], &open.id).await;
    assert_eq!(status, 200, "anybody of the app's may read it");
}
