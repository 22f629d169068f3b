//! Small policies of anybody's, and what is found in them.

use super::*;
use crate::eval::Case;
use crate::model::Document;
use crate::sarif::Sources;

const CASES: &str = r#"
- name: a labelled pod
  request:
    object:
      apiVersion: v1
      kind: Pod
      metadata: {name: web, labels: {owner: alice}}
      spec:
        containers: [{name: web, image: i}]
        volumes: [{name: v, projected: {sources: [{secret: {name: s}}]}}]
    userInfo: {username: alice}
- name: a deployment
  request:
    object:
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: web}
      spec: {template: {metadata: {}, spec: {containers: [{name: web, image: i}]}}}
- name: a thing of a kind that nobody knows
  request:
    object: {apiVersion: example.org/v1, kind: Thing, metadata: {name: x}, spec: {size: 3}}
"#;

fn text(resource: &str, expression: &str) -> String {
    let (group, resource) = resource.rsplit_once('/').unwrap_or(("", resource));
    format!(
        r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: theirs}}
spec:
  matchConstraints:
    resourceRules:
      - apiGroups: ["{group}"]
        apiVersions: ["*"]
        operations: [CREATE]
        resources: [{resource}]
  validations:
    - expression: >-
        {expression}
"#
    )
}

fn policy(text: &str) -> Policy {
    let mut documents = Policy::parse_all("policy.yaml", text.as_bytes()).unwrap();
    let Some(Document::Policy(policy)) = documents.pop() else {
        panic!("a policy");
    };
    *policy
}

fn checked_text(text: &str, required: Required) -> Checked {
    let policy = policy(text);
    let cases = Case::parse_all("cases.yaml", CASES.as_bytes()).unwrap();
    check(&policy, KubernetesVersion::NEWEST, required, &cases, |_| {}).unwrap()
}

fn checked(resource: &str, required: Required, expression: &str) -> Checked {
    checked_text(&text(resource, expression), required)
}

#[track_caller]
fn fails(resource: &str, expression: &str, on: &[&str]) {
    let checked = checked(resource, Required::Known, expression);
    let told = checked.errors.iter().map(|one| one.request.as_str());
    assert_eq!(Vec::from_iter(told), on, "{expression}");
}

#[track_caller]
fn holds(resource: &str, expression: &str) {
    let checked = checked(resource, Required::Known, expression);
    assert_eq!(checked.errors, [], "{expression}");
    assert!(checked.requests > 1, "{checked:?}");
}

#[test]
fn a_missing_guard_is_found_with_the_request_that_shows_it() {
    let label = "object.metadata.labels['owner'] != ''";
    let unlabelled = "a labelled pod: object.metadata.labels is absent";
    let unowned = "a labelled pod: object.metadata.labels.owner is absent";
    fails("pods", label, &[unowned, unlabelled]);
    let labels = format!("has(object.metadata.labels) && {label}");
    fails("pods", &labels, &[unowned]);
    let other = "'owner' in object.metadata.labels";
    fails("pods", &format!("{other} ? {label} : true"), &[unlabelled]);
    let guarded = "has(object.metadata.labels) && 'owner' in object.metadata.labels";
    holds("pods", &format!("{guarded} && {label}"));
}

#[test]
fn null_is_told_from_absence() {
    let all = |guard: &str| {
        format!(
            "!has(object.spec.volumes) || object.spec.volumes.all(v, !has(v.projected) || \
             !has(v.projected.sources) || {guard} v.projected.sources.all(s, has(s.secret)))"
        )
    };
    fails(
        "pods",
        &all(""),
        &["a labelled pod: object.spec.volumes[0].projected.sources is null"],
    );
    holds("pods", &all("v.projected.sources == null ||"));
}

#[test]
fn an_error_hides_behind_no_other_expression() {
    let label = text("pods", "object.metadata.labels['owner'] != ''");
    let never = "  matchConditions: [{name: never, expression: 'false'}]\n  validations:";
    let found = checked_text(&label.replace("  validations:", never), Required::Known);
    assert_eq!(found.errors.len(), 2, "{found:?}");
}

#[test]
fn what_the_api_requires_is_not_taken_away() {
    let images = "object.spec.template.spec.containers.all(c, c.image != 'x')";
    holds("apps/deployments", images);
    let replicas = "object.spec.template.metadata.annotations.size() == 0";
    let found = checked("apps/deployments", Required::Known, replicas);
    assert_ne!(found.errors, []);
}

#[test]
fn of_a_kind_that_nobody_knows_only_the_metadata_is_there() {
    fails(
        "example.org/things",
        "object.spec.size < 4",
        &[
            "a thing of a kind that nobody knows: object.spec.size is absent",
            "a thing of a kind that nobody knows: object.spec is absent",
        ],
    );
    holds("example.org/things", "object.metadata.name != 'y'");
}

#[test]
fn as_little_as_can_be_is_less_than_what_the_linter_knows() {
    let name = "request.userInfo.username != 'x'";
    holds("pods", name);
    let found = checked("pods", Required::Least, name);
    assert_ne!(found.errors, []);
}

#[test]
fn a_policy_that_no_case_is_about_was_not_tried() {
    let found = checked("secrets", Required::Known, "object.data.x == 'y'");
    assert_eq!((found.bases, found.requests), (0, 0));
    assert!(as_text(&[found]).contains("nothing was tried"));
}

#[test]
fn an_expression_that_does_not_compile_fails_on_any_request() {
    fails("pods", "object.metadata.name = 'x'", &["any"]);
}

#[test]
fn the_answer_says_what_was_tried_and_what_failed() {
    let found = checked("pods", Required::Known, "object.spec.nodeName == 'x'");
    let text = as_text(std::slice::from_ref(&found));
    for words in [
        "`theirs`: an expression fails",
        "validation 0: no such key: nodeName",
        "on a labelled pod",
        "tried without a value, since no case has one: object.spec.nodeName",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let json = as_json(&[found]);
    assert_eq!(json["policies"][0]["errors"][0]["place"], "validation 0");
    assert_eq!(json["policies"][0]["requests"], 2);
}

#[test]
fn a_failing_expression_is_told_at_its_place() {
    let found = checked("pods", Required::Known, "object.spec.nodeName == 'x'");
    let nothing = checked("secrets", Required::Known, "object.data.x == 'y'");
    let policy = policy(&text("pods", "object.spec.nodeName == 'x'"));
    let sources = Sources::from_iter([("theirs.yaml", &policy)]);
    let run = &as_sarif(&[found, nothing], &sources)["runs"][0];
    let [result] = run["results"].as_array().expect("results").as_slice() else {
        panic!("{run:#}")
    };
    assert_eq!(result["ruleId"], "never-errors/fails");
    let place = &result["locations"][0]["physicalLocation"];
    let at = policy.validations[0].expression.at;
    assert_eq!(place["artifactLocation"]["uri"], "theirs.yaml");
    assert_eq!(place["region"]["startLine"], at.line);
    assert_eq!(place["region"]["startColumn"], at.column);
    assert_eq!(run["invocations"][0]["executionSuccessful"], false);
}
