//! Taking back what a session made, where the cluster is in the way (C-15 … C-26).

use crate::stand::{Plan, Stand};
use breakglass_tests::witness::Witness;
use k8s_openapi::api::rbac::v1::RoleBinding;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::Value;
use standin::{AppSeed, Fault, Options, RequestFault, RequestMatch};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

fn notes(row: &Value) -> String {
    row["cleanup_notes"].as_str().unwrap_or_default().to_owned()
}

fn shop(replicas: u32) -> Options {
    Options::empty()
        .namespace(
            "shop",
            &[("hangar.io/app", "shop"), ("hangar.io/env", "dev")],
        )
        .app(AppSeed::new("shop", "shop").replicas(replicas))
}

#[tokio::test]
async fn qa24_an_api_server_that_is_away_at_the_deadline_does_not_keep_the_terminal() {
    let stand = Plan::new().start().await;
    let open = stand.open().await;
    let mut terminal = stand.attach(&open.id).await;
    terminal.echo().await;
    stand.pass_until_before_deadline(&open.id, 8 * MINUTE).await;
    terminal.echo().await;
    stand
        .pass_until_before_deadline(&open.id, 20 * Duration::from_secs(1))
        .await;
    terminal.echo().await;
    stand.faults().apply(Fault::Unreachable { on: true });
    stand.sidecar.clock.advance(Duration::from_secs(20));
    assert_eq!(terminal.until_ended().await, "expired");
    let row = stand.ended(&open.id).await;
    assert_eq!(
        (&row["state"], &row["end_reason"]),
        (&"ended".into(), &"expired".into())
    );
    assert!(
        notes(&row).contains("RoleBinding not deleted"),
        "{}",
        notes(&row)
    );
    assert!(notes(&row).contains("pod not recycled"), "{}", notes(&row));
    assert!(
        stand.recording(&row).contains("ended: expired"),
        "its recording is saved"
    );
    // Minutes later it still is what the row says it is: not done.
    stand.pass(MINUTE).await;
    stand.pass(MINUTE).await;
    let row = stand.row(&open.id).await;
    assert!(
        notes(&row).contains("RoleBinding not deleted"),
        "never told as gone: {row:#}"
    );
    assert_eq!(stand.grants().len(), 1);

    stand.faults().apply(Fault::Unreachable { on: false });
    let row = swept(&stand, &open.id, "the clean-up", |row| {
        row["cleanup_notes"].is_null()
    })
    .await;
    assert_eq!(row["recycled"], true);
    assert!(!stand.has_pod(&open.uid));
    stand.assert_nothing_is_left().await;
}

