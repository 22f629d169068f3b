//! The sidecar's configuration (O-7): one YAML file, secrets by environment.
//!
//! Invariants: every default is visible here; unknown keys and impossible values are refused at
//! start, all of them at once, each with its key's name; a secret is never printed.

mod check;
mod policies;
mod secret;

pub use check::{ConfigError, read, schema};
pub use policies::{ClusterFence, FenceError, PoliciesConfig};
pub use secret::Secret;

use crate::cluster::ClusterConfig;
use crate::store::DatabaseConfig;
use decisions::limits::Limits;
use decisions::settings::Settings;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What `breakglass serve` runs on.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// This installation's name: on every object it makes, so that two installations on one
    /// cluster never touch each other's (C-2c). A label value.
    #[serde(default = "default_installation")]
    pub installation: String,
    /// The API socket for Backstage's shim. Its folder must exist.
    pub socket: PathBuf,
    /// Who may connect to the socket (SO_PEERCRED).
    #[serde(default)]
    pub peers: Peers,
    /// The glidepath plugin's Postgres database.
    #[serde(default)]
    pub database: DatabaseConfig,
    /// The clusters by the name that Backstage uses for them.
    #[serde(default)]
    pub clusters: BTreeMap<String, ClusterConfig>,
    /// Clusters whose environments are Ground unless declared otherwise (S-9); any other is Flight.
    #[serde(default)]
    pub ground_clusters: Vec<String>,
    /// Debug images by digest; the first is used (P-2).
    pub debug_images: Vec<String>,
    /// How many sessions may be open at once (S-14c).
    #[serde(default)]
    pub limits: LimitsConfig,
    /// Where recordings are kept.
    pub recordings: RecordingsConfig,
    /// The folder of the local spools: on a volume that outlives the container.
    pub spool: PathBuf,
    /// How the sidecar logs.
    #[serde(default)]
    pub logs: LogConfig,
    /// How long opening and ending may take.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// The clusters' fences, for `breakglass policies` (P-2) and the preflight (P-7).
    #[serde(default)]
    pub policies: Option<PoliciesConfig>,
}

/// Peers of the socket. A peer must match one of the lists; both empty means the sidecar's own uid.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Peers {
    /// User ids.
    pub uids: Vec<u32>,
    /// Group ids (the peer's primary group).
    pub gids: Vec<u32>,
}

/// Limits on open sessions (S-14c).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Per requester.
    pub per_user: u32,
    /// Per app.
    pub per_app: u32,
    /// Per cluster.
    pub per_cluster: u32,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        let Limits {
            per_user,
            per_app,
            per_cluster,
        } = Limits::default();
        Self {
            per_user,
            per_app,
            per_cluster,
        }
    }
}

/// Where recordings are kept, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordingsConfig {
    /// A folder, for development and the demo.
    pub folder: FolderConfig,
    /// How long a recording can be read; told to people before the first key (T-16).
    #[serde(default = "default_retention_days")]
    pub retention_days: u32,
}

/// A folder of recordings.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FolderConfig {
    /// The folder; made if it is not there.
    pub path: PathBuf,
    /// What rows call it (`recording_bucket`).
    #[serde(default = "default_bucket")]
    pub name: String,
}

/// How the sidecar logs (O-5). Terminal bytes, tokens and reasons never appear at any level.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LogConfig {
    /// A filter such as `info` or `breakglass=debug,info`.
    pub filter: String,
    /// One JSON object a line, or text.
    pub format: LogFormat,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            filter: "info".to_owned(),
            format: LogFormat::Json,
        }
    }
}

/// The shape of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// Text for a person.
    Text,
}

/// Bounds, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Timeouts {
    /// How long a debug container may take to run (C-9).
    pub start: u64,
    /// How long the end waits for a recycled pod to be gone before the sweep takes over (C-25).
    pub recycle: u64,
    /// How long one step of an end is retried before the sweep takes over (C-22).
    pub cleanup_step: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            start: 120,
            recycle: 60,
            cleanup_step: 15,
        }
    }
}

fn default_installation() -> String {
    "tower".to_owned()
}

fn default_retention_days() -> u32 {
    365
}

fn default_bucket() -> String {
    "folder".to_owned()
}

impl Config {
    /// The part that decisions read.
    pub fn settings(&self) -> Settings {
        let LimitsConfig {
            per_user,
            per_app,
            per_cluster,
        } = self.limits;
        Settings {
            installation: self.installation.clone(),
            ground_clusters: self.ground_clusters.clone(),
            limits: Limits {
                per_user,
                per_app,
                per_cluster,
            },
            debug_images: self.debug_images.clone(),
            resume_sessions: false,
            ..Settings::default()
        }
    }
}
