//! The namespaces, pods and people that the cases need, on the real cluster.
//!
//! Invariant: what a case needs is there before the policies are; a case changes nothing, since
//! each is a dry run. A name is used by one run only.

use breakglass_tests::policy_cases::{
    Action, Actor, COPY_ANNOTATIONS, Case, CasePod, DEBUG_IMAGES, INSTALLATION, Place, actor_groups,
};
use breakglass_tests::real_cluster::{RealCluster, WITHIN, send, send_with, until};
use decisions::session::{SessionId, Tier};
use http::Method;
use kube::Client;
use policies::compare::wanted;
use policies::fence::{FenceConfig, Signing, render_fence};
use policies::identity::{Identity, ServiceAccount};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

mod fence;

pub(crate) use fence::{appliers, offline};

/// Break-glass of the cases: an account of its own, so that the sidecar's rights stay as they are.
pub(crate) const BACKEND: &str = "system:serviceaccount:breakglass-cases:backend";
const NAMESPACE: &str = "breakglass-cases";
pub(crate) const NATIVE: &str = "/apis/admissionregistration.k8s.io/v1";
pub(crate) const RIGHTS: &str = "/apis/rbac.authorization.k8s.io/v1";
const KYVERNO: &str = "/apis/policies.kyverno.io/v1";
pub(crate) const VALIDATING_POLICIES: &str = "/apis/policies.kyverno.io/v1/validatingpolicies";
pub(crate) const IMAGE_POLICIES: &str = "/apis/policies.kyverno.io/v1/imagevalidatingpolicies";

pub(crate) struct World {
    dir: PathBuf,
    admin: Client,
    backend: Client,
    token: String,
    run: String,
    /// Pods, bindings and policies by what they are made of, with their names.
    given: BTreeMap<String, String>,
}

