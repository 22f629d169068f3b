//! Sessions through a real Backstage on a real Kubernetes, the sidecar with the rights of C-2a.
//!
//! Runs on the cluster whose folder `BREAKGLASS_TEST_CLUSTER` names, with the app `shop` in
//! namespace `shop` (`cargo xtask test` makes both). A run without a cluster fails, unless
//! `BREAKGLASS_SKIP` names `cluster`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "a test panics to fail, and tells its story in one piece"
)]

#[path = "session_on_a_real_cluster/fence.rs"]
mod fence;
#[path = "session_on_a_real_cluster/in_cluster.rs"]
mod in_cluster;

use breakglass_tests::StageError;
use breakglass_tests::real_cluster::folder;
use breakglass_tests::scenario::{killed_in_the_middle, sees_processes_and_volumes, whole_session};
use breakglass_tests::stage::{Place, Stage, Target};
use fence::Fence;
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use std::panic::{AssertUnwindSafe, resume_unwind};

async fn stage() -> Option<Stage> {
    stage_with(|_| Value::Null).await
}

fn target() -> Target {
    Target {
        app: "shop".to_owned(),
        env: "dev".to_owned(),
        cluster: "real".to_owned(),
        namespace: "shop".to_owned(),
        container: "app".to_owned(),
    }
}

/// A stage whose sidecar has these `policies`, made for its debug image.
async fn stage_with(policies: impl FnOnce(&str) -> Value) -> Option<Stage> {
    let dir = folder()?;
    let image = std::fs::read_to_string(dir.join("debug-image")).expect("the debug image's name");
    let (sidecar, admin) = (dir.join("sidecar.conf"), dir.join("admin.conf"));
    let place = async |_: &std::path::Path| {
        let image = image.trim().to_owned();
        let policies = policies(&image);
        let (sidecar, admin) = (Some(sidecar.as_path()), Some(admin.as_path()));
        let mut place = Place::cluster((sidecar, None), (admin, None), target(), image).await?;
        place.policies = policies;
        Ok(place)
    };
    Some(Stage::start(place).await.expect("the stage is set"))
}

#[tokio::test(flavor = "multi_thread")]
async fn one_session_from_its_request_to_its_end() -> Result<(), StageError> {
    let Some(stage) = stage().await else {
        return Ok(());
    };
    whole_session(&stage).await
}

#[tokio::test(flavor = "multi_thread")]
async fn after_kill_9_the_cluster_is_clean_and_the_row_says_why() -> Result<(), StageError> {
    let Some(mut stage) = stage().await else {
        return Ok(());
    };
    killed_in_the_middle(&mut stage).await
}

/// P-1, P-7: with the policies in the cluster, and the same ones in front of it.
#[tokio::test(flavor = "multi_thread")]
async fn one_session_behind_its_rendered_fence() -> Result<(), StageError> {
    let policies = |image: &str| {
        let (name, _) = image.split_once('@').expect("an image by digest");
        json!({
            "clusters": { "real": {
                "backend": "system:serviceaccount:backstage:breakglass-sidecar" } },
            "appliers": ["admin"],
            "imageSigning": { "glob": format!("{name}*"), "issuer": "https://issuer.example.org",
                              "subject": "https://example.org/release.yml@refs/heads/main" },
        })
    };
    let Some(stage) = stage_with(policies).await else {
        return Ok(());
    };
    let fence = Fence::applied(&stage).await?;
    // It goes again, whatever comes out: other tests use the same cluster.
    let sessions = async {
        whole_session(&stage).await?;
        sees_processes_and_volumes(&stage).await
    };
    let outcome = AssertUnwindSafe(sessions).catch_unwind().await;
    fence.taken_away().await?;
    outcome.unwrap_or_else(|panic| resume_unwind(panic))
}
