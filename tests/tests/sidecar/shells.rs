//! Shells and what they leave behind (C-25, T-9): nothing is lost, nothing runs on.

use crate::stand::Plan;
use std::time::Duration;

#[tokio::test]
async fn qc6_what_was_put_into_the_background_dies_with_the_session() {
    let stand = Plan::new().start().await;
    let open = stand.open().await;
    let mut terminal = stand.attach(&open.id).await;
    terminal
        .type_in("sleep 9999 &\n(trap '' HUP TERM; exec sleep 9998) &\n")
        .await;
    terminal
        .type_in("setsid sleep 9997 >/dev/null 2>&1 &\n")
        .await;
    terminal.echo().await;
    // Whether a shell still lists what went into a session of its own is a matter of moments.
    stand
        .until("the shell and what it started", || {
            stand.standin.processes().len() >= 4
        })
        .await;
    assert_eq!(stand.end(&open.id).await.0, 200);
    stand.ended(&open.id).await;
    stand.assert_nothing_is_left().await;
}

#[tokio::test]
async fn qt22_ten_reconnects_leave_one_shell() {
    let stand = Plan::new().start().await;
    let open = stand.open().await;
    let mut terminal = stand.attach(&open.id).await;
    terminal
        .type_in("echo pid-$$-is; cd /tmp; KEPT=$((6 * 7))\n")
        .await;
    terminal.echo().await;
    let processes = sorted(stand.standin.processes());
    drop(terminal);
    for _ in 0..10 {
        let mut again = stand.attach(&open.id).await;
        let shown = again.echo().await;
        again.type_in("echo kept-$KEPT-in-$PWD\n").await;
        again.until_output("kept-42-in-/tmp").await;
        assert_eq!(
            again.output().matches(&shown).count(),
            1,
            "{}",
            again.output()
        );
    }
    assert_eq!(
        sorted(stand.standin.processes()),
        processes,
        "the same shell, and no other"
    );
    let added = stand
        .pods()
        .iter()
        .filter(|p| p["metadata"]["uid"] == open.uid.as_str())
        .map(|p| {
            p["spec"]["ephemeralContainers"]
                .as_array()
                .map_or(0, Vec::len)
        })
        .sum::<usize>();
    assert_eq!(added, 1);
    let attaches = stand
        .standin
        .requests()
        .iter()
        .filter(|r| r.path.ends_with("/attach"))
        .count();
    assert_eq!(
        attaches, 1,
        "a browser's reconnect is none of the cluster's business"
    );
    stand.end(&open.id).await;
    let row = stand.ended(&open.id).await;
    let recording = stand.recording(&row);
    assert_eq!(
        recording.matches(", \"m\", \"attached\"]").count(),
        11,
        "{recording}"
    );
    stand.assert_nothing_is_left().await;
}

fn sorted(mut processes: Vec<u32>) -> Vec<u32> {
    processes.sort_unstable();
    processes
}

#[tokio::test]
async fn qt2_the_first_prompt_is_not_lost_however_late_the_browser_comes() {
    let stand = Plan::new().start().await;
    let open = stand.open().await;
    stand.pass(Duration::from_secs(30)).await;
    let terminal = stand.attach(&open.id).await;
    // Nothing is typed and no size is told: after a second the shell starts all the same.
    stand.pass(Duration::from_secs(1)).await;
    terminal.until_output("$").await;
    stand.end(&open.id).await;
    let row = stand.ended(&open.id).await;
    assert!(stand.recording(&row).contains('$'));
    stand.assert_nothing_is_left().await;
}

