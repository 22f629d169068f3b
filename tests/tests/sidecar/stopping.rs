//! SIGTERM to the program itself: it is over in time, and in good order (O-6).

use crate::stand::{ALICE, caller, request_for};
use crate::terminal::Terminal;
use breakglass_tests::postgres::Postgres;
use breakglass_tests::sidecar::{Settings, SidecarProcess, call};
use serde_json::json;
use standin::{DEBUG_IMAGE, Options, Standin};

#[tokio::test]
async fn o_6_sigterm_tells_terminals_gives_the_lease_back_and_exits_with_zero() {
    let files = tempfile::tempdir().expect("a folder");
    let standin = Standin::start(Options::default()).await.expect("a cluster");
    let kubeconfig = files.path().join("kubeconfig");
    std::fs::write(&kubeconfig, standin.kubeconfig()).expect("a kubeconfig");
    let postgres = Postgres::start().await.expect("Postgres starts");
    let database = postgres.database("backstage_plugin_glidepath").await;
    let sql = database.expect("a database");
    let settings = Settings {
        dir: files.path().to_owned(),
        postgres_port: postgres.port(),
        clusters: json!({"demo": {"kubeconfig": {"path": kubeconfig, "context": "breakglass"}}}),
        ground: vec!["demo".to_owned()],
        debug_image: DEBUG_IMAGE.to_owned(),
        policies: serde_json::Value::Null,
        pod: None,
        installation: "tests".to_owned(),
        name: "sidecar".to_owned(),
        log_filter: "info".to_owned(),
    };
    let mut sidecar = SidecarProcess::start(&settings)
        .await
        .expect("the sidecar starts");
    let (socket, alice) = (settings.socket(), caller(ALICE, "shop"));
    let pods = standin.pods("shop");
    let pod = pods[0]["metadata"]["name"].as_str().expect("a pod");
    let body = request_for(pod);
    let opened = call(&socket, "POST", "/v1/sessions", Some(&alice), Some(&body)).await;
    let (status, session) = opened.expect("an answer");
    assert_eq!(status, 201, "{session}");
    let id = session["id"].as_str().expect("an id");
    let mut terminal = Terminal::attach(&socket, &alice, id)
        .await
        .unwrap_or_else(|(status, body)| panic!("refused: {status} {body}"));
    let shown = terminal.echo().await;

    let exited = sidecar.stop().await.expect("it is over within 10 s");
    assert_eq!(exited.code(), Some(0), "{}", sidecar.log());
    let told = terminal.until_frame("detached").await;
    assert!(
        told["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("the backend stops")),
        "{told}"
    );
    terminal.until_closed().await;
    assert!(
        terminal.frames("ended").is_empty(),
        "the session is not over"
    );
    assert!(!socket.exists(), "the socket is gone");
    let lease = "SELECT owner, expires_at < now() FROM breakglass_owner";
    let lease = sql.query_one(lease, &[]).await.expect("the lease");
    assert_eq!(
        (lease.get::<_, &str>(0), lease.get::<_, bool>(1)),
        ("", true)
    );
    let row = "SELECT state, recording_bytes FROM breakglass_sessions WHERE id = $1";
    let row = sql.query_one(row, &[&id]).await.expect("the row");
    assert_eq!(row.get::<_, &str>(0), "active");
    let spool = std::fs::read_dir(settings.spool()).expect("spools");
    let kept = spool
        .flatten()
        .filter_map(|file| std::fs::read_to_string(file.path()).ok())
        .any(|text| text.contains(&shown));
    assert!(kept, "the spool has what was shown");
    assert_eq!(standin.role_bindings().len(), 1, "the cluster is as it was");

    // And the next one need not wait for the lease to lapse.
    let mut next = SidecarProcess::start(&settings).await.expect("it starts");
    next.stop().await.expect("it is over within 10 s");
}