impl World {
    pub(crate) async fn of_this_run() -> Option<Self> {
        let real = RealCluster::of_this_run().await?;
        let mut config = real.config("admin.conf").await;
        // Nothing but the token that each request brings: a certificate would win over it.
        config.auth_info = kube::config::AuthInfo::default();
        let backend = Client::try_from(config).expect("a client");
        let run = format!("{:08x}", rand::random::<u32>());
        let (token, given) = (String::new(), BTreeMap::new());
        Some(Self {
            dir: real.dir,
            admin: real.admin,
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
            until("the namespace has its account", async || {
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
            let session = own.strip_prefix("tower-breakglass-");
            let name = match session.map(|id| id.strip_suffix("-2").unwrap_or(id)) {
                Some(id) if SessionId::parse(id).is_ok() => {
                    let second = if own.ends_with("-2") { "-2" } else { "" };
                    format!("tower-breakglass-{:0>12}{second}", self.given.len())
                }
                // What is almost a grant's name is that, whole.
                Some(_) => own,
                None => format!("{own}-{}", self.given.len()),
            };
            binding["metadata"]["name"] = json!(name);
            self.made(&bindings(&namespace), binding).await;
            return name;
        }
        if is_about_a_policy(case) {
            let mut policy = case.given_policy();
            let own = policy["metadata"]["name"].as_str().expect("a name");
            let name = format!("{own}-{}-{}", self.run, self.given.len());
            policy["metadata"]["name"] = json!(name);
            policy["metadata"]["labels"] = json!({ NAMESPACE: "given" });
            self.made(&format!("{KYVERNO}/{}", case.policies()), policy)
                .await;
            return name;
        }
        let mut pod = CasePod::of(&case.given);
        pod.manifest["metadata"]["name"] = json!(name);
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        self.made(&pods, pod.manifest).await;
        if !pod.ephemeral.is_empty() {
            let body = json!({ "spec": { "ephemeralContainers": pod.ephemeral } });
            let path = format!("{pods}/{name}/ephemeralcontainers");
            let (status, answer) = self.past_the_policies(Method::PATCH, &path, &body).await;
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
        // By a group that requests are sent with: the controllers that run keep their own rights.
        let subjects = json!([
            { "kind": "ServiceAccount", "namespace": NAMESPACE, "name": "backend" },
            { "kind": "Group", "name": NAMESPACE, "apiGroup": "rbac.authorization.k8s.io" },
        ]);
        let binding = json!({ "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding", "metadata": { "name": "breakglass-cases" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                         "name": "cluster-admin" },
            "subjects": subjects });
        self.applied(&format!("{RIGHTS}/clusterrolebindings"), binding)
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

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn admin_conf(&self) -> PathBuf {
        self.dir.join("admin.conf")
    }

    /// Applies files, as an operator would.
    pub(crate) fn kubectl_apply(&self, files: &[PathBuf]) -> bool {
        let mut kubectl = Command::new(self.dir.join("bin/kubectl"));
        kubectl.arg("--kubeconfig").arg(self.admin_conf()).args([
            "apply",
            "--server-side",
            "--force-conflicts",
        ]);
        for file in files {
            kubectl.arg("--filename").arg(file);
        }
        kubectl.status().expect("kubectl runs").success()
    }

    /// May this one do so in the whole cluster, by the rights of its name?
    pub(crate) async fn may(&self, who: Actor, verb: &str, group: &str, resource: &str) -> bool {
        let review = json!({ "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": { "user": user(who), "resourceAttributes": {
                "verb": verb, "group": group, "resource": resource } } });
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let (status, answer) = self.as_admin(Method::POST, path, &review).await;
        assert_eq!(status, 201, "{answer}");
        answer["status"]["allowed"] == true
    }

    pub(crate) async fn change(&self, path: &str, change: &Value) {
        let (status, answer) = self.as_admin(Method::PATCH, path, change).await;
        assert_eq!(status, 200, "{path}: {answer}");
    }

    pub(crate) async fn remove(&self, path: &str) {
        self.as_admin(Method::DELETE, path, &Value::Null).await;
    }

    pub(crate) fn namespace(&self, place: Place) -> String {
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
        let policies = format!("{KYVERNO}/{}", case.policies());
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
            Action::MakePolicy => (Method::POST, format!("{policies}?dryRun=All")),
            Action::ChangePolicy => (Method::PATCH, format!("{policies}/{given}?dryRun=All")),
            Action::ChangePolicyStatus => (
                Method::PATCH,
                format!("{policies}/{given}/status?dryRun=All"),
            ),
            Action::DeletePolicy => (Method::DELETE, format!("{policies}/{given}?dryRun=All")),
        };
        self.send(case.actor, method, &path, &body).await
    }

    pub(crate) async fn made(&self, path: &str, body: Value) {
        let (status, answer) = self.past_the_policies(Method::POST, path, &body).await;
        assert_eq!(status, 201, "{path} {body}: {answer}");
    }

    /// Policies that were taken away refuse for a moment longer.
    async fn past_the_policies(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let end = tokio::time::Instant::now() + WITHIN;
        loop {
            let (status, answer) = self.as_admin(method.clone(), path, body).await;
            if status != 403 || tokio::time::Instant::now() >= end {
                return (status, answer);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Made, or there already.
    async fn applied(&self, path: &str, body: Value) {
        let (status, answer) = self.as_admin(Method::POST, path, &body).await;
        assert!(status == 201 || status == 409, "{path} {body}: {answer}");
    }

    pub(crate) async fn as_admin(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        send(&self.admin, method, path, body).await
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
            return send_with(&self.backend, method, path, body, &bearer).await;
        }
        let mut headers = vec![("impersonate-user", user(actor).to_owned())];
        for group in actor_groups(actor).iter().chain(&[NAMESPACE]) {
            headers.push(("impersonate-group", (*group).to_owned()));
        }
        send_with(&self.admin, method, path, body, &headers).await
    }
}

fn user(actor: Actor) -> &'static str {
    actor.user(BACKEND)
}

fn is_about_a_grant(case: &Case) -> bool {
    matches!(case.action, Action::UpdateGrant | Action::DeleteGrant)
}

fn is_about_a_policy(case: &Case) -> bool {
    matches!(
        case.action,
        Action::ChangePolicy | Action::ChangePolicyStatus | Action::DeletePolicy
    )
}

/// What must be there before the case, as a key; `None` where it makes something new.
fn needs(case: &Case) -> Option<String> {
    match case.action {
        Action::CreateGrant
        | Action::CreateCopy
        | Action::CreatePod
        | Action::MakePolicy
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
        | Action::PortForward
        | Action::ChangePolicy
        | Action::ChangePolicyStatus
        | Action::DeletePolicy => {
            let (grant, policy) = (is_about_a_grant(case), is_about_a_policy(case));
            Some(format!("{:?} {grant} {policy} {}", case.place, case.given))
        }
    }
}

pub(crate) fn bindings(namespace: &str) -> String {
    format!("{RIGHTS}/namespaces/{namespace}/rolebindings")
}
