//! Kyverno away: killed, restarted, scaled to none. What still holds, what fails closed, what
//! does not, and that nobody else notices.

use super::super::*;
use super::controllers::Controller;
use super::images::{self, Verdict};
use super::{Place, ground, with_kyverno};
use std::time::Duration;

/// The port of the admission controller, which has no Service here.
const PORT: u16 = 9443;

async fn gone(controller: &Controller) {
    until("the controller is gone", async || controller.is_gone()).await;
}

/// Each native policy refuses.
async fn still_refused(world: &World) {
    let path = format!("{}/known-bad", images::pods(world));
    world.remove(&path).await;
    super::gone(world, &path).await;
    world.refused(Tier::Ground).await;
}

/// What people and controllers do all day, none of it Break-glass's: what went wrong.
async fn what_others_notice(world: &World, name: &str) -> Vec<String> {
    let namespace = world.namespace(Place::App);
    let pods = images::pods(world);
    let container = json!([{ "name": "x", "image": "example.com/x" }]);
    let labels = json!({ "app": name });
    let deployment = json!({ "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name },
        "spec": { "selector": { "matchLabels": labels }, "template": {
            "metadata": { "labels": labels }, "spec": { "containers": container } } } });
    let binding = json!({ "metadata": { "name": name }, "roleRef": { "kind": "ClusterRole",
        "apiGroup": "rbac.authorization.k8s.io", "name": "view" } });
    let requests = [
        (Actor::Developer, pods.clone(), images::pod(name)),
        (Actor::Controller, pods, images::pod(name)),
        (
            Actor::Developer,
            format!("/apis/apps/v1/namespaces/{namespace}/deployments"),
            deployment,
        ),
        (Actor::Operator, world::bindings(&namespace), binding),
        (
            Actor::Operator,
            "/api/v1/namespaces".to_owned(),
            json!({ "metadata": { "name": format!("{namespace}-{name}") } }),
        ),
    ];
    let mut noticed = Vec::new();
    for (who, path, body) in requests {
        let path = format!("{path}?dryRun=All");
        let (status, answer) = world.send(who, Method::POST, &path, &body).await;
        if status != 201 {
            noticed.push(format!("{who:?} {path}: {status} {}", answer["message"]));
        }
    }
    let (status, said) = images::add_by(world, Actor::Operator).await;
    if status != 200 || !said.is_empty() {
        noticed.push(format!(
            "an operator's own ephemeral container: {status} {said}"
        ));
    }
    noticed
}

#[tokio::test]
async fn qp21_qk5_qk14_qk70_killed_the_fence_holds_fails_closed_and_nobody_else_notices() {
    let Some(world) = with_kyverno().await else {
        return;
    };
    let world = world.furnished(&[]).await;
    let rendering = ground(&world).await;
    // Its place is free for the images' own verdict: the native policy would speak first.
    let first = "validatingadmissionpolicybindings/vpol-tower-breakglass-debug-container-binding";
    let mut controllers = [Controller::ADMISSION, Controller::CLEANUP]
        .map(|name| Controller::beside(world.dir(), name));
    images::apply_unspoken(&world, images::rendered(&rendering)).await;
    for controller in &controllers {
        controller.kill();
    }
    for controller in &controllers {
        gone(controller).await;
    }

    still_refused(&world).await;
    let noticed = what_others_notice(&world, "killed").await;
    let fresh = rendering.apply(&world);
    world.remove(&format!("{NATIVE}/{first}")).await;
    until("the native policy is silent", async || {
        matches!(
            images::add(&world).await,
            Verdict::NotAsked | Verdict::LetIn
        )
    })
    .await;
    let image = images::add(&world).await;
    for controller in &mut controllers {
        controller.start();
    }
    // It puts back what it has generated, and the fence is whole.
    let put_back = format!("{NATIVE}/{first}");
    until("Kyverno puts the binding back", async || {
        world.as_admin(Method::GET, &put_back, &Value::Null).await.0 == 200
    })
    .await;
    let whole = "`spec.matchImageReferences[0].glob` differs";
    until("the fence is whole", async || {
        let said = rendering.diff("real").1;
        said.len() == 1 && said[0].contains(whole)
    })
    .await;
    world.take_away().await;
    assert_eq!(noticed, [""; 0]);
    assert!(!fresh, "what Kyverno does not take, kubectl says");
    assert_eq!(image, Verdict::NotAsked, "refused, not let in");
}

/// From the first image that was let in to the first that was refused.
const OPEN_AT_MOST: Duration = Duration::from_secs(5);

/// Kyverno 1.19.1 opens its port before it has read its policies, and lets in what comes until
/// then. In a pod nothing comes so soon: the chart's readiness probe asks after 5 s. Here nobody
/// waits for it. What the native policy holds (digests that are not configured) is not let in.
#[tokio::test]
async fn qk20_qk22_restarted_kyverno_lets_no_image_in_once_it_has_read_its_policies() {
    let Some(world) = with_kyverno().await else {
        return;
    };
    let world = world.furnished(&[]).await;
    let rendering = Rendering::of(&world, Tier::Ground);
    images::apply(&world, images::rendered(&rendering)).await;
    let mut controller = Controller::beside(world.dir(), Controller::ADMISSION);
    let mut wrong = Vec::new();
    for (round, end) in [Controller::kill, Controller::ask_to_end]
        .iter()
        .enumerate()
    {
        end(&controller);
        gone(&controller).await;
        controller.start();
        let adds = adds_until_refused(&world, 50).await;
        wrong.extend(adds.wrong());
        wrong.extend(what_others_notice(&world, &format!("restart-{round}")).await);
    }
    world.take_away().await;
    assert_eq!(wrong, [""; 0]);
}

