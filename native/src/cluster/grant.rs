//! The grant: a RoleBinding for one session (C-7, C-10a, C-18).
//!
//! Invariant: what is taken for a grant of ours carries our labels, our name and the role that was
//! asked for; anything else of that name is left alone.

use super::KubeCluster;
use super::error::{server_is_not_ready, unexpected};
use super::list;
use super::object::{Place, made, meta, texts};
use super::path;
use super::patience::Patience;
use crate::ports::ClusterError;
use crate::ports::cluster::{Deleted, MadeObject, ObjectKind};
use decisions::names;
use decisions::session::SessionId;
use kube::api::PostParams;
use serde_json::Value;

pub(super) async fn create(
    cluster: &KubeCluster,
    session: &SessionId,
    binding: &Value,
) -> Result<MadeObject, ClusterError> {
    let missing = |field| ClusterError::Invalid {
        message: format!("a grant without {field}"),
    };
    let namespace = meta(binding, "namespace").ok_or_else(|| missing("a namespace"))?;
    let name = meta(binding, "name").ok_or_else(|| missing("a name"))?;
    let caller = cluster.reach.caller().await?;
    let place = Place {
        collection: path::role_bindings(namespace)?,
        name,
        kind: "RoleBinding",
    };
    let body = binding.to_string().into_bytes();
    let mut patience = Patience::for_rights();
    let created = loop {
        let request = place
            .collection
            .create(&PostParams::default(), body.clone());
        match caller.json(request, &place.what()).await {
            Err(error) if server_is_not_ready(&error) && patience.again().await => {}
            other => break other,
        }
    };
    let found = match created {
        // An earlier try of ours whose answer was lost, or somebody else's (C-10a).
        Err(ClusterError::Conflict { message }) => match place.get(&caller).await? {
            Some(there) if is_grant(cluster, session, &there, Some(binding)) => there,
            Some(_) | None => return Err(ClusterError::Conflict { message }),
        },
        other => other?,
    };
    made(cluster.name(), session, ObjectKind::RoleBinding, &found)
        .ok_or_else(|| unexpected(cluster.name(), "a RoleBinding without name and UID"))
}

/// Whether this is a grant that our installation made for the session and that still stands; and,
/// where one is `wanted`, one that gives the same role.
pub(crate) fn stands(
    installation: &str,
    session: &SessionId,
    found: &Value,
    wanted: Option<&Value>,
) -> bool {
    let name = meta(found, "name").unwrap_or_default();
    let ours = names::our_session(&texts(found, "labels"), installation).as_ref() == Some(session);
    let named = name == names::grant_name(session) || name == names::second_grant_name(session);
    let role = |binding: &Value| binding.pointer("/roleRef/name").cloned();
    let same_role = wanted.is_none_or(|wanted| role(wanted) == role(found));
    ours && named && same_role && meta(found, "deletionTimestamp").is_none()
}

fn is_grant(cluster: &KubeCluster, id: &SessionId, found: &Value, wanted: Option<&Value>) -> bool {
    stands(&cluster.installation, id, found, wanted)
}

pub(super) async fn delete(
    cluster: &KubeCluster,
    grant: &MadeObject,
) -> Result<Deleted, ClusterError> {
    let collection = path::role_bindings(&grant.namespace)?;
    let place = Place {
        collection,
        name: &grant.name,
        kind: "RoleBinding",
    };
    let caller = cluster.reach.caller().await?;
    place.delete(&caller, &grant.uid, None).await
}

pub(super) async fn find(
    cluster: &KubeCluster,
    namespace: &str,
    session: &SessionId,
) -> Result<Vec<MadeObject>, ClusterError> {
    let collection = path::role_bindings(namespace)?;
    let caller = cluster.reach.caller().await?;
    let mut found = Vec::new();
    for name in [
        names::grant_name(session),
        names::second_grant_name(session),
    ] {
        let place = Place {
            collection: collection.clone(),
            name: &name,
            kind: "RoleBinding",
        };
        let there = place.get(&caller).await?;
        // One on its way out still gives its right: it is listed until it is gone.
        let ours = there.filter(|binding| {
            let labels = texts(binding, "labels");
            names::our_session(&labels, &cluster.installation).as_ref() == Some(session)
        });
        let kind = ObjectKind::RoleBinding;
        found.extend(ours.and_then(|binding| made(cluster.name(), session, kind, &binding)));
    }
    Ok(found)
}

/// Every RoleBinding with this installation's labels, with its session.
pub(super) async fn all(
    cluster: &KubeCluster,
    mut look: impl FnMut(SessionId, Value) + Send,
) -> Result<(), ClusterError> {
    let caller = cluster.reach.caller().await?;
    let selector = names::our_selector(&cluster.installation);
    let collection = path::all_role_bindings();
    list::each(
        &caller,
        &collection,
        &selector,
        "our RoleBindings",
        |binding| {
            let labels = texts(&binding, "labels");
            if let Some(session) = names::our_session(&labels, &cluster.installation) {
                look(session, binding);
            }
        },
    )
    .await
}
