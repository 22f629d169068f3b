//! Everything at once: a cluster, Postgres, the sidecar, Backstage and a person at the terminal.

use crate::StageError;
use crate::backstage::Backstage;
use crate::cli::Person;
use crate::pod::Pod;
use crate::postgres::Postgres;
use crate::sidecar::{Settings, SidecarProcess};
use crate::witness::Witness;
use serde_json::{Value, json};
use standin::{DEBUG_IMAGE, Options, Standin};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// What a session of the stage is opened on.
#[derive(Debug, Clone)]
pub struct Target {
    /// The app, as the catalog has it.
    pub app: String,
    /// Its environment.
    pub env: String,
    /// The cluster's name in the configuration.
    pub cluster: String,
    /// The namespace.
    pub namespace: String,
    /// The app's container.
    pub container: String,
}

/// Where the cluster is and how the sidecar reaches it.
pub struct Place {
    /// What sessions are opened on.
    pub target: Target,
    /// The sidecar's `clusters`.
    pub clusters: Value,
    /// The debug image by digest.
    pub debug_image: String,
    /// The sidecar's `policies`; null for none.
    pub policies: Value,
    /// Somebody who sees the cluster with other eyes than the sidecar's.
    pub witness: Witness,
    /// The pod that the sidecar is in, where it is in one.
    pub pod: Option<Pod>,
    /// The stand-in, where it is one.
    pub standin: Option<Standin>,
}

impl Place {
    /// The stand-in with its app `shop` in environment `dev`.
    pub async fn standin(dir: &Path, options: Options) -> Result<Self, StageError> {
        let standin = Standin::start(options)
            .await
            .map_err(|error| StageError::of("the stand-in did not start", error))?;
        let kubeconfig = dir.join("kubeconfig");
        std::fs::write(&kubeconfig, standin.kubeconfig())
            .map_err(|error| StageError::of("the kubeconfig", error))?;
        let clusters = json!({
            "demo": {"kubeconfig": {"path": kubeconfig, "context": "breakglass"}},
        });
        Ok(Self {
            target: Target {
                app: "shop".to_owned(),
                env: "dev".to_owned(),
                cluster: "demo".to_owned(),
                namespace: "shop".to_owned(),
                container: "app".to_owned(),
            },
            clusters,
            debug_image: DEBUG_IMAGE.to_owned(),
            policies: Value::Null,
            witness: Witness::new(&kubeconfig, Some("admin")).await?,
            pod: None,
            standin: Some(standin),
        })
    }

    /// A real cluster by kubeconfig: the sidecar's own, and a witness's. Without a file it is what
    /// `KUBECONFIG` names, several files merged, else `~/.kube/config`.
    pub async fn cluster(
        sidecar: (Option<&Path>, Option<&str>),
        witness: (Option<&Path>, Option<&str>),
        target: Target,
        debug_image: String,
    ) -> Result<Self, StageError> {
        let (path, context) = sidecar;
        let name = target.cluster.clone();
        Ok(Self {
            target,
            clusters: json!({ name: {"kubeconfig": {"path": path, "context": context}} }),
            debug_image,
            policies: Value::Null,
            witness: Witness::of(witness.0, witness.1).await?,
            pod: None,
            standin: None,
        })
    }
}

/// The whole product, running.
pub struct Stage {
    /// Backstage.
    pub backstage: Backstage,
    /// The sidecar.
    pub sidecar: SidecarProcess,
    /// The database.
    pub postgres: Postgres,
    /// The cluster.
    pub place: Place,
    dir: Dir,
}

/// How much is logged: the sidecar's filter, and Backstage's level.
#[derive(Clone, Copy)]
struct Logs {
    sidecar: &'static str,
    backstage: &'static str,
}

const QUIET: Logs = Logs {
    sidecar: "info",
    backstage: "info",
};
const USUAL: Logs = Logs {
    sidecar: "breakglass=debug,info",
    backstage: "info",
};
const EVERYTHING: Logs = Logs {
    sidecar: "trace",
    backstage: "silly", // winston's last
};

/// The stage's folder: its own, or one that outlives it.
enum Dir {
    Own(TempDir),
    Kept(PathBuf),
}

impl Stage {
    /// Starts everything in a folder that goes with the stage.
    pub async fn start(
        place: impl AsyncFnOnce(&Path) -> Result<Place, StageError>,
    ) -> Result<Self, StageError> {
        let dir = tempfile::tempdir().map_err(|error| StageError::of("no folder", error))?;
        let place = place(dir.path()).await?;
        Self::start_in(Dir::Own(dir), place, USUAL, |_| {}).await
    }

    /// The same, everything logging all that it can.
    pub async fn start_talkative(
        place: impl AsyncFnOnce(&Path) -> Result<Place, StageError>,
    ) -> Result<Self, StageError> {
        let dir = tempfile::tempdir().map_err(|error| StageError::of("no folder", error))?;
        let place = place(dir.path()).await?;
        Self::start_in(Dir::Own(dir), place, EVERYTHING, |_| {}).await
    }

    /// Starts everything in a folder that stays; `progress` is told what is being started.
    pub async fn start_kept(
        dir: &Path,
        place: Place,
        progress: impl Fn(&str),
    ) -> Result<Self, StageError> {
        Self::start_in(Dir::Kept(dir.to_owned()), place, QUIET, progress).await
    }

    async fn start_in(
        dir: Dir,
        place: Place,
        logs: Logs,
        progress: impl Fn(&str),
    ) -> Result<Self, StageError> {
        let path = dir.path().to_owned();
        progress("Postgres");
        let postgres = Postgres::start().await?;
        postgres.database("backstage_plugin_glidepath").await?;
        progress("the sidecar");
        let settings = Settings {
            dir: path.clone(),
            postgres_port: postgres.port(),
            clusters: place.clusters.clone(),
            ground: vec![place.target.cluster.clone()],
            debug_image: place.debug_image.clone(),
            policies: place.policies.clone(),
            pod: place.pod.clone(),
            installation: "stage".to_owned(),
            name: "sidecar".to_owned(),
            log_filter: logs.sidecar.to_owned(),
        };
        let sidecar = SidecarProcess::start(&settings).await?;
        progress("Backstage with the plugin (about 20 s)");
        let backstage =
            Backstage::start(&path, &settings.socket(), postgres.port(), logs.backstage).await?;
        Ok(Self {
            backstage,
            sidecar,
            postgres,
            place,
            dir,
        })
    }

    /// Its folder.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// One of Backstage's people, signed in.
    pub async fn person(&self, name: &str) -> Result<Person, StageError> {
        let token = self.backstage.token(name).await?;
        Ok(Person {
            url: self.backstage.url().to_owned(),
            token,
        })
    }

    /// The arguments that open a session on one pod of the target.
    pub fn open_arguments(&self, pod: &str) -> Vec<String> {
        let Target {
            app,
            env,
            cluster,
            namespace,
            container,
        } = &self.place.target;
        [
            "session",
            "open",
            "--app",
            app,
            "--env",
            env,
            "--cluster",
            cluster,
            "--namespace",
            namespace,
            "--pod",
            pod,
            "--container",
            container,
            "--reason",
            "to see why it misbehaves",
        ]
        .map(str::to_owned)
        .to_vec()
    }
}

impl Dir {
    fn path(&self) -> &Path {
        match self {
            Self::Own(dir) => dir.path(),
            Self::Kept(path) => path,
        }
    }
}
