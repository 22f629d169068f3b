//! One whole session through a real Backstage, step by step (the same on the stand-in and on a
//! real cluster).

use crate::StageError;
use crate::browser::Tab;
use crate::processes::until;
use crate::promises::{container_is_hardened, grant_is_right};
use crate::sidecar::SidecarProcess;
use crate::smoke::{self, Opened, Seen};
use crate::stage::Stage;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;

/// How many processes have this word in their command; the stand-in and the one-node cluster run
/// theirs on this machine. A busybox shell runs `yes` and `sleep` without a command of their own:
/// by `sh -c` they have one.
pub fn processes_with(word: &str) -> usize {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return 0;
    };
    entries
        .filter_map(Result::ok)
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .filter(|command| {
            command
                .split(|byte| *byte == 0)
                .any(|part| part == word.as_bytes())
        })
        .count()
}

/// Everything that must hold of one session, from its request to its end; panics where it does not.
pub async fn whole_session(stage: &Stage) -> Result<(), StageError> {
    let alice = stage.person("alice").await?;
    let opened = smoke::open(stage, &alice).await?;
    assert_eq!(opened.session["state"], "active");
    assert!(
        grant_is_right(stage, &opened).await?,
        "the grant is that of C-7"
    );
    assert!(
        container_is_hardened(stage, &opened).await?,
        "the container is that of C-11"
    );

    let mut tab = Tab::connect(&alice, opened.id()).await.map_err(refused)?;
    the_prompt_comes_with_the_right_size(&mut tab).await?;
    bytes_are_what_the_shell_wrote(&mut tab).await?;
    keys_get_through_a_flood(stage, &mut tab).await?;
    let left_running = a_child_that_stays(&mut tab).await?;
    tab.ask("echo before-$((1 + 1))", "before-2").await?;

    let mut second = Tab::connect(&alice, opened.id()).await.map_err(refused)?;
    let detached = tab.told("detached").await?;
    assert_eq!(detached["reason"], "opened in another tab", "T-4");
    second.shows("before-2").await?; // T-9: the screen is not empty
    second.ask("echo after-$((1 + 2))", "after-3").await?;
    drop(second);
    let mut again = Tab::connect(&alice, opened.id()).await.map_err(refused)?;
    again.shows("after-3").await?;
    again.ask("echo again-$((2 + 2))", "again-4").await?;
    drop(again);

    let row = alice.json(&["session", "end", opened.id()]).await?;
    assert_eq!(row["state"], "ended");
    let row = smoke::ended(&alice, opened.id()).await?;
    assert_eq!(row["endReason"], "ended by user");
    assert_eq!(row["recycled"], true);
    the_row_is_complete(&row, &opened);
    nothing_is_left(stage, &opened).await?;
    assert_eq!(
        processes_with(&left_running),
        0,
        "the shell's child is gone"
    );
    let texts = [
        "before-2",
        "after-3",
        "again-4",
        "43 132",
        "é",
        "\"m\", \"ended: ended by user\"",
    ];
    the_recording_holds(stage, &row, &texts).await.map(drop)
}

/// A session that sees the app's processes and volumes, a Secret among them (C-5, C-8, C-13): on a
/// cluster whose app has one at `/shop`.
pub async fn sees_processes_and_volumes(stage: &Stage) -> Result<(), StageError> {
    let alice = stage.person("alice").await?;
    let asked = ["--process-access", "--volume-access"];
    let opened = smoke::open_with(stage, &alice, &asked).await?;
    assert!(container_is_hardened(stage, &opened).await?);
    let namespace = &stage.place.target.namespace;
    let pod = stage.place.witness.pod(namespace, &opened.pod).await?;
    let marks = pod
        .and_then(|pod| pod.metadata.annotations)
        .unwrap_or_default();
    let mark = marks.get("hangar.io/breakglass-process-access");
    assert_eq!(mark.map(String::as_str), Some(opened.id()));

    let mut tab = Tab::connect(&alice, opened.id()).await.map_err(refused)?;
    tab.resize(80, 24).await?;
    tab.shows("$ ").await?;
    tab.ask("cat /shop/greeting", "hello-from-a-secret").await?;
    tab.ask("cat /proc/1/root/shop/greeting", "hello-from-a-secret")
        .await?;
    tab.ask("touch /shop/new || echo not-$((40 + 2))", "not-42")
        .await?;
    drop(tab);
    alice.json(&["session", "end", opened.id()]).await?;
    let row = smoke::ended(&alice, opened.id()).await?;
    assert_eq!(row["sensitive"], true, "{row:#}");
    assert_eq!(row["volumes"][0]["mountPath"], "/shop", "{row:#}");
    nothing_is_left(stage, &opened).await
}

