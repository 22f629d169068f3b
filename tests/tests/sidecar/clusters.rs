//! One cluster that does not answer is nobody else's trouble (C-28).

use crate::opening::on;
use crate::stand::{ALICE, NAMESPACE, Plan, SOON, caller, request_for};
use breakglass_tests::sidecar::call;
use serde_json::json;
use standin::{Fault, Options, RequestFault, Standin};

/// More than are let into one cluster at once.
const HUNG: u32 = 20;
/// So many are.
const AT_ONCE: usize = 16;

#[tokio::test]
async fn c_28_a_session_opens_while_another_cluster_hangs() {
    let other = Standin::start(Options::default()).await.expect("a cluster");
    let files = tempfile::tempdir().expect("a folder");
    let path = files.path().join("kubeconfig");
    std::fs::write(&path, other.kubeconfig()).expect("a kubeconfig");
    let way = json!({"kubeconfig": {"path": path, "context": "breakglass"}});
    let way = serde_json::from_value(way).expect("a cluster's configuration");
    let plan = Plan::new().change(move |config| {
        config.clusters.insert("other".to_owned(), way);
        config.ground_clusters.push("other".to_owned());
        let demo = config.clusters.get_mut("demo").expect("the cluster");
        demo.limits.call = SOON;
        demo.limits.concurrent_calls = AT_ONCE;
    });
    let stand = plan.start().await;
    stand
        .faults()
        .apply(on("get", "namespaces", RequestFault::Hang, HUNG));
    let postings: Vec<_> = (0..HUNG)
        .map(|_| {
            let (socket, body) = (stand.socket(), stand.request());
            tokio::spawn(async move {
                let alice = caller(ALICE, "shop");
                call(&socket, "POST", "/v1/sessions", Some(&alice), Some(&body)).await
            })
        })
        .collect();
    stand
        .until("as many calls as are let in", || {
            let requests = stand.standin.requests();
            let hung = requests.iter().filter(|r| r.path.contains("/namespaces/"));
            hung.count() >= AT_ONCE
        })
        .await;

    let pods = other.pods(NAMESPACE);
    let pod = pods[0]["metadata"]["name"].as_str().expect("a pod");
    let mut body = request_for(pod);
    body["cluster"] = "other".into();
    let (status, session) = stand.post("/v1/sessions", Some(&body)).await;
    assert_eq!(status, 201, "{session}");
    let id = session["id"].as_str().expect("an id");
    stand.attach(id).await.echo().await;
    assert_eq!(stand.end(id).await.0, 200);
    stand.ended(id).await;
    assert!(other.role_bindings().is_empty());
    assert!(
        postings.iter().all(|posting| !posting.is_finished()),
        "the others still wait"
    );

    stand.faults().apply(Fault::Clear);
    let mut opened = 0;
    for posting in postings {
        let (status, answer) = posting.await.expect("it ran").expect("an answer");
        assert!(status == 201 || status == 409, "{status} {answer}");
        opened += u32::from(status == 201);
    }
    assert_eq!(opened, 3, "as many as one user may have");
}
