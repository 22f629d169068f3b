//! The answers, compared with committed files, and the exit codes.

use super::*;
use crate::cli::policies::tests::options;
use std::fs;

fn golden(name: &str) -> String {
    format!(
        "{}/../tests/golden/policies-eval/{name}",
        env!("CARGO_MANIFEST_DIR")
    )
}

/// The answer to the golden policies and a request in a file of its own.
fn judge(request: &str) -> (Judgement, Result<(), Failure>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("request.yaml");
    fs::write(&path, request).unwrap();
    let options: EvalOptions = options(&[
        "--policy",
        &golden("policies.yaml"),
        "--request",
        path.to_str().unwrap(),
    ]);
    let documents = files::documents(&options.policy).unwrap();
    (judged(&options, &documents).unwrap(), run(&options))
}

#[track_caller]
fn same(name: &str, text: &str) {
    let path = golden(name);
    if std::env::var_os("BREAKGLASS_BLESS").is_some() {
        fs::write(&path, format!("{text}\n")).unwrap();
    }
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        format!("{text}\n"),
        "{name}"
    );
}

#[test]
fn a_refusal_names_the_rule_and_says_what_the_api_server_says() {
    let (judgement, outcome) = judge(&fs::read_to_string(golden("request.yaml")).unwrap());
    same("denied.txt", &text(&judgement));
    same("denied.json", &format!("{:#}", as_json(&judgement)));
    let documents = files::documents(&[golden("policies.yaml").into()]).unwrap();
    let named = documents
        .into_iter()
        .map(|(_, one)| ("policies.yaml".to_owned(), one));
    let named: Vec<_> = named.collect();
    let sarif = as_sarif(&judgement, &sources(&named));
    same("denied.sarif", &format!("{sarif:#}"));
    assert!(matches!(outcome, Err(Failure::Local(_))), "exit 1");
}

#[test]
fn each_outcome_has_its_words_and_its_exit_code() {
    let request = fs::read_to_string(golden("request.yaml")).unwrap();
    let (judgement, outcome) = judge(&request.replace("b:1", "b@sha256:01"));
    same("allowed.txt", &text(&judgement));
    assert!(outcome.is_ok(), "exit 0");
    let (judgement, outcome) = judge(&request.replace("labels: {owner: alice}", "labels: {}"));
    same("error.txt", &text(&judgement));
    assert!(matches!(outcome, Err(Failure::Local(_))), "exit 1");
    let human = request.replace("system:serviceaccount:tower:backstage", "alice");
    let (judgement, outcome) = judge(&human);
    same("skipped.txt", &text(&judgement));
    assert!(outcome.is_ok(), "exit 0");
}

#[test]
fn what_cannot_be_evaluated_is_never_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let policies = golden("policies.yaml");
    let request = golden("request.yaml");
    let asks = fs::read_to_string(&policies).unwrap().replace(
        "object.spec.containers.size() > 0",
        "authorizer.requestResource.check('get').allowed()",
    );
    let asks = file(
        "asks.yaml",
        &asks.replace("i.contains('@sha256:'))\n", "true)\n"),
    );
    for (policy, request) in [
        (asks.as_str(), request.as_str()),
        (&policies, &file("no-request", "a: 1")),
        (&policies, &file("no-yaml", "[")),
        (&file("no-policy", "kind: Pod\napiVersion: v1"), &request),
        ("/nowhere", &request),
        (&policies, "/nowhere"),
    ] {
        let outcome = run(&options(&["--policy", policy, "--request", request]));
        assert!(
            matches!(outcome, Err(Failure::Usage(_))),
            "{policy} {request}: {outcome:?}"
        );
    }
}