/// What the row of a session that was used and cleaned up says.
fn the_row_is_complete(row: &Value, opened: &Opened) {
    for column in [
        "startedAt",
        "endedAt",
        "endedBy",
        "podImage",
        "podImageId",
        "recordingBucket",
        "recordingKey",
        "recordingVersion",
        "recordingSha256",
        "recordingBytes",
    ] {
        assert!(!row[column].is_null(), "`{column}` of {row:#}");
    }
    let id = opened.id();
    assert_eq!(row["roleBinding"], format!("tower-breakglass-{id}"));
    assert_eq!(row["debugContainer"], format!("debug-{id}"));
    assert!(row["cleanupNotes"].is_null(), "{row:#}");
}

/// `kill -9` of the sidecar in the middle of a session: after its restart the cluster is clean, the
/// row says why, and the recording holds all that was spooled.
pub async fn killed_in_the_middle(stage: &mut Stage) -> Result<(), StageError> {
    let alice = stage.person("alice").await?;
    let opened = smoke::open(stage, &alice).await?;
    let mut tab = Tab::connect(&alice, opened.id()).await.map_err(refused)?;
    tab.resize(80, 24).await?;
    tab.ask("echo spooled-$((2 + 3))", "spooled-5").await?;
    let settings = stage.sidecar.settings().clone();
    stage.sidecar.kill().await?;
    let spooled = only_spool(&settings.spool())?;
    stage.sidecar = SidecarProcess::start(&settings).await?;
    let row = smoke::ended(&alice, opened.id()).await?;
    assert_eq!(row["endReason"], "backend restarted during the session");
    nothing_is_left(stage, &opened).await?;
    let texts = [
        "spooled-5",
        "\"m\", \"gap: the backend restarted\"",
        "\"m\", \"ended: backend restarted during the session\"",
    ];
    let recording = the_recording_holds(stage, &row, &texts).await?;
    assert!(recording.starts_with(&spooled), "all that was spooled");
    Ok(())
}

/// The whole lines of the one recording in the spool.
fn only_spool(folder: &Path) -> Result<String, StageError> {
    let failed = |error: std::io::Error| StageError::of("the spool", error);
    let files = std::fs::read_dir(folder).map_err(failed)?;
    let mut spools = files
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|ends| ends == "spool"));
    let (Some(spool), None) = (spools.next(), spools.next()) else {
        return Err(StageError::new("there is not one spool"));
    };
    let text = String::from_utf8_lossy(&std::fs::read(spool).map_err(failed)?).into_owned();
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    Ok(text[..whole].to_owned())
}

fn refused(refused: crate::browser::Refused) -> StageError {
    StageError::new(format!("the terminal was refused: {refused:?}"))
}

/// qT1, qT28: the first size is there before the first prompt, and later ones reach an attach.
async fn the_prompt_comes_with_the_right_size(tab: &mut Tab) -> Result<(), StageError> {
    tab.resize(132, 43).await?;
    tab.shows("$ ").await?;
    tab.ask("stty size", "43 132").await?;
    tab.resize(100, 30).await?;
    tab.ask("stty size", "30 100").await?;
    tab.resize(132, 43).await?;
    Ok(())
}

/// 8-bit output as it is; a character cut in two arrives whole (qR31).
async fn bytes_are_what_the_shell_wrote(tab: &mut Tab) -> Result<(), StageError> {
    tab.forget();
    tab.type_in("printf '<\\303'; sleep 0.2; printf '\\251>\\n'\r")
        .await?;
    tab.shows("<é>").await?;
    tab.forget();
    tab.type_in("printf '[\\377]\\n'\r").await?;
    tab.shows_bytes(b"[\xff]").await
}

