//! One session from its request to its end, every promise checked with other eyes than the
//! sidecar's.

use crate::StageError;
use crate::cli::Person;
use crate::processes::until;
use crate::promises::{container_is_hardened, grant_is_right};
use crate::stage::Stage;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// What was seen, each as a promise that holds or not.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Seen {
    /// The session's id.
    pub session: String,
    /// The grant existed with its role, subject and labels.
    pub grant_existed: bool,
    /// The debug container was hardened.
    pub container_hardened: bool,
    /// What was typed came back as output.
    pub text_came_back: bool,
    /// Row, file and download have the same hash.
    pub recording_agrees: bool,
    /// The recording holds what was seen.
    pub recording_holds_text: bool,
    /// The grant is gone.
    pub grant_gone: bool,
    /// The debug shell is gone.
    pub shell_gone: bool,
    /// The pod's UID is gone and another pod is ready.
    pub pod_replaced: bool,
    /// Nothing in the cluster carries our labels.
    pub nothing_labelled: bool,
    /// The row's end reason.
    pub end_reason: String,
    /// The recording's hash.
    pub sha256: String,
    /// Where the recording lies.
    pub recording: String,
}

impl Seen {
    /// Whether every promise was kept.
    pub fn holds(&self) -> bool {
        self.grant_existed
            && self.container_hardened
            && self.text_came_back
            && self.recording_agrees
            && self.recording_holds_text
            && self.grant_gone
            && self.shell_gone
            && self.pod_replaced
            && self.nothing_labelled
            && self.end_reason == "shell exited"
    }
}

/// What the script types, and what only its execution prints.
const SCRIPT: &str = "echo seen-$((6 * 7))-live; stty size; exit\n";
const PRINTED: &str = "seen-42-live";

/// A session that is open: its row, and the pod it is in.
pub struct Opened {
    /// The session's JSON.
    pub session: Value,
    /// The pod's name.
    pub pod: String,
    /// The pod's UID.
    pub uid: String,
}

impl Opened {
    /// The session's id.
    pub fn id(&self) -> &str {
        self.session["id"].as_str().unwrap_or_default()
    }
}

/// Opens a session on a ready pod of the target.
pub async fn open(stage: &Stage, person: &Person) -> Result<Opened, StageError> {
    open_with(stage, person, &[]).await
}

/// The same, asking for more.
pub async fn open_with(
    stage: &Stage,
    person: &Person,
    more: &[&str],
) -> Result<Opened, StageError> {
    let namespace = &stage.place.target.namespace;
    let ready = stage.place.witness.ready_pods(namespace).await?;
    let pod = ready
        .first()
        .ok_or_else(|| StageError::new("the target has no ready pod"))?;
    let (name, uid) = (
        pod.metadata.name.clone().unwrap_or_default(),
        pod.metadata.uid.clone().unwrap_or_default(),
    );
    let mut arguments = stage.open_arguments(&name);
    arguments.extend(["--no-attach", "--recycle-last-pod"].map(str::to_owned));
    arguments.extend(more.iter().copied().map(str::to_owned));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let session = person.json(&arguments).await?;
    Ok(Opened {
        session,
        pod: name,
        uid,
    })
}

/// Types the script and checks everything; `progress` is told each step.
pub async fn smoke(stage: &Stage, progress: impl Fn(&str)) -> Result<Seen, StageError> {
    let person = stage.person("alice").await?;
    progress("opening a session");
    let opened = open(stage, &person).await?;
    let mut seen = Seen {
        session: opened.id().to_owned(),
        ..Seen::default()
    };
    seen.grant_existed = grant_is_right(stage, &opened).await?;
    seen.container_hardened = container_is_hardened(stage, &opened).await?;
    progress("typing into its terminal");
    let printed = type_script(&person, opened.id(), SCRIPT).await?;
    seen.text_came_back = printed.contains(PRINTED);
    progress("waiting for its end to be complete (the pod is replaced)");
    let row = ended(&person, opened.id()).await?;
    seen.end_reason = row["endReason"].as_str().unwrap_or_default().to_owned();
    check_recording(stage, &person, &row, &mut seen).await?;
    check_nothing_left(stage, &opened, &mut seen).await?;
    Ok(seen)
}

