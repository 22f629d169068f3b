//! How the database is reached (D-3): Backstage's own variables, TLS, limits on every statement.

use crate::ports::StoreError;
use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;
use tokio_postgres_rustls::MakeRustlsConnect;

/// Connections of this process at most (an idle one is kept: there are few).
const POOL_SIZE: usize = 5;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// What a statement may take, and a transaction may idle, on the server.
const SERVER_LIMITS: &str = "-c statement_timeout=10000 \
    -c idle_in_transaction_session_timeout=10000 -c lock_timeout=8000";

/// Where the sessions' database is. Host, port, user and password come from Backstage's own
/// variables (`POSTGRES_HOST`, …) where they are not given.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DatabaseConfig {
    /// Host name, address, or the folder of a Unix socket. Default: `POSTGRES_HOST`.
    #[serde(default)]
    pub host: Option<String>,
    /// Default: `POSTGRES_PORT`, else 5432.
    #[serde(default)]
    pub port: Option<u16>,
    /// Default: `POSTGRES_USER`.
    #[serde(default)]
    pub user: Option<String>,
    /// The password never stands in the file: `POSTGRES_PASSWORD` or `POSTGRES_PASSWORD_FILE`.
    #[serde(skip)]
    #[schemars(skip)]
    pub password: Option<crate::config::Secret>,
    /// The glidepath plugin's database.
    #[serde(default = "default_database")]
    pub database: String,
    /// The schema, where Backstage divides plugins by schema. Default: the server's own.
    #[serde(default)]
    pub schema: Option<String>,
    /// Whether and how the connection is encrypted.
    #[serde(default)]
    pub tls: TlsMode,
    /// Certificates that the server's is checked against. Default: the system's.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
}

/// Whether the connection to the database is encrypted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TlsMode {
    /// In the clear: a Unix socket, or a network that is trusted.
    #[default]
    Disable,
    /// Encrypted, the server's certificate and name checked; never in the clear.
    VerifyFull,
}

/// The database that Backstage makes for the plugin (spec 06).
fn default_database() -> String {
    "backstage_plugin_glidepath".to_owned()
}

impl Default for DatabaseConfig {
    fn default() -> Self {
        Self {
            host: None,
            port: None,
            user: None,
            password: None,
            database: default_database(),
            schema: None,
            tls: TlsMode::default(),
            ca_file: None,
        }
    }
}

/// Prepares a pool; connects nothing.
pub(super) fn pool(config: &DatabaseConfig) -> Result<Pool, StoreError> {
    let mut postgres = tokio_postgres::Config::new();
    postgres
        .host(config.host.as_deref().unwrap_or("localhost"))
        .port(config.port.unwrap_or(5432))
        .dbname(&config.database)
        .application_name("breakglass")
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_user_timeout(Duration::from_secs(15))
        .keepalives_idle(Duration::from_secs(15));
    if let Some(user) = &config.user {
        postgres.user(user);
    }
    if let Some(password) = &config.password {
        postgres.password(password.expose());
    }
    let mut options = SERVER_LIMITS.to_owned();
    if let Some(schema) = &config.schema {
        // Escaped as libpq does, so that a schema's name cannot add options.
        let escaped = schema.replace('\\', "\\\\").replace(' ', "\\ ");
        options.push_str(&format!(" -c search_path={escaped}"));
    }
    postgres.options(&options);
    let manager_config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = match config.tls {
        TlsMode::Disable => {
            postgres.ssl_mode(tokio_postgres::config::SslMode::Disable);
            Manager::from_config(postgres, tokio_postgres::NoTls, manager_config)
        }
        TlsMode::VerifyFull => {
            postgres.ssl_mode(tokio_postgres::config::SslMode::Require);
            let tls = MakeRustlsConnect::new(tls_config(config)?);
            Manager::from_config(postgres, tls, manager_config)
        }
    };
    Pool::builder(manager)
        .max_size(POOL_SIZE)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(Duration::from_secs(5)))
        .create_timeout(Some(CONNECT_TIMEOUT))
        .recycle_timeout(Some(CONNECT_TIMEOUT))
        .build()
        .map_err(|error| StoreError::Away(Box::new(error)))
}

fn tls_config(config: &DatabaseConfig) -> Result<rustls::ClientConfig, StoreError> {
    use rustls::pki_types::{CertificateDer, pem::PemObject};
    let away = |error: Box<dyn std::error::Error + Send + Sync>| StoreError::Away(error);
    let mut roots = rustls::RootCertStore::empty();
    match &config.ca_file {
        Some(path) => {
            let certificates = CertificateDer::pem_file_iter(path).map_err(|e| away(e.into()))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|e| away(e.into()))?;
                roots.add(certificate).map_err(|e| away(e.into()))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    Ok(rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
}
