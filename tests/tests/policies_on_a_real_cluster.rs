//! The rendered policies on a real API server (P-10): every case as the real request, by the one
//! who would send it. Flight as it is rendered; Ground as Kyverno compiles it.
//!
//! Runs on the cluster whose folder `BREAKGLASS_TEST_CLUSTER` names (`cargo xtask cluster up DIR`).
//! A run without a cluster fails, unless `BREAKGLASS_SKIP` names `cluster`. The policies are taken
//! away again, whatever comes out: other tests use the same cluster.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "a test panics to fail, and tells its story in one piece"
)]

#[path = "policies_on_a_real_cluster/world.rs"]
mod world;

use breakglass_tests::policy_cases::{Actor, Case, Expected, all};
use breakglass_tests::root;
use decisions::session::Tier;
use http::Method;
use serde_json::{Value, json};
use world::{BACKEND, World};

/// What came of one case; `None` where it is as expected.
async fn judged(world: &World, case: &Case) -> Option<String> {
    let (status, answer) = world.send_case(case).await;
    let message = answer["message"].as_str().unwrap_or_default();
    let by_policy = message.contains("ValidatingAdmissionPolicy '");
    let right = match &case.expected {
        // A connection that is let through fails later, for want of an upgrade or a node.
        Expected::Allowed => !by_policy && (status < 300 || World::connects(case)),
        Expected::Denied { policy, says } => {
            let named = [format!("'{policy}'"), format!("'vpol-{policy}'")];
            status == 403
                && named.iter().any(|name| message.contains(name.as_str()))
                && message.contains(says.as_str())
        }
        Expected::Refused(expected) => !by_policy && status == *expected,
    };
    let policy = &case.policy;
    (!right).then(|| {
        format!(
            "{policy}: {}\n   wanted {:?}\n   got {status} {message}",
            case.name, case.expected
        )
    })
}

async fn every_case(tier: Tier) {
    let Some(world) = World::of_this_run().await else {
        return;
    };
    let cases = all(&root(), BACKEND).expect("cases");
    let cases: Vec<Case> = cases
        .into_iter()
        .filter(|case| case.tiers.contains(&tier))
        .collect();
    let world = world.furnished(&cases).await;
    world.apply(tier).await;
    let mut wrong = Vec::new();
    for case in &cases {
        wrong.extend(judged(&world, case).await);
    }
    wrong.extend(generated(&world, tier).await);
    world.take_away().await;
    assert!(
        wrong.is_empty(),
        "{} of {} cases on {tier:?}:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
    eprintln!("{} cases on {tier:?}", cases.len());
}

/// P-4a as far as this API server goes: it asks no policy about policies, so who has the right may
/// change a generated one. Should a later one ask, the guard's rule is there and this test tells.
async fn generated(world: &World, tier: Tier) -> Option<String> {
    if tier == Tier::Flight {
        return None;
    }
    let path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/\
                vpol-tower-breakglass-pod-delete?dryRun=All";
    let change = json!({ "spec": { "failurePolicy": "Ignore" } });
    let (status, answer) = world
        .send(Actor::Developer, Method::PATCH, path, &change)
        .await;
    (status != 200).then(|| format!("policies guard policies here: {status} {answer}"))
}

#[tokio::test]
async fn p_10_every_case_on_flight() {
    every_case(Tier::Flight).await;
}

#[tokio::test]
async fn p_10_every_case_on_ground_as_kyverno_compiles_it() {
    every_case(Tier::Ground).await;
}

/// Two policies of a tier in which every expression is type-checked by the API server where it can.
#[tokio::test]
async fn the_api_server_has_no_warning_about_an_expression() {
    let Some(world) = World::of_this_run().await else {
        return;
    };
    let world = world.furnished(&[]).await;
    world.apply(Tier::Flight).await;
    let warnings = world.type_warnings().await;
    world.take_away().await;
    assert_eq!(warnings, Vec::<Value>::new());
}
