//! The real adapter of the cluster port, on the stand-in's API: the contract that it shares with
//! the fake, and what only a server can show (C-2, C-8, C-28, qK53).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "a test panics to fail, and tells its story in one piece"
)]

use breakglass::cluster;
use breakglass::fakes::cluster_contract::World;
use breakglass::ports::ClusterError;
use decisions::names;
use decisions::session::SessionId;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde_json::json;
use standin::{Delays, Options, RequestFault, RequestMatch, Standin, StartFault};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;
use world::{NAME, NAMESPACE, binding, connect, context, minted, parsed, world, world_of, write};

#[path = "kube_on_standin/launcher.rs"]
mod launcher;
#[path = "kube_on_standin/world.rs"]
mod world;

breakglass::cluster_contract!(world());

#[tokio::test]
async fn a_step_with_a_minted_token_mints_its_own_and_is_somebody_else() {
    let world = world_of(Options::default(), |folder| {
        let mut config = context(folder, "backend");
        config["serviceAccount"] = json!("tower/breakglass");
        config
    })
    .await;
    let who = world.on(NAME).username().await.expect("who we are");
    assert_eq!(who, "system:serviceaccount:tower:breakglass");
    world.standin.expire_tokens();
    world
        .on(NAME)
        .look_at(NAMESPACE, "x")
        .await
        .expect("a fresh token for each step");
    let minted = world
        .standin
        .requests()
        .iter()
        .filter(|r| r.path.ends_with("/token"))
        .count();
    assert_eq!(minted, 2);
}

#[tokio::test]
async fn a_far_cluster_trusts_the_homes_token() {
    let home = world().await;
    let far = Standin::start(Options::default())
        .await
        .expect("the far cluster starts");
    far.trust_tokens_of(&home.standin, "far");
    write(
        &home.files,
        "kubeconfig",
        &home.standin.kubeconfig_for("backend"),
    );
    write(&home.files, "far.pem", far.authority());
    let near = context(home.files.path(), "backend");
    let away = json!({ "mintedToken": {
        "home": "near", "serviceAccount": "tower/breakglass", "audience": "far",
        "server": far.url(), "caFile": home.files.path().join("far.pem"),
    } });
    let clusters = connect(&[("near", near), ("far", away)]).await;
    let who = clusters["far"].username().await.expect("who we are");
    assert_eq!(who, "system:serviceaccount:tower:breakglass");
    let who = clusters["near"].username().await.expect("who we are");
    assert_eq!(who, "system:serviceaccount:tower:backend");
}

#[tokio::test]
async fn a_home_that_is_minted_itself_is_refused() {
    let configs = BTreeMap::from([("a".to_owned(), parsed(&minted("a", "https://127.0.0.1:1")))]);
    let refused = cluster::connect(&configs, "tests")
        .await
        .err()
        .expect("refused");
    assert_eq!(refused.0, "a");
    assert!(
        cluster::connect(&BTreeMap::new(), "no label!")
            .await
            .is_ok(),
        "no cluster to mislabel"
    );
}

#[tokio::test]
async fn a_refused_token_drops_the_identity_and_is_named() {
    let world = world().await;
    let cluster = world.on(NAME);
    cluster.username().await.expect("who we are");
    let on = RequestMatch::on("get", "pods");
    world
        .standin
        .faults()
        .answer_once(on, 401, "Unauthorized", "Unauthorized");
    let pod = world.pod().await;
    let error = cluster.read_pod(&pod).await.expect_err("refused");
    assert!(
        matches!(error, ClusterError::Unauthorized { .. }),
        "{error}"
    );
    let before = reviews(&world.standin);
    cluster.username().await.expect("asked again");
    assert_eq!(reviews(&world.standin), before + 1);
}

fn reviews(standin: &Standin) -> usize {
    standin
        .requests()
        .iter()
        .filter(|r| r.path.ends_with("/selfsubjectreviews"))
        .count()
}

#[tokio::test]
async fn qk53_a_right_that_arrives_late_is_waited_for() {
    let delays = Delays {
        grant: Duration::from_millis(800),
        ..Delays::default()
    };
    let options = Options::default().delays(delays);
    let world = world_of(options, |folder| context(folder, "breakglass")).await;
    let id = world.grant().await;
    let pod = world.pod().await;
    let name = names::debug_container_name(&id);
    let cluster = world.on(NAME);
    let container = world.debug_container(&name);
    cluster
        .add_debug_container(&pod, &container)
        .await
        .expect("added once the right is there");
    cluster
        .await_running(&pod, &name, Duration::from_secs(10))
        .await
        .expect("it runs");
    cluster.attach(&pod, &name).await.expect("attached");
}

#[tokio::test]
async fn a_conflict_is_read_again() {
    let world = world().await;
    let id = world.grant().await;
    let on = RequestMatch::on("patch", "pods/ephemeralcontainers");
    let changed = "the object has been modified; please apply your changes to the latest version";
    world
        .standin
        .faults()
        .answer_once(on, 409, "Conflict", changed);
    let pod = world.pod().await;
    let container = world.debug_container(&names::debug_container_name(&id));
    world
        .on(NAME)
        .add_debug_container(&pod, &container)
        .await
        .expect("added at the second try");
}

