//! A service mesh beside the fence: a mutating webhook that is asked about every pod and puts its
//! proxy beside the app. Cases from public reports, each test named after its rows.

use super::pod_security::{Enforcing, app};
use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use breakglass_tests::policy_cases::APP_IMAGE;
use breakglass_tests::tls::acceptor;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use policies::preflight::with_process_access;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

const WEBHOOKS: &str = "mutatingwebhookconfigurations";
const PROXY: &str = "mesh-proxy";

/// What the mesh does to a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Habit {
    /// It adds its proxy to a new pod that has none, and leaves others as they are.
    Proxy,
    /// Besides, it puts a label on every pod.
    Label,
    /// Besides, it puts another label on a pod whenever somebody changes it, as after an upgrade.
    Relabel,
}

/// What it was asked about: operation, resource and subresource.
type Asked = Arc<Mutex<BTreeSet<String>>>;

/// The mesh's webhook, on loopback, as long as this lives.
struct Mesh {
    url: String,
    authority: String,
    asked: Asked,
    serving: JoinHandle<()>,
}

impl Drop for Mesh {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Mesh {
    async fn start(habit: Habit) -> Self {
        let (acceptor, authority) = acceptor().expect("certificates");
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let asked = Asked::default();
        let asks = Arc::clone(&asked);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, asked) = (acceptor.clone(), Arc::clone(&asks));
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let service = service_fn(|request| answer(request, habit, &asked));
                    // The API server ends its connections as it likes.
                    let _ = http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self {
            url: format!("https://127.0.0.1:{port}/inject"),
            authority: STANDARD.encode(authority),
            asked,
            serving,
        }
    }

    /// Has the API server ask it about whatever becomes of pods in the namespace. Once it is gone
    /// it is in nobody's way.
    async fn installed(&self, world: &World, namespace: &str) -> String {
        let name = format!("mesh-{namespace}");
        let configuration = json!({ "metadata": { "name": name }, "webhooks": [{
            "name": "inject.mesh.example",
            "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Ignore", "reinvocationPolicy": "IfNeeded", "timeoutSeconds": 10,
            "clientConfig": { "url": self.url, "caBundle": self.authority },
            "namespaceSelector": { "matchLabels": {
                "kubernetes.io/metadata.name": namespace } },
            "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"],
                        "resources": ["pods", "pods/*"] }] }] });
        let path = format!("{NATIVE}/{WEBHOOKS}");
        world.made(&path, configuration).await;
        format!("{path}/{name}")
    }
}

async fn answer(
    request: Request<Incoming>,
    habit: Habit,
    asked: &Asked,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await;
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    let request = &review["request"];
    let words = [
        &request["operation"],
        &request["resource"]["resource"],
        &request["subResource"],
    ];
    let words = words.map(|word| word.as_str().unwrap_or_default());
    asked.lock().expect("nobody panics").insert(words.join(" "));
    let mut response = json!({ "uid": request["uid"], "allowed": true });
    let changes = changes(request, habit);
    if !changes.is_empty() {
        response["patchType"] = json!("JSONPatch");
        response["patch"] = json!(STANDARD.encode(json!(changes).to_string()));
    }
    let review = json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                         "response": response });
    let response = Response::new(Full::new(Bytes::from(review.to_string())));
    Ok(response)
}

fn changes(request: &Value, habit: Habit) -> Vec<Value> {
    let pod = &request["object"];
    let mut changes = Vec::new();
    if pod["kind"] != "Pod" {
        return changes;
    }
    let containers = pod["spec"]["containers"].as_array();
    let has_proxy = containers.is_some_and(|all| all.iter().any(|one| one["name"] == PROXY));
    if request["operation"] == "CREATE" && !has_proxy {
        let restricted = app("restricted")["spec"]["containers"][0]["securityContext"].take();
        let proxy = json!({ "name": PROXY, "image": APP_IMAGE, "securityContext": restricted });
        changes.push(json!({ "op": "add", "path": "/spec/containers/-", "value": proxy }));
    }
    let revision = match (habit, request["operation"].as_str()) {
        (Habit::Proxy, _) => None,
        (Habit::Relabel, Some("UPDATE")) => Some("3"),
        (Habit::Label | Habit::Relabel, _) => Some("2"),
    };
    if let Some(revision) = revision {
        let mut labels = pod["metadata"]["labels"].clone();
        labels["mesh.example/revision"] = json!(revision);
        changes.push(json!({ "op": "add", "path": "/metadata/labels", "value": labels }));
    }
    changes
}

/// What comes of a session in an app of this mesh: the debug container, the mark, the copy.
async fn session_beside(world: &World, habit: Habit) -> [String; 3] {
    // A namespace of each mesh's own, by its standard; an app that the standard lets through.
    let (level, needs) = match habit {
        Habit::Proxy => ("privileged", "baseline"),
        Habit::Label => ("baseline", "baseline"),
        Habit::Relabel => ("restricted", "restricted"),
    };
    let namespace = Enforcing::make(world, level).await;
    let mesh = Mesh::start(habit).await;
    let webhook = mesh.installed(world, &namespace.name).await;
    until("the mesh is asked", async || {
        let path = format!("/api/v1/namespaces/{}/pods?dryRun=All", namespace.name);
        let (_, pod) = world.as_admin(Method::POST, &path, &app(needs)).await;
        pod["spec"]["containers"][1]["name"] == PROXY
    })
    .await;
    let pod = namespace.app(needs).await.expect("an app");
    assert_eq!(pod["spec"]["containers"][1]["name"], PROXY);
    let live = namespace.live(&pod).await;
    let marked = with_process_access(&pod, Some("k3v9x0a1b2c3"));
    let mark = json!({ "metadata": { "annotations": marked["metadata"]["annotations"] } });
    let path = format!("/{}", pod["metadata"]["name"].as_str().expect("a name"));
    let mark = namespace.send(Method::PATCH, &path, &mark).await;
    let copy = namespace.copy(&pod).await;
    let asked = mesh.asked.lock().expect("nobody panics").clone();
    namespace.remove().await;
    world.remove(&webhook).await;
    for what in [
        "CREATE pods ",
        "UPDATE pods ",
        "UPDATE pods ephemeralcontainers",
    ] {
        assert!(asked.contains(what), "{what}: {asked:?}");
    }
    [live, mark, copy]
}

/// A live session opens beside each mesh. Where the mesh changes labels, those of the app with it,
/// the mark is refused, since by its labels a pod is a Service's; and a copy is not made where the
/// mesh labels it, since a Service could then take it for the app.
#[tokio::test]
async fn qp20_a_session_opens_beside_a_mesh() {
    let Some(world) = World::of_this_run().await else {
        return;
    };
    let world = world.furnished(&[]).await;
    world.apply(Tier::Flight).await;
    let quiet = session_beside(&world, Habit::Proxy).await;
    let labels = session_beside(&world, Habit::Label).await;
    let relabels = session_beside(&world, Habit::Relabel).await;
    world.take_away().await;
    assert_eq!(quiet, ["admitted"; 3], "with a proxy");
    let [live, mark, copy] = labels;
    assert_eq!([live, mark], ["admitted"; 2], "with a label");
    assert!(copy.contains("no label but these and its TTL"), "{copy}");
    let [live, mark, _] = relabels;
    assert_eq!(live, "admitted", "with a label that changes");
    assert!(mark.contains("label"), "{mark}");
}
