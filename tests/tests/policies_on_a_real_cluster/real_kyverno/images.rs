//! The policy of images as it is rendered, but about a registry that is nowhere: each image that
//! Kyverno is asked about is refused, by Kyverno's own word, at once and without a network.

use super::super::*;
use super::Place;

pub(super) const NAME: &str = "tower-breakglass-debug-image";
pub(super) use super::super::world::IMAGE_POLICIES as LIST;
/// What Kyverno says where it was asked and could not verify.
const ASKED: &str = "failed to evaluate policy";
/// What the API server says where nobody answers.
const NOBODY: &str = "failed calling webhook";

/// What came of an image.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    LetIn,
    /// Kyverno was asked, and refused.
    Refused,
    /// The API server refused, since it could not ask.
    NotAsked,
    Other(String),
}

/// The rendered policy, with its registry moved.
pub(super) fn rendered(rendering: &Rendering) -> Value {
    let text = std::fs::read_to_string(rendering.file("policy-60-debug-image.yaml"));
    let text = text
        .expect("it is rendered")
        .replace("ghcr.io/", "127.0.0.1:1/");
    serde_saphyr::from_str(&text).expect("an object")
}

/// Applies it, and waits until Kyverno refuses by it.
pub(super) async fn apply(world: &World, policy: Value) {
    apply_unspoken(world, policy).await;
    until("Kyverno refuses the image", async || {
        add(world).await == Verdict::Refused
    })
    .await;
}

/// Applies it and waits for its webhook, where other policies speak before Kyverno does.
pub(super) async fn apply_unspoken(world: &World, policy: Value) {
    world.made(LIST, policy).await;
    world.made(&pods(world), pod("app")).await;
    let path = format!("{LIST}/{NAME}");
    until("the policy of images is ready", async || {
        let (_, policy) = world.as_admin(Method::GET, &path, &Value::Null).await;
        policy["status"]["conditionStatus"]["ready"] == true
    })
    .await;
}

pub(super) fn pods(world: &World) -> String {
    format!("/api/v1/namespaces/{}/pods", world.namespace(Place::App))
}

pub(super) fn pod(name: &str) -> Value {
    let mut pod = breakglass_tests::policy_cases::CasePod::of(&Value::Null).manifest;
    pod["metadata"]["name"] = json!(name);
    pod
}

/// Break-glass adds a debug container whose image nobody can verify, by a dry run.
pub(super) async fn add(world: &World) -> Verdict {
    let (status, message) = add_by(world, Actor::Backend).await;
    match status {
        200 => Verdict::LetIn,
        _ if message.contains(ASKED) => Verdict::Refused,
        _ if message.contains(NOBODY) => Verdict::NotAsked,
        _ => Verdict::Other(format!("{status} {message}")),
    }
}

pub(super) async fn add_by(world: &World, who: Actor) -> (u16, String) {
    let image = format!("127.0.0.1:1/hangar/tower-debug@sha256:{}", "a".repeat(64));
    let name = if who == Actor::Backend {
        "debug-a1b2c3d4e5f6"
    } else {
        "own"
    };
    let container = json!({ "name": name, "image": image });
    let body = json!({ "spec": { "ephemeralContainers": [container] } });
    let path = format!("{}/app/ephemeralcontainers?dryRun=All", pods(world));
    let (status, answer) = world.send(who, Method::PATCH, &path, &body).await;
    let message = answer["message"].as_str().unwrap_or_default();
    (status, message.to_owned())
}
