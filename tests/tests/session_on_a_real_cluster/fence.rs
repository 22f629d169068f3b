//! The fence of the stage's own configuration on its cluster: the native policies, Kyverno's as it
//! compiles them. The image's signature is another test's.

use breakglass_tests::StageError;
use breakglass_tests::processes::until;
use breakglass_tests::stage::Stage;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use policies::compare::{ObjectKey, wanted};
use policies::fence::render_fence;
use serde_json::{Value, json};
use std::time::Duration;

const NATIVE: &str = "admissionregistration.k8s.io/v1";

pub(crate) struct Fence {
    admin: Client,
    made: Vec<String>,
}

impl Fence {
    /// Applies it and waits until it refuses what is known to be bad.
    pub(crate) async fn applied(stage: &Stage) -> Result<Self, StageError> {
        let config = stage.sidecar.settings().config()?;
        let rendered = config
            .fence(&stage.place.target.cluster)
            .map_err(|error| StageError::of("the fence", error))?;
        let objects = wanted(&render_fence(&rendered.fence))
            .map_err(|error| StageError::of("the fence", error))?;
        let mut fence = Self {
            admin: stage.place.witness.client(),
            made: Vec::new(),
        };
        for (key, object) in objects.iter().filter(|(key, _)| key.api_version == NATIVE) {
            let path = collection(key);
            let (status, answer) = fence.send(Method::POST, &path, object).await?;
            assert_eq!(status, 201, "{key}: {answer}");
            fence.made.push(format!("{path}/{}", key.name));
        }
        assert!(!fence.made.is_empty(), "there is a fence");
        fence.refuses(stage).await?;
        Ok(fence)
    }

    async fn refuses(&self, stage: &Stage) -> Result<(), StageError> {
        let namespace = &stage.place.target.namespace;
        let ready = stage.place.witness.ready_pods(namespace).await?;
        let pod = ready.first().and_then(|pod| pod.metadata.name.clone());
        let pod = pod.ok_or_else(|| StageError::new("the target has no ready pod"))?;
        let binding = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": { "name": "tower-breakglass-known-bad" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                         "name": "view" } });
        let container = json!({ "spec": { "ephemeralContainers": [
            { "name": "debug-knownbad0000", "image": "known-bad" }] } });
        for (method, path, body) in [
            (
                Method::POST,
                format!(
                    "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings\
                     ?dryRun=All"
                ),
                binding,
            ),
            (
                Method::PATCH,
                format!("/api/v1/namespaces/{namespace}/pods/{pod}/ephemeralcontainers?dryRun=All"),
                container,
            ),
        ] {
            until("the fence's refusal", Duration::from_secs(60), || async {
                let (status, answer) = self.send(method.clone(), &path, &body).await.ok()?;
                let message = answer["message"].as_str().unwrap_or_default();
                (status >= 400 && message.contains("ValidatingAdmissionPolicy '")).then_some(())
            })
            .await?;
        }
        Ok(())
    }

    pub(crate) async fn taken_away(self) -> Result<(), StageError> {
        for path in &self.made {
            let (status, answer) = self.send(Method::DELETE, path, &Value::Null).await?;
            assert_eq!(status, 200, "{path}: {answer}");
        }
        Ok(())
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<(u16, Value), StageError> {
        let kind = match method {
            Method::PATCH => "application/strategic-merge-patch+json",
            _ => "application/json",
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind)
            .body(Body::from(body.to_string().into_bytes()))
            .map_err(|error| StageError::of("a request", error))?;
        let failed = |error: kube::Error| StageError::of("the API server", error);
        let answer = self.admin.send(request).await.map_err(failed)?;
        let status = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.map_err(failed)?;
        let answer = serde_json::from_slice(&bytes.to_bytes());
        Ok((status, answer.unwrap_or_default()))
    }
}

fn collection(key: &ObjectKey) -> String {
    let plural = match key.kind.as_str() {
        "ValidatingAdmissionPolicy" => "validatingadmissionpolicies",
        _ => "validatingadmissionpolicybindings",
    };
    format!("/apis/{NATIVE}/{plural}")
}
