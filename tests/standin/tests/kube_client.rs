//! The client that the adapter uses, against the stand-in.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "a test panics to fail, and tells its story in one piece"
)]

use futures_util::TryStreamExt;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{
    Api, AttachParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;
use standin::{DEBUG_IMAGE, LIVE_ROLE, Options, Standin};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Bounds a step, and says which one took too long.
async fn within<T>(what: &str, step: impl Future<Output = T>) -> T {
    let bound = std::time::Duration::from_secs(10);
    tokio::time::timeout(bound, step)
        .await
        .unwrap_or_else(|_| panic!("too long: {what}"))
}

async fn client(standin: &Standin) -> kube::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = Kubeconfig::from_yaml(&standin.kubeconfig()).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
    kube::Client::try_from(config.expect("a configuration")).expect("a client")
}

#[tokio::test]
async fn a_whole_live_session_runs_through_the_real_client() {
    let standin = Standin::start(Options::default())
        .await
        .expect("a stand-in");
    let client = client(&standin).await;
    let review: SelfSubjectReview = Api::all(client.clone())
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await
        .expect("a review");
    let user = review
        .status
        .and_then(|status| status.user_info)
        .and_then(|info| info.username);
    assert_eq!(
        user.as_deref(),
        Some("system:serviceaccount:tower:breakglass")
    );

    let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), "shop");
    let grant: RoleBinding = serde_json::from_value(json!({
        "metadata": { "name": "tower-breakglass-1" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": LIVE_ROLE },
        "subjects": [{ "kind": "ServiceAccount", "namespace": "tower", "name": "breakglass" }],
    }))
    .expect("a RoleBinding");
    bindings
        .create(&PostParams::default(), &grant)
        .await
        .expect("a grant");

    let pods: Api<Pod> = Api::namespaced(client, "shop");
    let name = standin.pods("shop")[0]["metadata"]["name"]
        .as_str()
        .expect("a name")
        .to_owned();
    let patch = json!({ "spec": { "ephemeralContainers": [{
        "name": "debug-a", "image": DEBUG_IMAGE, "command": ["/bin/sh"],
        "stdin": true, "tty": true,
    }] } });
    while pods.list(&ListParams::default()).await.is_err() {
        tokio::task::yield_now().await;
    }
    let selector = WatchParams::default().fields(&format!("metadata.name={name}"));
    let events = pods.watch(&selector, "0").await.expect("a watch");
    let mut events = Box::pin(events);
    pods.patch_ephemeral_containers(&name, &PatchParams::default(), &Patch::Strategic(&patch))
        .await
        .expect("a debug container");
    let waiting = async {
        while let Some(event) = events.try_next().await.expect("an event") {
            if let WatchEvent::Modified(pod) = event
                && let Some(status) = pod.status.and_then(|pod| pod.ephemeral_container_statuses)
                && status[0]
                    .state
                    .as_ref()
                    .is_some_and(|state| state.running.is_some())
            {
                return;
            }
        }
        panic!("the watch ended");
    };
    within("the debug container in the watch", waiting).await;
    let params = AttachParams::interactive_tty().container("debug-a");
    let mut attached = within("the attach", pods.attach(&name, &params))
        .await
        .expect("a stream");
    let mut keys = attached.stdin().expect("stdin");
    let mut output = attached.stdout().expect("stdout");
    keys.write_all(b"echo answer-$((40+2))\rexit\r")
        .await
        .expect("keys");
    let mut seen = String::new();
    let mut buffer = [0; 1024];
    let reading = async {
        loop {
            match output.read(&mut buffer).await.expect("output") {
                0 => return,
                length => seen.push_str(&String::from_utf8_lossy(&buffer[..length])),
            }
        }
    };
    let ended = tokio::time::timeout(std::time::Duration::from_secs(10), reading).await;
    assert!(ended.is_ok(), "the output never ended: {seen}");
    assert!(seen.contains("answer-42\r"), "{seen}");
    let status = attached
        .take_status()
        .expect("a status")
        .await
        .expect("a status");
    assert_eq!(status.status.as_deref(), Some("Success"));
    drop(events);
    bindings
        .delete("tower-breakglass-1", &Default::default())
        .await
        .expect("deleted");
    assert!(standin.role_bindings().is_empty());
}
