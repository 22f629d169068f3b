//! The namespaces, pods and people that the cases need, on the real cluster.
//!
//! Invariant: what a case needs is there before the policies are; a case changes nothing, since
//! each is a dry run. A name is used by one run only.

use breakglass_tests::policy_cases::{
    Action, Actor, Case, CasePod, DEBUG_IMAGES, INSTALLATION, Place, actor_groups,
};
use decisions::session::Tier;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use policies::compare::wanted;
use policies::fence::{FenceConfig, Signing, render_fence};
use policies::identity::{Identity, ServiceAccount};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Break-glass of the cases: an account of its own, so that the sidecar's rights stay as they are.
pub(crate) const BACKEND: &str = "system:serviceaccount:breakglass-cases:backend";
const NAMESPACE: &str = "breakglass-cases";
const NATIVE: &str = "/apis/admissionregistration.k8s.io/v1";
const WITHIN: Duration = Duration::from_secs(60);

pub(crate) struct World {
    admin: Client,
    backend: Client,
    token: String,
    run: String,
    /// Pods and bindings by what they are made of, with their names.
    given: BTreeMap<String, String>,
}

impl World {
    pub(crate) async fn of_this_run() -> Option<Self> {
        let Some(dir) = std::env::var_os("BREAKGLASS_TEST_CLUSTER").map(PathBuf::from) else {
            let skipped = std::env::var("BREAKGLASS_SKIP").unwrap_or_default();
            assert!(
                skipped.split(',').any(|part| part.trim() == "cluster"),
                "there is no cluster to test on: run `cargo xtask cluster up DIR` and set \
                 BREAKGLASS_TEST_CLUSTER=DIR, or leave this part out with BREAKGLASS_SKIP=cluster"
            );
            eprintln!("skipped: no cluster, as BREAKGLASS_SKIP says");
            return None;
        };
        let _ = rustls::crypto::ring::default_provider().install_default();
        let kubeconfig = Kubeconfig::read_from(dir.join("admin.conf")).expect("admin.conf");
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .expect("a configuration");
        let admin = Client::try_from(config.clone()).expect("a client");
        // Nothing but the token that each request brings: a certificate would win over it.
        config.auth_info = kube::config::AuthInfo::default();
        let backend = Client::try_from(config).expect("a client");
        let run = format!("{:08x}", rand::random::<u32>());
        let (token, given) = (String::new(), BTreeMap::new());
        Some(Self {
            admin,
            backend,
            token,
            run,
            given,
        })
    }

    /// Makes what the cases need.
    pub(crate) async fn furnished(mut self, cases: &[Case]) -> Self {
        self.take_away().await;
        self.people().await;
        self.kinds_of_kyverno().await;
        let places = [
            Place::App,
            Place::Ground,
            Place::Preview,
            Place::SaysFlight,
            Place::Plain,
            Place::Unnamed,
        ];
        for place in places {
            let (name, labels) = (self.namespace(place), place.labels());
            self.made(
                "/api/v1/namespaces",
                json!({ "apiVersion": "v1", "kind": "Namespace",
                        "metadata": { "name": name, "labels": labels } }),
            )
            .await;
            let account = format!("/api/v1/namespaces/{name}/serviceaccounts/default");
            self.until("the namespace has its account", async || {
                self.as_admin(Method::GET, &account, &Value::Null).await.0 == 200
            })
            .await;
        }
        for case in cases {
            let Some(key) = needs(case) else { continue };
            if self.given.contains_key(&key) {
                continue;
            }
            let name = format!("given-{}", self.given.len());
            let name = self.give(case, name).await;
            self.given.insert(key, name);
        }
        self
    }

