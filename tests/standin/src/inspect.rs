//! A look inside: what is left, what runs, who asked for what.

use serde::Serialize;
use serde_json::Value;

use crate::patch::labels_match;
use crate::refusal::Refusal;
use crate::world::{LoggedRequest, World};

/// An object as the inspection names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ObjectRef {
    /// `Pod` or `RoleBinding`.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// An open attach stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StreamRef {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod.
    pub pod: String,
    /// The container.
    pub container: String,
}

pub(crate) struct Inspect {
    pub(crate) world: World,
}

impl Inspect {
    pub(crate) fn requests(&self) -> Vec<LoggedRequest> {
        self.world.read().log.iter().cloned().collect()
    }

    /// The process ids that are alive in any container.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let shells: Vec<_> = {
            let state = self.world.read();
            state
                .pods
                .values()
                .flat_map(|pod| pod.shells.values().cloned())
                .collect()
        };
        shells.iter().flat_map(|shell| shell.processes()).collect()
    }

    pub(crate) fn streams(&self) -> Vec<StreamRef> {
        let state = self.world.read();
        let streams = state.streams.values().map(|stream| StreamRef {
            namespace: stream.key.0.clone(),
            pod: stream.key.1.clone(),
            container: stream.container.clone(),
        });
        streams.collect()
    }

    /// Pods and RoleBindings whose labels meet the selector.
    pub(crate) fn objects(&self, selector: &str) -> Result<Vec<ObjectRef>, Refusal> {
        let state = self.world.read();
        let pods = state.pods.values().map(|pod| ("Pod", &pod.object));
        let bindings = state
            .bindings
            .values()
            .map(|one| ("RoleBinding", &one.object));
        let mut found = Vec::new();
        for (kind, object) in pods.chain(bindings) {
            if labels_match(selector, object)? {
                found.push(reference(kind, object));
            }
        }
        Ok(found)
    }
}

fn reference(kind: &str, object: &Value) -> ObjectRef {
    let text = |field: &str| {
        object["metadata"][field]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    ObjectRef {
        kind: kind.to_owned(),
        namespace: text("namespace"),
        name: text("name"),
        uid: text("uid"),
    }
}
