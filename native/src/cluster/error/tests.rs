use super::*;

fn answer(status: u16, message: &str) -> ClusterError {
    let body = serde_json::json!({ "kind": "Status", "message": message, "code": status });
    let status = StatusCode::from_u16(status).expect("a status");
    refused("flight", status, body.to_string().as_bytes(), "pod `web-0`")
}

#[track_caller]
fn check(status: u16, message: &str, expected: &str) {
    let error = format!("{:?}", answer(status, message));
    let variant = error.split([' ', '{', '(']).next().unwrap_or_default();
    assert_eq!(variant, expected, "{status} {message}");
}

const VAP: &str = "pods \"web-0\" is forbidden: ValidatingAdmissionPolicy 'tower-breakglass-x' with \
                   binding 'tower-breakglass-x' denied request: debug containers run as non-root";
const WEBHOOK: &str = "admission webhook \"validate.kyverno.svc-fail\" denied the request: no";
const RBAC: &str = "pods \"web-0\" is forbidden: User \"system:serviceaccount:tower:backstage\" \
                    cannot patch resource \"pods/ephemeralcontainers\" in API group \"\"";

#[test]
fn a_policy_is_final_whatever_status_it_chose() {
    for status in [400, 401, 403, 413, 422] {
        check(status, VAP, "RefusedByPolicy");
        check(status, WEBHOOK, "RefusedByPolicy");
    }
    check(
        403,
        "pods \"x\" is forbidden: violates PodSecurity \"restricted\"",
        "RefusedByPolicy",
    );
}

#[test]
fn a_server_that_is_not_ready_is_not_a_policy() {
    check(
        403,
        "pods \"x\" is forbidden: not yet ready to handle request",
        "Forbidden",
    );
    let named = "ValidatingAdmissionPolicy 'x': not yet ready to handle request";
    assert!(server_is_not_ready(&answer(403, named)));
    assert!(!server_is_not_ready(&answer(403, RBAC)));
}

#[test]
fn every_status_has_its_meaning() {
    check(403, RBAC, "Forbidden");
    check(
        403,
        "attempting to grant RBAC permissions not currently held",
        "Forbidden",
    );
    check(401, "Unauthorized", "Unauthorized");
    check(404, "pods \"web-0\" not found", "NotFound");
    check(409, "the object has been modified", "Conflict");
    check(400, "bad", "Invalid");
    check(422, "spec: Invalid value", "Invalid");
    check(429, "too many requests", "Away");
    check(500, "failed calling webhook \"x\": timeout", "Away");
    check(503, "apiserver is shutting down", "Away");
    check(410, "too old resource version", "Unexpected");
    check(302, "", "Unexpected");
}

/// In the API server's form, of a Kyverno that was killed.
const NOBODY_JUDGES: &str = "Internal error occurred: failed calling webhook \
                             \"ivpol.validate.kyverno.svc-fail\": failed to call webhook: Post \
                             \"https://localhost:9443/x\": connect: connection refused";

#[test]
fn a_cluster_that_answers_is_not_said_to_be_out_of_reach() {
    let said = answer(500, NOBODY_JUDGES).to_string();
    assert!(
        said.starts_with("cluster `flight` let nothing through, since an admission webhook of it"),
        "{said}"
    );
    assert!(said.contains("connection refused"), "{said}");
    assert_eq!(
        answer(503, "apiserver is shutting down").to_string(),
        "cluster `flight` is in trouble and answered 503: apiserver is shutting down"
    );
    assert_eq!(
        away("flight", "connection refused").to_string(),
        "cluster `flight` cannot be reached: connection refused"
    );
}

#[test]
fn the_policys_own_words_are_what_people_read() {
    assert_eq!(answer(422, VAP).to_string(), VAP);
}

#[test]
fn a_body_that_is_no_status_is_not_repeated() {
    let error = refused(
        "flight",
        StatusCode::NOT_FOUND,
        b"<html>secret</html>",
        "pod `web-0`",
    );
    assert_eq!(error.to_string(), "not found: pod `web-0`");
    let error = refused(
        "flight",
        StatusCode::BAD_GATEWAY,
        b"<html>secret</html>",
        "pod `web-0`",
    );
    assert!(!error.to_string().contains("secret"), "{error}");
}

#[test]
fn no_error_carries_a_token() {
    let token = "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJ4In0.c2lnbmF0dXJl";
    for text in [
        format!("bad token {token}!"),
        format!("Bearer={token}"),
        token.to_owned(),
    ] {
        let error = answer(401, &text).to_string();
        assert!(!error.contains("eyJ"), "{error}");
    }
}

#[test]
fn a_plugins_output_is_not_part_of_an_error() {
    let output = std::process::Output {
        status: std::process::ExitStatus::default(),
        stdout: b"hunter2".to_vec(),
        stderr: b"hunter2".to_vec(),
    };
    let error = AuthError::AuthExecRun {
        cmd: "plugin hunter2".into(),
        out: Box::new(output),
    };
    let wrapped = kube::Error::Auth(error);
    let text = why(&wrapped);
    assert!(!text.contains("hunter2"), "{text}");
    assert!(text.contains("exec plugin failed"), "{text}");
    let boxed: tower::BoxError = Box::new(AuthError::AuthExec("hunter2".into()));
    let text = why(&kube::Error::Service(boxed));
    assert!(!text.contains("hunter2"), "{text}");
}

#[test]
fn foreign_text_is_bounded_and_of_one_line() {
    let text = presentable(&format!("a\nb\u{1b}[2J{}", "x".repeat(5000)));
    assert!(text.starts_with("a b [2J"), "{text}");
    assert!(text.chars().count() <= TEXT_MAX);
}