    /// Makes the object that is there before the request; answers its name.
    async fn give(&self, case: &Case, name: String) -> String {
        let namespace = self.namespace(case.place);
        if is_about_a_grant(case) {
            // A grant's name says its session, so each has a session of its own.
            let mut binding = case.binding(BACKEND).expect("a binding");
            let own = binding["metadata"]["name"]
                .as_str()
                .expect("a name")
                .to_owned();
            let name = if own.starts_with("tower-breakglass-") {
                format!("tower-breakglass-{:0>12}", self.given.len())
            } else {
                format!("{own}-{}", self.given.len())
            };
            binding["metadata"]["name"] = json!(name);
            self.made(&bindings(&namespace), binding).await;
            return name;
        }
        let mut pod = CasePod::of(&case.given);
        pod.manifest["metadata"]["name"] = json!(name);
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        self.made(&pods, pod.manifest).await;
        if !pod.ephemeral.is_empty() {
            let body = json!({ "spec": { "ephemeralContainers": pod.ephemeral } });
            let path = format!("{pods}/{name}/ephemeralcontainers");
            let (status, answer) = self.as_admin(Method::PATCH, &path, &body).await;
            assert_eq!(status, 200, "{}: {answer}", case.name);
        }
        name
    }

    /// Everybody may do everything, as far as RBAC goes: so that it is admission that refuses.
    async fn people(&mut self) {
        let account = |name: &str| {
            json!({ "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": { "name": name, "namespace": NAMESPACE } })
        };
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": NAMESPACE } });
        self.applied("/api/v1/namespaces", namespace).await;
        let accounts = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts");
        self.applied(&accounts, account("backend")).await;
        let mut subjects = vec![json!({ "kind": "ServiceAccount", "namespace": NAMESPACE,
                                        "name": "backend" })];
        for actor in [
            Actor::Operator,
            Actor::Developer,
            Actor::Kyverno,
            Actor::KyvernoCleanup,
            Actor::Controller,
        ] {
            subjects.push(json!({ "kind": "User", "name": user(actor),
                                  "apiGroup": "rbac.authorization.k8s.io" }));
        }
        let binding = json!({ "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding", "metadata": { "name": "breakglass-cases" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                         "name": "cluster-admin" },
            "subjects": subjects });
        self.applied(
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            binding,
        )
        .await;
        let request = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": { "expirationSeconds": 3600 } });
        let path = format!("{accounts}/backend/token");
        let (status, answer) = self.as_admin(Method::POST, &path, &request).await;
        assert_eq!(status, 201, "{answer}");
        self.token = answer["status"]["token"]
            .as_str()
            .expect("a token")
            .to_owned();
    }

    /// PolicyExceptions of both kinds, in any form: Kyverno's own check is not what is tested.
    async fn kinds_of_kyverno(&self) {
        for (group, version) in [("policies.kyverno.io", "v1"), ("kyverno.io", "v2")] {
            let name = format!("policyexceptions.{group}");
            let any = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
            let kind = json!({ "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition", "metadata": { "name": name },
                "spec": { "group": group, "scope": "Namespaced",
                    "names": { "plural": "policyexceptions", "singular": "policyexception",
                               "kind": "PolicyException", "listKind": "PolicyExceptionList" },
                    "versions": [{ "name": version, "served": true, "storage": true,
                                   "schema": { "openAPIV3Schema": any } }] } });
            self.applied(
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                kind,
            )
            .await;
            let path = format!("/apis/{group}/{version}/policyexceptions");
            self.until("the kind is served", async || {
                self.as_admin(Method::GET, &path, &Value::Null).await.0 == 200
            })
            .await;
        }
    }

