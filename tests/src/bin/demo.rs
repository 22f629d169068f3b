//! `cargo xtask demo`: all of it on embedded parts, or on a real cluster by a kubeconfig context.
//!
//! The last line on stdout is JSON; exit 0 when every promise was kept. Progress goes to stderr.

use breakglass_tests::processes::told_to_end;
use breakglass_tests::smoke::{self, Opened, Seen};
use breakglass_tests::stage::{Place, Stage, Target};
use breakglass_tests::{StageError, root};
use clap::Parser;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

#[derive(Parser)]
struct Options {
    /// A context of your kubeconfig, instead of the stand-in
    #[arg(long)]
    context: Option<String>,
    /// The kubeconfig; default: the files that KUBECONFIG names, else ~/.kube/config
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// A kubeconfig that the sidecar uses, if its rights shall not be the context's
    #[arg(long)]
    sidecar_kubeconfig: Option<PathBuf>,
    /// With --context: the namespace, labelled hangar.io/app=shop and hangar.io/env=dev
    #[arg(long, default_value = "shop")]
    namespace: String,
    /// With --context: the app's container
    #[arg(long, default_value = "app")]
    container: String,
    /// With --context: the debug image by digest
    #[arg(long)]
    debug_image: Option<String>,
    /// Types a fixed script instead of asking a person
    #[arg(long)]
    smoke: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let _ = rustls::crypto::ring::default_provider().install_default();
    match run(Options::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("demo: {error}"));
            answer(&serde_json::json!({"ok": false, "error": error.to_string()}));
            ExitCode::FAILURE
        }
    }
}

/// Whenever it is told to end, nothing of it stays behind.
async fn run(options: Options) -> Result<bool, StageError> {
    let mut told = std::pin::pin!(told_to_end());
    let over = |told: Result<(), StageError>| match told {
        Ok(()) => StageError::new("it was told to end"),
        Err(error) => error,
    };
    let stage = tokio::select! {
        stage = start(&options) => stage?,
        told = &mut told => return Err(over(told)),
    };
    tokio::select! {
        ran = show(&options, &stage) => ran,
        told = &mut told => {
            end_what_is_open(&stage).await?;
            Err(over(told))
        }
    }
}

async fn start(options: &Options) -> Result<Stage, StageError> {
    let dir = root().join(".breakglass/demo");
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir)
        .map_err(|error| StageError::of("the demo's folder cannot be made", error))?;
    say("starting the cluster");
    let place = place(options, &dir).await?;
    Stage::start_kept(&dir, place, |what| say(&format!("starting {what}"))).await
}

async fn show(options: &Options, stage: &Stage) -> Result<bool, StageError> {
    if !options.smoke {
        return by_hand(stage).await;
    }
    let seen = smoke::smoke(stage, say).await?;
    let ok = seen.holds();
    answer(&serde_json::json!({"ok": ok, "seen": seen}));
    Ok(ok)
}

/// Without its sidecar nobody ends a session: its grant and its container would stay.
async fn end_what_is_open(stage: &Stage) -> Result<(), StageError> {
    let person = stage.person("alice").await?;
    let Target { app, env, .. } = &stage.place.target;
    let list = ["session", "list", "--app", app, "--env", env];
    let listed = person.json(&list).await?;
    let sessions = listed["sessions"].as_array().into_iter().flatten();
    let open = sessions.filter(|session| session["state"] != "ended");
    for id in open.filter_map(|session| session["id"].as_str()) {
        say(&format!("ending the session {id}"));
        person.json(&["session", "end", id]).await?;
        smoke::ended(&person, id).await?;
    }
    Ok(())
}

async fn place(options: &Options, dir: &Path) -> Result<Place, StageError> {
    let Some(context) = &options.context else {
        return Place::standin(dir, standin::Options::default()).await;
    };
    let debug_image = options.debug_image.clone().ok_or_else(|| {
        StageError::new("--context needs --debug-image: an image with a shell, by digest")
    })?;
    let own = (options.kubeconfig.as_deref(), Some(context.as_str()));
    let sidecar = match &options.sidecar_kubeconfig {
        Some(path) => (Some(path.as_path()), None),
        None => own,
    };
    let target = Target {
        app: "shop".to_owned(),
        env: "dev".to_owned(),
        cluster: "demo".to_owned(),
        namespace: options.namespace.clone(),
        container: options.container.clone(),
    };
    Place::cluster(sidecar, own, target, debug_image).await
}

/// Puts a person into the terminal, and says afterwards what happened.
async fn by_hand(stage: &Stage) -> Result<bool, StageError> {
    let person = stage.person("alice").await?;
    say("opening a session as alice; type `exit` to end it");
    let opened = smoke::open(stage, &person).await?;
    let existed = breakglass_tests::promises::grant_is_right(stage, &opened).await?;
    let status = person
        .command(&["session", "attach", opened.id()])?
        .status()
        .await
        .map_err(|error| StageError::of("the terminal", error))?;
    if !status.success() {
        say("the terminal was left with an error; ending the session");
    }
    let shown = person.json(&["session", "show", opened.id()]).await?;
    if shown["session"]["state"] != "ended" {
        person.json(&["session", "end", opened.id()]).await?;
    }
    say("waiting until the pod is replaced and the recording is saved");
    let row = tokio::time::timeout(Duration::from_secs(150), smoke::ended(&person, opened.id()))
        .await
        .map_err(|_| StageError::new("the end is not complete"))??;
    report(stage, &person, &opened, &row, existed).await
}

async fn report(
    stage: &Stage,
    person: &breakglass_tests::cli::Person,
    opened: &Opened,
    row: &serde_json::Value,
    existed: bool,
) -> Result<bool, StageError> {
    let id = opened.id();
    let grant = format!("tower-breakglass-{id}");
    let namespace = &stage.place.target.namespace;
    let gone = stage
        .place
        .witness
        .role_binding(namespace, &grant)
        .await?
        .is_none();
    let cast = stage.dir().join(format!("{id}.cast"));
    let out = cast.display().to_string();
    let got = person.run(&["recording", "get", id, "--out", &out]).await?;
    let binary = breakglass_tests::cli::binary()?;
    say(&format!(
        "\nsession    {id}, {}\ngrant      {grant}: made {}, gone {}\nrecording  {out}\n           \
         sha256 {}\nreplay it  {} recording play {out}\n",
        row["endReason"].as_str().unwrap_or_default(),
        yes(existed),
        yes(gone),
        row["recordingSha256"].as_str().unwrap_or_default(),
        binary.display(),
    ));
    let ok = existed && gone && got.status.success();
    let seen = Seen {
        session: id.to_owned(),
        grant_existed: existed,
        grant_gone: gone,
        ..Seen::default()
    };
    answer(&serde_json::json!({"ok": ok, "session": seen.session, "recording": out}));
    Ok(ok)
}

fn yes(holds: bool) -> &'static str {
    if holds { "yes" } else { "NO" }
}

fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn answer(value: &serde_json::Value) {
    let _ = writeln!(std::io::stdout(), "{value}");
}
