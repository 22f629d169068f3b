//! Who we are on a cluster, by the cluster's own word (C-1).

use super::KubeCluster;
use super::error;
use crate::ports::ClusterError;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::Resource;
use kube::api::PostParams;
use kube::core::Request;
use serde_json::{Value, json};

pub(super) async fn username(cluster: &KubeCluster) -> Result<String, ClusterError> {
    if let Some(known) = cluster.reach.known_username() {
        return Ok(known);
    }
    let caller = cluster.reach.caller().await?;
    let review = json!({
        "apiVersion": SelfSubjectReview::api_version(&()),
        "kind": SelfSubjectReview::kind(&()),
    });
    let request = Request::new(SelfSubjectReview::url_path(&(), None))
        .create(&PostParams::default(), review.to_string().into_bytes());
    let answer = caller.json(request, "our own identity").await?;
    let name = answer
        .pointer("/status/userInfo/username")
        .and_then(Value::as_str);
    match name {
        Some(name) if !name.is_empty() => {
            cluster.reach.remember_username(Some(name.to_owned()));
            Ok(name.to_owned())
        }
        Some(_) | None => Err(error::unexpected(
            caller.cluster(),
            "it does not say who we are",
        )),
    }
}
