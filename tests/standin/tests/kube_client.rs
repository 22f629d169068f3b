//! The client that the adapter uses, against the stand-in.

use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{Api, AttachParams, ListParams, Patch, PatchParams, PostParams, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;
use standin::{DEBUG_IMAGE, LIVE_ROLE, Options, Standin};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

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
    while let Some(event) = events.try_next().await.expect("an event") {
        let text = format!("{event:?}");
        if text.contains("debug-a")
            && text.contains("running: Some")
            && text.contains("tower-debug")
            && standin.processes().len() == 1
        {
            break;
        }
    }
    let params = AttachParams::interactive_tty().container("debug-a");
    let mut attached = pods.attach(&name, &params).await.expect("a stream");
    let mut keys = attached.stdin().expect("stdin");
    let mut output = attached.stdout().expect("stdout");
    keys.write_all(b"echo $((40+2))\rexit\r")
        .await
        .expect("keys");
    let mut seen = String::new();
    output.read_to_string(&mut seen).await.expect("output");
    assert!(seen.contains("\n42\r"), "{seen}");
    let status = attached
        .take_status()
        .expect("a status")
        .await
        .expect("a status");
    assert_eq!(status.status.as_deref(), Some("Success"));
    drop(events.next());
    bindings
        .delete("tower-breakglass-1", &Default::default())
        .await
        .expect("deleted");
    assert!(standin.role_bindings().is_empty());
}