/// A child of the shell that ends with it and not before; the word it is known by.
async fn a_child_that_stays(tab: &mut Tab) -> Result<String, StageError> {
    let seconds = (100_000_000 + rand::random::<u32>() % 900_000_000).to_string();
    tab.ask(
        &format!("sh -c 'sleep \"$0\"' {seconds} & echo child-$((4 + 1))"),
        "child-5",
    )
    .await?;
    let runs = || async { (processes_with(&seconds) > 0).then_some(()) };
    until("the shell's child", Duration::from_secs(10), runs).await?;
    Ok(seconds)
}

/// T-14: a shell that floods, a browser that does not read, and Ctrl-C.
async fn keys_get_through_a_flood(stage: &Stage, tab: &mut Tab) -> Result<(), StageError> {
    let word = format!("flood-{:08x}", rand::random::<u32>());
    tab.forget();
    tab.type_in(&format!("sh -c 'yes \"$0\"' {word}\r")).await?;
    tab.shows(&format!("{word}\r\n{word}\r\n{word}\r\n"))
        .await?;
    assert!(processes_with(&word) > 0, "the flood runs on this machine");
    // Nothing is read from here on: every buffer on the way fills up, and nothing more is recorded.
    every_buffer_is_full(&stage.sidecar.settings().spool()).await?;
    assert!(processes_with(&word) > 0, "it waits");
    let typed = Instant::now();
    tab.type_in("\u{3}").await?;
    let stopped = || async { (processes_with(&word) == 0).then_some(()) };
    until("the flood's end", Duration::from_secs(10), stopped).await?;
    eprintln!("the flood ended {:?} after Ctrl-C", typed.elapsed());
    tab.ask("echo still-$((3 + 1))", "still-4").await?;
    Ok(())
}

/// Waits until the spools stand still for half a second.
async fn every_buffer_is_full(spools: &Path) -> Result<(), StageError> {
    let size = || -> u64 {
        let files = std::fs::read_dir(spools).into_iter().flatten();
        let sizes = files.filter_map(|entry| entry.ok()?.metadata().ok());
        sizes.map(|file| file.len()).sum()
    };
    let mut seen = (size(), Instant::now());
    until("the flood to be held back", Duration::from_secs(60), || {
        let now = size();
        if now != seen.0 {
            seen = (now, Instant::now());
        }
        let full = seen.1.elapsed() > Duration::from_millis(500);
        async move { full.then_some(()) }
    })
    .await
}

/// Shell, grant and pod are gone, another pod is ready, and nothing carries our labels.
pub async fn nothing_is_left(stage: &Stage, opened: &Opened) -> Result<(), StageError> {
    let witness = &stage.place.witness;
    let namespace = &stage.place.target.namespace;
    let grant = format!("tower-breakglass-{}", opened.id());
    assert!(
        witness.role_binding(namespace, &grant).await?.is_none(),
        "the grant is gone"
    );
    let same = witness.pod(namespace, &opened.pod).await?;
    let uid_is_gone =
        same.is_none_or(|pod| pod.metadata.uid.as_deref() != Some(opened.uid.as_str()));
    assert!(uid_is_gone, "the pod's old UID is gone");
    if let Some(standin) = &stage.place.standin {
        assert_eq!(standin.processes(), [0_u32; 0], "no debug shell runs");
    }
    until("a new ready pod", Duration::from_secs(60), || async {
        let ready = witness.ready_pods(namespace).await.ok()?;
        (!ready.is_empty()).then_some(())
    })
    .await?;
    assert_eq!(witness.labelled().await?, 0, "nothing carries our labels");
    Ok(())
}

/// Download, row and file are one recording, and it holds what was seen; its text.
pub async fn the_recording_holds(
    stage: &Stage,
    row: &Value,
    texts: &[&str],
) -> Result<String, StageError> {
    let alice = stage.person("alice").await?;
    let mut seen = Seen {
        session: row["id"].as_str().unwrap_or_default().to_owned(),
        ..Seen::default()
    };
    let cast = smoke::check_recording(stage, &alice, row, &mut seen).await?;
    assert!(seen.recording_agrees, "one hash: {seen:?}");
    assert_eq!(
        row["recordingBytes"].as_u64(),
        u64::try_from(cast.len()).ok()
    );
    for text in texts {
        assert!(cast.contains(text), "the recording holds `{text}`");
    }
    for (number, line) in cast.lines().enumerate() {
        let parsed: Result<Value, _> = serde_json::from_str(line);
        assert!(parsed.is_ok(), "line {number} of the recording is JSON");
    }
    Ok(cast)
}
