//! How clusters are reached, as the operator writes it (C-2, C-2b, C-28).
//!
//! Invariant: a value of these types names exactly one way to reach its cluster. No secret is in
//! it: tokens and keys come from the pod's own volume, from a kubeconfig, or are minted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// One cluster: the way to it, and how patient we are with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct ClusterConfig {
    /// The way to it.
    pub way: Way,
    /// A service account of that cluster to act as, minted by the identity of `way` (C-2b).
    pub act_as: Option<Account>,
    /// How patient we are with it.
    pub limits: Limits,
}

/// The way to a cluster (C-2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// The cluster that this process runs in, as its pod's service account.
    InCluster,
    /// A context of a kubeconfig; exec plugins and client certificates included.
    Kubeconfig(KubeconfigWay),
    /// A token for a service account of the home cluster, minted anew for each step.
    MintedToken(MintedTokenWay),
}

/// A service account to act as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The account.
    pub service_account: ServiceAccount,
    /// The audience that the token is for; `None` is the API server's own.
    pub audience: Option<String>,
}

/// A context of a kubeconfig.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeconfigWay {
    /// The file. Without it: `$KUBECONFIG`, else `~/.kube/config`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The context. Without it: the file's current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
}

/// A cluster that trusts tokens of another one's service accounts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MintedTokenWay {
    /// The configured cluster that mints the token.
    pub home: String,
    /// The service account there: `namespace/name`.
    pub service_account: ServiceAccount,
    /// The audience that this cluster trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// This cluster's API server: `https://host:port`.
    pub server: String,
    /// PEM file with the API server's CA, read again as it changes. Without it: the system's roots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// The name in the API server's certificate, where it is not the one in `server`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_server_name: Option<String>,
}

/// How patient we are with a cluster (C-28).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// For one call: from waiting for a place to the last byte of the answer.
    pub call: Duration,
    /// For the TCP connection.
    pub connect: Duration,
    /// Calls under way at once; streams are not counted.
    pub concurrent_calls: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            call: Duration::from_secs(u64::from(CALL_SECONDS)),
            connect: Duration::from_secs(u64::from(CONNECT_SECONDS)),
            concurrent_calls: usize::from(CONCURRENT_CALLS),
        }
    }
}

const CALL_SECONDS: u16 = 10;
const CONNECT_SECONDS: u16 = 5;
const CONCURRENT_CALLS: u16 = 16;

/// A service account, written `namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ServiceAccount {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What is wrong with a cluster's configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// None or several of the ways.
    #[error("a cluster has exactly one of `inCluster`, `kubeconfig` and `mintedToken`; here: {0}")]
    Ways(usize),
    /// Both ways to name an account.
    #[error("`serviceAccount` belongs inside `mintedToken` where there is one")]
    TwoAccounts,
    /// An audience for nothing.
    #[error("`audience` needs a `serviceAccount` that the token is minted for")]
    AudienceWithoutAccount,
    /// Not `namespace/name`.
    #[error("`{0}` is not a service account: write `namespace/name`")]
    ServiceAccount(String),
    /// Not an address that a token may be sent to.
    #[error("`{0}` is not an API server's address: write `https://host:port`")]
    Server(String),
    /// A limit of zero, or one that would defeat its purpose.
    #[error("`{name}` must be from 1 to {most}")]
    OutOfRange {
        /// The setting.
        name: &'static str,
        /// Its greatest value.
        most: u16,
    },
    /// The minting cluster is not configured, or is itself reached with a minted token.
    #[error("cluster `{cluster}`: `home: {home}` must name a cluster that is not itself minted")]
    Home {
        /// The cluster with the setting.
        cluster: String,
        /// What the setting says.
        home: String,
    },
    /// The installation's name would not do as a label value (C-2c).
    #[error("the installation's name `{0}` cannot be a label value")]
    Installation(String),
}

/// The file's form.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ClusterConfig")]
struct Written {
    /// The cluster that the sidecar runs in, as its pod's service account: `inCluster: {}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    in_cluster: Option<Nothing>,
    /// A context of a kubeconfig.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kubeconfig: Option<KubeconfigWay>,
    /// A cluster that trusts tokens of another one's service accounts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    minted_token: Option<MintedTokenWay>,
    /// A service account of that cluster to act as, `namespace/name`; not beside `mintedToken`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    service_account: Option<ServiceAccount>,
    /// The audience of the token for `serviceAccount`. Without it: the API server's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    audience: Option<String>,
    /// Seconds for one call, 1 to 120.
    #[serde(default = "call_seconds")]
    call_timeout_seconds: u16,
    /// Seconds for a TCP connection, 1 to 120.
    #[serde(default = "connect_seconds")]
    connect_timeout_seconds: u16,
    /// Calls under way at once, 1 to 256; open terminals are not counted.
    #[serde(default = "concurrent_calls")]
    concurrent_calls: u16,
}

