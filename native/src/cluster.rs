//! The real adapter of the [`Cluster`] port: the Kubernetes API, through `kube` (spec 02).
//!
//! Invariants: every call has a deadline and a bounded answer; each cluster has its own connections
//! and its own places (C-28); what is changed or deleted is the object with the known UID (C-26);
//! no log line and no error carries a token, a body or a terminal's bytes.

pub mod config;

mod attach;
mod call;
mod connection;
pub(crate) mod controller;
pub(crate) mod debug_container;
mod error;
pub(crate) mod fence;
pub(crate) mod grant;
mod identity;
pub(crate) mod leftovers;
mod list;
pub(crate) mod object;
mod path;
mod patience;
pub(crate) mod pods;
pub(crate) mod preflight;
mod shell;
pub(crate) mod watch;

#[cfg(any(test, feature = "testing"))]
pub(crate) use attach::may_be_attached;
pub use config::{ClusterConfig, ConfigError};

use crate::ports::ClusterError;
use crate::ports::cluster::{
    Cluster, Clusters, ControllerFacts, Deleted, Leftover, MadeObject, PodRef, Shell, TargetFacts,
};
use async_trait::async_trait;
use config::Way;
use decisions::names;
use decisions::session::SessionId;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// One cluster, reached as its configuration says.
pub struct KubeCluster {
    reach: call::Reach,
    installation: String,
}

/// Makes the configured clusters. Nothing is called: a cluster that is away when the sidecar starts
/// is found to be so when it is needed.
///
/// # Errors
/// The cluster's name and what no later moment could mend: a `home` that is not there, an
/// installation's name that is not a label value (C-2c).
pub async fn connect(
    configured: &BTreeMap<String, ClusterConfig>,
    installation: &str,
) -> Result<Clusters, (String, ConfigError)> {
    let made = |(name, config): (&String, &ClusterConfig)| match of(
        name,
        config,
        configured,
        installation,
    ) {
        Ok(cluster) => Ok((name.clone(), Arc::new(cluster) as Arc<dyn Cluster>)),
        Err(error) => Err((name.clone(), error)),
    };
    configured.iter().map(made).collect()
}

fn of(
    name: &str,
    config: &ClusterConfig,
    configured: &BTreeMap<String, ClusterConfig>,
    installation: &str,
) -> Result<KubeCluster, ConfigError> {
    if !names::is_label_value(installation) {
        return Err(ConfigError::Installation(installation.to_owned()));
    }
    let home = home_of(name, config, configured)?;
    let reach = call::Reach::new(name, config, home);
    Ok(KubeCluster {
        reach,
        installation: installation.to_owned(),
    })
}

/// The cluster that mints this one's token, if it is another.
fn home_of<'c>(
    name: &str,
    config: &'c ClusterConfig,
    configured: &'c BTreeMap<String, ClusterConfig>,
) -> Result<Option<(&'c str, &'c Way)>, ConfigError> {
    let Way::MintedToken(way) = &config.way else {
        return Ok(None);
    };
    match configured.get(&way.home).map(|home| &home.way) {
        Some(home @ (Way::InCluster | Way::Kubeconfig(_))) => Ok(Some((&way.home, home))),
        Some(Way::MintedToken(_)) | None => Err(ConfigError::Home {
            cluster: name.to_owned(),
            home: way.home.clone(),
        }),
    }
}

impl KubeCluster {
    fn name(&self) -> &str {
        self.reach.cluster()
    }

    /// One line a step, for whoever looks for what went wrong.
    fn noted<T>(
        &self,
        step: &'static str,
        session: Option<&SessionId>,
        result: Result<T, ClusterError>,
    ) -> Result<T, ClusterError> {
        let (cluster, session) = (self.name(), session.map(SessionId::as_str));
        match &result {
            Ok(_) => tracing::debug!(cluster, session, step, "done"),
            Err(error) => tracing::debug!(cluster, session, step, %error, "not done"),
        }
        result
    }
}

/// The session that a debug container belongs to, for a log line.
fn session_of(container: &str) -> Option<SessionId> {
    names::debug_container_session(container)
}

#[async_trait]
impl Cluster for KubeCluster {
    async fn username(&self) -> Result<String, ClusterError> {
        self.noted("ask who we are", None, identity::username(self).await)
    }

    async fn look_at(&self, namespace: &str, pod: &str) -> Result<TargetFacts, ClusterError> {
        self.noted(
            "look at the target",
            None,
            pods::look_at(self, namespace, pod).await,
        )
    }

    async fn create_grant(
        &self,
        session: &SessionId,
        binding: &Value,
    ) -> Result<MadeObject, ClusterError> {
        let made = grant::create(self, session, binding).await;
        self.noted("create the grant", Some(session), made)
    }

    async fn delete_grant(&self, object: &MadeObject) -> Result<Deleted, ClusterError> {
        let deleted = grant::delete(self, object).await;
        self.noted("delete the grant", Some(&object.session), deleted)
    }

    async fn find_grants(
        &self,
        namespace: &str,
        session: &SessionId,
    ) -> Result<Vec<MadeObject>, ClusterError> {
        let found = grant::find(self, namespace, session).await;
        self.noted("look for grants", Some(session), found)
    }

    async fn annotate_process_access(
        &self,
        pod: &PodRef,
        session: Option<&SessionId>,
    ) -> Result<(), ClusterError> {
        self.noted(
            "mark the pod",
            session,
            pods::annotate(self, pod, session).await,
        )
    }

    async fn add_debug_container(
        &self,
        pod: &PodRef,
        container: &Value,
    ) -> Result<(), ClusterError> {
        let session = container
            .get("name")
            .and_then(Value::as_str)
            .and_then(session_of);
        let added = debug_container::add(self, pod, container).await;
        self.noted("add the debug container", session.as_ref(), added)
    }

    async fn create_copy_pod(
        &self,
        session: &SessionId,
        pod: &Value,
    ) -> Result<MadeObject, ClusterError> {
        let made = pods::create_copy(self, session, pod).await;
        self.noted("create the copy pod", Some(session), made)
    }

    async fn await_running(
        &self,
        pod: &PodRef,
        container: &str,
        bound: Duration,
    ) -> Result<(), ClusterError> {
        let running = pods::await_running(self, pod, container, bound).await;
        self.noted(
            "wait for the container",
            session_of(container).as_ref(),
            running,
        )
    }

    async fn read_pod(&self, pod: &PodRef) -> Result<Option<Value>, ClusterError> {
        self.noted("read the pod", None, pods::read(self, pod).await)
    }

    async fn attach(&self, pod: &PodRef, container: &str) -> Result<Box<dyn Shell>, ClusterError> {
        let shell = attach::open(self, pod, container).await;
        self.noted("attach", session_of(container).as_ref(), shell)
    }

    async fn controller_facts(&self, pod: &Value) -> Result<ControllerFacts, ClusterError> {
        self.noted(
            "look at the controller",
            None,
            controller::facts(self, pod).await,
        )
    }

    async fn delete_pod(
        &self,
        pod: &PodRef,
        grace: Option<Duration>,
    ) -> Result<Deleted, ClusterError> {
        self.noted("delete the pod", None, pods::delete(self, pod, grace).await)
    }

    async fn await_gone(&self, pod: &PodRef, bound: Duration) -> Result<Deleted, ClusterError> {
        self.noted(
            "wait for the pod's end",
            None,
            pods::await_gone(self, pod, bound).await,
        )
    }

    async fn leftovers(&self) -> Result<Vec<Leftover>, ClusterError> {
        self.noted("look for leftovers", None, leftovers::find(self).await)
    }
}
