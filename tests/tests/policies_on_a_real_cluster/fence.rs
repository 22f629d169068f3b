//! The fence on the cluster: applied, waited for, taken away.

use super::*;
use policies::cel::KubernetesVersion;
use policies::eval::PolicySet;
use policies::model::{Document, Policy, PolicyKind};

impl World {
    /// Those of Kyverno's kinds that the guard is about, in any form: Kyverno's own check is not
    /// what is tested.
    pub(super) async fn kinds_of_kyverno(&self) {
        for (group, version, kind, plural) in [
            (
                "policies.kyverno.io",
                "v1",
                "PolicyException",
                "policyexceptions",
            ),
            ("kyverno.io", "v2", "PolicyException", "policyexceptions"),
            (
                "policies.kyverno.io",
                "v1",
                "ValidatingPolicy",
                "validatingpolicies",
            ),
            (
                "policies.kyverno.io",
                "v1",
                "ImageValidatingPolicy",
                "imagevalidatingpolicies",
            ),
        ] {
            let scope = if kind == "PolicyException" {
                "Namespaced"
            } else {
                "Cluster"
            };
            let any = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
            let kind = json!({ "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": { "name": format!("{plural}.{group}") },
                "spec": { "group": group, "scope": scope,
                    "names": { "plural": plural, "singular": kind.to_lowercase(),
                               "kind": kind, "listKind": format!("{kind}List") },
                    "versions": [{ "name": version, "served": true, "storage": true,
                                   "subresources": { "status": {} },
                                   "schema": { "openAPIV3Schema": any } }] } });
            self.applied(
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                kind,
            )
            .await;
            let path = format!("/apis/{group}/{version}/{plural}");
            until("the kind is served", async || {
                self.as_admin(Method::GET, &path, &Value::Null).await.0 == 200
            })
            .await;
        }
    }

    /// Applies the native policies of this tier, Kyverno's as it would compile them, and waits
    /// until each refuses.
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
        self.refused(tier).await;
    }

    /// Waits until each policy of this tier refuses.
    pub(crate) async fn refused(&self, tier: Tier) {
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
            "spec": { "policyRefs": [{ "name": "tower-breakglass-x",
                                       "kind": "ValidatingPolicy" }] } });
        let exceptions =
            format!("/apis/policies.kyverno.io/v1/namespaces/{namespace}/policyexceptions");
        let known_bad = vec![
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
        let exec = (Method::POST, format!("{pod}/exec?command=x"), Value::Null);
        let mut known_bad: Vec<_> = known_bad
            .into_iter()
            .map(|bad| (Actor::Backend, bad))
            .collect();
        known_bad.push((Actor::Backend, exec.clone()));
        if tier == Tier::Flight {
            known_bad.push((Actor::Developer, exec));
        }
        for (actor, (method, path, body)) in known_bad {
            until(&format!("{method} {path} is refused"), async || {
                let (status, answer) = self.send(actor, method.clone(), &path, &body).await;
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
        until("the policies are type-checked", async || {
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
        // Kyverno's own first, or it makes the native ones again.
        for list in [
            VALIDATING_POLICIES.to_owned(),
            IMAGE_POLICIES.to_owned(),
            format!("{NATIVE}/validatingadmissionpolicybindings"),
            format!("{NATIVE}/validatingadmissionpolicies"),
        ] {
            let all = async || self.as_admin(Method::GET, &list, &Value::Null).await.1;
            until("none of ours is left", async || {
                let all = all().await;
                for object in ours(&all) {
                    let name = object["metadata"]["name"].as_str().expect("a name");
                    self.remove(&format!("{list}/{name}")).await;
                }
                ours(&all).next().is_none()
            })
            .await;
        }
        for right in [
            "clusterrolebindings/breakglass-cases",
            "clusterrolebindings/tower-breakglass-backend-cases",
            "clusterroles/breakglass-kyverno-cleanup",
            "clusterroles?labelSelector=breakglass-cases%3Dround",
        ] {
            self.remove(&format!("{RIGHTS}/{right}")).await;
        }
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
}

fn ours(list: &Value) -> impl Iterator<Item = &Value> {
    let items = list["items"].as_array().into_iter().flatten();
    items.filter(|item| {
        let name = item["metadata"]["name"].as_str().unwrap_or_default();
        let of_a_fence = ["tower-breakglass-", "vpol-tower-breakglass-"];
        of_a_fence.iter().any(|prefix| name.starts_with(prefix))
            || item["metadata"]["labels"][NAMESPACE] == "given"
    })
}

/// The same policies and bindings, to be judged without the API server: those that expressions
/// alone decide.
pub(crate) fn offline(tier: Tier) -> PolicySet {
    let files = render_fence(&fence(tier));
    let read = |text: &str| Policy::parse_all("rendered", text.as_bytes()).expect("a file");
    let documents = files.iter().flat_map(|file| read(&file.text));
    let judged = documents.filter(|document| match document {
        Document::Policy(policy) => policy.kind != PolicyKind::ImageValidatingPolicy,
        Document::Binding(_) | Document::Exception(_) | Document::Unknown(_) => true,
    });
    PolicySet::new(judged, KubernetesVersion::NEWEST).expect("policies")
}

/// Who rolls the fence out in these tests: their own administrator, and the cases' one.
pub(crate) fn appliers() -> [&'static str; 2] {
    ["admin", user(Actor::Applier)]
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
        copy_annotations: COPY_ANNOTATIONS.map(str::to_owned).to_vec(),
        appliers: appliers()
            .map(|user| Identity::of_user_name(user).expect("valid"))
            .to_vec(),
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
