//! O-5: a whole run of the whole product, everything logging all that it can, and not one log has a
//! token, a password, a reason, a typed or a shown byte.

use breakglass_tests::StageError;
use breakglass_tests::browser::Tab;
use breakglass_tests::cli::Person;
use breakglass_tests::stage::{Place, Stage};
use breakglass_tests::{postgres, smoke};
use serde_json::json;
use std::path::Path;
use std::process::{Output, Stdio};
use tokio::io::AsyncWriteExt;

const TYPED: &str = "typedQ7f3kX9";
const PRINTED: &str = "printedQ7f3kX9";
/// That of [`Stage::open_arguments`].
const REASON: &str = "to see why it misbehaves";

/// The stand-in, reached with tokens that the sidecar mints with a token of its own.
async fn place(dir: &Path) -> Result<Place, StageError> {
    let mut place = Place::standin(dir, standin::Options::default()).await?;
    place.clusters = json!({ "demo": {
        "kubeconfig": {"path": dir.join("kubeconfig"), "context": "backend"},
        "serviceAccount": "tower/breakglass",
    }});
    Ok(place)
}

/// Runs the command line with all the logging that a variable could turn on.
async fn run(person: &Person, arguments: &[&str], typed: &str) -> Result<Output, StageError> {
    let failed = |error: std::io::Error| StageError::of("the command line", error);
    let mut command = person.command(arguments)?;
    command
        .env("RUST_LOG", "trace")
        .env("RUST_BACKTRACE", "full")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(typed.as_bytes()).await.map_err(failed)?;
    let output = child.wait_with_output().await.map_err(failed)?;
    drop(stdin);
    Ok(output)
}

/// Everything that a session's people do, by terminal and by browser; the session's id, and what
/// the command line said beside its answers.
async fn a_whole_run(stage: &Stage, people: [&Person; 3]) -> Result<(String, String), StageError> {
    let [alice, bob, nobody] = people;
    let ready = stage.place.witness.ready_pods("shop").await?;
    let pod = ready[0].metadata.name.clone().unwrap_or_default();
    let mut open = stage.open_arguments(&pod);
    open.extend(["--no-attach", "--json"].map(str::to_owned));
    let open: Vec<&str> = open.iter().map(String::as_str).collect();
    let opened = run(alice, &open, "").await?;
    let session: serde_json::Value = serde_json::from_slice(&opened.stdout).expect("a session");
    let id = session["id"].as_str().expect("an id").to_owned();

    let mut tab = Tab::connect(alice, &id).await.expect("a terminal");
    tab.resize(80, 24).await?;
    tab.ask(&format!("X={TYPED}; echo printed''Q7f3kX9"), PRINTED)
        .await?;
    for stranger in [bob, nobody] {
        assert!(Tab::connect(stranger, &id).await.is_err(), "refused");
    }
    let mut said = vec![opened];
    for (person, arguments, succeeds) in [
        (bob, ["session", "attach", &id], false),
        (nobody, ["session", "show", &id], false),
        (alice, ["session", "show", &id], true),
    ] {
        let output = run(person, &arguments, "").await?;
        assert_eq!(output.status.success(), succeeds, "{arguments:?}");
        said.push(output);
    }
    let script = format!("X={TYPED}; echo printed''Q7f3kX9; exit\n");
    let attached = run(alice, &["session", "attach", &id], &script).await?;
    assert!(String::from_utf8_lossy(&attached.stdout).contains(PRINTED));
    said.push(attached);
    smoke::ended(alice, &id).await?;
    let got = run(alice, &["recording", "get", &id, "--out", "-"], "").await?;
    assert!(String::from_utf8_lossy(&got.stdout).contains(TYPED));
    said.push(got);
    let said: String = said
        .iter()
        .map(|output| String::from_utf8_lossy(&output.stderr).into_owned())
        .collect();
    Ok((id, said))
}

/// The first line with this text.
fn line_with<'log>(log: &'log str, text: &str) -> Option<&'log str> {
    log.lines().find(|line| line.contains(text))
}

/// The first line with a JSON object in base64, as every token and the caller's header are.
fn line_with_an_encoded_object(log: &str) -> Option<&str> {
    let encoded = |word: &str| word.len() > 20 && word.starts_with("eyJ");
    let of_base64 = |c: char| c.is_ascii_alphanumeric() || "-_+/=".contains(c);
    log.lines()
        .find(|line| line.split(|c| !of_base64(c)).any(encoded))
}

#[tokio::test(flavor = "multi_thread")]
async fn no_log_of_a_whole_run_has_a_token_a_password_a_reason_or_a_terminals_bytes()
-> Result<(), StageError> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut stage = Stage::start_talkative(place).await?;
    let (alice, bob) = (stage.person("alice").await?, stage.person("bob").await?);
    let forged = Person {
        token: alice.token.replace('.', ".x"),
        ..alice.clone()
    };
    let (id, said) = a_whole_run(&stage, [&alice, &bob, &forged]).await?;
    stage.sidecar.stop().await?;

    let standin = stage.place.standin.as_ref().expect("it is one");
    let minted = |asked: &standin::LoggedRequest| asked.path.ends_with("/token");
    assert!(standin.requests().iter().any(minted), "tokens are minted");
    let mut secrets = vec![
        TYPED,
        PRINTED,
        "Q7f3kX9",
        REASON,
        postgres::PASSWORD,
        "minted-",
    ];
    secrets.extend(["Bearer ", &alice.token, &bob.token, &forged.token]);
    let tokens = ["breakglass", "backend", "admin"].map(|name| standin.token(name));
    secrets.extend(tokens.into_iter().flatten());
    // A signature alone is worth hiding too, and shows a token that was cut.
    let signatures = [&alice, &bob].map(|person| person.token.rsplit('.').next());
    secrets.extend(signatures.into_iter().flatten());

    let logs = [
        ("the sidecar", stage.sidecar.log(), "\"level\":\"DEBUG\""),
        ("Backstage", stage.backstage.log(), "debug"),
        ("the command line", said, "shell exited"),
    ];
    for (whose, log, told) in &logs {
        // The same search finds what must be there, so that it could have found the rest.
        assert!(line_with(log, told).is_some(), "{whose}: `{told}`: {log}");
        for secret in &secrets {
            assert_eq!(line_with(log, secret), None, "{whose}: `{secret}`");
        }
        assert_eq!(line_with_an_encoded_object(log), None, "{whose}");
    }
    for (whose, log, _) in &logs[..2] {
        assert!(line_with(log, &id).is_some(), "{whose}: the session's id");
    }
    assert!(line_with_an_encoded_object(&format!("a {} b", alice.token)).is_some());
    Ok(())
}
