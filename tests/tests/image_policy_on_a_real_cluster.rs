//! The image policy on a real Kyverno against a real Sigstore: the rendered policy, the sidecar's
//! own requests by its own account, and signatures of every kind (P-1, C-8).
//!
//! Runs on the cluster whose folder `BREAKGLASS_TEST_CLUSTER` names, with Kyverno beside it
//! (`cargo xtask cluster kyverno up DIR`). A run without a cluster fails, unless `BREAKGLASS_SKIP`
//! names `cluster`. The policy and the namespaces are taken away again, whatever comes out.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "a test panics to fail, and tells its story in one piece"
)]

#[path = "image_policy_on_a_real_cluster/world.rs"]
mod world;

use breakglass::ports::ClusterError;
use breakglass_tests::sigstore::{Signer, Sigstore};
use world::World;

const WORKFLOW: &str = "hangar/debug-image/.github/workflows/release.yml@refs/heads/main";
const NOT_SIGNED: &str = "the debug image is not signed by the workflow that builds it, or its \
                          signature is not in the public log";

const RELEASE: Signer<'static> = Signer {
    issuer: 0,
    workflow: WORKFLOW,
    entered: true,
    bundle: true,
};

/// Images by the last part of their name, and how each is signed.
fn images() -> [(&'static str, Option<Signer<'static>>); 10] {
    let branch = "hangar/debug-image/.github/workflows/release.yml@refs/heads/topic";
    let with = |change: fn(&mut Signer<'static>)| {
        let mut signer = RELEASE;
        change(&mut signer);
        Some(signer)
    };
    [
        ("debug-bundle", Some(RELEASE)),
        ("debug-tag", with(|signer| signer.bundle = false)),
        ("debug-unsigned", None),
        (
            "debug-other-workflow",
            Some(Signer {
                workflow: branch,
                ..RELEASE
            }),
        ),
        ("debug-other-issuer", with(|signer| signer.issuer = 1)),
        ("debug-unlogged", with(|signer| signer.entered = false)),
        (
            "debug-unlogged-tag",
            with(|signer| (signer.entered, signer.bundle) = (false, false)),
        ),
        // Verified by nobody before something is away.
        ("debug-without-log", Some(RELEASE)),
        ("debug-without-trust", Some(RELEASE)),
        ("debug-without-registry", Some(RELEASE)),
    ]
}

/// What came of an image as a debug container.
#[derive(Debug, PartialEq)]
enum Verdict {
    /// It is in the pod, and runs.
    Runs,
    /// The policy's own message.
    NotSigned,
    /// Kyverno could not ask the registry.
    Away,
    /// Another message of the policy's webhook.
    Refused(String),
}

async fn verdict(world: &World, name: &str) -> Verdict {
    match world.add(&world.image(name)).await {
        Ok(added) => {
            world.runs(&added).await;
            Verdict::Runs
        }
        Err(ClusterError::RefusedByPolicy { message }) if message.contains(NOT_SIGNED) => {
            Verdict::NotSigned
        }
        Err(ClusterError::RefusedByPolicy { message })
            if message.contains("failed to evaluate policy")
                && message.contains("connection refused") =>
        {
            Verdict::Away
        }
        Err(ClusterError::RefusedByPolicy { message }) => Verdict::Refused(message),
        Err(error) => panic!("{name}: neither let in nor refused by a policy: {error}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p_1_only_what_the_workflow_signed_and_logged_becomes_a_debug_container() {
    let Some(mut world) = World::of_this_run().await else {
        return;
    };
    let mut sigstore = Sigstore::start().await.expect("Sigstore starts");
    world
        .furnish(&sigstore, images().map(|(name, _)| name))
        .await;
    for (name, signer) in images() {
        if let Some(signer) = signer {
            let signed = sigstore.sign(&world.image(name), signer).await;
            signed.unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
    world.apply(&sigstore, WORKFLOW).await;
    let scope = world.webhook_of_the_policy().await;
    let unsigned = world.add_as_admin("debug-unsigned").await;
    let verdicts = verdicts(&world, &mut sigstore).await;
    world.take_away().await;

    assert_eq!(
        scope,
        world::SCOPE,
        "the webhook is for these requests alone"
    );
    assert_eq!(
        unsigned, 200,
        "nobody else's request is the policy's matter"
    );
    assert_eq!(verdicts, expected(), "{verdicts:#?}");
}

/// The verdicts that are wanted, in the order in which they are asked for.
fn expected() -> Vec<(&'static str, Verdict)> {
    use Verdict::{Away, NotSigned, Runs};
    vec![
        ("debug-bundle", Runs),
        ("debug-tag", Runs),
        ("debug-unsigned", NotSigned),
        ("debug-other-workflow", NotSigned),
        ("debug-other-issuer", NotSigned),
        ("debug-unlogged", NotSigned),
        ("debug-unlogged-tag", NotSigned),
        // The log's answer is kept with the signature, so that the log need not be there.
        ("debug-without-log", Runs),
        ("debug-unlogged-tag", NotSigned),
        ("debug-without-trust", NotSigned),
        ("debug-without-registry", Away),
        // What was verified a moment ago is no exception.
        ("debug-bundle", Away),
    ]
}

async fn verdicts(world: &World, sigstore: &mut Sigstore) -> Vec<(&'static str, Verdict)> {
    let mut verdicts = Vec::new();
    for (name, _) in &images()[..7] {
        verdicts.push((*name, verdict(world, name).await));
    }
    sigstore.stop_log().await.expect("the log ends");
    for name in ["debug-without-log", "debug-unlogged-tag"] {
        verdicts.push((name, verdict(world, name).await));
    }
    sigstore.stop_trust();
    let name = "debug-without-trust";
    verdicts.push((name, verdict(world, name).await));
    sigstore.stop_registry().await.expect("the registry ends");
    for name in ["debug-without-registry", "debug-bundle"] {
        verdicts.push((name, verdict(world, name).await));
    }
    verdicts
}
