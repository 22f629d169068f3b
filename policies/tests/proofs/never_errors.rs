//! No expression of the fence fails on the bounded domain (P-4).

use crate::fence::{VERSION, by_expressions, cases};
use decisions::session::Tier;
use policies::eval::Case;
use policies::model::Policy;
use policies::never_errors::{Checked, Required, check};

fn checked(policy: &Policy, cases: &[Case]) -> Checked {
    check(policy, VERSION, Required::Least, cases, |_| {}).expect("a policy that can be judged")
}

fn texts(policy: &Policy) -> Vec<&str> {
    let all = policy.expressions();
    all.map(|(_, expression)| expression.value.as_str())
        .collect()
}

#[test]
fn p_4_no_expression_of_the_fence_errors_on_the_bounded_domain() {
    let (flight, on_flight) = (by_expressions(Tier::Flight), cases(Tier::Flight));
    let mut errors = Vec::new();
    let mut tried = 0;
    for (tier, policies, cases) in [
        ("flight", &flight, &on_flight),
        (
            "ground",
            &by_expressions(Tier::Ground),
            &cases(Tier::Ground),
        ),
    ] {
        for policy in policies {
            let name = &policy.name.value;
            let same = |other: &&Policy| texts(other) == texts(policy);
            if tier == "ground" && flight.iter().any(|other| same(&other)) {
                println!("ground {name}: the expressions of flight");
                continue;
            }
            let checked = checked(policy, cases);
            println!(
                "{tier} {name}: {} bases, {} paths, {} deviations, {} pairs, {} evaluations",
                checked.bases, checked.paths, checked.deviations, checked.pairs, checked.requests
            );
            println!("    no case has {:?}", checked.without_sample);
            errors.extend(checked.errors.iter().map(ToString::to_string));
            tried += checked.requests;
        }
    }
    assert!(errors.is_empty(), "{}", errors.join("\n"));
    assert!(tried >= 30_000, "{tried}");
}

/// Guards that are dropped, what stands there then, and the change that shows it.
const DROPPED: &[(&str, &str, &str, &str)] = &[
    (
        "no-exec",
        "has(request.userInfo.groups) && ",
        "",
        "request.userInfo is {}",
    ),
    (
        "no-exec",
        "has(object.container) && ",
        "",
        "object.container is absent",
    ),
    (
        "pod-annotate",
        "k in variables.before && ",
        "",
        "oldObject.metadata.annotations is {}",
    ),
    (
        "pod-delete",
        "has(oldObject.metadata.labels)",
        "true",
        "oldObject.metadata.labels is absent",
    ),
    ("guard", "has(object.spec) &&", "", "object.spec is absent"),
    (
        "rolebinding",
        "has(object.subjects) && ",
        "",
        "object.subjects is absent",
    ),
    (
        "rolebinding",
        "namespaceObject != null && ",
        "",
        "namespaceObject is null",
    ),
    (
        "debug-container",
        " && v.projected.sources != null",
        "",
        "projected.sources is null",
    ),
];

/// The policy without the guard, and of its conditions and rules those that had it.
fn without(mut policy: Policy, guard: &str, instead: &str) -> Policy {
    policy
        .match_conditions
        .retain(|one| one.expression.value.contains(guard));
    policy
        .validations
        .retain(|one| one.expression.value.contains(guard));
    let conditions = policy.match_conditions.iter_mut();
    let named = conditions.chain(&mut policy.variables);
    let named = named.map(|one| &mut one.expression);
    let validations = policy.validations.iter_mut().map(|one| &mut one.expression);
    let mut dropped = 0;
    for expression in named.chain(validations) {
        dropped += expression.value.matches(guard).count();
        expression.value = expression.value.replace(guard, instead);
    }
    assert!(dropped > 0, "{guard}");
    policy
}

#[test]
fn p_4_a_dropped_guard_is_found() {
    let cases = cases(Tier::Flight);
    for (name, guard, instead, told) in DROPPED {
        let wanted = format!("tower-breakglass-{name}");
        let mut policies = by_expressions(Tier::Flight).into_iter();
        let policy = policies.find(|one| one.name.value == wanted).expect(name);
        let errors = checked(&without(policy, guard, instead), &cases).errors;
        let found = errors.iter().any(|error| error.request.contains(told));
        assert!(found, "{name}: {guard}: {errors:#?}");
    }
}
