//! The rights of C-2a on a real API server: the sidecar's own token, every step, with the grant
//! and without it.
//!
//! Runs on the cluster whose folder `BREAKGLASS_TEST_CLUSTER` names (`cargo xtask cluster up DIR`).
//! A run without a cluster fails, unless `BREAKGLASS_SKIP` names `cluster`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "a test panics to fail, and tells its story in one piece"
)]

#[path = "rbac_on_a_real_cluster/cluster.rs"]
mod cluster;
#[path = "rbac_on_a_real_cluster/journey.rs"]
mod journey;
#[path = "rbac_on_a_real_cluster/needed.rs"]
mod needed;

use breakglass_tests::real_cluster::{RealCluster, WITHIN, send, until};
use cluster::Cluster;
use std::path::PathBuf;
use std::time::Duration;

use http::Method;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, AttachParams};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const DEBUG: &str = "debug-0123456789ab";
const BINDING: &str = "tower-breakglass-0123456789ab";

fn binding(role: &str) -> Value {
    json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": { "name": BINDING },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
        "subjects": [{ "kind": "ServiceAccount", "namespace": "backstage",
                       "name": "breakglass-sidecar" }] })
}

fn bindings(namespace: &str) -> String {
    format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings")
}

/// Which grant a step needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    Live,
    Copy,
    Either,
    /// No grant gives it.
    Never,
}

struct Step {
    name: &'static str,
    method: Method,
    path: String,
    body: Option<Value>,
    needs: Needs,
    /// The status of a request that is allowed. A connection that is not upgraded ends with 400,
    /// after authorization and admission.
    allowed: u16,
}

/// Every step of a session and some that are none, as dry runs where they would change something.
fn steps(cluster: &Cluster, namespace: &str) -> Vec<Step> {
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    let app = format!("{pods}/app");
    let annotation = json!({ "metadata": { "annotations": { "hangar.io/x": "y" } } });
    let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction",
                           "metadata": { "name": "app", "namespace": namespace } });
    let step = |name, method, path: String, body, needs, allowed| Step {
        name,
        method,
        path,
        body,
        needs,
        allowed,
    };
    let debug = Some(cluster.debug_container());
    let copy = Some(cluster.pod("app-copy"));
    let dry = "dryRun=All";
    use Needs::{Copy, Either, Live, Never};
    vec![
        step("list pods", Method::GET, pods.clone(), None, Either, 200),
        step(
            "watch pods",
            Method::GET,
            format!("{pods}?watch=1&timeoutSeconds=1"),
            None,
            Either,
            200,
        ),
        step(
            "list disruption budgets",
            Method::GET,
            format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"),
            None,
            Live,
            200,
        ),
        step(
            "patch a pod",
            Method::PATCH,
            format!("{app}?{dry}"),
            Some(annotation),
            Live,
            200,
        ),
        step(
            "delete a pod",
            Method::DELETE,
            format!("{app}?{dry}"),
            None,
            Either,
            200,
        ),
        step(
            "create a pod",
            Method::POST,
            format!("{pods}?{dry}"),
            copy,
            Copy,
            201,
        ),
        step(
            "read debug containers",
            Method::GET,
            format!("{app}/ephemeralcontainers"),
            None,
            Never,
            200,
        ),
        step(
            "add a debug container",
            Method::PATCH,
            format!("{app}/ephemeralcontainers?{dry}"),
            debug,
            Live,
            200,
        ),
        step(
            "attach",
            Method::GET,
            format!("{app}/attach?stdout=1"),
            None,
            Either,
            400,
        ),
        step(
            "attach by POST",
            Method::POST,
            format!("{app}/attach?stdout=1"),
            None,
            Either,
            400,
        ),
        step(
            "exec",
            Method::GET,
            format!("{app}/exec?command=id&stdout=1"),
            None,
            Never,
            400,
        ),
        step(
            "exec by POST",
            Method::POST,
            format!("{app}/exec?command=id&stdout=1"),
            None,
            Never,
            400,
        ),
        step(
            "evict a pod",
            Method::POST,
            format!("{app}/eviction?{dry}"),
            Some(eviction),
            Never,
            201,
        ),
        step(
            "read logs",
            Method::GET,
            format!("{app}/log"),
            None,
            Never,
            200,
        ),
        step(
            "port-forward",
            Method::POST,
            format!("{app}/portforward"),
            None,
            Never,
            400,
        ),
        step(
            "delete all pods",
            Method::DELETE,
            format!("{pods}?{dry}"),
            None,
            Never,
            200,
        ),
        step(
            "patch a pod's status",
            Method::PATCH,
            format!("{app}/status?{dry}"),
            Some(json!({})),
            Never,
            200,
        ),
        step(
            "list pods elsewhere",
            Method::GET,
            "/api/v1/namespaces/default/pods".into(),
            None,
            Never,
            200,
        ),
        step(
            "list secrets",
            Method::GET,
            format!("/api/v1/namespaces/{namespace}/secrets"),
            None,
            Never,
            200,
        ),
    ]
}

