//! A relaying process: ours, or kube's loop, behind the same Unix socket and the same recorder.
//!
//! Orders come on stdin, answers go to stdout, a line of JSON each. The store that recordings are
//! saved to takes them at once and only keeps the file: what a store costs is not the relay's.

use super::child::say;
use super::machine::{cpu_seconds, raise_open_files};
use super::upgrade::{accept, switching};
use super::{CONTAINER, Done, NAMESPACE, Order, Recorded, Way, kube_loop};
use crate::StageError;
use async_trait::async_trait;
use breakglass::clock::SystemClock;
use breakglass::cluster::{ClusterConfig, connect};
use breakglass::ports::cluster::{Cluster, PodRef};
use breakglass::ports::recordings::{Content, Location, Reading};
use breakglass::ports::{Clock, RecordingError, Recordings};
use breakglass::recording::{Header, LiveRecording, Recorder};
use breakglass::terminal::{TerminalHandle, TerminalParts};
use futures_util::{StreamExt, TryStreamExt, stream};
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::{UnixListener, UnixStream};

/// Calls to the cluster at once, as the sidecar's own limit is.
const AT_ONCE: usize = 16;
/// No session of a benchmark gets that old.
const DEADLINE: Duration = Duration::from_secs(3600);

/// The socket that browsers reach the relay by, in its folder.
pub(super) const SOCKET: &str = "relay.sock";

/// What a relaying process is started with; the Node server understands the same.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Who relays: `ours` or `kube`
    #[arg(long)]
    way: Way,
    /// The way to the source
    #[arg(long)]
    kubeconfig: PathBuf,
    /// What every session attaches to
    #[arg(long)]
    pod: String,
    /// A folder of its own
    #[arg(long)]
    dir: PathBuf,
}

/// Serves until stdin ends.
///
/// # Errors
/// What could not be done, of what was ordered.
pub async fn serve(options: Options) -> Result<(), StageError> {
    raise_open_files();
    let relay = Arc::new(Relay::new(options).await?);
    let listener = UnixListener::bind(relay.options.dir.join(SOCKET))
        .map_err(|error| StageError::of("the relay's socket", error))?;
    tokio::spawn(front(Arc::clone(&relay), listener));
    say(&json!({"ready": true}));
    let mut since = cpu_seconds();
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match serde_json::from_str(&line) {
            Ok(Order::Open(more)) => {
                relay.open(more).await?;
                since = cpu_seconds();
                say(&json!({"open": relay.sessions().len()}));
            }
            Ok(Order::Stop) => {
                let recordings = relay.complete().await?;
                let done = Done {
                    cpu_seconds: cpu_seconds() - since,
                    recordings,
                };
                say(&json!(done));
            }
            Err(error) => return Err(StageError::of("an order that is none", error)),
        }
    }
    Ok(())
}

struct Session {
    recording: LiveRecording,
    seat: Seat,
}

/// Where a browser takes its place.
enum Seat {
    Ours(TerminalHandle),
    Kube(Box<Mutex<Option<kube::api::AttachedProcess>>>),
}

struct Relay {
    options: Options,
    recorder: Recorder,
    cluster: Arc<dyn Cluster>,
    kube: kube::Client,
    sessions: Mutex<Vec<Arc<Session>>>,
}

impl Relay {
    async fn new(options: Options) -> Result<Self, StageError> {
        let kept = options.dir.join("kept");
        std::fs::create_dir(&kept).map_err(|error| StageError::of("the relay's folder", error))?;
        let recorder = Recorder::new(
            Arc::new(Kept(kept)),
            Arc::new(SystemClock),
            options.dir.join("spool"),
        );
        Ok(Self {
            recorder,
            cluster: cluster(&options.kubeconfig).await?,
            kube: kube_client(&options.kubeconfig).await?,
            sessions: Mutex::default(),
            options,
        })
    }