/// The row once one of the next sweeps has brought it there.
async fn swept(stand: &Stand, id: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    let deadline = tokio::time::Instant::now() + crate::stand::SOON;
    loop {
        stand.sweep().await;
        let row = stand.row(id).await;
        if is(&row) {
            return row;
        }
        assert!(
            tokio::time::Instant::now() < deadline,
            "{what} did not come: {row:#}"
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn qc13_a_grant_that_cannot_be_deleted_is_retried_until_it_is_gone() {
    let stand = Plan::new()
        .change(|config| config.timeouts.cleanup_step = 1)
        .start()
        .await;
    let open = stand.open().await;
    let fails = RequestFault::Answer {
        code: 500,
        reason: "InternalError".to_owned(),
        message: "etcdserver: leader changed".to_owned(),
    };
    let matching = RequestMatch::on("delete", "rolebindings");
    stand.faults().apply(Fault::Request {
        matching,
        fault: fails,
        times: 5,
    });
    assert_eq!(stand.end(&open.id).await.0, 200);
    let row = stand.ended(&open.id).await;
    assert!(
        notes(&row).starts_with("RoleBinding not deleted"),
        "{row:#}"
    );
    assert!(notes(&row).contains("leader changed"), "{row:#}");
    assert_eq!(row["recycled"], true, "the other steps went on");
    assert_eq!(stand.grants().len(), 1);
    assert_eq!(stand.objects().await, 1, "it stays on record");
    swept(&stand, &open.id, "the removal", |row| {
        row["cleanup_notes"].is_null()
    })
    .await;
    stand.assert_nothing_is_left().await;
}

#[tokio::test]
async fn qc15_a_namesake_of_the_pod_is_not_touched() {
    let stand = Plan::new().start().await;
    let open = stand.open().await;
    let replaced = Fault::ReplacePod {
        namespace: "shop".to_owned(),
        name: open.pod.clone(),
    };
    assert!(stand.faults().apply(replaced));
    let namesake = stand
        .pods()
        .into_iter()
        .find(|pod| pod["metadata"]["name"] == open.pod.as_str())
        .expect("a namesake");
    let uid = namesake["metadata"]["uid"]
        .as_str()
        .expect("a UID")
        .to_owned();
    assert_ne!(uid, open.uid);
    stand.end(&open.id).await;
    let row = stand.ended(&open.id).await;
    assert!(stand.has_pod(&uid), "it was made by somebody else");
    let deleted = stand
        .standin
        .requests()
        .iter()
        .any(|r| r.verb == "delete" && r.path.contains("/pods/"));
    assert!(!deleted, "nobody even asked for it");
    assert!(row["cleanup_notes"].is_null(), "{row:#}");
    stand.assert_nothing_is_left().await;
}

#[tokio::test]
async fn qc15_a_namesake_of_the_grant_is_not_touched() {
    let stand = Plan::new().start().await;
    let open = stand.open().await;
    let kubeconfig = stand.settings.dir.join("kubeconfig");
    let admin = Witness::new(&kubeconfig, Some("admin"))
        .await
        .expect("an admin");
    let bindings = Api::<RoleBinding>::namespaced(admin.client(), "shop");
    let name = format!("tower-breakglass-{}", open.id);
    let mut namesake = bindings.get(&name).await.expect("our grant");
    bindings
        .delete(&name, &DeleteParams::default())
        .await
        .expect("it is deleted");
    namesake.metadata = ObjectMeta {
        name: Some(name.clone()),
        ..ObjectMeta::default()
    };
    bindings
        .create(&PostParams::default(), &namesake)
        .await
        .expect("somebody else's");
    stand.end(&open.id).await;
    let row = stand.ended(&open.id).await;
    assert!(row["cleanup_notes"].is_null(), "{row:#}");
    assert_eq!(stand.grants(), [name], "it is not ours to remove");
    assert_eq!(stand.objects().await, 0, "and not on record");
}

#[tokio::test]
async fn the_last_ready_pod_is_skipped_and_stays_listed() {
    let stand = Plan::on(shop(1)).start().await;
    let open = stand.open().await;
    let mut terminal = stand.attach(&open.id).await;
    terminal.echo().await;
    stand.end(&open.id).await;
    let row = stand.ended(&open.id).await;
    assert_eq!(row["recycled"], false, "{row:#}");
    assert!(
        notes(&row).starts_with("pod not recycled: it is the last ready pod"),
        "{row:#}"
    );
    assert!(stand.has_pod(&open.uid));
    assert_eq!(
        stand.grants(),
        Vec::<String>::new(),
        "the right is gone all the same"
    );
    assert_eq!(stand.objects().await, 1, "the pod stays listed");
    stand.sweep().await;
    assert!(stand.has_pod(&open.uid), "no sweep removes it");

    let deleted = Fault::DeletePod {
        namespace: "shop".to_owned(),
        name: open.pod.clone(),
    };
    assert!(stand.faults().apply(deleted));
    let deadline = tokio::time::Instant::now() + crate::stand::SOON;
    while stand.objects().await > 0 {
        assert!(
            tokio::time::Instant::now() < deadline,
            "a pod that is gone stays listed"
        );
        stand.sweep().await;
    }
}

#[tokio::test]
async fn the_last_ready_pod_is_recycled_where_its_requester_asked() {
    let stand = Plan::on(shop(1)).start().await;
    let open = stand
        .open_with(|body| body["recycleLastPod"] = true.into())
        .await;
    stand.end(&open.id).await;
    let row = stand.ended(&open.id).await;
    assert_eq!(row["recycled"], true, "{row:#}");
    assert!(!stand.has_pod(&open.uid));
    stand.assert_nothing_is_left().await;
}

#[tokio::test]
async fn qc24_a_budget_that_allows_no_disruption_is_waited_for_and_then_respected() {
    let stand = Plan::on(shop(2).budget("shop", "shop", 0)).start().await;
    let open = stand.open().await;
    stand.end(&open.id).await;
    let row = stand.ended(&open.id).await;
    assert_eq!(row["recycled"], false, "{row:#}");
    assert!(
        notes(&row).contains("PodDisruptionBudget allows no disruption"),
        "{row:#}"
    );
    assert!(stand.has_pod(&open.uid));
    assert_eq!(stand.grants(), Vec::<String>::new());
    assert_eq!(stand.objects().await, 1, "never forgotten");
}

#[tokio::test]
async fn qc24_a_budget_that_gives_way_in_time_lets_the_pod_be_recycled() {
    let plan = Plan::on(shop(2).budget("shop", "shop", 0));
    let stand = plan
        .change(|config| config.timeouts.recycle = 600)
        .start()
        .await;
    let open = stand.open().await;
    let reads = || {
        let requests = stand.standin.requests();
        requests
            .iter()
            .filter(|r| r.path.contains("/poddisruptionbudgets"))
            .count()
    };
    let ending = stand.end(&open.id);
    let giving_way = async {
        stand
            .until("a second look at the budget", || reads() >= 2)
            .await;
        assert!(stand.has_pod(&open.uid), "it waits");
        stand.standin.set_budget("shop", "shop", 1);
    };
    let ((status, _), ()) = tokio::join!(ending, giving_way);
    assert_eq!(status, 200);
    let row = stand.ended(&open.id).await;
    assert_eq!(row["recycled"], true, "{row:#}");
    assert!(row["cleanup_notes"].is_null(), "{row:#}");
    stand.assert_nothing_is_left().await;
}

#[tokio::test]
async fn the_last_of_several_sessions_on_a_pod_recycles_it() {
    let stand = Plan::new().start().await;
    let first = stand.open().await;
    let second = stand
        .open_with(|body| body["pod"] = first.pod.clone().into())
        .await;
    stand.end(&first.id).await;
    let row = stand.ended(&first.id).await;
    assert!(stand.has_pod(&first.uid), "somebody is still in it");
    assert_eq!(row["recycled"], false, "{row:#}");
    stand.attach(&second.id).await.echo().await;
    stand.end(&second.id).await;
    assert_eq!(stand.ended(&second.id).await["recycled"], true);
    assert!(!stand.has_pod(&first.uid));
    stand.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_grant_that_lapsed_is_made_anew_for_what_only_it_can_remove() {
    let stand = Plan::new().start().await;
    let open = stand.open().await;
    stand.attach(&open.id).await.echo().await;
    stand.faults().apply(Fault::Unreachable { on: true });
    assert_eq!(stand.end(&open.id).await.0, 200);
    let row = stand.ended(&open.id).await;
    assert!(notes(&row).contains("pod not recycled"), "{row:#}");
    stand.stop_the_clock();
    stand.faults().apply(Fault::Unreachable { on: false });
    let kubeconfig = stand.settings.dir.join("kubeconfig");
    let admin = Witness::new(&kubeconfig, Some("admin"))
        .await
        .expect("an admin");
    let bindings = Api::<RoleBinding>::namespaced(admin.client(), "shop");
    let name = format!("tower-breakglass-{}", open.id);
    bindings
        .delete(&name, &DeleteParams::default())
        .await
        .expect("it lapses");
    stand.let_the_clock_flow();
    let row = swept(&stand, &open.id, "the clean-up", |row| {
        row["cleanup_notes"].is_null()
    })
    .await;
    assert_eq!(row["recycled"], true, "{row:#}");
    assert!(!stand.has_pod(&open.uid));
    stand.assert_nothing_is_left().await;
}
