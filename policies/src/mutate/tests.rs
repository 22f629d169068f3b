use super::*;
use crate::model::Document;
use crate::sarif::Sources;
use crate::source::Position;
use serde_json::{Value, json};

const VERSION: KubernetesVersion = KubernetesVersion::NEWEST;

fn policy(expression: &str) -> Policy {
    let text = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": "p" },
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": { "resourceRules": [{ "apiGroups": [""], "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"], "resources": ["pods"] }] },
            "matchConditions": [{ "name": "c", "expression": "has(object.metadata.name)" }],
            "variables": [{ "name": "v", "expression": "1" }],
            "validations": [{ "expression": expression, "message": "no" }],
        },
    });
    let found = Policy::parse_all("p", text.to_string().as_bytes()).expect("a policy");
    let [Document::Policy(policy)] = found.as_slice() else {
        panic!("one policy");
    };
    (**policy).clone()
}

fn case(name: &str, object: &Value, denied: bool) -> Case {
    let request = json!({ "object": object });
    Case {
        name: name.to_owned(),
        request: crate::eval::Request::from_json(&request).expect("a request"),
        denied: denied.then(|| crate::eval::Refusal {
            by: "p".to_owned(),
            says: "no".to_owned(),
        }),
    }
}

fn pod(spec: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "x", "namespace": "n" },
            "spec": spec })
}

fn changes(expression: &str) -> Vec<String> {
    let all = mutants(&policy(expression));
    let rules = all.iter().filter(|one| one.id.place == "validation 0");
    rules
        .map(|one| format!("{}: {}", one.id.operator, one.id.change))
        .collect()
}

#[test]
fn every_operator_changes_what_it_is_for() {
    for (expression, wanted) in [
        (
            "has(object.a) && object.a",
            "drop guard: has(object.a) && object.a => object.a",
        ),
        ("true || false", "drop clause: true || false => true"),
        (
            "true || false",
            "swap and/or: true || false => true && false",
        ),
        (
            "object.a > 0",
            "weaken comparison: object.a > 0 => object.a >= 0",
        ),
        (
            "object.a == 0",
            "weaken comparison: object.a == 0 => object.a >= 0",
        ),
        ("object.a == 0", "negate: object.a == 0 => !(object.a == 0)"),
        ("!has(object.a)", "negate: !has(object.a) => has(object.a)"),
        ("object.a == 'x'", "change constant: \"x\" => \"\""),
        ("object.a == 1", "change constant: 1 => 2"),
        ("object.a == true", "change constant: true => false"),
        (
            "object.a.all(x, x)",
            "all/exists: object.a.all(x, x) => object.a.exists(x, x)",
        ),
        (
            "object.a.filter(x, x) == []",
            "drop filter: object.a.filter(x, x) => object.a",
        ),
        (
            "object.a in ['b', 'c']",
            "drop element: [\"b\", \"c\"] => [\"c\"]",
        ),
        ("variables.v == 1", "drop variable use: variables.v => []"),
        (
            "has(object.a) ? true : false",
            "take a branch: has(object.a) ? true : false => true",
        ),
        ("object.a == 1", "other object: object.a => oldObject.a"),
        (
            "object.a.matches('^b{2}$')",
            "change pattern: object.a.matches(\"^b{2}$\") => object.a.matches(\"b{2}$\")",
        ),
        ("true", "drop rule: the whole"),
    ] {
        let all = changes(expression);
        assert!(all.iter().any(|one| one == wanted), "{wanted}: {all:#?}");
    }
}

#[test]
fn patterns_lose_their_pieces_one_by_one() {
    assert_eq!(
        regex::patterns("^(a|[b-d]{3})?$"),
        [
            "(a|[b-d]{3})?$",
            "^(a|[b-d]{3})?",
            "^(a)?$",
            "^(a|.{3})?$",
            "^(a|[b-c]{3})?$",
            "^(a|[b-d]{2})?$",
            "^(a|[b-d]{4})?$",
            "^(a|[b-d]{3,})?$",
            "^(a|[b-d]{3})+$",
        ]
    );
}

#[test]
fn ids_are_each_others_only() {
    let all = mutants(&policy("object.a == 1 && object.b == 1 && object.a == 1"));
    let ids: BTreeSet<_> = all.iter().map(|one| one.id.clone()).collect();
    assert_eq!(ids.len(), all.len());
}

#[test]
fn a_case_kills_and_what_none_kills_is_told() {
    let policy = policy("has(object.spec.a) && object.spec.a >= 1");
    let cases = [
        case("one", &pod(&json!({ "a": 1 })), false),
        case("none", &pod(&json!({})), true),
        case("zero", &pod(&json!({ "a": 0 })), true),
    ];
    let found = score(&[policy], VERSION, &cases, |_| {}).expect("a score");
    assert_eq!(found.unmet, []);
    let killed = |operator: &str, change: &str| {
        let is = |id: &&Id| id.operator == operator && id.change.starts_with(change);
        found.killed.keys().any(|id| is(&id))
    };
    assert!(killed("weaken comparison", "object.spec.a >= 1"));
    assert!(killed("drop rule", ""));
    // The request would be refused all the same, but by an error.
    assert!(killed("drop guard", ""));
    // No case has no name.
    let survives = |id: &&Id| id.operator == "drop match condition";
    let left = found.survivors.iter().find(survives).expect("a survivor");
    let problems = found.problems(&[]);
    assert!(
        problems.contains(&Problem::Survives(left.clone())),
        "{problems:#?}"
    );
}

