//! How a stand is started: its cluster, its database, its configuration and its clock.

use crate::stand::Stand;
use breakglass::config::Config;
use breakglass::fakes::clock::FakeClock;
use breakglass_tests::postgres::Postgres;
use breakglass_tests::sidecar::{Settings, SidecarHere};
use serde_json::json;
use standin::{DEBUG_IMAGE, Options, Standin};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The server that the tests of this process share while any of them runs.
static POSTGRES: tokio::sync::Mutex<Weak<Postgres>> = tokio::sync::Mutex::const_new(Weak::new());
static DATABASES: AtomicU32 = AtomicU32::new(0);

/// Where a stand's database is.
pub(crate) enum Server {
    Shared(Arc<Postgres>),
    Own(Box<Postgres>),
}

impl Server {
    pub(crate) fn get(&self) -> &Postgres {
        match self {
            Self::Shared(server) => server,
            Self::Own(server) => server,
        }
    }
}

/// A stand that is not started yet.
pub(crate) struct Plan {
    options: Options,
    own_postgres: bool,
    unasked: bool,
    change: Box<dyn FnOnce(&mut Config)>,
}

impl Plan {
    /// The app `shop` with two ready pods, and bounds that a test can wait for.
    pub(crate) fn new() -> Self {
        Self::on(Options::default())
    }

    /// On another cluster.
    pub(crate) fn on(options: Options) -> Self {
        Self {
            options,
            own_postgres: false,
            unasked: false,
            change: Box::new(|_| {}),
        }
    }

    /// A database server that the test may stop.
    pub(crate) fn own_postgres(self) -> Self {
        Self {
            own_postgres: true,
            ..self
        }
    }

    /// A sidecar that may take nothing from us.
    pub(crate) fn unasked(self) -> Self {
        Self {
            unasked: true,
            ..self
        }
    }

    /// Another configuration.
    pub(crate) fn change(self, change: impl FnOnce(&mut Config) + 'static) -> Self {
        Self {
            change: Box::new(change),
            ..self
        }
    }

    pub(crate) async fn start(self) -> Stand {
        let files = tempfile::tempdir().expect("a folder");
        let standin = Standin::start(self.options)
            .await
            .expect("the stand-in starts");
        let kubeconfig = files.path().join("kubeconfig");
        std::fs::write(&kubeconfig, standin.kubeconfig()).expect("a kubeconfig");
        let way = json!({
            "kubeconfig": {"path": kubeconfig, "context": "breakglass"}, "callTimeoutSeconds": 2,
        });
        let server = match self.own_postgres {
            true => Server::Own(Box::new(Postgres::start().await.expect("Postgres starts"))),
            false => Server::Shared(shared().await),
        };
        let database = format!("sidecar_{}", DATABASES.fetch_add(1, Ordering::Relaxed));
        server.get().database(&database).await.expect("a database");
        let settings = Settings {
            dir: files.path().to_owned(),
            postgres_port: server.get().port(),
            clusters: json!({"demo": way, "prod": way}),
            ground: vec!["demo".to_owned()],
            debug_image: DEBUG_IMAGE.to_owned(),
            policies: serde_json::Value::Null,
            pod: None,
            installation: "tests".to_owned(),
            name: "sidecar".to_owned(),
            log_filter: "info".to_owned(),
        };
        let (named, change) = (database.clone(), self.change);
        let changed = move |config: &mut Config| {
            config.database.database = named;
            config.timeouts.cleanup_step = 2;
            config.timeouts.recycle = 5;
            change(config);
        };
        let sidecar = match self.unasked {
            true => SidecarHere::start_unasked(&settings, changed).await,
            false => SidecarHere::start_changed(&settings, changed).await,
        };
        let sidecar = sidecar.expect("the sidecar starts");
        let flows = Arc::new(AtomicBool::new(true));
        tokio::spawn(flow(Arc::clone(&sidecar.clock), Arc::clone(&flows)));
        Stand {
            standin,
            sidecar,
            settings,
            database,
            server,
            flows,
            files,
        }
    }
}

async fn shared() -> Arc<Postgres> {
    let mut shared = POSTGRES.lock().await;
    if let Some(running) = shared.upgrade() {
        return running;
    }
    let started = Arc::new(Postgres::start().await.expect("Postgres starts"));
    *shared = Arc::downgrade(&started);
    started
}

/// Moves the clock as the real one moves.
pub(crate) async fn flow(clock: Arc<FakeClock>, flows: Arc<AtomicBool>) {
    let mut last = tokio::time::Instant::now();
    loop {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let now = tokio::time::Instant::now();
        if flows.load(Ordering::Relaxed) {
            clock.advance(now - last);
        }
        last = now;
    }
}
