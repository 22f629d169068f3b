//! The composition root: the one place that names both the ports and their adapters.
//!
//! Invariants: sessions are served only while this process owns them (D-5); ready means that the
//! first sweep is done (W-5); a stop tells terminals, flushes, and is over within 10 s (O-6).

use crate::clock::SystemClock;
use crate::cluster;
use crate::config::{Config, FenceError};
use crate::folder::FolderRecordings;
use crate::http::error::{ApiError, chain};
use crate::http::routes::routes;
use crate::http::socket::Socket;
use crate::ports::Elapsed;
use crate::ports::cluster::Clusters;
use crate::ports::store::Lease;
use crate::sessions::{Sessions, World};
use crate::store::{LEASE_SECONDS, PgStore};
use crate::sweep::Sweep;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Between two renewals of the lease (D-5).
const RENEW_EVERY: Duration = Duration::from_secs(5);
/// A lease that was not renewed for this long can be another's at any moment.
const LEASE: Duration = Duration::from_secs(LEASE_SECONDS.unsigned_abs());

/// Why the sidecar did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The socket cannot be bound.
    #[error("cannot listen on `{path}`")]
    Socket {
        /// The socket's path.
        path: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A cluster's configuration cannot be used.
    #[error("cluster `{name}`")]
    Cluster {
        /// The cluster's name.
        name: String,
        /// Why not.
        #[source]
        source: cluster::ConfigError,
    },
    /// What its fence is made of cannot be used (P-2).
    #[error("the fence of a cluster")]
    Fence(#[from] FenceError),
    /// Nothing can be judged by its fence (P-7).
    #[error("the preflight of cluster `{name}`")]
    Preflight {
        /// The cluster's name.
        name: String,
        /// Why not.
        #[source]
        source: policies::preflight::PreflightError,
    },
    /// The database's configuration cannot be used.
    #[error("the database's configuration cannot be used")]
    Database(#[source] crate::ports::StoreError),
}

/// The running sidecar.
pub struct App {
    sessions: Arc<Sessions>,
    sweep: Sweep,
    owner: Mutex<Ownership>,
    first_sweep_done: AtomicBool,
    /// Nothing new is taken up.
    stopping: AtomicBool,
    stop: CancellationToken,
    released: CancellationToken,
}

/// Whether this process may act for the sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ownership {
    /// It never did, or another does.
    StandsBy,
    /// It does, in this epoch; when that was last confirmed.
    Owns(Elapsed, i64),
}

impl App {
    /// Builds the sidecar on the real world.
    pub async fn build(config: &Config) -> Result<Arc<Self>, StartError> {
        let store = PgStore::new(&config.database, owner_name()).map_err(StartError::Database)?;
        let folder = &config.recordings.folder;
        let world = World {
            clock: Arc::new(SystemClock),
            store: Arc::new(store),
            clusters: Self::clusters(config).await?,
            recordings: Arc::new(FolderRecordings::new(folder.path.clone(), &folder.name)),
        };
        Ok(Self::on(config, world))
    }

    /// The configured clusters, each behind the preflight of its fence (P-7).
    ///
    /// # Errors
    /// A cluster or a fence whose configuration cannot be used; then none may be.
    pub async fn clusters(config: &Config) -> Result<Clusters, StartError> {
        let clusters = cluster::connect(&config.clusters, &config.installation)
            .await
            .map_err(|(name, source)| StartError::Cluster { name, source })?;
        cluster::preflight::fenced(clusters, &config.fences()?)
            .map_err(|(name, source)| StartError::Preflight { name, source })
    }

    /// Builds the sidecar on any world; simulations give it fakes.
    pub fn on(config: &Config, world: World) -> Arc<Self> {
        let sessions = Sessions::new(config, world);
        Arc::new(Self {
            sweep: Sweep::new(Arc::clone(&sessions)),
            sessions,
            owner: Mutex::new(Ownership::StandsBy),
            first_sweep_done: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            stop: CancellationToken::new(),
            released: CancellationToken::new(),
        })
    }

    /// Serves on the socket until `stop` is called.
    pub async fn serve(self: &Arc<Self>, config: &Config) -> Result<(), StartError> {
        let socket = Socket::bind(&config.socket)
            .await
            .map_err(|source| StartError::Socket {
                path: config.socket.display().to_string(),
                source,
            })?;
        tracing::info!(version = env!("CARGO_PKG_VERSION"), "listening");
        let keeping = tokio::spawn(Arc::clone(self).keep_ownership());
        socket
            .serve(
                routes(Arc::clone(self)),
                config.peers.clone(),
                self.stop.clone(),
            )
            .await;
        // A lease call under way has a bound of its own, longer than a stop may take (O-6).
        let _ = tokio::time::timeout(Duration::from_secs(1), keeping).await;
        Ok(())
    }

    /// Ends the process in good order: terminals are told, recordings saved, the lease given back.
    pub async fn shut_down(&self, reason: &str) {
        self.stopping.store(true, Ordering::Release);
        for runtime in self.sessions.runtimes().all() {
            if let Some(terminal) = runtime.terminal.get() {
                terminal.detach_all(reason);
            }
        }
        let saving = self
            .sessions
            .runtimes()
            .all()
            .into_iter()
            .map(|runtime| async move {
                if let Some(recording) = runtime.recording.get()
                    && let Err(error) = recording.checkpoint().await
                {
                    tracing::warn!(error = %chain(&error), "a checkpoint was not saved");
                }
            });
        let saved = futures_util::future::join_all(saving);
        if tokio::time::timeout(Duration::from_secs(4), saved)
            .await
            .is_err()
        {
            tracing::warn!("not every checkpoint was saved; the spools have the rest");
        }
        self.stop.cancel();
        if let Ownership::Owns(..) = self.ownership() {
            // By the task that renews it, so that no renewal comes after.
            let released = self.released.cancelled();
            if tokio::time::timeout(Duration::from_secs(2), released)
                .await
                .is_err()
            {
                tracing::warn!("the lease was not given back; it lapses by itself");
            }
        }
    }

    /// The use cases, while this process owns the sessions (D-5).
    pub fn sessions(&self) -> Result<&Arc<Sessions>, ApiError> {
        if self.stopping.load(Ordering::Acquire) {
            return Err(ApiError::Unavailable(
                "this sidecar is stopping; try again in a moment".to_owned(),
            ));
        }
        match self.ownership() {
            Ownership::Owns(at, _) if self.is_current(at) => {}
            Ownership::Owns(..) => {
                return Err(ApiError::Unavailable(
                    "the database cannot be reached; open terminals go on, try again in a moment"
                        .to_owned(),
                ));
            }
            Ownership::StandsBy => {
                return Err(ApiError::Unavailable(
                    "this sidecar stands by: another one owns the sessions".to_owned(),
                ));
            }
        }
        if !self.first_sweep_done.load(Ordering::Acquire) {
            return Err(ApiError::Unavailable(
                "the first sweep is under way".to_owned(),
            ));
        }
        Ok(&self.sessions)
    }

    /// The sweep, for tests that move the clock.
    pub fn sweep(&self) -> &Sweep {
        &self.sweep
    }

    /// What is missing before this sidecar is ready, in words (O-1).
    pub async fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        if let Err(error) = self.sessions.store.ping().await {
            missing.push(error.to_string());
        }
        if let Err(error) = self.sessions() {
            missing.push(error.to_string());
        }
        if let Err(error) = self.sessions.recorder.check().await {
            missing.push(error.to_string());
        }
        missing.dedup();
        missing
    }

    fn ownership(&self) -> Ownership {
        *self.owner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_ownership(&self, ownership: Ownership) {
        *self.owner.lock().unwrap_or_else(PoisonError::into_inner) = ownership;
    }

    fn is_current(&self, confirmed: Elapsed) -> bool {
        self.sessions.clock.elapsed().since(confirmed) < LEASE
    }

    /// Takes the lease, sweeps while it is held, and steps down when it is another's.
    async fn keep_ownership(self: Arc<Self>) {
        let mut migrated = false;
        let mut sweeping: Option<CancellationToken> = None;
        loop {
            if !migrated {
                migrated = self.migrated().await;
            }
            if migrated {
                self.renew(&mut sweeping).await;
            }
            let clock = &self.sessions.clock;
            tokio::select! {
                () = self.stop.cancelled() => break,
                () = clock.sleep_until(clock.elapsed() + RENEW_EVERY) => {}
            }
        }
        if let Some(sweeping) = sweeping {
            sweeping.cancel();
            let releasing = self.sessions.store.release_lease();
            let _ = tokio::time::timeout(Duration::from_secs(2), releasing).await;
        }
        self.released.cancel();
    }

    async fn migrated(&self) -> bool {
        match self.sessions.store.migrate().await {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(error = %chain(&error), "the database is not up to date yet");
                false
            }
        }
    }

    async fn renew(self: &Arc<Self>, sweeping: &mut Option<CancellationToken>) {
        let asked = self.sessions.clock.elapsed();
        match self.sessions.store.take_or_renew_lease().await {
            Ok(Lease::Held { epoch }) => {
                // Between two renewals another process may have owned the sessions and gone.
                if let Ownership::Owns(_, before) = self.ownership()
                    && before != epoch
                    && let Some(sweeping) = sweeping.take()
                {
                    tracing::error!("the sessions were another sidecar's meanwhile");
                    sweeping.cancel();
                    self.step_down();
                }
                self.set_ownership(Ownership::Owns(asked, epoch));
                self.sessions.tenure.confirmed(asked + LEASE);
                if sweeping.is_none() {
                    *sweeping = Some(self.take_over());
                }
                if !self.first_sweep_done.load(Ordering::Acquire) {
                    self.first_sweep().await;
                }
            }
            Ok(Lease::HeldByAnother) => {
                if let Some(sweeping) = sweeping.take() {
                    tracing::error!("another sidecar owns the sessions; this one stops at once");
                    sweeping.cancel();
                    self.step_down();
                }
                self.set_ownership(Ownership::StandsBy);
            }
            Err(error) => {
                tracing::warn!(error = %chain(&error), "the lease was not renewed");
            }
        }
    }

    /// From here on this process sweeps every 15 s.
    fn take_over(self: &Arc<Self>) -> CancellationToken {
        tracing::info!("this sidecar owns the sessions");
        let stop = self.stop.child_token();
        let (this, until) = (Arc::clone(self), stop.clone());
        tokio::spawn(async move { this.sweep.run(until).await });
        stop
    }

    /// W-5: not ready before it is done; one that fails is tried again with the next renewal.
    async fn first_sweep(&self) {
        match self.sweep.pass().await {
            Ok(()) => self.first_sweep_done.store(true, Ordering::Release),
            Err(error) => {
                tracing::warn!(error = %chain(&error), "the first sweep was not done");
            }
        }
    }

    /// D-5: terminals detached, no effect on any cluster.
    fn step_down(&self) {
        self.sessions.tenure.lost();
        self.first_sweep_done.store(false, Ordering::Release);
        for runtime in self.sessions.runtimes().all() {
            if let Some(terminal) = runtime.terminal.get() {
                terminal.detach_all("another backend took the session over");
            }
            runtime.abandoned.cancel();
            self.sessions.runtimes().remove(&runtime.session().id);
        }
        self.sessions.owes_nothing();
    }
}

/// A name that no other process has.
fn owner_name() -> String {
    let random: [u8; 8] = rand::random();
    let random: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let host = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    format!("{host}-{}-{random}", std::process::id())
}
