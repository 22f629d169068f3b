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

use breakglass_tests::StageError;
use breakglass_tests::scenario::{killed_in_the_middle, whole_session};
use breakglass_tests::stage::{Place, Stage, Target};
use std::path::PathBuf;

async fn stage() -> Option<Stage> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let Some(dir) = std::env::var_os("BREAKGLASS_TEST_CLUSTER").map(PathBuf::from) else {
        let skipped = std::env::var("BREAKGLASS_SKIP").unwrap_or_default();
        assert!(
            skipped.split(',').any(|part| part == "cluster"),
            "there is no cluster: run `cargo xtask test --only cluster`"
        );
        return None;
    };
    let target = Target {
        app: "shop".to_owned(),
        env: "dev".to_owned(),
        cluster: "real".to_owned(),
        namespace: "shop".to_owned(),
        container: "app".to_owned(),
    };
    let image = std::fs::read_to_string(dir.join("debug-image")).expect("the debug image's name");
    let (sidecar, admin) = (dir.join("sidecar.conf"), dir.join("admin.conf"));
    let place = async |_: &std::path::Path| {
        let image = image.trim().to_owned();
        Place::cluster((&sidecar, None), (&admin, None), target, image).await
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
