//! Namespaces that enforce a Pod Security standard, and the whole fence of Flight besides: what our
//! builders make is admitted wherever the app's own pod is. Cases from public reports, each test
//! named after its rows.

use super::*;
use breakglass_tests::policy_cases::{APP_IMAGE, CasePod, DEBUG_IMAGES, INSTALLATION, Place};
use decisions::copy_pod::{CopyRefusal, CopySpec, copy_pod};
use decisions::debug_container::{DebugSpec, DebugUser, debug_container};
use decisions::mounts::volume_mounts;
use decisions::pod::PodFacts;
use decisions::session::{SessionId, UserRef};
use std::collections::BTreeMap;

/// The standards, the strictest last.
const LEVELS: [&str; 3] = ["privileged", "baseline", "restricted"];

/// An app that each standard just lets through.
pub(crate) fn app(level: &str) -> Value {
    let context = match level {
        "privileged" => json!({ "privileged": true }),
        "baseline" => json!({}),
        _ => json!({ "runAsNonRoot": true, "runAsUser": 1000, "allowPrivilegeEscalation": false,
                     "capabilities": { "drop": ["ALL"] },
                     "seccompProfile": { "type": "RuntimeDefault" } }),
    };
    let mut app = CasePod::of(&Value::Null).manifest;
    app["metadata"]["name"] = json!(format!("app-{level}"));
    app["spec"]["containers"][0]["securityContext"] = context;
    assert_eq!(app["spec"]["containers"][0]["image"], APP_IMAGE);
    app
}

fn session() -> SessionId {
    SessionId::parse("k3v9x0a1b2c3").expect("a session")
}

/// The pod as the API server has it.
fn facts(pod: &Value) -> PodFacts {
    serde_json::from_value(pod.clone()).expect("a pod")
}

fn debug(pod: &Value) -> Value {
    let pod = facts(pod);
    let made = debug_container(&DebugSpec {
        id: &session(),
        image: DEBUG_IMAGES[0],
        pod: &pod,
        container: "app",
        process_access: false,
        mounts: &volume_mounts(&pod, "app").mounts,
        deadline_seconds: 2760,
        user: DebugUser::default(),
    });
    json!(made.expect("it can be debugged"))
}

fn copy(pod: &Value) -> Result<Value, CopyRefusal> {
    let copy = copy_pod(&CopySpec {
        id: &session(),
        installation: INSTALLATION,
        requester: &UserRef::new("user:default/alice"),
        expires_at: "2030-01-01T10:30:00Z".parse().expect("a time"),
        duration_minutes: 30,
        pod: &facts(pod),
        container: "app",
        hold_app: false,
        volume_access: true,
        image: DEBUG_IMAGES[0],
        user: DebugUser::default(),
        claims: &BTreeMap::new(),
    });
    copy.map(|copy| copy.manifest)
}

/// A namespace that enforces a standard.
pub(crate) struct Enforcing<'a> {
    world: &'a World,
    pub(crate) name: String,
}

impl<'a> Enforcing<'a> {
    pub(crate) async fn make(world: &'a World, level: &str) -> Self {
        let name = format!("{}-{level}", world.namespace(Place::App));
        let mut labels = Place::App.labels();
        labels["pod-security.kubernetes.io/enforce"] = json!(level);
        let namespace = json!({ "metadata": { "name": name, "labels": labels } });
        world.made("/api/v1/namespaces", namespace).await;
        let account = format!("/api/v1/namespaces/{name}/serviceaccounts/default");
        until("the namespace has its account", async || {
            let there = world.as_admin(Method::GET, &account, &Value::Null);
            there.await.0 == 200
        })
        .await;
        Self { world, name }
    }

    fn pods(&self) -> String {
        format!("/api/v1/namespaces/{}/pods", self.name)
    }

    /// The app as it then is, or what is said against it.
    pub(crate) async fn app(&self, level: &str) -> Result<Value, String> {
        let (status, answer) = self
            .world
            .as_admin(Method::POST, &self.pods(), &app(level))
            .await;
        if status == 201 {
            return Ok(answer);
        }
        Err(format!("{status} {}", answer["message"]))
    }

