//! The fixture: one sidecar, one cluster, one database, and a clock that flows with the real one
//! until a test stops it or moves it on.

pub(crate) use crate::plan::Plan;
use crate::plan::{Server, flow};
use crate::terminal::Terminal;
use breakglass::config::Config;
use breakglass::ports::Clock;
use breakglass_tests::postgres::Postgres;
use breakglass_tests::processes::until;
use breakglass_tests::sidecar::{Settings, SidecarHere, call, ready};
use decisions::session::SessionId;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use standin::{Faults, Standin};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// How long anything that needs no movement of the clock may take on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(60);
pub(crate) const ALICE: &str = "user:default/alice";
pub(crate) const NAMESPACE: &str = "shop";

/// What a test runs on.
pub(crate) struct Stand {
    pub(crate) standin: Standin,
    pub(crate) sidecar: SidecarHere,
    pub(crate) settings: Settings,
    pub(crate) database: String,
    pub(crate) server: Server,
    pub(crate) flows: Arc<AtomicBool>,
    #[expect(dead_code, reason = "the folder lives as long as the stand")]
    pub(crate) files: TempDir,
}

/// The clock.
impl Stand {
    /// The clock stands still until the test moves it.
    pub(crate) fn stop_the_clock(&self) {
        self.flows.store(false, Ordering::Relaxed);
    }

    pub(crate) fn let_the_clock_flow(&self) {
        self.flows.store(true, Ordering::Relaxed);
    }

    /// Time passes, and the sidecar confirms that the database is still its own.
    pub(crate) async fn pass(&self, by: Duration) {
        self.sidecar.clock.advance(by);
        ready(&self.settings.socket(), SOON)
            .await
            .expect("the sidecar is ready again");
    }

    /// Time passes until so long before the session's deadline; nothing else happens meanwhile.
    pub(crate) async fn pass_until_before_deadline(&self, id: &str, before: Duration) {
        let left = self
            .left(id)
            .checked_sub(before)
            .expect("it is still ahead");
        self.pass(left).await;
    }

    /// How long the session still has.
    pub(crate) fn left(&self, id: &str) -> Duration {
        let sessions = self.sidecar.app.sessions().expect("ready");
        let runtime = sessions
            .runtimes()
            .get(&session_id(id))
            .expect("it runs here");
        runtime.deadline().since(self.sidecar.clock.elapsed())
    }

    /// One sweep.
    pub(crate) async fn sweep(&self) {
        self.pass(breakglass::sweep::EVERY).await;
    }
}

/// What people do.
impl Stand {
    pub(crate) fn faults(&self) -> Faults {
        self.standin.faults()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.settings.socket()
    }

    /// A good request for a session on a ready pod.
    pub(crate) fn request(&self) -> Value {
        request_for(&self.ready_pod().0)
    }

    pub(crate) async fn post(&self, path: &str, body: Option<&Value>) -> (u16, Value) {
        self.as_user(ALICE, "POST", path, body).await
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        self.as_user(ALICE, "GET", path, None).await
    }

