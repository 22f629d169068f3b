//! It must hold 5: what is wrong with a request is said, and nothing is stored or changed.

use crate::stand::{ALICE, Plan, Stand, caller, request_for};
use crate::terminal::Terminal;
use breakglass::http::caller::encode;
use breakglass_tests::sidecar::call;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use standin::{AppSeed, Options};

/// One request as it is on the wire.
pub(crate) async fn raw(
    stand: &Stand,
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> (u16, Value) {
    let stream = tokio::net::UnixStream::connect(stand.socket())
        .await
        .expect("the socket");
    let io = hyper_util::rt::TokioIo::new(stream);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io)
        .await
        .expect("a connection");
    tokio::spawn(connection);
    let mut request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("host", "sidecar");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(body.into())).expect("a request");
    let answer = sender.send_request(request).await.expect("an answer");
    let status = answer.status().as_u16();
    let body = answer
        .into_body()
        .collect()
        .await
        .expect("a body")
        .to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

/// What must not have changed meanwhile.
struct Before {
    rows: usize,
    requests: usize,
}

async fn before(stand: &Stand) -> Before {
    Before {
        rows: stand.rows().await.len(),
        requests: stand.standin.requests().len(),
    }
}

impl Before {
    /// Nothing is stored, and the cluster was at most read.
    async fn still_holds(&self, stand: &Stand, what: &str) {
        assert_eq!(stand.rows().await.len(), self.rows, "{what}");
        let since = stand.standin.requests().split_off(self.requests);
        let reads = ["get", "list", "watch"];
        let wrote: Vec<_> = since
            .iter()
            .filter(|r| !reads.contains(&r.verb.as_str()))
            .collect();
        assert!(wrote.is_empty(), "{what}: {wrote:?}");
    }

    /// The cluster was not even asked.
    async fn nothing_was_asked(&self, stand: &Stand, what: &str) {
        assert_eq!(stand.rows().await.len(), self.rows, "{what}");
        assert_eq!(stand.standin.requests().len(), self.requests, "{what}");
    }
}

/// A refusal names what was not done.
#[track_caller]
fn names(answer: &Value, not_done: &str, what: &str) {
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    assert_eq!(message.matches(not_done).count(), 1, "{what}: {answer}");
    assert!(message.ends_with(not_done), "{what}: {answer}");
}

const NOT_OPENED: &str = "; no session was opened";
const NOT_CHANGED: &str = "; nothing was changed";

