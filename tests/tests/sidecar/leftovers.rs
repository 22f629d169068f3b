//! Grants that carry our labels and are on nobody's record (C-23).

use crate::stand::{Plan, Stand};
use breakglass_tests::witness::Witness;
use k8s_openapi::api::rbac::v1::RoleBinding;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::PostParams;
use std::time::Duration;

const EXPIRES_AT: &str = "hangar.io/breakglass-expires-at";
const SESSION: &str = "hangar.io/breakglass-session";

/// The wall clock's time so many minutes ago.
fn ago(stand: &Stand, minutes: i64) -> String {
    let now = breakglass::ports::Clock::wall(&*stand.sidecar.clock);
    (now - jiff::SignedDuration::from_mins(minutes)).to_string()
}

#[tokio::test]
async fn a_grant_that_nobody_has_on_record_is_found_and_removed_once_it_is_long_over() {
    let stand = Plan::new().start().await;
    let open = stand.open().await;
    let kubeconfig = stand.settings.dir.join("kubeconfig");
    let admin = Witness::new(&kubeconfig, Some("admin")).await;
    let admin = admin.expect("an admin");
    let bindings = Api::<RoleBinding>::namespaced(admin.client(), "shop");
    let ours = bindings
        .get(&format!("tower-breakglass-{}", open.id))
        .await
        .expect("our grant");
    stand.end(&open.id).await;
    stand.ended(&open.id).await;
    stand.assert_nothing_is_left().await;

    let unknown = "0123456789ab";
    let recent = format!("tower-breakglass-{unknown}-2");
    for (name, session, minutes) in [
        (
            format!("tower-breakglass-{}-2", open.id),
            open.id.as_str(),
            30,
        ),
        (format!("tower-breakglass-{unknown}"), unknown, 30),
        // Still young when it is looked at, ten minutes from here.
        (recent.clone(), unknown, 1),
    ] {
        let mut left = ours.clone();
        let mut labels = ours.metadata.labels.clone().unwrap_or_default();
        labels.insert(SESSION.to_owned(), session.to_owned());
        let mut annotations = ours.metadata.annotations.clone().unwrap_or_default();
        annotations.insert(EXPIRES_AT.to_owned(), ago(&stand, minutes));
        left.metadata = ObjectMeta {
            name: Some(name),
            labels: Some(labels),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        };
        let made = bindings.create(&PostParams::default(), &left).await;
        made.expect("a leftover");
    }
    stand.pass(Duration::from_secs(600)).await;
    // The look has a bound of its own by this clock, so nothing moves it on before it is done.
    let of_nobody = format!("tower-breakglass-{unknown}");
    stand
        .until("the look", || !stand.grants().contains(&of_nobody))
        .await;
    // What it put on record goes with a later sweep.
    let deadline = tokio::time::Instant::now() + crate::stand::SOON;
    while stand.grants().len() > 1 || stand.objects().await > 0 {
        assert!(tokio::time::Instant::now() < deadline, "still there");
        stand.sweep().await;
    }
    assert_eq!(stand.grants(), [recent], "somebody may still be at it");
    assert!(stand.row(&open.id).await["cleanup_notes"].is_null());
}
