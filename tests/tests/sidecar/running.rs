//! What goes wrong while a shell runs: its stream, its pod, its node (T-5, T-8, C-24).

use crate::stand::{Open, Plan, Stand};
use crate::terminal::Terminal;
use standin::{Fault, StreamMode};
use std::time::Duration;

/// A session with a shell that has worked, and what it printed.
async fn working(stand: &Stand) -> (Open, Terminal, String) {
    let open = stand.open().await;
    let mut terminal = stand.attach(&open.id).await;
    terminal.type_in("KEPT=shell\n").await;
    let shown = terminal.echo().await;
    (open, terminal, shown)
}

/// The shell goes on where it was, and shows what it had shown.
async fn goes_on(stand: &Stand, open: &Open, shown: &str) {
    stand
        .until("a new stream", || !stand.standin.streams().is_empty())
        .await;
    let mut again = stand.attach(&open.id).await;
    again.until_output(shown).await;
    again.type_in("echo same-$KEPT\n").await;
    again.until_output("same-shell").await;
    assert_eq!(stand.row(&open.id).await["state"], "active");
    stand.end(&open.id).await;
    let row = stand.ended(&open.id).await;
    assert_eq!(row["end_reason"], "ended by user");
    let recording = stand.recording(&row);
    assert!(
        recording.contains("the stream to the shell closed"),
        "{recording}"
    );
    stand.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_stream_that_is_cut_only_detaches() {
    let stand = Plan::new().start().await;
    let (open, terminal, shown) = working(&stand).await;
    stand.faults().streams(StreamMode::Cut);
    stand
        .until("the cut", || stand.standin.streams().is_empty())
        .await;
    assert!(
        terminal.frames("detached").is_empty(),
        "it may have been an exit"
    );
    // For up to 15 s the kubelet may still report an exit (T-5).
    stand.pass(Duration::from_secs(16)).await;
    let told = terminal.until_frame("detached").await;
    assert!(
        told["reason"]
            .as_str()
            .is_some_and(|r| r.contains("reconnect")),
        "{told}"
    );
    terminal.until_closed().await;
    goes_on(&stand, &open, &shown).await;
}

#[tokio::test]
async fn qt29_keys_for_a_stream_that_does_not_answer_are_refused_within_five_seconds() {
    let stand = Plan::new().start().await;
    let (open, mut terminal, _) = working(&stand).await;
    let spooled = |text: &str| {
        let spools = stand.spools();
        let mut texts = spools.iter().map(std::fs::read_to_string);
        texts.any(|it| it.is_ok_and(|it| it.contains(text)))
    };
    stand.faults().streams(StreamMode::HalfOpen);
    terminal.type_in("x").await;
    stand.until("the key", || spooled(r#""i", "x""#)).await;
    for _ in 0..10 {
        stand.pass(Duration::from_millis(500)).await;
    }
    let error = terminal.until_frame("error").await;
    let message = error["message"].as_str().unwrap_or_default();
    assert!(message.contains("does not answer"), "{error}");
    terminal.type_in("never").await;

    stand.faults().streams(StreamMode::Flowing);
    stand
        .until("a sign of life", || spooled("answers again"))
        .await;
    terminal.type_in("\u{15}").await;
    terminal.echo().await;
    assert!(!spooled("never"), "neither recorded nor sent");
    stand.end(&open.id).await;
    stand.ended(&open.id).await;
    stand.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_stream_without_a_sign_of_life_is_gone_after_thirty_seconds() {
    for mode in [StreamMode::HalfOpen, StreamMode::NoPong] {
        let stand = Plan::new().start().await;
        let (open, mut terminal, shown) = working(&stand).await;
        stand.faults().streams(mode);
        // Each step is long enough for a ping, which the browser answers and the shell's side not.
        for _ in 0..4 {
            let pings = terminal.seen().pings;
            stand.pass(Duration::from_secs(10)).await;
            terminal.until_pinged(pings).await;
            terminal
                .send(&serde_json::json!({"type": "ack", "bytes": 1}))
                .await;
        }
        stand.pass(Duration::from_secs(16)).await;
        let told = terminal.until_frame("detached").await;
        assert!(
            told["reason"]
                .as_str()
                .is_some_and(|r| r.contains("reconnect")),
            "{told}"
        );
        goes_on(&stand, &open, &shown).await;
    }
}

#[tokio::test]
async fn qt4_a_shell_that_exited_is_over_for_good() {
    let stand = Plan::new().start().await;
    let (open, mut terminal, _) = working(&stand).await;
    terminal.type_in("exit\n").await;
    assert_eq!(terminal.until_ended().await, "shell exited");
    terminal.until_closed().await;
    let row = stand.ended(&open.id).await;
    assert_eq!(row["end_reason"], "shell exited");
    assert_eq!(row["recycled"], true);
    let attaches = || {
        let requests = stand.standin.requests();
        requests
            .iter()
            .filter(|r| r.path.ends_with("/attach"))
            .count()
    };
    let before = attaches();
    let caller = crate::stand::caller(crate::stand::ALICE, "shop");
    let refused = Terminal::attach(&stand.socket(), &caller, &open.id).await;
    let (status, _) = refused.err().expect("refused");
    assert_eq!(status, 410);
    assert_eq!(attaches(), before, "the cluster is not even asked");
    stand.assert_nothing_is_left().await;
}

#[tokio::test]
async fn qt7_qt8_a_pod_that_is_gone_ends_the_session_within_a_sweep() {
    let named =
        |make: fn(String, String) -> Fault, pod: &str| make("shop".to_owned(), pod.to_owned());
    let faults: [(&str, fn(String, String) -> Fault); 4] = [
        ("deleted", |namespace, name| Fault::DeletePod {
            namespace,
            name,
        }),
        ("replaced", |namespace, name| Fault::ReplacePod {
            namespace,
            name,
        }),
        ("evicted", |namespace, name| Fault::EvictPod {
            namespace,
            name,
        }),
        ("on a lost node", |namespace, name| Fault::LoseNode {
            namespace,
            name,
        }),
    ];
    for (what, fault) in faults {
        let stand = Plan::new().start().await;
        let (open, terminal, shown) = working(&stand).await;
        assert!(stand.faults().apply(named(fault, &open.pod)), "{what}");
        stand.sweep().await;
        assert_eq!(terminal.until_ended().await, "pod is gone", "{what}");
        let row = stand.ended(&open.id).await;
        assert_eq!(row["end_reason"], "pod is gone", "{what}");
        assert_eq!(stand.grants(), Vec::<String>::new(), "{what}");
        assert!(stand.recording(&row).contains(&shown), "{what}");
    }
}

#[tokio::test]
async fn qt8_a_pod_that_goes_while_its_stream_stays_open_is_noticed() {
    let stand = Plan::new().start().await;
    let (open, terminal, _) = working(&stand).await;
    stand.faults().streams(StreamMode::HalfOpen);
    let deleted = Fault::DeletePod {
        namespace: "shop".to_owned(),
        name: open.pod.clone(),
    };
    assert!(stand.faults().apply(deleted));
    stand.sweep().await;
    assert_eq!(terminal.until_ended().await, "pod is gone");
    assert_eq!(stand.ended(&open.id).await["end_reason"], "pod is gone");
    stand.assert_nothing_is_left().await;
}
