//! The connection pool to one API server, built when it is first needed (C-2, C-28).
//!
//! Invariants: one pool and one TLS configuration per cluster; Nagle's delay is off, because keys
//! are sent one by one; nothing is retried behind the caller's back; whatever blocks (files, exec
//! plugins) runs off the async threads, once at a time however many wait for it.

use super::config::{KubeconfigWay, MintedTokenWay, Way, is_confidential, parse_server};
use super::error;
use crate::ports::ClusterError;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, Client, ConfigExt};
use kube::config::{AuthInfo, ExecInteractiveMode, KubeConfigOptions, Kubeconfig};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// A refused credential is not read again sooner than this: a plugin is not run in a loop.
const REBUILD_AFTER: Duration = Duration::from_secs(5);
const IDLE_CONNECTION: Duration = Duration::from_secs(60);
const IDLE_CONNECTIONS: usize = 8;
const KEEPALIVE: Duration = Duration::from_secs(15);

type Building = Shared<BoxFuture<'static, Result<Client, Arc<str>>>>;

/// As whom a connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaks {
    /// With the credentials that the way has.
    AsConfigured,
    /// With nothing of its own: each request brings its token. A client certificate would win
    /// over the token, and an authorization layer would replace it.
    AsEachRequestSays,
}

/// The connections to one API server.
pub(super) struct Connection {
    cluster: String,
    way: Way,
    speaks: Speaks,
    connect_timeout: Duration,
    built: Mutex<Option<(Building, Instant)>>,
}

impl Connection {
    pub(super) fn new(cluster: &str, way: &Way, speaks: Speaks, connect_timeout: Duration) -> Self {
        let (cluster, way) = (cluster.to_owned(), way.clone());
        Self {
            cluster,
            way,
            speaks,
            connect_timeout,
            built: Mutex::new(None),
        }
    }

    pub(super) fn cluster(&self) -> &str {
        &self.cluster
    }

    /// The client; built first where there is none. The caller bounds the wait: a build that
    /// hangs goes on, and those who come later wait for the same one.
    pub(super) async fn client(&self) -> Result<Client, ClusterError> {
        let building = {
            let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
            let (building, _) = built.get_or_insert_with(|| (self.build(), Instant::now()));
            building.clone()
        };
        let result = building.clone().await;
        result.map_err(|why| {
            self.drop_if(|(current, _)| current.ptr_eq(&building));
            error::away(&self.cluster, why.as_ref())
        })
    }

    /// Forgets the credentials after a 401: a token file, a plugin's token or a certificate may
    /// have been replaced. Whether there is a reason to try again.
    pub(super) fn renew(&self) -> bool {
        self.drop_if(|(_, since)| since.elapsed() >= REBUILD_AFTER)
    }

    fn drop_if(&self, matches: impl FnOnce(&(Building, Instant)) -> bool) -> bool {
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        let dropped = built.as_ref().is_some_and(matches);
        if dropped {
            *built = None;
        }
        dropped
    }

    fn build(&self) -> Building {
        let (way, speaks) = (self.way.clone(), self.speaks);
        let connect_timeout = self.connect_timeout;
        let runtime = tokio::runtime::Handle::current();
        let task = tokio::task::spawn_blocking(move || {
            let mut config = runtime.block_on(read(&way))?;
            if speaks == Speaks::AsEachRequestSays {
                config.auth_info = AuthInfo::default();
            }
            client(config, connect_timeout).map_err(|error| error::why(&error))
        });
        let built = async move {
            match task.await {
                Ok(result) => result.map_err(|why| Arc::from(why.as_str())),
                Err(_) => Err(Arc::from("reading its configuration failed")),
            }
        };
        built.boxed().shared()
    }
}

async fn read(way: &Way) -> Result<kube::Config, String> {
    let mut config = match way {
        Way::InCluster => {
            let config = kube::Config::incluster();
            config.map_err(|error| format!("not in a cluster: {}", error::why(&error)))?
        }
        Way::Kubeconfig(way) => from_kubeconfig(way).await?,
        Way::MintedToken(way) => without_credentials(way)?,
    };
    if !is_confidential(&config.cluster_url) {
        return Err("its address is not https; credentials are not sent in the clear".to_owned());
    }
    // API servers are reached directly: a proxy from the environment is meant for something else.
    config.proxy_url = None;
    config.default_retry = false;
    Ok(config)
}

async fn from_kubeconfig(way: &KubeconfigWay) -> Result<kube::Config, String> {
    let read = match &way.path {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    let mut file = read.map_err(|error| error::why(&error))?;
    for user in &mut file.auth_infos {
        if let Some(exec) = user.auth_info.as_mut().and_then(|info| info.exec.as_mut()) {
            // There is nobody to ask, and our own stdin and stderr are not the plugin's.
            exec.interactive_mode = Some(ExecInteractiveMode::Never);
        }
    }
    let context = way.context.clone().or_else(|| file.current_context.clone());
    if context
        .as_ref()
        .is_some_and(|context| has_proxy(&file, context))
    {
        // Its URL is not repeated: it may hold a password.
        return Err("the kubeconfig's proxy-url is not supported; remove it".to_owned());
    }
    let options = KubeConfigOptions {
        context,
        ..KubeConfigOptions::default()
    };
    let config = kube::Config::from_custom_kubeconfig(file, &options).await;
    config.map_err(|error| error::why(&error))
}

fn has_proxy(file: &Kubeconfig, context: &str) -> bool {
    let named = file.contexts.iter().find(|named| named.name == context);
    let Some(context) = named.and_then(|named| named.context.as_ref()) else {
        return false;
    };
    let mut clusters = file.clusters.iter();
    clusters
        .find(|named| named.name == context.cluster)
        .and_then(|named| named.cluster.as_ref())
        .and_then(|cluster| cluster.proxy_url.as_ref())
        .is_some_and(|proxy| !proxy.is_empty())
}

fn without_credentials(way: &MintedTokenWay) -> Result<kube::Config, String> {
    let server = parse_server(&way.server).map_err(|error| error.to_string())?;
    let mut config = kube::Config::new(server);
    config.tls_server_name.clone_from(&way.tls_server_name);
    if let Some(file) = &way.ca_file {
        config.root_cert = Some(certificates(file)?);
        config.root_cert_file = Some(file.clone());
    }
    Ok(config)
}

fn certificates(file: &Path) -> Result<Vec<Vec<u8>>, String> {
    let told = |what: &dyn std::fmt::Display| format!("CA file `{}`: {what}", file.display());
    let found = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| told(&error))?;
    if found.is_empty() {
        return Err(told(&"no certificate in it"));
    }
    Ok(found
        .iter()
        .map(|certificate| certificate.to_vec())
        .collect())
}

/// `kube`'s own stack, less its retries and its logging of bodies, and with Nagle's delay off.
fn client(config: kube::Config, connect_timeout: Duration) -> kube::Result<Client> {
    // Two providers may be linked in; without a choice TLS would panic. Losing this race is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_connect_timeout(Some(connect_timeout));
    let tls = config.rustls_https_connector_with_connector(tcp)?;
    let pool = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_CONNECTION)
        .pool_max_idle_per_host(IDLE_CONNECTIONS)
        .build::<_, Body>(tls);
    let service = tower::ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(tower::BoxError::from)
        .service(pool);
    Ok(Client::new(service, config.default_namespace))
}
