//! Ground decides as Flight does, but for what is declared (P-8), on every case there is.

use crate::fence::{VERSION, by_expressions, cases, judged};
use decisions::session::Tier;
use policies::equivalence::{Compared, NativeOnly, compare, on_the_domain};
use policies::eval::{Case, PolicySet};
use policies::fence::FLIGHT_ONLY;
use policies::model::Policy;
use std::collections::BTreeSet;

fn every_case() -> Vec<Case> {
    let mut all = cases(Tier::Flight);
    let known: BTreeSet<String> = all.iter().map(|case| case.name.clone()).collect();
    let more = cases(Tier::Ground).into_iter();
    all.extend(more.filter(|case| !known.contains(&case.name)));
    all
}

fn declared() -> Vec<NativeOnly> {
    FLIGHT_ONLY.iter().map(NativeOnly::from).collect()
}

fn compared(declared: &[NativeOnly], wanted: impl Fn(&Case) -> bool) -> Compared {
    let flight = PolicySet::new(judged(Tier::Flight), VERSION).expect("policies");
    let ground = PolicySet::new(judged(Tier::Ground), VERSION).expect("policies");
    let all = every_case();
    let requests = all
        .iter()
        .filter(|case| wanted(case))
        .map(|case| (case.name.as_str(), &case.request));
    compare(&flight, &ground, declared, requests)
}

#[test]
fn p_8_ground_and_flight_differ_where_it_is_declared_and_there_they_do() {
    let found = compared(&declared(), |_| true);
    println!("{} requests judged by both fences", found.requests);
    assert_eq!(found.undeclared, []);
    let every: Vec<usize> = (0..FLIGHT_ONLY.len()).collect();
    assert_eq!(
        Vec::from_iter(found.shown),
        every,
        "a declared difference never shows"
    );
}

#[test]
fn a_difference_that_is_not_declared_is_told() {
    // Where they differ, something is refused.
    let refused = |case: &Case| {
        let by = case.denied.as_ref().map_or("", |denied| denied.by.as_str());
        ["tower-breakglass-rolebinding", "tower-breakglass-no-exec"].contains(&by)
    };
    for left_out in 0..FLIGHT_ONLY.len() {
        let mut declared = declared();
        declared.remove(left_out);
        let found = compared(&declared, refused).undeclared;
        assert_ne!(found, [], "{left_out}");
    }
}

#[test]
fn p_8_on_the_bounded_domain_ground_and_flight_differ_where_it_is_declared() {
    let (flight, ground) = (by_expressions(Tier::Flight), by_expressions(Tier::Ground));
    let found = on_the_domain(
        &flight,
        &ground,
        &declared(),
        VERSION,
        &every_case(),
        |_| {},
    );
    let found = found.expect("policies");
    println!(
        "{} policies, {} conditions, rules and messages: {} changes, {} pairs, {} comparisons",
        found.policies, found.compared, found.changes, found.pairs, found.requests
    );
    assert_eq!(found.undeclared, []);
    assert_eq!(found.shown, (0..FLIGHT_ONLY.len()).collect());
    assert_eq!((found.untried, found.undecided), (vec![], vec![]));
    assert_eq!(found.policies, 6, "those of both");
    assert!(found.requests >= 20_000, "{}", found.requests);
}

/// What of the difference is told, where Ground's policy is changed so.
#[track_caller]
fn told(name: &str, declared: &[NativeOnly], change: impl Fn(&mut Policy), words: &str) {
    let of = |tier| {
        let wanted = format!("tower-breakglass-{name}");
        let mut all = by_expressions(tier);
        all.retain(|policy| policy.name.value == wanted);
        all
    };
    let (flight, mut ground) = (of(Tier::Flight), of(Tier::Ground));
    ground.iter_mut().for_each(change);
    let found = on_the_domain(&flight, &ground, declared, VERSION, &every_case(), |_| {});
    let undeclared = found.expect("policies").undeclared;
    assert!(
        undeclared.iter().any(|one| one.to_string().contains(words)),
        "{words}: {undeclared:#?}"
    );
}

#[test]
fn a_difference_on_the_domain_that_is_not_declared_is_told() {
    let rules = |change: fn(&str) -> String| {
        move |policy: &mut Policy| {
            for rule in &mut policy.validations {
                rule.expression.value = change(&rule.expression.value);
            }
        }
    };
    // No case has an empty name: the domain has.
    let unnamed = rules(|text| text.replace(" && request.name != \"\"", ""));
    told(
        "pod-delete",
        &declared(),
        unnamed,
        "request.name is \"\": the native one says false, Kyverno's true",
    );
    let unguarded = |policy: &mut Policy| {
        for variable in &mut policy.variables {
            let text = &mut variable.expression.value;
            *text = text.replace("namespaceObject != null && ", "");
        }
    };
    told("rolebinding", &declared(), unguarded, "Kyverno's an error");
    let shorter = |policy: &mut Policy| drop(policy.validations.pop());
    told(
        "pod-delete",
        &declared(),
        shorter,
        "the native one has 3 times a validation, Kyverno's 2",
    );
    let silent = |policy: &mut Policy| policy.validations[0].message = None;
    told("pod-delete", &declared(), silent, "other words");
    let elsewhere = |policy: &mut Policy| {
        let constraints = policy.match_constraints.as_mut().expect("constraints");
        constraints.resource_rules.pop();
    };
    told("pod-delete", &declared(), elsewhere, "does not match");
    told("rolebinding", &[], |_| {}, "times a validation");
    told("no-exec", &[], |_| {}, "there is none of Kyverno's");
}
