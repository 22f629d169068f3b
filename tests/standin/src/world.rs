//! Everything the cluster knows, behind one lock, and the record of how it changed.
//!
//! What must hold: each change of an object takes the next resource version; a change of a pod is
//! an event that every watch of it sees, in order, or is told (410) that it came too late. The
//! lock is never held across an await.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::faults::FaultBook;
use crate::options::{OWN_AUDIENCE, Options};
use crate::rbac::{Authorizer, Rule, User};
use crate::shell::Shell;
use crate::stream::OpenStream;
use crate::workload::Workload;

/// Events kept for watches that begin in the past.
const EVENTS_MAX: usize = 4096;
/// Requests kept in the log.
const LOG_MAX: usize = 65_536;

/// Namespace and name.
pub(crate) type Key = (String, String);

/// A pod and what runs in it.
pub(crate) struct Pod {
    pub(crate) object: Value,
    /// Processes by container name. A container without one is only told about.
    pub(crate) shells: BTreeMap<String, Arc<Shell>>,
}

impl Pod {
    pub(crate) fn uid(&self) -> &str {
        self.object["metadata"]["uid"].as_str().unwrap_or_default()
    }
}

/// A RoleBinding and when it begins to apply.
pub(crate) struct Binding {
    pub(crate) object: Value,
    pub(crate) effective_at: Instant,
}

/// A bearer token.
pub(crate) struct Token {
    pub(crate) user: User,
    /// The audiences that a minted token is for; none given means this API server.
    pub(crate) audiences: Option<Vec<String>>,
    pub(crate) expires_at: Option<Instant>,
}

impl Token {
    fn is_for(&self, audience: &str) -> bool {
        let valid = self.expires_at.is_none_or(|at| Instant::now() < at);
        valid
            && match self.audiences.as_deref() {
                None => audience == OWN_AUDIENCE,
                Some([]) => audience == OWN_AUDIENCE,
                Some(all) => all.iter().any(|one| one == audience),
            }
    }
}

/// A change of a pod.
#[derive(Clone)]
pub(crate) struct Event {
    pub(crate) version: u64,
    pub(crate) kind: &'static str,
    pub(crate) object: Value,
}

/// One request as the log keeps it: no body, no token, no query.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct LoggedRequest {
    /// The RBAC verb (`get`, `watch`, `patch`…), or the HTTP method for what is no resource.
    pub verb: String,
    /// The URL's path.
    pub path: String,
    /// Who asked, as the token says; empty where the token is unknown.
    pub user: String,
}

/// The lock's contents.
pub(crate) struct State {
    pub(crate) version: u64,
    pub(crate) namespaces: BTreeMap<String, Value>,
    pub(crate) pods: BTreeMap<Key, Pod>,
    pub(crate) bindings: BTreeMap<Key, Binding>,
    /// What is only read: by resource, then namespace and name.
    pub(crate) fixed: BTreeMap<(&'static str, String, String), Value>,
    pub(crate) workloads: BTreeMap<Key, Workload>,
    pub(crate) tokens: BTreeMap<String, Token>,
    pub(crate) events: VecDeque<Event>,
    /// The newest event that was dropped from `events`.
    pub(crate) forgotten: u64,
    pub(crate) log: VecDeque<LoggedRequest>,
    pub(crate) streams: BTreeMap<u64, OpenStream>,
    pub(crate) faults: FaultBook,
}

/// The cluster. Clones share it.
#[derive(Clone)]
pub(crate) struct World {
    inner: Arc<Inner>,
}

struct Inner {
    options: Options,
    state: Mutex<State>,
    /// Counts changes, for whoever waits for one.
    changed: watch::Sender<u64>,
    stop: CancellationToken,
    tasks: TaskTracker,
    /// Clusters whose tokens are accepted, each for an audience.
    issuers: Mutex<Vec<(World, String)>>,
}

impl World {
    pub(crate) fn new(options: Options) -> Self {
        let state = State {
            version: 1,
            namespaces: BTreeMap::new(),
            pods: BTreeMap::new(),
            bindings: BTreeMap::new(),
            fixed: BTreeMap::new(),
            workloads: BTreeMap::new(),
            tokens: BTreeMap::new(),
            events: VecDeque::new(),
            forgotten: 0,
            log: VecDeque::new(),
            streams: BTreeMap::new(),
            faults: FaultBook::default(),
        };
        let inner = Inner {
            options,
            state: Mutex::new(state),
            changed: watch::Sender::new(0),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            issuers: Mutex::new(Vec::new()),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.inner.options
    }

    /// Reads without telling anybody.
    pub(crate) fn read(&self) -> MutexGuard<'_, State> {
        self.inner
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, then wakes whoever waits for a change.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.read());
        self.inner
            .changed
            .send_modify(|count| *count = count.wrapping_add(1));
        result
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changed.subscribe()
    }

    pub(crate) fn stop(&self) -> &CancellationToken {
        &self.inner.stop
    }