#[test]
fn a_list_that_is_wrong_is_told() {
    let id = |change: &str| Id {
        policy: "p".to_owned(),
        place: "validation 0".to_owned(),
        operator: "negate".to_owned(),
        change: change.to_owned(),
    };
    let entry = |change: &str, reason: &str| Equivalent {
        policy: "p".to_owned(),
        place: "validation 0".to_owned(),
        operator: "negate".to_owned(),
        change: change.to_owned(),
        reason: reason.to_owned(),
    };
    let score = Score {
        killed: BTreeMap::from([(id("killed"), "case".to_owned())]),
        survivors: BTreeSet::from([id("left"), id("listed")]),
        ..Score::default()
    };
    assert_eq!(
        score.problems(&[entry("left", "r"), entry("listed", "r")]),
        []
    );
    let listed = [
        entry("listed", "r"),
        entry("listed", "r"),
        entry("left", " "),
        entry("killed", "r"),
        entry("gone", "r"),
    ];
    assert_eq!(score.problems(&listed).len(), 4);
    assert_eq!(score.problems(&listed[..1]).len(), 1);
}

#[test]
fn the_unchanged_policy_decides_as_the_judge_does() {
    let policy = policy("has(object.spec.a) && object.spec.a >= 1");
    for (spec, denied) in [(json!({ "a": 1 }), false), (json!({}), true)] {
        for claimed in [true, false] {
            let cases = [case("c", &pod(&spec), claimed)];
            let trial = Trial::new(&policy, VERSION, &cases).expect("a trial");
            assert_eq!(
                trial.unmet().is_none(),
                denied == claimed,
                "{spec} {claimed}"
            );
        }
    }
}

#[test]
fn the_survivors_of_an_answer_are_entries_of_a_list_once_they_have_a_reason() {
    let cases = [case("a pod", &pod(&json!({ "a": 1 })), false)];
    let found = score(&[policy("object.spec.a == 1")], VERSION, &cases, |_| {}).expect("a score");
    let json = as_json(&found, &[]);
    assert_eq!(json["mutants"], found.mutants());
    assert_eq!(json["killed"], found.killed.len());
    let mut survivors = json["survivors"].clone();
    let entries = survivors.as_array_mut().expect("survivors");
    assert!(!entries.is_empty() && !found.killed.is_empty(), "{json}");
    for entry in entries {
        entry["reason"] = json!("because");
    }
    let list = survivors.to_string();
    let listed = Equivalent::parse_all("list", list.as_bytes()).expect("a list");
    assert_eq!(found.problems(&listed), []);
    assert_eq!(
        as_json(&found, &listed)["survivors"][0]["reason"],
        "because"
    );
    let (without, with) = (as_text(&found, &[]), as_text(&found, &listed));
    assert!(without.contains("0 of them listed\n"), "{without}");
    assert!(without.contains("\nsurvives: p: "), "{without}");
    assert!(!with.contains("survives: "), "{with}");
    for bad in ["a: 1", "[{policy: p}]", "[1]", "["] {
        assert!(
            Equivalent::parse_all("list", bad.as_bytes()).is_err(),
            "{bad}"
        );
    }
}

#[test]
fn a_problem_is_told_at_the_part_that_it_is_about() {
    let policy = policy("object.spec.a == 1");
    let gone = Equivalent {
        policy: "p".to_owned(),
        place: "validation 9".to_owned(),
        operator: "negate".to_owned(),
        change: "x".to_owned(),
        reason: "r".to_owned(),
    };
    let sources = Sources::from_iter([("p.yaml", &policy)]);
    let of = |rule: &str, denied: bool| {
        let cases = [case("a pod", &pod(&json!({ "a": 1 })), denied)];
        let found = score(std::slice::from_ref(&policy), VERSION, &cases, |_| {});
        let sarif = as_sarif(
            &found.expect("a score"),
            std::slice::from_ref(&gone),
            &sources,
        );
        let results = sarif["runs"][0]["results"].as_array().expect("results");
        let all = results.iter().filter(|one| one["ruleId"] == rule);
        all.map(|one| one["locations"][0]["physicalLocation"]["region"].clone())
            .collect::<Vec<Value>>()
    };
    let region = |at: Position| json!({ "startLine": at.line, "startColumn": at.column });
    assert_eq!(of("mutate/unmet", true), [region(policy.at)]);
    assert_eq!(of("mutate/unmet", false), [Value::Null; 0]);
    assert_eq!(of("mutate/listed", false), [Value::Null]);
    let survivors = of("mutate/survives", false);
    let expression = region(policy.validations[0].expression.at);
    assert!(survivors.contains(&expression), "{survivors:?}");
    let constraints = policy.match_constraints.as_ref().expect("constraints");
    assert!(survivors.contains(&region(constraints.at)), "{survivors:?}");
}