/// Attaches with the command line, types, and reads to the end.
pub async fn type_script(person: &Person, id: &str, script: &str) -> Result<String, StageError> {
    let failed = |error: std::io::Error| StageError::of("the terminal", error);
    let mut command = person.command(&["session", "attach", id])?;
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().map_err(failed)?;
    let mut stdin = child
        .stdin
        .take()
        .ok_or_else(|| StageError::new("no stdin"))?;
    stdin.write_all(script.as_bytes()).await.map_err(failed)?;
    let mut stdout = child
        .stdout
        .take()
        .ok_or_else(|| StageError::new("no stdout"))?;
    let mut printed = Vec::new();
    tokio::time::timeout(Duration::from_secs(60), stdout.read_to_end(&mut printed))
        .await
        .map_err(|_| StageError::new("the terminal did not end within 60 s"))?
        .map_err(failed)?;
    drop(stdin);
    let _ = child.wait().await;
    Ok(String::from_utf8_lossy(&printed).into_owned())
}

/// The row once its end is complete: the recording is saved and the pod's part is settled.
pub async fn ended(person: &Person, id: &str) -> Result<Value, StageError> {
    until(
        "the end of the session",
        Duration::from_secs(120),
        || async {
            let shown = person.json(&["session", "show", id]).await.ok()?;
            let row = shown["session"].clone();
            (row["state"] == "ended" && !row["recycled"].is_null()).then_some(row)
        },
    )
    .await
}

/// Compares download, row and file; the recording's text.
pub(crate) async fn check_recording(
    stage: &Stage,
    person: &Person,
    row: &Value,
    seen: &mut Seen,
) -> Result<String, StageError> {
    let key = row["recordingKey"].as_str().unwrap_or_default();
    let version = row["recordingVersion"].as_str().unwrap_or_default();
    let row_hash = row["recordingSha256"].as_str().unwrap_or_default();
    seen.sha256 = row_hash.to_owned();
    let stored = find_version(&stage.sidecar.settings().recordings().join(key), version);
    let file_hash = stored
        .as_ref()
        .and_then(|path| std::fs::read(path).ok())
        .map(|b| hex(&b));
    seen.recording = stored
        .map(|path| path.display().to_string())
        .unwrap_or_default();
    let output = person
        .run(&["recording", "get", &seen.session, "--out", "-"])
        .await?;
    let text = String::from_utf8_lossy(&output.stdout);
    seen.recording_holds_text = text.contains(PRINTED);
    seen.recording_agrees = output.status.success()
        && hex(&output.stdout) == row_hash
        && file_hash.as_deref() == Some(row_hash);
    Ok(text.into_owned())
}

/// The file of one version under a recording's folder.
fn find_version(folder: &std::path::Path, version: &str) -> Option<std::path::PathBuf> {
    let files = std::fs::read_dir(folder).ok()?;
    files
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .find(|path| path.file_name().is_some_and(|name| name == version))
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

async fn check_nothing_left(
    stage: &Stage,
    opened: &Opened,
    seen: &mut Seen,
) -> Result<(), StageError> {
    let witness = &stage.place.witness;
    let namespace = &stage.place.target.namespace;
    let name = format!("tower-breakglass-{}", opened.id());
    seen.grant_gone = witness.role_binding(namespace, &name).await?.is_none();
    let same = witness.pod(namespace, &opened.pod).await?;
    let uid_gone = same.is_none_or(|pod| pod.metadata.uid.as_deref() != Some(&opened.uid));
    seen.shell_gone = match &stage.place.standin {
        Some(standin) => standin.processes().is_empty(),
        None => uid_gone, // the kubelet removes a pod only after its containers are gone
    };
    let replaced = until("a new ready pod", Duration::from_secs(60), || async {
        let ready = witness.ready_pods(namespace).await.ok()?;
        ready
            .iter()
            .any(|pod| pod.metadata.uid.as_deref() != Some(&opened.uid))
            .then_some(())
    });
    seen.pod_replaced = uid_gone && replaced.await.is_ok();
    seen.nothing_labelled = witness.labelled().await? == 0;
    Ok(())
}