    /// Runs `task` until it ends or the stand-in stops.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.inner.stop.clone();
        self.inner.tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = task => {}
            }
        });
    }

    pub(crate) fn trust(&self, issuer: Self, audience: &str) {
        self.issuers().push((issuer, audience.to_owned()));
    }

    fn issuers(&self) -> MutexGuard<'_, Vec<(Self, String)>> {
        self.inner
            .issuers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Who holds this token, unless it has lapsed, and the rules that stand for them here.
    pub(crate) fn user(&self, token: &str) -> Option<(User, Vec<Rule>)> {
        let find = |world: &Self, audience: &str| {
            let state = world.read();
            let token = state
                .tokens
                .get(token)
                .filter(|token| token.is_for(audience))?;
            Some(token.user.clone())
        };
        let user = find(self, OWN_AUDIENCE).or_else(|| {
            self.issuers()
                .iter()
                .find_map(|(issuer, audience)| find(issuer, audience))
        })?;
        let rules = self.options().rules_of(&user.name);
        Some((user, rules))
    }

    /// Stops every task and kills every process.
    pub(crate) fn kill_all(&self) {
        self.inner.stop.cancel();
        for pod in self.read().pods.values() {
            for shell in pod.shells.values() {
                shell.kill();
            }
        }
    }

    /// As [`World::kill_all`], and waits for the tasks.
    pub(crate) async fn shut_down(&self) {
        self.kill_all();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }
}

impl State {
    pub(crate) fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    /// Gives a pod its next resource version and tells the watches.
    pub(crate) fn publish(&mut self, kind: &'static str, key: &Key) {
        let version = self.next_version();
        let Some(pod) = self.pods.get_mut(key) else {
            return;
        };
        pod.object["metadata"]["resourceVersion"] = version.to_string().into();
        let event = Event {
            version,
            kind,
            object: pod.object.clone(),
        };
        self.remember(event);
    }

    /// Takes a pod away: its processes die, its streams end, the watches are told.
    pub(crate) fn remove_pod(&mut self, key: &Key) -> Option<Value> {
        let pod = self.pods.remove(key)?;
        for shell in pod.shells.values() {
            shell.kill();
        }
        let version = self.next_version();
        let mut object = pod.object;
        object["metadata"]["resourceVersion"] = version.to_string().into();
        self.remember(Event {
            version,
            kind: "DELETED",
            object: object.clone(),
        });
        Some(object)
    }

    fn remember(&mut self, event: Event) {
        self.events.push_back(event);
        while self.events.len() > EVENTS_MAX {
            self.forgotten = self
                .events
                .pop_front()
                .map_or(self.forgotten, |old| old.version);
        }
    }

    /// A pod by name, if it is still the one of this UID.
    pub(crate) fn pod_mut(&mut self, key: &Key, uid: &str) -> Option<&mut Pod> {
        self.pods.get_mut(key).filter(|pod| pod.uid() == uid)
    }

    pub(crate) fn log(&mut self, request: LoggedRequest) {
        self.log.push_back(request);
        while self.log.len() > LOG_MAX {
            self.log.pop_front();
        }
    }

    pub(crate) fn authorizer<'a>(&'a self, user: &'a User, rules: &'a [Rule]) -> Authorizer<'a> {
        let at = Instant::now();
        let bindings = self
            .bindings
            .values()
            .filter(|binding| binding.effective_at <= at)
            .map(|binding| &binding.object)
            .collect();
        Authorizer {
            user,
            standing: rules,
            bindings,
        }
    }
}

/// The present, in RFC 3339 with whole seconds, as Kubernetes writes it.
pub(crate) fn timestamp() -> String {
    timestamp_in(0)
}

/// `seconds` from the present.
pub(crate) fn timestamp_in(seconds: i64) -> String {
    #[expect(
        clippy::disallowed_methods,
        reason = "a cluster has a clock of its own"
    )]
    let now = jiff::Timestamp::now();
    let whole = now.as_second().saturating_add(seconds);
    jiff::Timestamp::from_second(whole)
        .unwrap_or(now)
        .to_string()
}

/// A random UID in the form of a version 4 UUID.
pub(crate) fn new_uid() -> String {
    let n: u128 = rand::random();
    let hex = format!("{n:032x}");
    format!(
        "{}-{}-4{}-a{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[13..16],
        &hex[17..20],
        &hex[20..]
    )
}

/// Lower-case letters and digits, for generated names and tokens.
pub(crate) fn random_text(length: usize) -> String {
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    (0..length)
        .map(|_| char::from(ALPHABET[usize::from(rand::random::<u8>()) % 27]))
        .collect()
}

/// The list object that holds `items`.
pub(crate) fn list(kind: &str, api_version: &str, version: u64, items: Vec<Value>) -> Value {
    json!({
        "kind": format!("{kind}List"), "apiVersion": api_version,
        "metadata": { "resourceVersion": version.to_string() }, "items": items,
    })
}