/// What came of one add after the other, and when.
struct Adds(Vec<(Duration, Verdict)>);

/// Until Kyverno has refused so many, or for a minute. Others are not in its way meanwhile.
async fn adds_until_refused(world: &World, many: usize) -> Adds {
    let started = tokio::time::Instant::now();
    let mut adds = Vec::new();
    let mut refused = 0;
    while refused < many && started.elapsed() < Duration::from_secs(60) {
        let verdict = images::add(world).await;
        refused += usize::from(verdict == Verdict::Refused);
        adds.push((started.elapsed(), verdict));
    }
    Adds(adds)
}

impl Adds {
    fn wrong(&self) -> Vec<String> {
        let of = |verdict: &Verdict| self.0.iter().filter(|(_, one)| one == verdict).count();
        let first = |verdict: &Verdict| {
            let at = self.0.iter().position(|(_, one)| one == verdict);
            at.map(|at| (at, self.0[at].0))
        };
        let all = format!(
            "{} let in, {} refused, {} not asked",
            of(&Verdict::LetIn),
            of(&Verdict::Refused),
            of(&Verdict::NotAsked)
        );
        eprintln!("{all}");
        let mut wrong = Vec::new();
        let Some((refused, refused_at)) = first(&Verdict::Refused) else {
            return vec![format!("never asked again: {all}")];
        };
        let late = self.0[refused..]
            .iter()
            .filter(|(_, one)| *one != Verdict::Refused);
        wrong.extend(late.map(|late| format!("after one was refused: {late:?}; {all}")));
        if of(&Verdict::NotAsked) == 0 {
            wrong.push(format!("none came while nobody answered: {all}"));
        }
        if let Some((_, at)) = first(&Verdict::LetIn)
            && refused_at.saturating_sub(at) > OPEN_AT_MOST
        {
            wrong.push(format!("open from {at:?} to {refused_at:?}: {all}"));
        }
        let other = |one: &Verdict| matches!(one, Verdict::Other(_));
        wrong.extend(
            self.0
                .iter()
                .filter(|(_, one)| other(one))
                .map(|one| format!("{one:?}")),
        );
        wrong
    }
}

/// A Deployment that makes no pods, and the Service by whose name the API server finds this
/// machine: what Kyverno looks at to know that it is going down.
async fn as_in_pods(world: &World) -> [String; 2] {
    let deployment = json!({ "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": Controller::ADMISSION },
        "spec": { "paused": true, "replicas": 1,
            "selector": { "matchLabels": { "app": "kyverno" } },
            "template": { "metadata": { "labels": { "app": "kyverno" } },
                "spec": { "containers": [{ "name": "kyverno", "image": "kyverno" }] } } } });
    let service = json!({ "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "kyverno-svc" },
        "spec": { "type": "ExternalName", "externalName": "localhost" } });
    let lists = [
        ("/apis/apps/v1/namespaces/kyverno/deployments", deployment),
        ("/api/v1/namespaces/kyverno/services", service),
    ];
    let mut made = Vec::new();
    for (list, object) in lists {
        let path = format!(
            "{list}/{}",
            object["metadata"]["name"].as_str().expect("a name")
        );
        world.remove(&path).await;
        world.made(list, object).await;
        made.push(path);
    }
    made.try_into().expect("two")
}

async fn asks_by_service(world: &World) -> Option<bool> {
    let path =
        format!("{NATIVE}/validatingwebhookconfigurations/kyverno-resource-validating-webhook-cfg");
    let (_, found) = world.as_admin(Method::GET, &path, &Value::Null).await;
    let webhook = found["webhooks"].as_array()?.first()?;
    Some(webhook["clientConfig"]["service"].is_object())
}

/// Not what one would think: Kyverno that is scaled to none takes its webhooks with it, so that
/// nobody is asked. The native policies hold, among them that of the images' digests; whether they
/// are signed nobody says, and `policies diff` tells.
#[tokio::test]
async fn qk70_scaled_to_none_kyverno_takes_its_webhooks_away_and_that_is_told() {
    let Some(world) = with_kyverno().await else {
        return;
    };
    let world = world.furnished(&[]).await;
    let rendering = ground(&world).await;
    images::apply_unspoken(&world, images::rendered(&rendering)).await;
    let mut controller = Controller::beside(world.dir(), Controller::ADMISSION);
    let [deployment, service] = as_in_pods(&world).await;
    controller.kill();
    gone(&controller).await;
    controller.start_behind_its_service(PORT);
    until("Kyverno is found by its Service", async || {
        asks_by_service(&world).await == Some(true)
    })
    .await;
    let before = rendering.diff("real").1;

    world
        .change(&deployment, &json!({ "spec": { "replicas": 0 } }))
        .await;
    controller.ask_to_end();
    gone(&controller).await;
    let asks = asks_by_service(&world).await;
    let said = rendering.diff("real").1;
    still_refused(&world).await;
    let noticed = what_others_notice(&world, "scaled").await;

    for path in [&deployment, &service] {
        world.remove(path).await;
    }
    controller.start();
    until("Kyverno is asked again", async || {
        asks_by_service(&world).await == Some(false)
    })
    .await;
    let after = rendering.diff("real").1;
    world.take_away().await;
    assert_eq!(asks, None, "the webhook is gone");
    assert!(
        said.iter()
            .any(|line| line.contains("has no webhook, so that nobody is asked")),
        "{said:#?}"
    );
    assert_eq!(
        (before.len(), said.len(), after.len()),
        (1, 2, 1),
        "{said:#?}"
    );
    assert_eq!(noticed, [""; 0]);
}