fn problems(answer: &Value) -> Vec<(String, String)> {
    let listed = answer["error"]["problems"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let text =
        |problem: &Value, field: &str| problem[field].as_str().unwrap_or_default().to_owned();
    listed
        .iter()
        .map(|p| (text(p, "field"), text(p, "code")))
        .collect()
}

/// Fields that are set, and the problems that follow.
type Row = (Value, &'static [(&'static str, &'static str)]);

fn rows() -> Vec<Row> {
    let long = |count: usize| "a".repeat(count);
    let mut rows: Vec<Row> = vec![
        (json!({"app": ".."}), &[("app", "not-a-name")]),
        (json!({"app": "a/b"}), &[("app", "not-a-name")]),
        (json!({"app": "shop\n"}), &[("app", "not-a-name")]),
        (json!({"env": ""}), &[("env", "required")]),
        (json!({"env": null}), &[("env", "required")]),
        (json!({"cluster": 7}), &[("cluster", "wrong-type")]),
        (json!({"namespace": "."}), &[("namespace", "not-a-name")]),
        (
            json!({"namespace": long(254)}),
            &[("namespace", "too-long")],
        ),
        (json!({"pod": "a b"}), &[("pod", "not-a-name")]),
        (json!({"pod": {"name": "x"}}), &[("pod", "wrong-type")]),
        (json!({"container": long(64)}), &[("container", "too-long")]),
        (
            json!({"container": "app;reboot"}),
            &[("container", "not-a-name")],
        ),
        (json!({"mode": "Live"}), &[("mode", "not-one-of")]),
        (json!({"mode": true}), &[("mode", "wrong-type")]),
        (
            json!({"durationMinutes": 16}),
            &[("durationMinutes", "not-one-of")],
        ),
        (
            json!({"durationMinutes": "15"}),
            &[("durationMinutes", "wrong-type")],
        ),
        (
            json!({"durationMinutes": 1e308}),
            &[("durationMinutes", "not-one-of")],
        ),
        (
            json!({"durationMinutes": null}),
            &[("durationMinutes", "required")],
        ),
        (json!({"reason": " \t\n "}), &[("reason", "required")]),
        (json!({"reason": long(2001)}), &[("reason", "too-long")]),
        (
            json!({"reason": "a\u{1b}[2J"}),
            &[("reason", "control-character")],
        ),
        (json!({"reason": ["x"]}), &[("reason", "wrong-type")]),
        (
            json!({"ticketUrl": "javascript:alert(1)"}),
            &[("ticketUrl", "not-a-url")],
        ),
        (
            json!({"ticketUrl": format!("https://x/{}", long(500))}),
            &[("ticketUrl", "too-long")],
        ),
        (json!({"ticketUrl": 1}), &[("ticketUrl", "wrong-type")]),
        (
            json!({"processAccess": "yes"}),
            &[("processAccess", "wrong-type")],
        ),
        (
            json!({"volumeAccess": 1}),
            &[("volumeAccess", "wrong-type")],
        ),
        (
            json!({"glassBroken": "true"}),
            &[("glassBroken", "wrong-type")],
        ),
        (json!({"holdApp": true}), &[("holdApp", "only-with-copy")]),
        (
            json!({"mode": "copy", "processAccess": true}),
            &[("processAccess", "only-with-live")],
        ),
        (
            json!({"mode": "copy", "recycleLastPod": true}),
            &[("recycleLastPod", "only-with-live")],
        ),
        (
            json!({"app": "..", "mode": "x", "durationMinutes": 1, "reason": "", "holdApp": 0}),
            &[
                ("app", "not-a-name"),
                ("mode", "not-one-of"),
                ("durationMinutes", "not-one-of"),
                ("reason", "required"),
                ("holdApp", "wrong-type"),
            ],
        ),
    ];
    for name in ["app", "env", "cluster", "namespace", "pod"] {
        let problems: &'static [_] = match name {
            "app" => &[("app", "too-long")],
            "env" => &[("env", "too-long")],
            "cluster" => &[("cluster", "too-long")],
            "namespace" => &[("namespace", "too-long")],
            _ => &[("pod", "too-long")],
        };
        rows.push((json!({ name: long(300) }), problems));
    }
    rows
}

#[tokio::test]
async fn every_problem_of_a_request_is_named_with_its_field() {
    let stand = Plan::new().start().await;
    let good = stand.request();
    let before = before(&stand).await;
    for (change, expected) in rows() {
        let mut body = good.clone();
        for (field, value) in change.as_object().expect("fields") {
            body[field] = value.clone();
        }
        let (status, answer) = stand.post("/v1/sessions", Some(&body)).await;
        assert_eq!(status, 400, "{change}: {answer}");
        assert_eq!(answer["error"]["name"], "InputError", "{change}");
        let expected: Vec<_> = expected
            .iter()
            .map(|(f, c)| ((*f).to_owned(), (*c).to_owned()))
            .collect();
        assert_eq!(problems(&answer), expected, "{change}: {answer}");
        names(&answer, NOT_OPENED, "fields");
    }
    for whole in [json!([]), json!("x"), json!(null), json!(7)] {
        let (status, answer) = stand.post("/v1/sessions", Some(&whole)).await;
        assert_eq!(status, 400, "{whole}: {answer}");
        assert_eq!(
            problems(&answer),
            [(String::new(), "not-an-object".to_owned())]
        );
        names(&answer, NOT_OPENED, "no object");
    }
    before.nothing_was_asked(&stand, "bad fields").await;
}

#[tokio::test]
async fn a_body_that_is_none_is_refused() {
    let stand = Plan::new().start().await;
    let who = encode(&caller(ALICE, "shop"));
    let who = ("x-breakglass-caller", who.as_str());
    let json_type = ("content-type", "application/json");
    let post = ("POST", "/v1/sessions");
    let good = stand.request().to_string();
    let mut large = stand.request();
    large["reason"] = "a".repeat(70 * 1024).into();
    let before = before(&stand).await;
    let deep = "[".repeat(60_000);
    let cases: [(&str, u16, &[(&str, &str)], String); 10] = [
        ("too large", 413, &[who, json_type], large.to_string()),
        ("not JSON", 400, &[who, json_type], "{\"app\": ".to_owned()),
        (
            "two values",
            400,
            &[who, json_type],
            format!("{good}{good}"),
        ),
        ("deep", 400, &[who, json_type], deep),
        ("empty", 400, &[who, json_type], String::new()),
        (
            "a form",
            415,
            &[who, ("content-type", "application/x-www-form-urlencoded")],
            good.clone(),
        ),
        (
            "text",
            415,
            &[who, ("content-type", "text/plain")],
            good.clone(),
        ),
        ("no type", 415, &[who], good.clone()),
        ("no caller", 400, &[json_type], good.clone()),
        ("two callers", 400, &[who, who, json_type], good.clone()),
    ];
    for (what, expected, headers, body) in cases {
        let (status, answer) = raw(&stand, post, headers, body).await;
        assert_eq!(status, expected, "{what}: {answer}");
        names(&answer, NOT_OPENED, what);
    }
    before.nothing_was_asked(&stand, "bad bodies").await;
}

#[tokio::test]
async fn a_caller_who_cannot_be_read_is_nobody() {
    let stand = Plan::new().start().await;
    let good = stand.request().to_string();
    let before = before(&stand).await;
    let callers = [
        "alice".to_owned(),
        "####".to_owned(),
        encode(&json!({"version": 2, "user": ALICE, "app": "shop", "allowed": ["request"]})),
        encode(&json!({"version": 1, "app": "shop", "allowed": ["request"]})),
        encode(&json!({"version": 1, "user": "alice", "app": "shop", "allowed": ["request"]})),
        encode(&json!({"version": 1, "user": ALICE, "app": "shop", "allowed": ["everything"]})),
        encode(&json!([1, 2, 3])),
        "A".repeat(9000),
    ];
    for caller in &callers {
        let headers = [
            ("x-breakglass-caller", caller.as_str()),
            ("content-type", "application/json"),
        ];
        for (method, path) in [
            ("POST", "/v1/sessions"),
            ("GET", "/v1/sessions?app=shop&env=dev"),
        ] {
            let (status, answer) = raw(&stand, (method, path), &headers, good.clone()).await;
            assert_eq!(status, 400, "{caller:.40}: {answer}");
            if method == "POST" {
                names(&answer, NOT_OPENED, caller);
            }
        }
    }
    before.nothing_was_asked(&stand, "bad callers").await;
    // May ask for nothing: known, and refused.
    let powerless = json!({"version": 1, "user": ALICE, "app": "shop", "allowed": []});
    let body = stand.request();
    let refused = call(
        &stand.socket(),
        "POST",
        "/v1/sessions",
        Some(&powerless),
        Some(&body),
    )
    .await;
    let (status, answer) = refused.expect("an answer");
    assert_eq!(status, 403);
    names(&answer, NOT_OPENED, "no permission");
    before.nothing_was_asked(&stand, "no permission").await;
}

fn wide() -> Options {
    Options::default()
        .namespace(
            "till",
            &[("hangar.io/app", "till"), ("hangar.io/env", "dev")],
        )
        .app(AppSeed::new("till", "till"))
        .namespace("bare", &[])
        .app(AppSeed::new("bare", "bare"))
        .app(AppSeed::new("shop", "pending").bare().phase("Pending"))
}

#[tokio::test]
async fn a_target_that_is_not_the_callers_or_not_there_is_refused() {
    let stand = Plan::on(wide()).start().await;
    let good = stand.request();
    let first = |namespace: &str| {
        let pods = stand.standin.pods(namespace);
        pods[0]["metadata"]["name"].clone()
    };
    let before = before(&stand).await;
    let cases = [
        (
            "a pod of another app",
            403,
            json!({"namespace": "till", "pod": first("till")}),
        ),
        (
            "a namespace without labels",
            403,
            json!({"namespace": "bare", "pod": first("bare")}),
        ),
        ("another environment", 403, json!({"env": "prod"})),
        ("no such namespace", 404, json!({"namespace": "nowhere"})),
        ("no such pod", 404, json!({"pod": "shop-0"})),
        ("no such container", 404, json!({"container": "sidecar"})),
        ("no such cluster", 404, json!({"cluster": "elsewhere"})),
        ("a pod that does not run", 409, json!({"pod": "pending"})),
        ("Flight", 501, json!({"cluster": "prod"})),
        (
            "Flight, glass broken",
            501,
            json!({"cluster": "prod", "glassBroken": true}),
        ),
        ("a copy", 501, json!({"mode": "copy"})),
    ];
    for (what, expected, change) in cases {
        let mut body = good.clone();
        for (field, value) in change.as_object().expect("fields") {
            body[field] = value.clone();
        }
        let (status, answer) = stand.post("/v1/sessions", Some(&body)).await;
        assert_eq!(status, expected, "{what}: {answer}");
        names(&answer, NOT_OPENED, what);
        before.still_holds(&stand, what).await;
    }
}

#[tokio::test]
async fn a_session_is_its_requesters_and_its_apps() {
    let stand = Plan::new().start().await;
    let open = stand.open().await;
    let path = format!("/v1/sessions/{}", open.id);
    let bob = "user:default/bob";
    let socket = stand.socket();
    let before = before(&stand).await;

    let refused = Terminal::attach(&socket, &caller(bob, "shop"), &open.id).await;
    let (status, body) = refused.err().expect("refused");
    assert_eq!(status, 403, "another user's terminal");
    let body = serde_json::from_str(&body).expect("JSON");
    names(&body, "; no terminal was opened", "another user's terminal");
    let refused = Terminal::attach(&socket, &caller(ALICE, "till"), &open.id).await;
    assert_eq!(refused.err().expect("refused").0, 404, "another app's");
    let unknown = "a".repeat(12);
    for id in [unknown.as_str(), "x", "..", "ABCDEFGHIJKL"] {
        let refused = Terminal::attach(&socket, &caller(ALICE, "shop"), id).await;
        assert_eq!(refused.err().expect("refused").0, 404, "{id}");
        let (status, answer) = stand.end(id).await;
        assert_eq!(status, 404, "{id}");
        names(&answer, NOT_CHANGED, id);
    }
    let (status, answer) = stand
        .as_user(bob, "POST", &format!("{path}/end"), None)
        .await;
    assert_eq!(status, 403, "another user's end");
    names(&answer, NOT_CHANGED, "another user's end");
    for path in [path.clone(), format!("{path}/recording")] {
        let of_another_app = call(&socket, "GET", &path, Some(&caller(ALICE, "till")), None).await;
        assert_eq!(of_another_app.expect("an answer").0, 404, "{path}");
    }
    let (status, _) = stand.get(&format!("{path}/attach")).await;
    assert_eq!(status, 400, "not a WebSocket");
    for route in ["approve", "deny", "start", "extend", "review"] {
        let (status, answer) = stand.post(&format!("{path}/{route}"), None).await;
        assert_eq!(status, 501, "{route}");
        names(&answer, NOT_CHANGED, route);
    }
    before.still_holds(&stand, "somebody else").await;
    assert_eq!(stand.row(&open.id).await["state"], "active");
    stand.end(&open.id).await;
    stand.ended(&open.id).await;
}

#[tokio::test]
async fn one_more_than_a_limit_is_refused_with_its_name() {
    let plan = Plan::new().change(|config| {
        config.limits.per_user = 2;
        config.limits.per_app = 3;
    });
    let stand = plan.start().await;
    stand.open().await;
    stand.open().await;
    let (pod, _) = stand.ready_pod();
    let body = request_for(&pod);
    let full = before(&stand).await;
    let (status, answer) = stand.post("/v1/sessions", Some(&body)).await;
    assert_eq!(
        (status, &answer["error"]["limit"]["name"]),
        (409, &"perUser".into()),
        "{answer}"
    );
    assert_eq!(answer["error"]["limit"]["max"], 2);
    names(&answer, NOT_OPENED, "perUser");
    full.still_holds(&stand, "perUser").await;

    let bob = "user:default/bob";
    let (status, answer) = stand
        .as_user(bob, "POST", "/v1/sessions", Some(&body))
        .await;
    assert_eq!(status, 201, "{answer}");
    let full = before(&stand).await;
    let (status, answer) = stand
        .as_user(bob, "POST", "/v1/sessions", Some(&body))
        .await;
    assert_eq!(
        (status, &answer["error"]["limit"]["name"]),
        (409, &"perApp".into()),
        "{answer}"
    );
    names(&answer, NOT_OPENED, "perApp");
    full.still_holds(&stand, "perApp").await;
}