/// Sends every step as the sidecar with the grant `held`, or with none.
async fn check_steps(cluster: &Cluster, namespace: &str, held: Option<Needs>) {
    for step in steps(cluster, namespace) {
        let has_it = match step.needs {
            Needs::Never => false,
            Needs::Either => held.is_some(),
            Needs::Live | Needs::Copy => held == Some(step.needs),
        };
        let expected = if has_it { step.allowed } else { 403 };
        let body = step.body.unwrap_or_default();
        let (status, answer) = send(&cluster.sidecar, step.method, &step.path, &body).await;
        assert_eq!(status, expected, "{} with {held:?}: {answer}", step.name);
    }
}

async fn grant(cluster: &Cluster, namespace: &str, role: &str) {
    let path = bindings(namespace);
    let (status, answer) = send(&cluster.sidecar, Method::POST, &path, &binding(role)).await;
    assert_eq!(status, 201, "the sidecar makes its own grant: {answer}");
    list_pods_answers(cluster, namespace, 200).await;
}

async fn revoke(cluster: &Cluster, namespace: &str) {
    let path = format!("{}/{BINDING}", bindings(namespace));
    let (status, answer) = send(&cluster.sidecar, Method::DELETE, &path, &Value::Null).await;
    assert_eq!(status, 200, "the sidecar deletes its own grant: {answer}");
    list_pods_answers(cluster, namespace, 403).await;
}

async fn list_pods_answers(cluster: &Cluster, namespace: &str, expected: u16) {
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    until(&format!("listing pods answers {expected}"), async || {
        send(&cluster.sidecar, Method::GET, &path, &Value::Null)
            .await
            .0
            == expected
    })
    .await;
}

#[tokio::test]
async fn c_2a_each_step_needs_the_grant_and_the_grant_gives_no_other() {
    let Some(cluster) = Cluster::of_this_run().await else {
        return;
    };
    let namespace = cluster.app_namespace("rbac-steps").await;
    check_steps(&cluster, &namespace, None).await;
    for (role, held) in [
        ("tower-breakglass-debug-live", Needs::Live),
        ("tower-breakglass-debug-copy", Needs::Copy),
    ] {
        grant(&cluster, &namespace, role).await;
        check_steps(&cluster, &namespace, Some(held)).await;
        revoke(&cluster, &namespace).await;
    }
    check_steps(&cluster, &namespace, None).await;
    cluster.forget(&namespace).await;
}