    /// Applies the native policies of this tier and waits until each refuses.
    pub(crate) async fn apply(&self, tier: Tier) {
        let objects = wanted(&render_fence(&fence(tier))).expect("manifests");
        for (key, object) in objects {
            if key.api_version == "admissionregistration.k8s.io/v1" {
                let plural = match key.kind.as_str() {
                    "ValidatingAdmissionPolicy" => "validatingadmissionpolicies",
                    _ => "validatingadmissionpolicybindings",
                };
                self.made(&format!("{NATIVE}/{plural}"), object).await;
            }
        }
        let namespace = self.namespace(Place::App);
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        let pod = format!("{pods}/known-bad");
        let mut manifest = CasePod::of(&Value::Null).manifest;
        manifest["metadata"]["name"] = json!("known-bad");
        self.made(&pods, manifest.clone()).await;
        manifest["metadata"]["name"] = json!("known-bad-2");
        let label = json!({ "metadata": { "labels": { "a": "b" } } });
        let binding = json!({ "metadata": { "name": "known-bad" }, "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view" } });
        let exception = json!({ "apiVersion": "policies.kyverno.io/v1", "kind": "PolicyException",
            "metadata": { "name": "known-bad" },
            "spec": { "policyRefs": [{ "name": "tower-breakglass-x" }] } });
        let exceptions =
            format!("/apis/policies.kyverno.io/v1/namespaces/{namespace}/policyexceptions");
        let mut known_bad = vec![
            (
                Method::POST,
                format!("{}?dryRun=All", bindings(&namespace)),
                binding,
            ),
            (Method::POST, format!("{pods}?dryRun=All"), manifest),
            (Method::DELETE, format!("{pod}?dryRun=All"), Value::Null),
            (Method::PATCH, format!("{pod}?dryRun=All"), label),
            (Method::POST, format!("{exceptions}?dryRun=All"), exception),
        ];
        if tier == Tier::Flight {
            known_bad.push((Method::POST, format!("{pod}/exec?command=x"), Value::Null));
        }
        for (method, path, body) in known_bad {
            self.until(&format!("{method} {path} is refused"), async || {
                let (status, answer) = self
                    .send(Actor::Backend, method.clone(), &path, &body)
                    .await;
                let message = answer["message"].as_str().unwrap_or_default();
                status == 403
                    && message.contains("ValidatingAdmissionPolicy '")
                    && !message.contains("not yet ready")
            })
            .await;
        }
    }

    /// Warnings of the API server's type checker; it looks at what it can.
    pub(crate) async fn type_warnings(&self) -> Vec<Value> {
        let list = format!("{NATIVE}/validatingadmissionpolicies");
        self.until("the policies are type-checked", async || {
            let (_, all) = self.as_admin(Method::GET, &list, &Value::Null).await;
            ours(&all).all(|policy| policy["status"]["observedGeneration"].is_number())
        })
        .await;
        let (_, all) = self.as_admin(Method::GET, &list, &Value::Null).await;
        let warnings =
            ours(&all).map(|p| p["status"]["typeChecking"]["expressionWarnings"].clone());
        warnings.filter(|warning| !warning.is_null()).collect()
    }

    /// Takes the policies, the rights and the namespaces of this run away.
    pub(crate) async fn take_away(&self) {
        for plural in [
            "validatingadmissionpolicybindings",
            "validatingadmissionpolicies",
        ] {
            let list = format!("{NATIVE}/{plural}");
            let (_, all) = self.as_admin(Method::GET, &list, &Value::Null).await;
            for object in ours(&all) {
                let path = format!(
                    "{list}/{}",
                    object["metadata"]["name"].as_str().expect("name")
                );
                self.as_admin(Method::DELETE, &path, &Value::Null).await;
            }
        }
        let rights = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/breakglass-cases";
        self.as_admin(Method::DELETE, rights, &Value::Null).await;
        for place in [
            Place::App,
            Place::Ground,
            Place::Preview,
            Place::SaysFlight,
            Place::Plain,
            Place::Unnamed,
        ] {
            let path = format!("/api/v1/namespaces/{}", self.namespace(place));
            self.as_admin(Method::DELETE, &path, &Value::Null).await;
        }
    }

    fn namespace(&self, place: Place) -> String {
        format!("cases-{}-{}", format!("{place:?}").to_lowercase(), self.run)
    }

    pub(crate) fn connects(case: &Case) -> bool {
        matches!(
            case.action,
            Action::Exec | Action::Attach | Action::PortForward
        )
    }

    /// Sends a case as the real request.
    pub(crate) async fn send_case(&self, case: &Case) -> (u16, Value) {
        let namespace = self.namespace(case.place);
        let given = needs(case)
            .and_then(|key| self.given.get(&key))
            .cloned()
            .unwrap_or_default();
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        let pod = format!("{pods}/{given}");
        let exceptions = |group: &str| {
            format!("/apis/{group}/namespaces/{namespace}/policyexceptions?dryRun=All")
        };
        let container = case.body["container"]
            .as_str()
            .map(|name| format!("&container={name}"));
        let container = container.unwrap_or_default();
        let mut body = case.body.clone();
        let (method, path) = match case.action {
            Action::CreateGrant => (Method::POST, format!("{}?dryRun=All", bindings(&namespace))),
            Action::UpdateGrant => (
                Method::PATCH,
                format!("{}/{given}?dryRun=All", bindings(&namespace)),
            ),
            Action::DeleteGrant => (
                Method::DELETE,
                format!("{}/{given}?dryRun=All", bindings(&namespace)),
            ),
            Action::AddDebug => (
                Method::PATCH,
                format!("{pod}/ephemeralcontainers?dryRun=All"),
            ),
            Action::AddNothing => {
                body = json!({});
                (
                    Method::PATCH,
                    format!("{pod}/ephemeralcontainers?dryRun=All"),
                )
            }
            Action::CreateCopy | Action::CreatePod => (Method::POST, format!("{pods}?dryRun=All")),
            Action::DeletePod => (Method::DELETE, format!("{pod}?dryRun=All")),
            Action::DeleteAll => (
                Method::DELETE,
                format!("{pods}?dryRun=All&fieldSelector=metadata.name%3D{given}"),
            ),
            Action::Evict => {
                body = json!({ "apiVersion": "policy/v1", "kind": "Eviction",
                               "metadata": { "name": given, "namespace": namespace } });
                (Method::POST, format!("{pod}/eviction?dryRun=All"))
            }
            Action::PatchPod => (Method::PATCH, format!("{pod}?dryRun=All")),
            Action::PatchStatus => (Method::PATCH, format!("{pod}/status?dryRun=All")),
            Action::Resize => (Method::PATCH, format!("{pod}/resize?dryRun=All")),
            Action::Exec => {
                body = Value::Null;
                (
                    Method::POST,
                    format!("{pod}/exec?command=id&stdout=1{container}"),
                )
            }
            Action::Attach => {
                body = Value::Null;
                (Method::GET, format!("{pod}/attach?stdout=1{container}"))
            }
            Action::PortForward => (Method::POST, format!("{pod}/portforward")),
            Action::Except => (Method::POST, exceptions("policies.kyverno.io/v1")),
            Action::ExceptOld => (Method::POST, exceptions("kyverno.io/v2")),
        };
        self.send(case.actor, method, &path, &body).await
    }

    async fn until(&self, what: &str, so: impl AsyncFn() -> bool) {
        let asked = tokio::time::timeout(WITHIN, async {
            while !so().await {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        asked
            .await
            .unwrap_or_else(|_| panic!("{what}: not so within {WITHIN:?}"));
    }

    async fn made(&self, path: &str, body: Value) {
        let (status, answer) = self.as_admin(Method::POST, path, &body).await;
        assert_eq!(status, 201, "{path} {body}: {answer}");
    }

    /// Made, or there already.
    async fn applied(&self, path: &str, body: Value) {
        let (status, answer) = self.as_admin(Method::POST, path, &body).await;
        assert!(status == 201 || status == 409, "{path} {body}: {answer}");
    }

    async fn as_admin(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        request(&self.admin, method, path, body, &[]).await
    }

    /// As this person: Break-glass by its own token, others by impersonation.
    pub(crate) async fn send(
        &self,
        actor: Actor,
        method: Method,
        path: &str,
        body: &Value,
    ) -> (u16, Value) {
        if actor == Actor::Backend {
            let bearer = [("authorization", format!("Bearer {}", self.token))];
            return request(&self.backend, method, path, body, &bearer).await;
        }
        let mut headers = vec![("impersonate-user", user(actor).to_owned())];
        for group in actor_groups(actor) {
            headers.push(("impersonate-group", (*group).to_owned()));
        }
        request(&self.admin, method, path, body, &headers).await
    }
}

fn ours(list: &Value) -> impl Iterator<Item = &Value> {
    let items = list["items"].as_array().into_iter().flatten();
    items.filter(|item| {
        let name = item["metadata"]["name"].as_str().unwrap_or_default();
        name.starts_with("tower-breakglass-") || name.starts_with("vpol-tower-breakglass-")
    })
}

fn user(actor: Actor) -> &'static str {
    actor.user(BACKEND)
}

fn fence(tier: Tier) -> FenceConfig {
    let account = |name| ServiceAccount::new("kyverno", name).expect("valid");
    FenceConfig {
        tier,
        installation: INSTALLATION.to_owned(),
        backend: Identity::of_user_name(BACKEND).expect("valid"),
        debug_images: DEBUG_IMAGES.map(str::to_owned).to_vec(),
        operators: actor_groups(Actor::Operator)
            .iter()
            .map(|g| (*g).to_owned())
            .collect(),
        kyverno: vec![account("kyverno-admission-controller")],
        signing: Signing {
            glob: "ghcr.io/hangar/tower-debug*".to_owned(),
            issuer: "https://token.actions.githubusercontent.com".to_owned(),
            subject: "https://github.com/hangar/x/.github/workflows/r.yml@refs/heads/main"
                .to_owned(),
            rekor_url: "https://rekor.sigstore.dev".to_owned(),
            roots: None,
        },
        bucket: None,
        application: None,
    }
}

fn is_about_a_grant(case: &Case) -> bool {
    matches!(case.action, Action::UpdateGrant | Action::DeleteGrant)
}

/// What must be there before the case, as a key; `None` where it makes something new.
fn needs(case: &Case) -> Option<String> {
    match case.action {
        Action::CreateGrant
        | Action::CreateCopy
        | Action::CreatePod
        | Action::Except
        | Action::ExceptOld => None,
        Action::UpdateGrant
        | Action::DeleteGrant
        | Action::AddDebug
        | Action::AddNothing
        | Action::DeletePod
        | Action::DeleteAll
        | Action::Evict
        | Action::PatchPod
        | Action::PatchStatus
        | Action::Resize
        | Action::Exec
        | Action::Attach
        | Action::PortForward => {
            let grant = is_about_a_grant(case);
            Some(format!("{:?} {grant} {}", case.place, case.given))
        }
    }
}

fn bindings(namespace: &str) -> String {
    format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings")
}

async fn request(
    client: &Client,
    method: Method,
    path: &str,
    body: &Value,
    headers: &[(&str, String)],
) -> (u16, Value) {
    let kind = match (method == Method::PATCH, path.contains("/pods/")) {
        (true, true) => "application/strategic-merge-patch+json",
        (true, false) => "application/merge-patch+json",
        (false, _) => "application/json",
    };
    let body = if body.is_null() {
        Vec::new()
    } else {
        body.to_string().into_bytes()
    };
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", kind);
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let answer = client
        .send(request.body(Body::from(body)).expect("a request"))
        .await;
    let answer = answer.expect("the API server answers");
    let status = answer.status().as_u16();
    let bytes = answer
        .into_body()
        .collect()
        .await
        .expect("the whole answer")
        .to_bytes();
    (
        status,
        serde_json::from_slice(&bytes).unwrap_or(Value::Null),
    )
}
