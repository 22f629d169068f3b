//! One whole session through a real Backstage, step by step (the same on the stand-in and on a
//! real cluster).

use crate::StageError;
use crate::browser::Tab;
use crate::processes::until;
use crate::sidecar::SidecarProcess;
use crate::smoke::{self, Opened};
use crate::stage::Stage;
use serde_json::Value;
use std::time::Duration;

/// What a command of the debug shell looks like among this machine's processes; the stand-in and
/// the one-node cluster run theirs here.
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
        smoke::grant_is_right(stage, &opened).await?,
        "the grant is that of C-7"
    );
    assert!(
        smoke::container_is_hardened(stage, &opened).await?,
        "the container is that of C-11"
    );

    let mut tab = Tab::connect(&alice, opened.id()).await.map_err(refused)?;
    the_prompt_comes_with_the_right_size(&mut tab).await?;
    bytes_are_what_the_shell_wrote(&mut tab).await?;
    keys_get_through_a_flood(&mut tab).await?;
    tab.ask("echo before-$((1 + 1))", "before-2").await?;

    let mut second = Tab::connect(&alice, opened.id()).await.map_err(refused)?;
    let detached = tab.told("detached").await?;
    assert_eq!(detached["reason"], "opened in another tab", "T-4");
    second.shows("before-2").await?; // T-9: the screen is not empty
    second.ask("echo after-$((1 + 2))", "after-3").await?;
    drop(second);

    let row = alice.json(&["session", "end", opened.id()]).await?;
    assert_eq!(row["state"], "ended");
    let row = smoke::ended(&alice, opened.id()).await?;
    assert_eq!(row["endReason"], "ended by user");
    assert_eq!(row["recycled"], true);
    nothing_is_left(stage, &opened).await?;
    the_recording_holds(stage, &row, &["before-2", "after-3", "43 132", "é"]).await
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
    stage.sidecar = SidecarProcess::start(&settings).await?;
    let row = smoke::ended(&alice, opened.id()).await?;
    assert_eq!(row["endReason"], "backend restarted during the session");
    nothing_is_left(stage, &opened).await?;
    the_recording_holds(stage, &row, &["spooled-5"]).await
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

/// T-14: a shell that floods, a browser that does not read, and Ctrl-C.
async fn keys_get_through_a_flood(tab: &mut Tab) -> Result<(), StageError> {
    let word = format!("flood-{:08x}", rand::random::<u32>());
    tab.forget();
    tab.type_in(&format!("yes {word}\r")).await?;
    tab.shows(&format!("{word}\r\n{word}\r\n{word}\r\n"))
        .await?;
    let visible = processes_with(&word) > 0;
    // Nothing is read from here on: every buffer on the way fills up.
    tab.type_in("\u{3}").await?;
    if visible {
        let stopped = || async { (processes_with(&word) == 0).then_some(()) };
        until("the flood's end", Duration::from_secs(10), stopped).await?;
    }
    tab.ask("echo still-$((3 + 1))", "still-4").await?;
    Ok(())
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
    assert_eq!(processes_with(&format!("breakglass-{}", opened.id())), 0);
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

/// The recording is what the row says it is, and holds what was seen.
pub async fn the_recording_holds(
    stage: &Stage,
    row: &Value,
    texts: &[&str],
) -> Result<(), StageError> {
    let alice = stage.person("alice").await?;
    let id = row["id"].as_str().unwrap_or_default();
    let output = alice.run(&["recording", "get", id, "--out", "-"]).await?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "the download agrees with the row's hash: {said}"
    );
    let cast = String::from_utf8_lossy(&output.stdout);
    for text in texts {
        assert!(cast.contains(text), "the recording holds `{text}`");
    }
    for (number, line) in cast.lines().enumerate() {
        let parsed: Result<Value, _> = serde_json::from_str(line);
        assert!(parsed.is_ok(), "line {number} of the recording is JSON");
    }
    Ok(())
}