    /// What comes of a session's own request.
    pub(crate) async fn send(&self, method: Method, path: &str, body: &Value) -> String {
        let path = format!("{}{path}?dryRun=All", self.pods());
        let (status, answer) = self.world.send(Actor::Backend, method, &path, body).await;
        match answer["message"].as_str() {
            None => "admitted".to_owned(),
            Some(message) => format!("{status} {message}"),
        }
    }

    pub(crate) async fn live(&self, pod: &Value) -> String {
        let body = json!({ "spec": { "ephemeralContainers": [debug(pod)] } });
        let name = pod["metadata"]["name"].as_str().expect("a name");
        let path = format!("/{name}/ephemeralcontainers");
        self.send(Method::PATCH, &path, &body).await
    }

    pub(crate) async fn copy(&self, pod: &Value) -> String {
        match copy(pod) {
            Ok(copy) => self.send(Method::POST, "", &copy).await,
            Err(refusal) => format!("not made: {refusal}"),
        }
    }

    pub(crate) async fn remove(&self) {
        let path = format!("/api/v1/namespaces/{}", self.name);
        self.world.remove(&path).await;
    }
}

#[tokio::test]
async fn qp14_qk44_qk46_what_is_made_is_admitted_wherever_the_app_is() {
    let Some(world) = World::of_this_run().await else {
        return;
    };
    let world = world.furnished(&[]).await;
    world.apply(Tier::Flight).await;
    let mut came = Vec::new();
    for (strict, level) in LEVELS.iter().enumerate() {
        let namespace = Enforcing::make(&world, level).await;
        for (needs, app) in LEVELS.iter().enumerate() {
            let (live, copy) = match namespace.app(app).await {
                Ok(pod) => (namespace.live(&pod).await, namespace.copy(&pod).await),
                Err(refused) if needs < strict && refused.contains("violates PodSecurity") => {
                    ("no app".to_owned(), "no app".to_owned())
                }
                Err(refused) => (refused.clone(), refused),
            };
            came.push((*level, *app, live, copy));
        }
        namespace.remove().await;
    }
    world.take_away().await;
    let privileged = "not made: ";
    for (level, app, live, copy) in &came {
        let there =
            LEVELS.iter().position(|one| one == level) <= LEVELS.iter().position(|one| one == app);
        let wanted = if there { "admitted" } else { "no app" };
        assert_eq!(live, wanted, "live, {app} in {level}");
        if *app == "privileged" && there {
            assert!(
                copy.starts_with(privileged),
                "a copy is never privileged: {copy}"
            );
        } else {
            assert_eq!(copy, wanted, "copy, {app} in {level}");
        }
    }
    assert_eq!(came.len(), 9, "each app in each namespace");
}

/// A standard that came after the app judges the whole pod, so that the app's own container is in
/// the way. The standard is who says so, and the adapter takes it for a refusal by a policy.
#[tokio::test]
async fn qk44_an_app_that_its_namespace_would_not_admit_today_is_told_by_the_standard() {
    let Some(world) = World::of_this_run().await else {
        return;
    };
    let world = world.furnished(&[]).await;
    let namespace = Enforcing::make(&world, "baseline").await;
    let pod = namespace.app("baseline").await.expect("it is admitted");
    let stricter = json!({ "metadata": { "labels": {
        "pod-security.kubernetes.io/enforce": "restricted" } } });
    let path = format!("/api/v1/namespaces/{}", namespace.name);
    world.change(&path, &stricter).await;
    until("the namespace is restricted", async || {
        namespace
            .app("baseline")
            .await
            .is_err_and(|said| said.contains("violates PodSecurity"))
    })
    .await;
    let (live, copy) = (namespace.live(&pod).await, namespace.copy(&pod).await);
    namespace.remove().await;
    world.take_away().await;
    for said in [live, copy] {
        assert!(said.contains("violates PodSecurity \"restricted"), "{said}");
        assert!(said.contains("container \"app\" must set"), "{said}");
        assert!(
            !said.contains("\"debug\"") && !said.contains("debug-k3v9"),
            "not ours: {said}"
        );
    }
}
