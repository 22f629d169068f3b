//! Postgres, the recordings' folder and the spool that are away, and a sidecar that stops
//! (D-3, D-5, R-6, R-18, O-6).

use crate::stand::{Plan, SOON, Stand};
use breakglass_tests::sidecar::{call, get};
use serde_json::Value;
use standin::Options;
use std::path::{Path, PathBuf};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

fn notes(row: &Value) -> String {
    row["cleanup_notes"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_database_that_is_away_refuses_requests_and_keeps_terminals_and_deadlines() {
    let mut stand = Plan::new().own_postgres().start().await;
    let open = stand.open().await;
    let mut terminal = stand.attach(&open.id).await;
    terminal.echo().await;
    let body = stand.request();
    stand.own_postgres().stop().await.expect("Postgres stops");

    let asked = tokio::time::Instant::now();
    let show = format!("/v1/sessions/{}", open.id);
    for (method, path, body) in [
        ("POST", "/v1/sessions", Some(&body)),
        ("GET", show.as_str(), None),
        ("GET", "/v1/sessions?app=shop&env=dev", None),
        ("POST", &format!("{show}/end"), None),
    ] {
        let (status, answer) = stand.as_user(crate::stand::ALICE, method, path, body).await;
        assert_eq!(status, 503, "{method} {path}: {answer}");
        assert_eq!(
            answer["error"]["name"], "ServiceUnavailableError",
            "{answer}"
        );
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        let not_done = match (method, path.ends_with("/end")) {
            ("POST", false) => "; no session was opened",
            // Nobody knows whether the statement arrived.
            ("POST", true) => "; whether the session was ended is not known",
            (_, _) => "",
        };
        assert!(message.ends_with(not_done), "{method} {path}: {answer}");
    }
    assert!(
        asked.elapsed() < 4 * Duration::from_secs(10),
        "{:?}",
        asked.elapsed()
    );
    let (status, _) = get(&stand.socket(), "/healthz").await.expect("an answer");
    assert_eq!(status, 200, "alive");
    let (status, readiness) = get(&stand.socket(), "/readyz").await.expect("an answer");
    assert_eq!(status, 503, "and not ready: {readiness}");

    // Minutes pass; the terminal goes on.
    for _ in 0..2 {
        stand.sidecar.clock.advance(7 * MINUTE);
        terminal.echo().await;
    }
    assert!(terminal.frames("detached").is_empty());
    stand.sidecar.clock.advance(2 * MINUTE);
    assert_eq!(terminal.until_ended().await, "expired");
    stand
        .until("the grant's removal", || stand.grants().is_empty())
        .await;
    stand
        .until("the pod's replacement", || !stand.has_pod(&open.uid))
        .await;
    stand
        .until("the end of every process", || {
            stand.standin.processes().is_empty()
        })
        .await;

    stand
        .own_postgres()
        .start_again()
        .await
        .expect("Postgres starts");
    stand.sweep().await;
    let row = stand.ended(&open.id).await;
    assert_eq!(row["end_reason"], "expired");
    assert_eq!(row["recycled"], true, "{row:#}");
    assert!(row["cleanup_notes"].is_null(), "{row:#}");
    assert!(stand.recording(&row).contains("ended: expired"));
    stand.assert_nothing_is_left().await;
    let next = stand.open().await;
    stand.end(&next.id).await;
    stand.ended(&next.id).await;
}

#[tokio::test]
async fn a_database_that_restarts_ends_nothing() {
    let mut stand = Plan::new().own_postgres().start().await;
    let open = stand.open().await;
    let mut terminal = stand.attach(&open.id).await;
    terminal.echo().await;
    stand.own_postgres().stop().await.expect("Postgres stops");
    stand.sidecar.clock.advance(MINUTE);
    terminal.echo().await;
    stand
        .own_postgres()
        .start_again()
        .await
        .expect("Postgres starts");
    stand.sweep().await;
    stand.sweep().await;
    terminal.echo().await;
    assert_eq!(stand.row(&open.id).await["state"], "active");
    assert_eq!(stand.end(&open.id).await.0, 200);
    assert_eq!(stand.ended(&open.id).await["end_reason"], "ended by user");
    stand.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_database_that_is_away_just_when_an_end_is_done_learns_of_it_later() {
    let options = Options::default().budget(crate::stand::NAMESPACE, "shop", 0);
    let plan = Plan::on(options).change(|config| config.timeouts.recycle = 600);
    let mut stand = plan.own_postgres().start().await;
    let open = stand.open().await;
    let reads = |stand: &Stand| {
        let requests = stand.standin.requests();
        let budgets = |r: &&standin::LoggedRequest| r.path.contains("/poddisruptionbudgets");
        requests.iter().filter(budgets).count()
    };
    // The row has ended, and the end waits for the budget.
    let (socket, path) = (stand.socket(), format!("/v1/sessions/{}/end", open.id));
    let alice = crate::stand::caller(crate::stand::ALICE, "shop");
    let ending =
        tokio::spawn(async move { call(&socket, "POST", &path, Some(&alice), None).await });
    stand
        .until("a look at the budget", || reads(&stand) >= 1)
        .await;
    stand.own_postgres().stop().await.expect("Postgres stops");
    stand.standin.set_budget(crate::stand::NAMESPACE, "shop", 1);
    stand
        .until("the pod's end", || !stand.has_pod(&open.uid))
        .await;
    stand
        .until("the grant's end", || stand.grants().is_empty())
        .await;
    let (status, answer) = ending.await.expect("asked").expect("an answer");
    assert_eq!(status, 503, "{answer}");

    stand
        .own_postgres()
        .start_again()
        .await
        .expect("Postgres starts");
    stand.sweep().await;
    let row = stand
        .row_when(&open.id, "the outcome", |row| !row["recycled"].is_null())
        .await;
    assert_eq!(row["recycled"], true, "{row:#}");
    assert!(row["cleanup_notes"].is_null(), "{row:#}");
    assert!(stand.recording(&row).contains("ended: ended by user"));
    stand
        .until("the spool's end", || stand.spools().is_empty())
        .await;
    stand.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_recording_is_saved_again_only_once_the_lease_can_be_renewed() {
    let mut stand = Plan::new().own_postgres().start().await;
    let open = stand.open().await;
    let mut terminal = stand.attach(&open.id).await;
    terminal.echo().await;
    stand.pass(Duration::from_secs(11)).await;
    stand
        .until("a checkpoint", || checkpoints(&stand, &open.id) >= 2)
        .await;
    stand.own_postgres().stop().await.expect("Postgres stops");
    // Longer than the lease: it could be another's by now.
    stand.sidecar.clock.advance(Duration::from_secs(21));
    let mut shown = terminal.echo().await;
    let before = checkpoints(&stand, &open.id);
    for _ in 0..6 {
        stand.sidecar.clock.advance(Duration::from_secs(11));
        shown = terminal.echo().await;
    }
    assert_eq!(checkpoints(&stand, &open.id), before, "no checkpoint");
    let spool = std::fs::read_to_string(spool_of(&stand, &open.id)).expect("the spool");
    assert!(spool.contains(&shown), "and the spool goes on");

    stand
        .own_postgres()
        .start_again()
        .await
        .expect("Postgres starts");
    // Renewed with the first, saved after the second.
    stand.pass(Duration::from_secs(11)).await;
    stand.pass(Duration::from_secs(11)).await;
    stand
        .until("a checkpoint", || checkpoints(&stand, &open.id) > before)
        .await;
    stand.end(&open.id).await;
    let row = stand.ended(&open.id).await;
    assert!(stand.recording(&row).contains(&shown));
}

/// A folder that cannot be used: a file has its name. (Permissions do not stop root.)
struct Broken {
    folder: PathBuf,
    aside: PathBuf,
}

fn break_folder(folder: &Path) -> Broken {
    let aside = folder.with_extension("aside");
    if folder.exists() {
        std::fs::rename(folder, &aside).expect("moved aside");
    }
    std::fs::write(folder, "not a folder").expect("a file in its place");
    Broken {
        folder: folder.to_owned(),
        aside,
    }
}

impl Broken {
    fn mend(self) {
        std::fs::remove_file(&self.folder).expect("the file is gone");
        if self.aside.exists() {
            std::fs::rename(&self.aside, &self.folder).expect("moved back");
        }
    }
}

#[tokio::test]
async fn without_recordings_no_session_opens_and_no_cluster_is_touched() {
    let stand = Plan::new().start().await;
    let writes = || {
        let requests = stand.standin.requests();
        requests
            .iter()
            .filter(|r| ["create", "patch", "delete"].contains(&r.verb.as_str()))
            .filter(|r| !r.path.contains("selfsubjectreviews"))
            .count()
    };
    for folder in [stand.settings.recordings(), stand.settings.spool()] {
        let what = folder.display().to_string();
        let broken = break_folder(&folder);
        let (status, answer) = stand.post("/v1/sessions", Some(&stand.request())).await;
        assert_eq!(status, 503, "{what}: {answer}");
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(
            message.starts_with("recordings are unavailable")
                && message.ends_with("; no session was opened"),
            "{what}: {answer}"
        );
        assert_eq!(writes(), 0, "{what}");
        assert!(stand.rows().await.is_empty(), "{what}: nothing is stored");
        broken.mend();
        stand.assert_nothing_is_left().await;
        assert_eq!(writes(), 0, "{what}");
    }
    let open = stand.open().await;
    stand.end(&open.id).await;
    stand.ended(&open.id).await;
}

#[tokio::test]
async fn c_6_a_header_that_cannot_be_saved_once_the_row_is_there_ends_it_untouched() {
    let stand = Plan::new().start().await;
    // The store can be written, as was asked before the row; this app's folder cannot.
    let folder = stand.settings.recordings().join("shop");
    std::fs::create_dir_all(&folder).expect("the folder");
    let broken = break_folder(&folder);
    let before = stand.standin.requests().len();
    let (status, answer) = stand.post("/v1/sessions", Some(&stand.request())).await;
    assert_eq!(status, 503, "{answer}");
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(
        message.starts_with("recordings are unavailable"),
        "{answer}"
    );
    let rows = stand.rows().await;
    assert_eq!(rows.len(), 1, "{rows:#?}");
    let row = stand.ended(rows[0]["id"].as_str().expect("an id")).await;
    let reason = row["end_reason"].as_str().unwrap_or_default();
    assert!(
        reason.starts_with("failed to start: recordings are unavailable"),
        "{reason}"
    );
    assert!(row["role_binding"].is_null() && row["debug_container"].is_null());
    let since = stand.standin.requests().split_off(before);
    let reads = ["get", "list", "watch"];
    assert!(
        since.iter().all(|r| reads.contains(&r.verb.as_str())),
        "nothing reached the cluster: {since:#?}"
    );
    stand.assert_nothing_is_left().await;
    broken.mend();
    let open = stand.open().await;
    stand.end(&open.id).await;
    stand.ended(&open.id).await;
}

#[tokio::test]
async fn qr10_a_spool_that_cannot_be_written_ends_the_session_at_once() {
    let stand = Plan::new().start().await;
    let open = stand.open().await;
    let other = stand.open().await;
    let mut terminal = stand.attach(&open.id).await;
    let shown = terminal.echo().await;
    // What was written so far is saved, so that the row has something to show.
    stand.pass(Duration::from_secs(11)).await;
    stand
        .until("a checkpoint", || checkpoints(&stand, &open.id) >= 2)
        .await;
    let spool = spool_of(&stand, &open.id);
    std::fs::remove_file(&spool).expect("the spool is gone");
    terminal.type_in("echo nobody-$((1 + 1))-sees-this\n").await;
    assert_eq!(
        terminal.until_ended().await,
        "recording could not be written"
    );
    terminal.until_closed().await;
    assert!(!terminal.output().contains("nobody-2-sees-this"));
    let row = stand.ended(&open.id).await;
    assert_eq!(row["end_reason"], "recording could not be written");
    assert!(
        stand.recording(&row).contains(&shown),
        "the last checkpoint is kept"
    );
    assert_eq!(
        stand.row(&other.id).await["state"],
        "active",
        "others go on"
    );
    stand.attach(&other.id).await.echo().await;
    stand.end(&other.id).await;
    stand.ended(&other.id).await;
    stand.assert_nothing_is_left().await;
}

fn spool_of(stand: &Stand, id: &str) -> PathBuf {
    let spools = stand.spools();
    let named = |path: &&PathBuf| path.to_string_lossy().contains(id);
    spools
        .iter()
        .find(named)
        .unwrap_or_else(|| panic!("no spool of {id}: {spools:?}"))
        .clone()
}

fn checkpoints(stand: &Stand, id: &str) -> usize {
    let folder = stand
        .settings
        .recordings()
        .join(format!("shop/dev/{id}.cast"));
    let Ok(entries) = std::fs::read_dir(folder) else {
        return 0;
    };
    let is_version = |name: String| name.len() == 10 && name.bytes().all(|b| b.is_ascii_digit());
    entries
        .flatten()
        .filter(|e| is_version(e.file_name().to_string_lossy().into_owned()))
        .count()
}

#[tokio::test]
async fn a_store_that_is_away_at_the_end_gets_the_recording_from_a_later_sweep() {
    let stand = Plan::new().start().await;
    let open = stand.open().await;
    let mut terminal = stand.attach(&open.id).await;
    let shown = terminal.echo().await;
    let broken = break_folder(&stand.settings.recordings());
    terminal.echo().await;
    assert_eq!(stand.end(&open.id).await.0, 200);
    let row = stand.ended(&open.id).await;
    assert_eq!(row["end_reason"], "ended by user");
    assert!(notes(&row).starts_with("recording not saved"), "{row:#}");
    assert_eq!(row["recycled"], true, "the cluster's part is done");
    assert!(spool_of(&stand, &open.id).exists());
    stand.assert_nothing_is_left().await;

    broken.mend();
    stand.sweep().await;
    let row = stand
        .row_when(&open.id, "the save", |row| row["cleanup_notes"].is_null())
        .await;
    let recording = stand.recording(&row);
    assert!(
        recording.contains(&shown) && recording.contains("ended by user"),
        "{recording}"
    );
    stand
        .until("the spool's end", || stand.spools().is_empty())
        .await;
    let caller = crate::stand::caller(crate::stand::ALICE, "shop");
    let path = format!("/v1/sessions/{}/recording", open.id);
    let socket = stand.socket();
    let read = call(&socket, "GET", &path, Some(&caller), None).await;
    let (status, body) = read.expect("an answer");
    assert_eq!(status, 200);
    assert_eq!(body.as_str().expect("a cast"), recording);
}

#[tokio::test]
async fn a_sidecar_that_stops_tells_its_terminals_keeps_its_spools_and_gives_the_lease_back() {
    let stand = Plan::new().start().await;
    let open = stand.open().await;
    let mut terminal = stand.attach(&open.id).await;
    let shown = terminal.echo().await;
    let began = tokio::time::Instant::now();
    stand.sidecar.app.shut_down("the backend restarts").await;
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    let told = terminal.until_frame("detached").await;
    assert_eq!(told["reason"], "the backend restarts");
    terminal.until_closed().await;
    assert!(
        terminal.frames("ended").is_empty(),
        "the session is not over"
    );

    assert_eq!(stand.row(&open.id).await["state"], "active");
    let spool = std::fs::read_to_string(spool_of(&stand, &open.id)).expect("the spool");
    assert!(spool.contains(&shown));
    assert!(
        checkpoints(&stand, &open.id) >= 2,
        "what was recorded is saved"
    );
    assert_eq!(stand.grants().len(), 1, "no effect on the cluster");
    assert!(!stand.standin.processes().is_empty());
    let free = "SELECT expires_at < now() FROM breakglass_owner";
    let row = stand
        .sql()
        .await
        .query_one(free, &[])
        .await
        .expect("the lease");
    assert!(row.get::<_, bool>(0), "another sidecar need not wait");
    stand
        .until("the socket's end", || !stand.socket().exists())
        .await;
    assert!(began.elapsed() < SOON);
}

#[tokio::test]
async fn a_second_sidecar_stands_by_and_takes_over_when_the_first_stops() {
    let stand = Plan::new().start().await;
    let open = stand.open().await;
    let second = stand.start_second().await;
    let (status, readiness) = get(&second.socket(), "/readyz").await.expect("an answer");
    assert_eq!(status, 503, "{readiness}");
    assert!(readiness.to_string().contains("stands by"), "{readiness}");
    let caller = crate::stand::caller(crate::stand::ALICE, "shop");
    let body = stand.request();
    let socket = second.socket();
    let refused = call(&socket, "POST", "/v1/sessions", Some(&caller), Some(&body)).await;
    assert_eq!(refused.expect("an answer").0, 503);
    stand.sidecar.app.shut_down("the backend restarts").await;
    second.until_ready().await;
    // What it finds active and cannot go on with, it ends and cleans up.
    let row = stand
        .row_when(&open.id, "the end", |row| row["state"] == "ended")
        .await;
    assert_eq!(row["end_reason"], "backend restarted during the session");
    stand
        .until("the grant's removal", || stand.grants().is_empty())
        .await;
    stand
        .until("the pod's replacement", || !stand.has_pod(&open.uid))
        .await;
}