    pub(crate) async fn as_user(
        &self,
        user: &str,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> (u16, Value) {
        let answer = call(
            &self.socket(),
            method,
            path,
            Some(&caller(user, "shop")),
            body,
        )
        .await;
        answer.expect("an answer")
    }

    /// Opens a session on a ready pod.
    pub(crate) async fn open(&self) -> Open {
        self.open_with(|_| {}).await
    }

    pub(crate) async fn open_with(&self, change: impl FnOnce(&mut Value)) -> Open {
        let (pod, uid) = self.ready_pod();
        let mut body = request_for(&pod);
        change(&mut body);
        let (status, answer) = self.post("/v1/sessions", Some(&body)).await;
        assert_eq!(status, 201, "{answer}");
        assert_eq!(answer["state"], "active", "{answer}");
        Open {
            id: answer["id"].as_str().expect("an id").to_owned(),
            pod,
            uid,
        }
    }

    /// Ends it as its user.
    pub(crate) async fn end(&self, id: &str) -> (u16, Value) {
        self.post(&format!("/v1/sessions/{id}/end"), None).await
    }

    pub(crate) async fn attach(&self, id: &str) -> Terminal {
        let attached = Terminal::attach(&self.socket(), &caller(ALICE, "shop"), id).await;
        attached.unwrap_or_else(|(status, body)| panic!("refused: {status} {body}"))
    }
}

/// An open session.
#[derive(Debug, Clone)]
pub(crate) struct Open {
    pub(crate) id: String,
    pub(crate) pod: String,
    pub(crate) uid: String,
}

/// What other eyes see.
impl Stand {
    /// A pod that is ready and stays: name and UID.
    pub(crate) fn ready_pod(&self) -> (String, String) {
        let found = self.pods().into_iter().find(is_ready).expect("a ready pod");
        let text = |field: &str| {
            found["metadata"][field]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        (text("name"), text("uid"))
    }

    pub(crate) fn pods(&self) -> Vec<Value> {
        self.standin.pods(NAMESPACE)
    }

    pub(crate) fn has_pod(&self, uid: &str) -> bool {
        self.pods().iter().any(|pod| pod["metadata"]["uid"] == uid)
    }

    /// The grants that exist, of any session.
    pub(crate) fn grants(&self) -> Vec<String> {
        let name = |binding: &Value| {
            binding["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let all = self.standin.role_bindings();
        all.iter()
            .map(name)
            .filter(|name| name.starts_with("tower-breakglass-"))
            .collect()
    }

    pub(crate) async fn sql(&self) -> tokio_postgres::Client {
        self.server
            .get()
            .client(&self.database)
            .await
            .expect("the database")
    }

    /// A session's row.
    pub(crate) async fn row(&self, id: &str) -> Value {
        let rows = self.rows_where(&format!("id = '{id}'")).await;
        rows.into_iter()
            .next()
            .unwrap_or_else(|| panic!("no row {id}"))
    }

    pub(crate) async fn rows(&self) -> Vec<Value> {
        self.rows_where("true").await
    }

    async fn rows_where(&self, condition: &str) -> Vec<Value> {
        let sql = self.sql().await;
        let query = format!(
            "SELECT row_to_json(s)::text FROM breakglass_sessions s WHERE {condition} \
             ORDER BY created_at"
        );
        let rows = sql.query(&query, &[]).await.expect("the rows");
        rows.iter()
            .map(|row| serde_json::from_str(row.get(0)).expect("JSON"))
            .collect()
    }

    /// Objects in clusters that are on record.
    pub(crate) async fn objects(&self) -> i64 {
        let sql = self.sql().await;
        let row = sql
            .query_one("SELECT count(*) FROM breakglass_objects", &[])
            .await;
        row.expect("a count").get(0)
    }

    /// The row once its end is over: nothing of the session runs here any more. A row that was
    /// read before that can be older than its outcome.
    pub(crate) async fn ended(&self, id: &str) -> Value {
        self.row_when(id, "the end", |row| row["state"] == "ended")
            .await;
        self.until("the clean-up", || !self.runs(id)).await;
        self.row(id).await
    }

    pub(crate) async fn row_when(
        &self,
        id: &str,
        what: &str,
        is: impl Fn(&Value) -> bool,
    ) -> Value {
        let mut last = Value::Null;
        let deadline = tokio::time::Instant::now() + SOON;
        while tokio::time::Instant::now() < deadline {
            last = self.row(id).await;
            if is(&last) {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{what} did not come: {last:#}");
    }

    /// Whether this process holds the session.
    pub(crate) fn runs(&self, id: &str) -> bool {
        match self.sidecar.app.sessions() {
            Ok(sessions) => sessions.runtimes().get(&session_id(id)).is_some(),
            // Not to be seen at the moment.
            Err(_) => true,
        }
    }

    /// Waits for something that needs nothing but a moment.
    pub(crate) async fn until(&self, what: &str, is: impl Fn() -> bool) {
        let asked = until(what, SOON, || async { is().then_some(()) }).await;
        asked.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Nothing of any session is left: no grant, no process, no label, no object on record.
    pub(crate) async fn assert_nothing_is_left(&self) {
        assert_eq!(self.grants(), Vec::<String>::new());
        self.until("the end of every process", || {
            self.standin.processes().is_empty()
        })
        .await;
        let ours = "app.kubernetes.io/managed-by=tower-breakglass";
        assert!(self.standin.objects(ours).is_empty());
        // The row tells what became of them a moment before they are off the record.
        let off = || async { (self.objects().await == 0).then_some(()) };
        let asked = until("the end of every object on record", SOON, off).await;
        asked.unwrap_or_else(|error| panic!("{error}"));
    }

    /// The recording that the row names, checked against the row's hash.
    pub(crate) fn recording(&self, row: &Value) -> String {
        let text = |field: &str| row[field].as_str().unwrap_or_default().to_owned();
        let folder = self.settings.recordings().join(text("recording_key"));
        let file = folder.join(text("recording_version"));
        let bytes = std::fs::read(&file)
            .unwrap_or_else(|error| panic!("{}: {error}: {row:#}", file.display()));
        let hash: String = Sha256::digest(&bytes)
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        assert_eq!(hash, text("recording_sha256"));
        assert_eq!(row["recording_bytes"], bytes.len());
        String::from_utf8(bytes).expect("UTF-8")
    }

    pub(crate) fn spools(&self) -> Vec<PathBuf> {
        files(&self.settings.spool())
    }
}

/// A further sidecar on the same database.
pub(crate) struct Second {
    sidecar: SidecarHere,
    settings: Settings,
}

impl Second {
    pub(crate) fn socket(&self) -> PathBuf {
        self.settings.socket()
    }

    /// Once it owns the sessions.
    pub(crate) async fn until_ready(&self) {
        self.sidecar.clock.advance(Duration::from_secs(5));
        ready(&self.socket(), SOON).await.expect("it takes over");
    }
}

/// What only some tests do.
impl Stand {
    /// Starts a second sidecar, which stands by.
    pub(crate) async fn start_second(&self) -> Second {
        let settings = Settings {
            name: "second".to_owned(),
            ..self.settings.clone()
        };
        let database = self.database.clone();
        let change = move |config: &mut Config| config.database.database = database;
        let sidecar = SidecarHere::start_standing_by(&settings, change).await;
        let sidecar = sidecar.expect("a second sidecar");
        tokio::spawn(flow(
            Arc::clone(&sidecar.clock),
            Arc::new(AtomicBool::new(true)),
        ));
        Second { sidecar, settings }
    }

    pub(crate) fn own_postgres(&mut self) -> &mut Postgres {
        match &mut self.server {
            Server::Own(server) => server,
            Server::Shared(_) => panic!("others use this server"),
        }
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .collect()
}

pub(crate) fn session_id(id: &str) -> SessionId {
    SessionId::parse(id).expect("a session's id")
}

pub(crate) fn request_for(pod: &str) -> Value {
    json!({
        "app": "shop", "env": "dev", "cluster": "demo", "namespace": NAMESPACE, "pod": pod,
        "container": "app", "mode": "live", "durationMinutes": 15,
        "reason": "to see why it misbehaves",
    })
}

pub(crate) fn caller(user: &str, app: &str) -> Value {
    json!({"version": 1, "user": user, "app": app, "allowed": ["request"]})
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    pod["metadata"]["deletionTimestamp"].is_null()
        && conditions
            .iter()
            .any(|c| c["type"] == "Ready" && c["status"] == "True")
}
