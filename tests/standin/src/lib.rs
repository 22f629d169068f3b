//! A stand-in for a Kubernetes cluster, for tests and the demo.
//!
//! It speaks the Kubernetes HTTP API over TLS on loopback, so that the real adapter runs against
//! it: pods with a small controller, ephemeral containers that are real processes on a real PTY,
//! RoleBindings that really decide, SelfSubjectReview, TokenRequest, watch, and attach on
//! `v5.channel.k8s.io`. It fails on command ([`Fault`]).
//!
//! What must hold: nothing is allowed that RBAC does not allow; a container's processes are
//! unprivileged, see nothing of our environment and die with their pod; it listens on 127.0.0.1
//! alone, and its tokens are random.
//!
//! Not here: admission policies (a fault answers as one would), scheduling, exec, port-forward,
//! logs, a registry. Images are names; what runs is the container's `command`, on this machine.
//! Of several attaches to one container the newest gets the output.

mod api;
mod control;
mod faults;
mod http_io;
mod inspect;
mod kubeconfig;
mod kubelet;
mod objects;
mod options;
mod patch;
mod pods;
mod pong;
mod processes;
mod pty;
mod rbac;
mod refusal;
mod reviews;
mod route;
mod server;
mod shell;
mod stream;
mod tls;
mod watching;
mod workload;
mod world;

use std::net::{Ipv4Addr, SocketAddr};

use serde_json::Value;
use tokio::net::TcpListener;

pub use faults::{Fault, Faults, RequestFault, RequestMatch, StartFault};
pub use inspect::{ObjectRef, StreamRef};
pub use options::{AppSeed, DEBUG_IMAGE, Delays, OWN_AUDIENCE, Options};
pub use rbac::{COPY_ROLE, LIVE_ROLE, Rule, rights_at_rest};
pub use stream::StreamMode;
pub use world::LoggedRequest;

use inspect::Inspect;
use world::World;

/// Why a stand-in did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The port could not be had.
    #[error("cannot listen on 127.0.0.1")]
    Listen(#[source] std::io::Error),
    /// The certificate could not be made.
    #[error("cannot make a certificate")]
    Certificate(#[from] rcgen::Error),
    /// The certificate's key could not be read back.
    #[error("cannot use the certificate's key: {0}")]
    Key(&'static str),
    /// The certificate was not accepted.
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
}

/// A running stand-in. Dropping it stops it and kills every process in its containers.
pub struct Standin {
    world: World,
    address: SocketAddr,
    authority: String,
    tokens: Vec<(String, String)>,
}

impl Standin {
    /// Starts a stand-in on 127.0.0.1; it serves when this returns.
    pub async fn start(options: Options) -> Result<Self, Error> {
        let (acceptor, authority) = tls::acceptor()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port))
            .await
            .map_err(Error::Listen)?;
        let address = listener.local_addr().map_err(Error::Listen)?;
        let world = World::new(options);
        let tokens = workload::seed(&world);
        world.spawn(server::listen(world.clone(), listener, acceptor));
        Ok(Self {
            world,
            address,
            authority,
            tokens,
        })
    }

    /// `https://127.0.0.1:PORT`
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The certificate authority's certificate, in PEM.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The token of an account: `breakglass` (the rights of C-2a), `backend` (may mint tokens for
    /// `breakglass` in namespace `tower`, and nothing else), `admin`, or one of
    /// [`Options::account`].
    #[must_use]
    pub fn token(&self, account: &str) -> Option<&str> {
        self.tokens
            .iter()
            .find(|(context, _)| context == account)
            .map(|(_, token)| token.as_str())
    }

    /// A kubeconfig (in JSON, which is YAML) with a context for each account; the current one is
    /// `breakglass`. It holds tokens.
    #[must_use]
    pub fn kubeconfig(&self) -> String {
        self.kubeconfig_for("breakglass")
    }

    /// The same with another current context.
    #[must_use]
    pub fn kubeconfig_for(&self, context: &str) -> String {
        kubeconfig::write(&self.url(), &self.authority, &self.tokens, context).to_string()
    }

    /// What can go wrong, on command.
    #[must_use]
    pub fn faults(&self) -> Faults {
        Faults {
            world: self.world.clone(),
        }
    }

    /// Every request so far, oldest first: verb, path, caller.
    #[must_use]
    pub fn requests(&self) -> Vec<LoggedRequest> {
        self.inspect().requests()
    }

    /// Pods and RoleBindings whose labels meet `selector` (empty: all). A selector that cannot be
    /// read meets nothing.
    #[must_use]
    pub fn objects(&self, selector: &str) -> Vec<ObjectRef> {
        self.inspect().objects(selector).unwrap_or_default()
    }

    /// The process ids that are alive in any container.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        self.inspect().processes()
    }

    /// The open attach streams.
    #[must_use]
    pub fn streams(&self) -> Vec<StreamRef> {
        self.inspect().streams()
    }

    /// The pods of a namespace, as objects.
    #[must_use]
    pub fn pods(&self, namespace: &str) -> Vec<Value> {
        let state = self.world.read();
        let here = state
            .pods
            .iter()
            .filter(|((inside, _), _)| inside == namespace);
        here.map(|(_, pod)| pod.object.clone()).collect()
    }

    /// The RoleBindings of all namespaces, as objects.
    #[must_use]
    pub fn role_bindings(&self) -> Vec<Value> {
        self.world
            .read()
            .bindings
            .values()
            .map(|binding| binding.object.clone())
            .collect()
    }

    /// Sets a namespace's label, or takes it away.
    pub fn set_namespace_label(&self, namespace: &str, label: &str, value: Option<&str>) {
        self.world.change(|state| {
            let version = state.next_version().to_string();
            let Some(object) = state.namespaces.get_mut(namespace) else {
                return;
            };
            object["metadata"]["resourceVersion"] = version.into();
            if let Some(labels) = object["metadata"]["labels"].as_object_mut() {
                match value {
                    Some(value) => labels.insert(label.to_owned(), value.into()),
                    None => labels.remove(label),
                };
            }
        });
    }

    /// Sets how many disruptions a budget of [`Options::budget`] allows.
    pub fn set_budget(&self, namespace: &str, app: &str, disruptions_allowed: u32) {
        let key = ("poddisruptionbudgets", namespace.to_owned(), app.to_owned());
        self.world.change(|state| {
            if let Some(budget) = state.fixed.get_mut(&key) {
                budget["status"]["disruptionsAllowed"] = disruptions_allowed.into();
            }
        });
    }

    /// Makes every minted token invalid, as if its time were up.
    pub fn expire_tokens(&self) {
        self.world
            .change(|state| state.tokens.retain(|_, token| token.expires_at.is_none()));
    }

    /// Accepts the tokens that `issuer` mints for `audience`, as a far cluster does (C-2). The
    /// caller's rights are those of this stand-in's account of the same user name.
    pub fn trust_tokens_of(&self, issuer: &Self, audience: &str) {
        self.world.trust(issuer.world.clone(), audience);
    }

    /// Stops serving, kills every process in its containers and waits for its tasks.
    pub async fn shutdown(self) {
        self.world.shut_down().await;
    }

    fn inspect(&self) -> Inspect {
        Inspect {
            world: self.world.clone(),
        }
    }
}

impl Drop for Standin {
    fn drop(&mut self) {
        self.world.kill_all();
    }
}
