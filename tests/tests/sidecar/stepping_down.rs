//! A sidecar that finds its lease taken: terminals are told, requests are refused, and no cluster
//! hears of it again until the lease is its own (D-5).

use crate::opening::on;
use crate::stand::{ALICE, Plan, Stand, caller};
use crate::terminal::Terminal;
use breakglass_tests::processes::until;
use breakglass_tests::sidecar::{call, get};
use standin::{Fault, RequestFault};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
const RENEWAL: Duration = Duration::from_secs(5);

/// Another sidecar takes the lease, as one may that finds it lapsed.
async fn steal(stand: &Stand) {
    let taken = "UPDATE breakglass_owner SET epoch = epoch + 1, owner = 'another', \
                 expires_at = now() + interval '1 hour'";
    stand.sql().await.execute(taken, &[]).await.expect("taken");
    stand.sidecar.clock.advance(RENEWAL);
    let stands_by = || async {
        let (_, readiness) = get(&stand.socket(), "/readyz").await.ok()?;
        readiness.to_string().contains("stands by").then_some(())
    };
    until("the stepping down", crate::stand::SOON, stands_by)
        .await
        .unwrap_or_else(|error| panic!("{error}"));
}

/// The other sidecar gives the lease back, and this one owns the sessions again.
async fn give_back(stand: &Stand) {
    let free = "UPDATE breakglass_owner SET owner = '', expires_at = '-infinity'";
    stand.sql().await.execute(free, &[]).await.expect("free");
    stand.pass(RENEWAL).await;
}

/// The row of a session that did not run here any more when it was ended: what is done last of all
/// is its outcome.
async fn cleaned_up(stand: &Stand, id: &str) -> serde_json::Value {
    let done = |row: &serde_json::Value| row["recycled"] == true;
    stand.row_when(id, "the clean-up", done).await
}

/// Minutes pass, and whatever waits for them has its turn.
async fn minutes(stand: &Stand, count: u32) {
    for _ in 0..count {
        stand.sidecar.clock.advance(MINUTE);
        for _ in 0..20 {
            get(&stand.socket(), "/readyz").await.expect("an answer");
        }
    }
}

#[tokio::test]
async fn a_sidecar_whose_lease_was_taken_tells_terminals_and_leaves_the_clusters_alone() {
    let stand = Plan::new().start().await;
    let open = stand.open().await;
    let mut terminal = stand.attach(&open.id).await;
    terminal.echo().await;
    let body = stand.request();
    steal(&stand).await;
    let asked = stand.standin.requests().len();

    let told = terminal.until_frame("detached").await;
    assert_eq!(told["reason"], "another backend took the session over");
    terminal.until_closed().await;
    assert!(terminal.frames("ended").is_empty(), "it is not over");
    let show = format!("/v1/sessions/{}", open.id);
    for (method, path, body) in [
        ("POST", "/v1/sessions", Some(&body)),
        ("GET", "/v1/sessions?app=shop&env=dev", None),
        ("GET", show.as_str(), None),
        ("POST", &format!("{show}/end"), None),
    ] {
        let (status, answer) = stand.as_user(ALICE, method, path, body).await;
        assert_eq!(status, 503, "{method} {path}: {answer}");
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(
            message.contains("another one owns the sessions"),
            "{answer}"
        );
    }
    let refused = Terminal::attach(&stand.socket(), &caller(ALICE, "shop"), &open.id).await;
    assert_eq!(refused.err().expect("refused").0, 503);

    // Past its deadline too: the session is another's to end.
    minutes(&stand, 20).await;
    let since = stand.standin.requests().split_off(asked);
    assert!(since.is_empty(), "{since:#?}");
    assert_eq!(stand.row(&open.id).await["state"], "active");
    assert_eq!(stand.grants().len(), 1);
    assert!(stand.has_pod(&open.uid));

    give_back(&stand).await;
    let row = cleaned_up(&stand, &open.id).await;
    assert_eq!(row["end_reason"], "expired");
    stand.assert_nothing_is_left().await;
    let next = stand.open().await;
    stand.attach(&next.id).await.echo().await;
    stand.end(&next.id).await;
    stand.ended(&next.id).await;
}

#[tokio::test]
async fn a_session_that_is_found_again_before_its_deadline_is_ended_and_cleaned_up() {
    let stand = Plan::new().start().await;
    let open = stand.open().await;
    steal(&stand).await;
    give_back(&stand).await;
    let row = cleaned_up(&stand, &open.id).await;
    assert_eq!(row["end_reason"], "backend restarted during the session");
    assert!(!stand.has_pod(&open.uid));
    stand.assert_nothing_is_left().await;
}

#[tokio::test]
async fn an_end_under_way_stops_where_it_is_when_the_lease_is_taken() {
    let plan = Plan::new().change(|config| config.timeouts.cleanup_step = 3600);
    let stand = plan.start().await;
    let open = stand.open().await;
    let ill = RequestFault::Answer {
        code: 500,
        reason: "InternalError".to_owned(),
        message: "etcdserver: leader changed".to_owned(),
    };
    stand
        .faults()
        .apply(on("delete", "rolebindings", ill, 100_000));
    let (socket, path) = (stand.socket(), format!("/v1/sessions/{}/end", open.id));
    let ending = tokio::spawn(async move {
        let caller = caller(ALICE, "shop");
        call(&socket, "POST", &path, Some(&caller), None).await
    });
    crate::meanwhile::until_requested(&stand, "delete", "/rolebindings/").await;
    steal(&stand).await;
    let asked = stand.standin.requests().len();
    minutes(&stand, 3).await;
    let since = stand.standin.requests().split_off(asked);
    assert!(since.is_empty(), "{since:#?}");
    assert_eq!(stand.grants().len(), 1, "the new owner's to remove");
    ending.abort();

    stand.faults().apply(Fault::Clear);
    give_back(&stand).await;
    stand
        .until("the grant's removal", || stand.grants().is_empty())
        .await;
    let row = stand.ended(&open.id).await;
    assert_eq!(row["end_reason"], "ended by user");
}
