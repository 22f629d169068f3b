//! The sidecar in the cluster that it works on, as its pod's service account (C-2, qT23).
//!
//! It runs on this machine, with what a pod has of its account where a pod has it; its cluster is
//! the one that it is told to be in.

use super::{folder, target};
use breakglass_tests::StageError;
use breakglass_tests::browser::Tab;
use breakglass_tests::pod::{BoundToken, Pod};
use breakglass_tests::processes::until;
use breakglass_tests::scenario::nothing_is_left;
use breakglass_tests::smoke;
use breakglass_tests::stage::{Place, Stage};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::{Api, PostParams};
use kube::{Client, Config};
use serde_json::json;
use std::path::Path;
use std::time::Duration;

const NAMESPACE: &str = "backstage";
const ACCOUNT: &str = "breakglass-sidecar";
/// How long the API server may believe a token that was revoked; it remembers for 10 s.
const BELIEVES: Duration = Duration::from_secs(60);

/// Whether the cluster still takes this token.
async fn is_taken(admin: &Path, token: &str) -> Option<bool> {
    let mut config = Config::from_custom_kubeconfig(
        kube::config::Kubeconfig::read_from(admin).ok()?,
        &kube::config::KubeConfigOptions::default(),
    )
    .await
    .ok()?;
    config.auth_info = kube::config::AuthInfo {
        token: Some(token.to_owned().into()),
        ..kube::config::AuthInfo::default()
    };
    let reviews: Api<SelfSubjectReview> = Api::all(Client::try_from(config).ok()?);
    let asked = reviews
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await;
    match asked {
        Ok(_) => Some(true),
        Err(kube::Error::Api(status)) if status.code == 401 => Some(false),
        Err(_) => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn qt23_a_session_on_the_cluster_that_the_sidecar_runs_in() -> Result<(), StageError> {
    let Some(dir) = folder() else {
        return Ok(());
    };
    let admin = dir.join("admin.conf");
    let image = std::fs::read_to_string(dir.join("debug-image")).expect("the debug image's name");
    let mut first = None;
    let place = async |stage: &Path| {
        let none = (None, None);
        let (witness, image) = ((Some(admin.as_path()), None), image.trim().to_owned());
        let mut place = Place::cluster(none, witness, target(), image).await?;
        place.clusters = json!({ "real": { "inCluster": {} } });
        let pod = Pod::of(&admin, &stage.join("account"), NAMESPACE)?;
        let token = BoundToken::of(&place.witness.client(), NAMESPACE, ACCOUNT).await?;
        pod.take(&token.token)?;
        first = Some(token);
        place.pod = Some(pod);
        Ok(place)
    };
    let stage = Stage::start(place).await?;
    let first = first.expect("the first token");
    let alice = stage.person("alice").await?;
    let opened = smoke::open(&stage, &alice).await?;

    // It is known there as its own account, and nobody else.
    let name = format!("tower-breakglass-{}", opened.id());
    let witness = &stage.place.witness;
    let grant = witness.role_binding("shop", &name).await?.expect("a grant");
    let subjects = grant.subjects.unwrap_or_default();
    assert_eq!(subjects.len(), 1, "{subjects:?}");
    let (namespace, account) = (subjects[0].namespace.as_deref(), &subjects[0].name);
    assert_eq!((namespace, account.as_str()), (Some(NAMESPACE), ACCOUNT));

    let mut tab = Tab::connect(&alice, opened.id()).await.expect("a terminal");
    tab.resize(80, 24).await?;
    tab.ask("echo in-$((1 + 1))", "in-2").await?;

    // The kubelet replaces the token, and the old one lapses: the next calls go by the new one.
    let second = BoundToken::of(&witness.client(), NAMESPACE, ACCOUNT).await?;
    let pod = stage.place.pod.as_ref().expect("a pod");
    pod.take(&second.token)?;
    first.revoke().await?;
    until("the old token's end", BELIEVES, async || {
        (!is_taken(&admin, &first.token).await?).then_some(())
    })
    .await?;
    tab.ask("echo on-$((1 + 2))", "on-3").await?;
    alice.json(&["session", "end", opened.id()]).await?;
    let row = smoke::ended(&alice, opened.id()).await?;
    assert_eq!(row["recycled"], true, "{row:#}");
    assert_eq!(row["cleanupNotes"], json!(null), "{row:#}");
    nothing_is_left(&stage, &opened).await?;
    second.revoke().await
}
