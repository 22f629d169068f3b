//! Objects as the API gives them: identity, labels, deletion by UID (C-2c, C-26).

use super::call::Caller;
use super::error;
use super::path;
use crate::ports::ClusterError;
use crate::ports::cluster::{Deleted, MadeObject, ObjectKind};
use decisions::session::SessionId;
use kube::api::{DeleteParams, GetParams, Preconditions};
use kube::core::Request;
use serde_json::Value;
use std::collections::BTreeMap;

/// A text of an object's metadata.
pub(crate) fn meta<'o>(object: &'o Value, field: &str) -> Option<&'o str> {
    object.get("metadata")?.get(field)?.as_str()
}

pub(crate) fn uid(object: &Value) -> Option<&str> {
    meta(object, "uid")
}

/// A map of an object's metadata: `labels` or `annotations`.
pub(crate) fn texts(object: &Value, field: &str) -> BTreeMap<String, String> {
    let map = object
        .get("metadata")
        .and_then(|m| m.get(field))
        .and_then(Value::as_object);
    let pairs = map.into_iter().flatten();
    pairs
        .filter_map(|(key, v)| Some((key.clone(), v.as_str()?.to_owned())))
        .collect()
}

/// An object of ours, as it is remembered (C-26). `None` where name, namespace or UID is missing.
pub(crate) fn made(
    cluster: &str,
    session: &SessionId,
    kind: ObjectKind,
    object: &Value,
) -> Option<MadeObject> {
    Some(MadeObject {
        session: session.clone(),
        cluster: cluster.to_owned(),
        kind,
        namespace: meta(object, "namespace")?.to_owned(),
        name: meta(object, "name")?.to_owned(),
        uid: uid(object)?.to_owned(),
    })
}

/// One object of a collection.
pub(super) struct Place<'p> {
    pub(super) collection: Request,
    pub(super) name: &'p str,
    /// What it is, for errors: `pod`.
    pub(super) kind: &'p str,
}

impl Place<'_> {
    pub(super) fn what(&self) -> String {
        format!("{} `{}`", self.kind, self.name)
    }

    /// The object; `None` where there is none of that name.
    pub(super) async fn get(&self, caller: &Caller<'_>) -> Result<Option<Value>, ClusterError> {
        let request = self
            .collection
            .get(path::object(self.name)?, &GetParams::default());
        match caller.json(request, &self.what()).await {
            Ok(object) => Ok(Some(object)),
            Err(ClusterError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes the object with this UID, and no other (C-26). What is gone counts as done (C-22).
    pub(super) async fn delete(
        &self,
        caller: &Caller<'_>,
        uid: &str,
        grace_seconds: Option<u32>,
    ) -> Result<Deleted, ClusterError> {
        let only_this = Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        };
        let mut params = DeleteParams::background().preconditions(only_this);
        params.grace_period_seconds = grace_seconds;
        let request = self.collection.delete(path::object(self.name)?, &params);
        match caller.json(request, &self.what()).await {
            Err(ClusterError::NotFound { .. }) => Ok(Deleted::Gone),
            // Either another object has the name, or the server means something else by it.
            Err(ClusterError::Conflict { message }) => match self.get(caller).await? {
                None => Ok(Deleted::Gone),
                Some(found) if self::uid(&found) != Some(uid) => Ok(Deleted::Replaced),
                Some(_) => Err(ClusterError::Conflict { message }),
            },
            Err(error) => Err(error),
            // A finalizer or a grace period may keep it, and the answer does not always say so.
            Ok(_) => match self.get(caller).await {
                Ok(Some(found)) if self::uid(&found) == Some(uid) => Ok(Deleted::Terminating),
                Ok(Some(_) | None) => Ok(Deleted::Gone),
                // The delete was taken; that it is finished we were not shown.
                Err(_) => Ok(Deleted::Terminating),
            },
        }
    }
}

/// The items of a list answer.
pub(super) fn items(cluster: &str, mut list: Value) -> Result<Vec<Value>, ClusterError> {
    match list.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => Ok(items),
        // An empty list of Go's.
        Some(Value::Null) => Ok(Vec::new()),
        Some(_) | None => Err(error::unexpected(cluster, "a list without items")),
    }
}