    fn sessions(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Session>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn open(&self, more: usize) -> Result<(), StageError> {
        let first = self.sessions().len();
        let opening = stream::iter(first..first + more).map(|number| self.open_one(number));
        let opened: Vec<_> = opening.buffered(AT_ONCE).try_collect().await?;
        self.sessions().extend(opened.into_iter().map(Arc::new));
        Ok(())
    }

    async fn open_one(&self, number: usize) -> Result<Session, StageError> {
        let header = Header::new(SystemClock.wall(), "a session of the benchmark");
        let recording = self
            .recorder
            .start(&format!("bench/{number}"), &header)
            .await
            .map_err(|error| StageError::of("no recording", error))?;
        let seat = match self.options.way {
            Way::Kube => Seat::Kube(Box::new(Mutex::new(Some(self.attach_kube().await?)))),
            Way::Ours => {
                let terminal = TerminalHandle::spawn(TerminalParts {
                    clock: Arc::new(SystemClock),
                    recording: recording.clone(),
                    deadline: SystemClock.elapsed() + DEADLINE,
                });
                terminal.set_shell(attach(&self.cluster, &self.options.pod).await?);
                Seat::Ours(terminal)
            }
            Way::Node => return Err(StageError::new("Node has a program of its own")),
        };
        Ok(Session { recording, seat })
    }

    async fn attach_kube(&self) -> Result<kube::api::AttachedProcess, StageError> {
        let pods: kube::Api<k8s_openapi::api::core::v1::Pod> =
            kube::Api::namespaced(self.kube.clone(), NAMESPACE);
        let params = kube_loop::params(CONTAINER);
        let attached = pods.attach(&self.options.pod, &params).await;
        attached.map_err(|error| StageError::of("kube could not attach", error))
    }

    fn take_seat(&self, number: usize, upgrade: hyper::upgrade::OnUpgrade) -> bool {
        let Some(session) = self.sessions().get(number).cloned() else {
            return false;
        };
        tokio::spawn(async move {
            let Ok(upgraded) = upgrade.await else { return };
            let io = TokioIo::new(upgraded);
            match &session.seat {
                Seat::Ours(terminal) => terminal.attach_browser(io),
                Seat::Kube(process) => {
                    let process = process
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .take();
                    if let Some(process) = process {
                        kube_loop::relay(process, session.recording.clone(), io).await;
                    }
                }
            }
        });
        true
    }

    async fn complete(&self) -> Result<Vec<Recorded>, StageError> {
        let sessions = self.sessions().clone();
        let mut recordings = Vec::new();
        for session in sessions {
            let sealed = session.recording.seal().await;
            let saved = sealed.map_err(|error| StageError::of("not sealed", error))?;
            session.recording.discard().await;
            recordings.push(Recorded {
                path: Kept(self.options.dir.join("kept")).file(&saved.key),
                bytes: saved.bytes,
                sha256: saved.sha256,
            });
        }
        Ok(recordings)
    }
}

/// Our own way to the source.
pub(super) async fn cluster(kubeconfig: &Path) -> Result<Arc<dyn Cluster>, StageError> {
    let config: ClusterConfig = serde_json::from_value(json!({"kubeconfig": {"path": kubeconfig}}))
        .map_err(|error| StageError::of("the cluster's configuration", error))?;
    let configured = [("bench".to_owned(), config)].into();
    let mut clusters = connect(&configured, "bench")
        .await
        .map_err(|(_, error)| StageError::of("the cluster", error))?;
    clusters
        .remove("bench")
        .ok_or_else(|| StageError::new("no cluster"))
}

/// Attaches our own way.
pub(super) async fn attach(
    cluster: &Arc<dyn Cluster>,
    pod: &str,
) -> Result<Box<dyn breakglass::ports::cluster::Shell>, StageError> {
    let pod = PodRef {
        namespace: NAMESPACE.to_owned(),
        name: pod.to_owned(),
        uid: None,
    };
    let attached = cluster.attach(&pod, CONTAINER).await;
    attached.map_err(|error| StageError::of("not attached", error))
}

async fn kube_client(kubeconfig: &Path) -> Result<kube::Client, StageError> {
    let told = |error| StageError::of("kube's configuration", error);
    let file = kube::config::Kubeconfig::read_from(kubeconfig).map_err(told)?;
    let context = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(file, &context)
        .await
        .map_err(told)?;
    kube::Client::try_from(config).map_err(|error| StageError::of("kube's client", error))
}

/// Takes browsers as the sidecar does: HTTP over the socket, `GET /NUMBER` with an upgrade.
async fn front(relay: Arc<Relay>, listener: UnixListener) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(connection(Arc::clone(&relay), stream));
    }
}

async fn connection(relay: Arc<Relay>, stream: UnixStream) {
    let service = service_fn(move |mut request: Request<Incoming>| {
        let answer = answer(&relay, &mut request);
        async { Ok::<_, std::convert::Infallible>(answer) }
    });
    let served = http1::Builder::new()
        .max_buf_size(64 * 1024)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    // A browser that goes away in between is the measuring side's to report.
    let _ = served.await;
}

fn answer(relay: &Relay, request: &mut Request<Incoming>) -> Response<Full<Bytes>> {
    let number = request.uri().path().trim_start_matches('/').parse().ok();
    if let (Some(number), Some(key)) = (number, accept(request)) {
        let upgrade = hyper::upgrade::on(request);
        if relay.take_seat(number, upgrade) {
            return switching(&key, None);
        }
    }
    let mut refused = Response::new(Full::default());
    *refused.status_mut() = StatusCode::NOT_FOUND;
    refused
}

/// A store that takes everything at once: a recording's file gets a second name.
#[derive(Debug)]
struct Kept(PathBuf);

impl Kept {
    fn file(&self, key: &str) -> PathBuf {
        self.0.join(format!("{}.cast", key.replace('/', "-")))
    }

    fn keep(&self, key: &str, file: &Path) -> io::Result<()> {
        match std::fs::hard_link(file, self.file(key)) {
            // The same file, which has only grown since.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            kept => kept,
        }
    }
}

#[async_trait]
impl Recordings for Kept {
    async fn put(
        &self,
        key: &str,
        content: Content,
        _sha256: &str,
    ) -> Result<Location, RecordingError> {
        if let Content::File { path, .. } = &content {
            let kept = self.keep(key, path);
            kept.map_err(|error| RecordingError::Unavailable {
                why: "the file cannot be kept".to_owned(),
                source: Some(error),
            })?;
        }
        Ok(Location {
            key: key.to_owned(),
            bucket: "kept".to_owned(),
            version: "1".to_owned(),
        })
    }

    async fn get(&self, _location: &Location) -> Result<Reading, RecordingError> {
        Err(RecordingError::NotFound)
    }

    async fn check(&self) -> Result<(), RecordingError> {
        Ok(())
    }
}
