//! The cases of the policies, looked at as data: that they are many, named, and miss no clause.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test panics to fail"
)]

use breakglass_tests::policy_cases::{Case, Expected, all};
use breakglass_tests::root;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

fn cases() -> Vec<Case> {
    all(&root(), "system:serviceaccount:breakglass-cases:backend").expect("cases")
}

/// The messages of the rendered Flight policies, as reviewed.
fn messages() -> BTreeMap<String, Vec<String>> {
    let folder = root().join("tests/golden/policies/flight");
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("golden files") {
        let text = std::fs::read_to_string(entry.expect("a file").path()).expect("a file");
        let first = text.split("\n---\n").next().expect("a document");
        let object: Value = serde_saphyr::from_str(first).expect("YAML");
        if object["kind"] != "ValidatingAdmissionPolicy" {
            continue;
        }
        let clauses = object["spec"]["validations"]
            .as_array()
            .expect("validations");
        let messages = clauses
            .iter()
            .map(|c| c["message"].as_str().expect("a message").to_owned());
        let name = object["metadata"]["name"]
            .as_str()
            .expect("a name")
            .to_owned();
        found.insert(name, messages.collect());
    }
    found
}

#[test]
fn there_are_three_hundred_and_no_two_of_one_name() {
    let cases = cases();
    assert!(cases.len() >= 300, "{}", cases.len());
    let mut names = BTreeSet::new();
    for case in &cases {
        assert!(
            names.insert((&case.policy, &case.name)),
            "{}: {}",
            case.policy,
            case.name
        );
    }
}

#[test]
fn every_refusal_is_one_clauses_and_every_clause_has_one() {
    let mut unmet: BTreeSet<String> = messages().into_values().flatten().collect();
    for case in cases() {
        let Expected::Denied { policy, says } = &case.expected else {
            continue;
        };
        let messages = messages();
        let said: Vec<_> = messages[policy]
            .iter()
            .filter(|m| m.contains(says.as_str()))
            .collect();
        assert_eq!(said.len(), 1, "{policy}: {}: `{says}`", case.name);
        unmet.remove(said[0]);
    }
    assert!(unmet.is_empty(), "no case is refused with: {unmet:#?}");
}

#[test]
fn every_policy_has_cases_that_it_lets_through() {
    for policy in messages().into_keys() {
        let lets = |case: &Case| case.policy == policy && case.expected == Expected::Allowed;
        assert!(
            cases().iter().filter(|case| lets(case)).count() >= 5,
            "{policy}"
        );
    }
}