/// `{}`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

const fn call_seconds() -> u16 {
    CALL_SECONDS
}

const fn connect_seconds() -> u16 {
    CONNECT_SECONDS
}

const fn concurrent_calls() -> u16 {
    CONCURRENT_CALLS
}

impl TryFrom<Written> for ClusterConfig {
    type Error = ConfigError;

    fn try_from(written: Written) -> Result<Self, ConfigError> {
        let limits = written.limits()?;
        let ways: Vec<Way> = [
            written.in_cluster.map(|Nothing {}| Way::InCluster),
            written.kubeconfig.map(Way::Kubeconfig),
            written.minted_token.map(Way::MintedToken),
        ]
        .into_iter()
        .flatten()
        .collect();
        let [way] = <[Way; 1]>::try_from(ways).map_err(|ways| ConfigError::Ways(ways.len()))?;
        if let Way::MintedToken(minted) = &way {
            parse_server(&minted.server)?;
            if written.service_account.is_some() || written.audience.is_some() {
                return Err(ConfigError::TwoAccounts);
            }
        }
        if written.audience.is_some() && written.service_account.is_none() {
            return Err(ConfigError::AudienceWithoutAccount);
        }
        let act_as = written.service_account.map(|service_account| Account {
            service_account,
            audience: written.audience,
        });
        Ok(Self {
            way,
            act_as,
            limits,
        })
    }
}

impl From<ClusterConfig> for Written {
    fn from(config: ClusterConfig) -> Self {
        let seconds = |time: Duration| u16::try_from(time.as_secs()).unwrap_or(u16::MAX);
        let (service_account, audience) = match config.act_as {
            Some(account) => (Some(account.service_account), account.audience),
            None => (None, None),
        };
        let (mut in_cluster, mut kubeconfig, mut minted_token) = (None, None, None);
        match config.way {
            Way::InCluster => in_cluster = Some(Nothing {}),
            Way::Kubeconfig(way) => kubeconfig = Some(way),
            Way::MintedToken(way) => minted_token = Some(way),
        }
        Self {
            in_cluster,
            kubeconfig,
            minted_token,
            service_account,
            audience,
            call_timeout_seconds: seconds(config.limits.call),
            connect_timeout_seconds: seconds(config.limits.connect),
            concurrent_calls: u16::try_from(config.limits.concurrent_calls).unwrap_or(u16::MAX),
        }
    }
}

impl Written {
    fn limits(&self) -> Result<Limits, ConfigError> {
        let within = |name, value: u16, most| {
            if (1..=most).contains(&value) {
                Ok(value)
            } else {
                Err(ConfigError::OutOfRange { name, most })
            }
        };
        let seconds = |name, value| {
            within(name, value, 120).map(|seconds| Duration::from_secs(u64::from(seconds)))
        };
        Ok(Limits {
            call: seconds("callTimeoutSeconds", self.call_timeout_seconds)?,
            connect: seconds("connectTimeoutSeconds", self.connect_timeout_seconds)?,
            concurrent_calls: within("concurrentCalls", self.concurrent_calls, 256)?.into(),
        })
    }
}

/// Reads an API server's address. A token never travels in the clear: plain HTTP is for loopback.
pub(super) fn parse_server(text: &str) -> Result<http::Uri, ConfigError> {
    let refused = || ConfigError::Server(text.to_owned());
    let uri: http::Uri = text.parse().map_err(|_| refused())?;
    if is_confidential(&uri) {
        Ok(uri)
    } else {
        Err(refused())
    }
}

/// Whether what is sent there is encrypted or stays on this machine.
pub(super) fn is_confidential(uri: &http::Uri) -> bool {
    let loopback = uri.host().is_some_and(|host| {
        let address = host.trim_start_matches('[').trim_end_matches(']');
        address
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.is_loopback())
    });
    match uri.scheme_str() {
        Some("https") => uri.host().is_some(),
        Some("http") => loopback,
        Some(_) | None => false,
    }
}

impl TryFrom<String> for ServiceAccount {
    type Error = ConfigError;

    fn try_from(text: String) -> Result<Self, ConfigError> {
        match text.split_once('/') {
            Some((namespace, name))
                if super::path::is_name(namespace) && super::path::is_name(name) =>
            {
                Ok(Self {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                })
            }
            Some(_) | None => Err(ConfigError::ServiceAccount(text)),
        }
    }
}

impl From<ServiceAccount> for String {
    fn from(account: ServiceAccount) -> Self {
        format!("{}/{}", account.namespace, account.name)
    }
}

impl JsonSchema for ServiceAccount {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ServiceAccount".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "A service account, written `namespace/name`.",
            "pattern": "^[0-9a-z.-]+/[0-9a-z.-]+$",
        })
    }
}

impl JsonSchema for ClusterConfig {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ClusterConfig".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Written::json_schema(generator)
    }
}

#[cfg(test)]
mod tests;
