//! The use cases: load, decide, claim, act.
//!
//! Invariants: a row is active before a cluster is touched (C-3); a header is saved before a grant
//! exists (C-6); only the caller whose claim ended a session cleans it up; every step of an end is
//! safe to repeat.

mod activate;
mod attach;
mod end;
mod late;
mod leftovers;
mod notes;
mod open;
mod outcome;
mod read;
mod runtime;
mod settle;
mod takedown;
mod tenure;

pub(crate) use attach::ShellState;
pub use attach::Terminal;
pub use read::{AppFacts, Listed, Shown};
pub use runtime::{Runtime, Runtimes};

use crate::config::{Config, Timeouts};
use crate::http::error::ApiError;
use crate::ports::{Clock, Cluster, Clusters, Store};
use crate::recording::Recorder;
use decisions::session::{Session, SessionId};
use decisions::settings::Settings;
use std::sync::Arc;

/// What the use cases are made of.
pub struct Sessions {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clusters: Clusters,
    pub(crate) recorder: Recorder,
    pub(crate) settings: Settings,
    pub(crate) timeouts: Timeouts,
    pub(crate) retention_days: u32,
    pub(crate) runtimes: Runtimes,
    pub(crate) tenure: Arc<tenure::Tenure>,
    doubts: late::Doubts,
    owed: outcome::Owed,
    pub(crate) looks: leftovers::Looks,
}

/// The real world, or a fake one.
pub struct World {
    /// The two clocks.
    pub clock: Arc<dyn Clock>,
    /// The rows.
    pub store: Arc<dyn Store>,
    /// The clusters by name.
    pub clusters: Clusters,
    /// Where recordings are kept.
    pub recordings: Arc<dyn crate::ports::Recordings>,
}

impl Sessions {
    /// Wires the use cases.
    pub fn new(config: &Config, world: World) -> Arc<Self> {
        let World {
            clock,
            store,
            clusters,
            recordings,
        } = world;
        let tenure = Arc::new(tenure::Tenure::default());
        let (held, now) = (Arc::clone(&tenure), clock.clone());
        let recorder = Recorder::new(recordings, clock.clone(), config.spool.clone())
            .with_gate(Arc::new(move || held.may_open(now.elapsed())));
        Arc::new(Self {
            clock,
            store,
            clusters,
            recorder,
            settings: config.settings(),
            timeouts: config.timeouts,
            retention_days: config.recordings.retention_days,
            runtimes: Runtimes::default(),
            tenure,
            doubts: late::Doubts::default(),
            owed: outcome::Owed::default(),
            looks: leftovers::Looks::default(),
        })
    }

    /// The sessions that run in this process.
    pub fn runtimes(&self) -> &Runtimes {
        &self.runtimes
    }

    async fn load(&self, id: &SessionId) -> Result<Session, ApiError> {
        let found = self.store.get(id).await?;
        found.ok_or_else(|| ApiError::NotFound("there is no session of this id".to_owned()))
    }

    fn cluster(&self, name: &str) -> Result<Arc<dyn Cluster>, ApiError> {
        self.clusters
            .get(name)
            .cloned()
            .ok_or_else(|| ApiError::NotFound(format!("cluster `{name}` is not configured")))
    }
}

/// Where a session's recording is kept.
pub(crate) fn recording_key(session: &Session) -> String {
    format!("{}/{}/{}.cast", session.app, session.env, session.id)
}

/// The session that a recording's key belongs to.
pub(crate) fn session_of_key(key: &str) -> Option<SessionId> {
    let name = key.rsplit('/').next()?.strip_suffix(".cast")?;
    SessionId::parse(name).ok()
}