#[tokio::test]
async fn a_watch_that_is_refused_or_ends_is_replaced_by_asking() {
    let world = world().await;
    let id = world.grant().await;
    let pod = world.pod().await;
    let name = names::debug_container_name(&id);
    let cluster = world.on(NAME);
    let faults = world.standin.faults();
    faults.answer_once(
        RequestMatch::on("watch", "pods"),
        403,
        "Forbidden",
        "no watch for you",
    );
    faults.next_start(StartFault::Slow { milliseconds: 600 });
    let container = world.debug_container(&name);
    cluster
        .add_debug_container(&pod, &container)
        .await
        .expect("added");
    cluster
        .await_running(&pod, &name, Duration::from_secs(10))
        .await
        .expect("it runs");
}

#[tokio::test]
async fn a_dead_cluster_is_named_within_the_deadline() {
    let world = world().await;
    let home = context(world.files.path(), "backend");
    let dead = minted("h", "https://127.0.0.1:1");
    let clusters = connect(&[("h", home), ("dead", dead)]).await;
    let error = clusters["dead"]
        .username()
        .await
        .expect_err("nobody is there");
    assert!(
        matches!(&error, ClusterError::Away { cluster, .. } if cluster == "dead"),
        "{error}"
    );
    assert!(
        clusters["h"].username().await.is_ok(),
        "another cluster is as it was"
    );
}

#[tokio::test]
async fn a_cluster_that_hangs_is_given_up_in_time() {
    let world = world_of(Options::default(), |folder| {
        let mut config = context(folder, "breakglass");
        config["callTimeoutSeconds"] = json!(1);
        config
    })
    .await;
    let on = RequestMatch::on("create", "rolebindings");
    world.standin.faults().next_request(on, RequestFault::Hang);
    let id = SessionId::parse("abcdefghijkl").expect("an id");
    let start = Instant::now();
    let error = world
        .on(NAME)
        .create_grant(&id, &binding(&id))
        .await
        .expect_err("no answer");
    assert!(matches!(error, ClusterError::Away { .. }), "{error}");
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
    world.standin.faults().release();
}

#[tokio::test]
async fn an_exec_plugins_token_opens_the_cluster() {
    let world = world().await;
    let token = world.standin.token("breakglass").expect("a token");
    let credential = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "status": { "token": token },
    });
    write(&world.files, "credential", &credential.to_string());
    let mut file: serde_json::Value =
        serde_json::from_str(&world.standin.kubeconfig()).expect("JSON");
    file["users"] = json!([{ "name": "breakglass", "user": { "exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "cat",
        "args": [world.files.path().join("credential")],
    } } }]);
    write(&world.files, "kubeconfig", &file.to_string());
    let clusters = connect(&[("c", context(world.files.path(), "breakglass"))]).await;
    let who = clusters["c"].username().await.expect("who we are");
    assert_eq!(who, "system:serviceaccount:tower:breakglass");
    let id = SessionId::parse("abcdefghijkl").expect("an id");
    let made = clusters["c"].create_grant(&id, &binding(&id)).await;
    made.expect("with the account's rights");
    assert!(world.has_binding(&names::grant_name(&id)).await);
}

#[tokio::test]
async fn no_secret_of_the_kubeconfig_is_in_an_error() {
    let files = tempfile::tempdir().expect("a folder");
    let script = "echo hunter2; echo hunter2 >&2; exit 1";
    let plugin = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{ "name": "c", "cluster": { "server": "https://127.0.0.1:1" } }],
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
        "users": [{ "name": "u", "user": { "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "/bin/sh", "args": ["-c", script],
        } } }],
    });
    write(&files, "kubeconfig", &plugin.to_string());
    let clusters = connect(&[("c", context(files.path(), "c"))]).await;
    let error = clusters["c"]
        .username()
        .await
        .expect_err("the plugin fails");
    assert!(matches!(error, ClusterError::Away { .. }), "{error:?}");
    assert!(
        !format!("{error} {error:?}").contains("hunter2"),
        "{error:?}"
    );
    assert!(error.to_string().contains("exec plugin"), "{error}");
}

#[tokio::test]
async fn the_admins_view_agrees_that_the_container_is_there_once() {
    let world = world().await;
    let id = world.grant().await;
    let pod = world.pod().await;
    let name = names::debug_container_name(&id);
    let container = world.debug_container(&name);
    // The answer of the first try is lost; the second finds what the first did (C-10a).
    let on = RequestMatch::on("patch", "pods/ephemeralcontainers");
    world
        .standin
        .faults()
        .next_request(on, RequestFault::PerformThenCut);
    let cluster = world.on(NAME);
    let lost = cluster.add_debug_container(&pod, &container).await;
    assert!(matches!(lost, Err(ClusterError::Away { .. })), "{lost:?}");
    cluster
        .add_debug_container(&pod, &container)
        .await
        .expect("there already");
    let api: Api<Pod> = Api::namespaced(world.admin().await, NAMESPACE);
    let found = api
        .get(&pod.name)
        .await
        .expect("the pod")
        .spec
        .expect("a spec");
    assert_eq!(found.ephemeral_containers.unwrap_or_default().len(), 1);
}