#[tokio::test]
async fn qt2_what_is_printed_while_nobody_looks_is_shown_later_and_recorded_once() {
    let stand = Plan::new().start().await;
    let open = stand.open().await;
    let mut terminal = stand.attach(&open.id).await;
    terminal.echo().await;
    // It prints only once the terminal is gone: the test itself says when.
    let go = stand.settings.dir.join("go");
    let folder = stand.settings.dir.clone();
    open_to_all(&folder);
    let command = format!(
        "until [ -e {} ]; do sleep 0.05; done; \
         i=1; while [ $i -le 100 ]; do echo unseen-$i-line; i=$((i + 1)); done\n",
        go.display()
    );
    terminal.type_in(&command).await;
    terminal.until_output("i + 1").await;
    drop(terminal);
    std::fs::write(&go, "").expect("the signal");
    let again = stand.attach(&open.id).await;
    again.until_output("unseen-100-line").await;
    let output = again.output();
    for line in 1..=100 {
        let text = format!("unseen-{line}-line");
        assert_eq!(output.matches(&text).count(), 1, "{text}: {output}");
    }
    stand.end(&open.id).await;
    let row = stand.ended(&open.id).await;
    let recording = stand.recording(&row);
    for line in 1..=100 {
        assert_eq!(
            recording.matches(&format!("unseen-{line}-line")).count(),
            1,
            "{line}"
        );
    }
}

/// A container's user sees the test's folder, and nothing in it but by name.
fn open_to_all(folder: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    let permissions = std::fs::Permissions::from_mode(0o711);
    std::fs::set_permissions(folder, permissions).expect("the folder's mode");
}

#[tokio::test]
async fn qt13_a_browser_that_is_cut_for_good_leaves_no_process() {
    let stand = Plan::new().start().await;
    let open = stand.open().await;
    let mut terminal = stand.attach(&open.id).await;
    terminal.type_in("sleep 9999 &\n").await;
    terminal.echo().await;
    drop(terminal);
    let left = || crate::deadlines::detached(&stand, &open.id);
    stand.until("the terminal's leaving", left).await;
    stand.pass(Duration::from_secs(40)).await;
    stand.pass(Duration::from_secs(40)).await;
    assert_eq!(stand.row(&open.id).await["state"], "active");
    stand.pass(Duration::from_secs(60)).await;
    let row = stand.ended(&open.id).await;
    assert_eq!(
        row["end_reason"],
        "terminal closed and not reopened within 2 minutes"
    );
    assert!(!stand.has_pod(&open.uid));
    stand.assert_nothing_is_left().await;
}

#[tokio::test]
async fn nothing_runs_and_nothing_can_be_typed_after_the_end() {
    let stand = Plan::new().start().await;
    let open = stand.open().await;
    let mut terminal = stand.attach(&open.id).await;
    terminal.echo().await;
    terminal
        .type_in("trap '' INT TERM HUP; while :; do :; done\n")
        .await;
    assert_eq!(stand.end(&open.id).await.0, 200);
    assert_eq!(terminal.until_ended().await, "ended by user");
    terminal.until_closed().await;
    stand.ended(&open.id).await;
    stand.assert_nothing_is_left().await;
    let (status, again) = stand.end(&open.id).await;
    assert_eq!(status, 409, "{again}");
}

/// A sidecar whose cluster has a fence about this account.
async fn fenced(backend: &str) -> crate::stand::Stand {
    let policies = serde_json::json!({
        "clusters": { "demo": { "backend": backend } },
        "imageSigning": { "glob": "*", "issuer": "https://i", "subject": "s" },
    });
    let policies = serde_json::from_value(policies).expect("a fence");
    let plan = Plan::new().change(move |config| config.policies = Some(policies));
    plan.start().await
}

#[tokio::test]
async fn p_7_a_whole_session_passes_the_clusters_own_fence() {
    let stand = fenced("system:serviceaccount:tower:breakglass").await;
    let open = stand.open().await;
    stand.attach(&open.id).await.echo().await;
    assert_eq!(stand.end(&open.id).await.0, 200);
    let row = stand.ended(&open.id).await;
    assert_eq!(row["recycled"], true, "{row:#}");
    stand.assert_nothing_is_left().await;
}

#[tokio::test]
async fn p_7_a_sidecar_that_the_fence_is_not_about_sends_nothing() {
    let stand = fenced("system:serviceaccount:tower:another").await;
    let request = stand.request();
    let (status, answer) = stand.post("/v1/sessions", Some(&request)).await;
    assert_eq!(status, 403, "{answer:#}");
    let said = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(said.contains("nothing was sent"), "{said}");
    assert!(
        said.contains("system:serviceaccount:tower:another"),
        "{said}"
    );
    stand.assert_nothing_is_left().await;
}