#[tokio::test]
async fn c_2a_at_rest_the_sidecar_reads_its_target_and_makes_grants_and_nothing_else() {
    let Some(cluster) = Cluster::of_this_run().await else {
        return;
    };
    let namespace = cluster.app_namespace("rbac-rest").await;
    let own = bindings(&namespace);
    let dry = format!("{own}?dryRun=All");
    let review = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
    let everywhere = "/apis/rbac.authorization.k8s.io/v1/rolebindings".to_owned();
    let role = |name: &str| format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}");
    let own_role = json!({ "rules": [] });
    let token = "/api/v1/namespaces/backstage/serviceaccounts/breakglass-sidecar/token".to_owned();
    let reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews".to_owned();
    let table = [
        (
            200,
            Method::GET,
            format!("/api/v1/namespaces/{namespace}"),
            None,
        ),
        (
            200,
            Method::GET,
            format!("/api/v1/namespaces/{namespace}/pods/app"),
            None,
        ),
        (200, Method::GET, everywhere, None),
        (
            201,
            Method::POST,
            dry.clone(),
            Some(binding("tower-breakglass-debug-live")),
        ),
        (
            201,
            Method::POST,
            dry.clone(),
            Some(binding("tower-breakglass-debug-copy")),
        ),
        (404, Method::GET, format!("{own}/{BINDING}"), None),
        (404, Method::DELETE, format!("{own}/{BINDING}"), None),
        (201, Method::POST, reviews, Some(review)),
        (
            403,
            Method::POST,
            dry.clone(),
            Some(binding("cluster-admin")),
        ),
        (403, Method::POST, dry.clone(), Some(binding("view"))),
        // RBAC lets anybody pass on what they hold themselves: no more rights than at rest, and
        // the policy `rolebinding` refuses it.
        (
            201,
            Method::POST,
            dry,
            Some(binding("tower-breakglass-backend")),
        ),
        (
            403,
            Method::PATCH,
            format!("{own}/{BINDING}"),
            Some(json!({})),
        ),
        (403, Method::DELETE, format!("{own}?dryRun=All"), None),
        (403, Method::GET, "/api/v1/namespaces".to_owned(), None),
        (403, Method::GET, "/api/v1/pods".to_owned(), None),
        (403, Method::GET, "/api/v1/nodes".to_owned(), None),
        (
            403,
            Method::PATCH,
            role("tower-breakglass-debug-live"),
            Some(own_role),
        ),
        (403, Method::GET, role("tower-breakglass-debug-live"), None),
        (403, Method::POST, token, Some(json!({}))),
    ];
    for (expected, method, path, body) in table {
        let body = body.unwrap_or_default();
        let (status, answer) = send(&cluster.sidecar, method.clone(), &path, &body).await;
        assert_eq!(status, expected, "{method} {path} {body}: {answer}");
    }
    cluster.forget(&namespace).await;
}

#[tokio::test]
async fn c_2a_a_whole_live_session_needs_no_more_than_the_grant() {
    let Some(cluster) = Cluster::of_this_run().await else {
        return;
    };
    let namespace = cluster.app_namespace("rbac-live").await;
    let app = format!("/api/v1/namespaces/{namespace}/pods/app");
    grant(&cluster, &namespace, "tower-breakglass-debug-live").await;

    let debug = cluster.debug_container();
    let path = format!("{app}/ephemeralcontainers");
    let (status, answer) = send(&cluster.sidecar, Method::PATCH, &path, &debug).await;
    assert_eq!(status, 200, "{answer}");
    until("the debug container runs", async || {
        let (_, pod) = send(&cluster.sidecar, Method::GET, &app, &Value::Null).await;
        pod["status"]["ephemeralContainerStatuses"][0]["state"]["running"].is_object()
    })
    .await;

    let pods: Api<Pod> = Api::namespaced(cluster.sidecar.clone(), &namespace);
    let terminal = AttachParams::interactive_tty().container(DEBUG);
    let mut shell = pods
        .attach("app", &terminal)
        .await
        .expect("attach is granted");
    let mut input = shell.stdin().expect("stdin");
    let mut output = shell.stdout().expect("stdout");
    input
        .write_all(b"echo $((40 + 2))-$(id -u)\r")
        .await
        .expect("typed");
    let mut seen = Vec::new();
    let answered = async {
        while !String::from_utf8_lossy(&seen).contains("42-65532") {
            let count = output.read_buf(&mut seen).await.expect("output");
            assert!(
                count > 0,
                "the stream ended: {:?}",
                String::from_utf8_lossy(&seen)
            );
        }
    };
    tokio::time::timeout(WITHIN, answered)
        .await
        .expect("the shell answers");

    let (status, answer) = send(&cluster.sidecar, Method::DELETE, &app, &Value::Null).await;
    assert_eq!(status, 200, "the recycle: {answer}");
    until("the pod is gone", async || {
        send(&cluster.sidecar, Method::GET, &app, &Value::Null)
            .await
            .0
            == 404
    })
    .await;
    revoke(&cluster, &namespace).await;
    cluster.forget(&namespace).await;
}
