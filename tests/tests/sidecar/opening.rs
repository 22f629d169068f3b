//! A session that cannot be opened says why, in the cluster's own words, and leaves nothing (C-10).

use crate::stand::{Plan, Stand, request_for};
use serde_json::Value;
use standin::{Fault, RequestFault, RequestMatch, StartFault};

const POLICY: &str = "rolebindings.rbac.authorization.k8s.io \"tower-breakglass-x\" is forbidden: \
    ValidatingAdmissionPolicy 'tower-breakglass-grant' with binding 'tower-breakglass-grant' \
    denied request: a grant names its requester";

/// One thing that goes wrong once, and what people are told.
struct Case {
    name: &'static str,
    fault: Fault,
    status: u16,
    words: &'static str,
}

fn case(name: &'static str, fault: Fault, status: u16, words: &'static str) -> Case {
    Case {
        name,
        fault,
        status,
        words,
    }
}

pub(crate) fn on(verb: &str, resource: &str, fault: RequestFault, times: u32) -> Fault {
    Fault::Request {
        matching: RequestMatch::on(verb, resource),
        fault,
        times,
    }
}

fn answer(code: u16, reason: &str, message: &str) -> RequestFault {
    RequestFault::Answer {
        code,
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}

fn start(fault: StartFault) -> Fault {
    Fault::Start {
        image: None,
        fault,
        times: 1,
    }
}

pub(crate) const GRANT: (&str, &str) = ("create", "rolebindings");
pub(crate) const CONTAINER: (&str, &str) = ("patch", "pods/ephemeralcontainers");

async fn check(stand: &Stand, case: Case) {
    let Case {
        name,
        fault,
        status,
        words,
    } = case;
    let before = stand.rows().await.len();
    let (pod, uid) = stand.ready_pod();
    stand.faults().apply(fault);
    let (got, body) = stand.post("/v1/sessions", Some(&request_for(&pod))).await;
    stand.faults().apply(Fault::Clear);
    assert_eq!(got, status, "{name}: {body}");
    let message = body["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains(words), "{name}: {body}");
    let id = body["error"]["session"]
        .as_str()
        .unwrap_or_else(|| panic!("{name}: {body}"));
    let row = stand.ended(id).await;
    let reason = row["end_reason"].as_str().unwrap_or_default();
    assert!(
        reason.starts_with("failed to start: ") && reason.contains(words),
        "{name}: {reason}"
    );
    assert_eq!(stand.rows().await.len(), before + 1, "{name}");
    stand.assert_nothing_is_left().await;
    let carried = stand.pods().iter().any(has_debug_container);
    assert!(
        !carried,
        "{name}: no pod carries a debug container; it was in {uid}"
    );
    let recording = stand.recording(&row);
    assert!(recording.starts_with('{'), "{name}: {recording}");
}

pub(crate) fn has_debug_container(pod: &Value) -> bool {
    let added = pod["spec"]["ephemeralContainers"].as_array();
    added.is_some_and(|added| !added.is_empty())
}

/// Each case, and that the next session opens and works.
async fn check_all(stand: Stand, cases: impl IntoIterator<Item = Case>) {
    for case in cases {
        check(&stand, case).await;
    }
    let open = stand.open().await;
    let mut terminal = stand.attach(&open.id).await;
    terminal.echo().await;
    assert_eq!(stand.end(&open.id).await.0, 200);
    stand.ended(&open.id).await;
    stand.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_refusal_keeps_the_policys_own_words() {
    let refused = || answer(403, "Forbidden", POLICY);
    let words = "a grant names its requester";
    check_all(
        Plan::new().start().await,
        [
            case("the grant", on(GRANT.0, GRANT.1, refused(), 1), 403, words),
            case(
                "the container",
                on(CONTAINER.0, CONTAINER.1, refused(), 1),
                403,
                words,
            ),
            case(
                "a 422 of a policy",
                on(CONTAINER.0, CONTAINER.1, answer(422, "Invalid", POLICY), 1),
                403,
                words,
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn an_ill_api_server_is_named() {
    let ill = || answer(500, "InternalError", "etcdserver: request timed out");
    let words = "cluster `demo` is in trouble and answered 500: etcdserver: request timed out";
    let nobody_judges = "Internal error occurred: failed calling webhook \"ivpol\": refused";
    check_all(
        Plan::new().start().await,
        [
            case("the grant", on(GRANT.0, GRANT.1, ill(), 1), 503, words),
            case(
                "the container",
                on(CONTAINER.0, CONTAINER.1, ill(), 1),
                503,
                words,
            ),
            case(
                "the container, whose image's signature nobody judges",
                on(
                    CONTAINER.0,
                    CONTAINER.1,
                    answer(500, "InternalError", nobody_judges),
                    1,
                ),
                503,
                "cluster `demo` let nothing through, since an admission webhook of it does not \
                 answer",
            ),
            case(
                "RBAC",
                on(
                    GRANT.0,
                    GRANT.1,
                    answer(
                        403,
                        "Forbidden",
                        "rolebindings is forbidden: User \
                \"system:serviceaccount:tower:breakglass\" cannot create",
                    ),
                    1,
                ),
                503,
                "cannot create",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_call_without_an_answer_ends_in_time() {
    let words = "no answer within 2 s";
    check_all(
        Plan::new().start().await,
        [
            case(
                "the grant",
                on(GRANT.0, GRANT.1, RequestFault::Hang, 1),
                503,
                words,
            ),
            case(
                "the container",
                on(CONTAINER.0, CONTAINER.1, RequestFault::Hang, 1),
                503,
                words,
            ),
            case(
                "a grant that is made, but its answer never comes",
                on(GRANT.0, GRANT.1, RequestFault::PerformThenHang, 1),
                503,
                words,
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn what_was_done_before_the_connection_broke_is_found_and_taken_back() {
    let words = "cluster `demo` cannot be reached";
    check_all(
        Plan::new().start().await,
        [
            case(
                "the grant",
                on(GRANT.0, GRANT.1, RequestFault::PerformThenCut, 1),
                503,
                words,
            ),
            case(
                "the container",
                on(CONTAINER.0, CONTAINER.1, RequestFault::PerformThenCut, 1),
                503,
                words,
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn qt16_qk50_a_container_that_cannot_start_says_why_in_the_kubelets_words() {
    let image = "manifest for ghcr.io/hangar/tower-debug not found: manifest unknown";
    let config = "secret \"shop\" not found";
    let plan = Plan::new().change(|config| config.timeouts.start = 2);
    check_all(
        plan.start().await,
        [
            case(
                "no image",
                start(StartFault::ImagePull {
                    message: image.to_owned(),
                }),
                503,
                "ErrImagePull: manifest for ghcr.io/hangar/tower-debug not found: manifest unknown",
            ),
            case(
                "no configuration",
                start(StartFault::ConfigError {
                    message: config.to_owned(),
                }),
                503,
                "CreateContainerConfigError: secret \"shop\" not found",
            ),
            case(
                "never",
                start(StartFault::Never),
                503,
                "did not run within 2 s",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn what_heals_within_seconds_does_not_fail_an_opening() {
    let stand = Plan::new().start().await;
    let forbidden = || {
        answer(
            403,
            "Forbidden",
            "pods \"shop\" is forbidden: User cannot patch",
        )
    };
    let changed = || answer(409, "Conflict", "the object has been modified");
    let heals = [
        (
            "a right that arrives late",
            on(CONTAINER.0, CONTAINER.1, forbidden(), 3),
        ),
        (
            "a pod that changes meanwhile",
            on(CONTAINER.0, CONTAINER.1, changed(), 3),
        ),
        (
            "watches that end",
            Fault::Watches {
                expired: false,
                future: 3,
            },
        ),
        (
            "watches that are too old",
            Fault::Watches {
                expired: true,
                future: 3,
            },
        ),
        (
            "a slow image",
            start(StartFault::Slow { milliseconds: 1500 }),
        ),
    ];
    for (name, fault) in heals {
        stand.faults().apply(fault);
        let open = stand.open().await;
        let mut terminal = stand.attach(&open.id).await;
        terminal.echo().await;
        stand.end(&open.id).await;
        let row = stand.ended(&open.id).await;
        assert_eq!(row["end_reason"], "ended by user", "{name}");
        stand.assert_nothing_is_left().await;
        stand.faults().apply(Fault::Clear);
    }
}
