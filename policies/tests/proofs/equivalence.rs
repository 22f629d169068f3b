//! Ground decides as Flight does, but for what is declared (P-8), on every case there is.

use crate::fence::{VERSION, cases, judged};
use decisions::session::Tier;
use policies::equivalence::{Compared, compare};
use policies::eval::{Case, PolicySet};
use policies::fence::{FLIGHT_ONLY, FlightOnly};
use std::collections::BTreeSet;

fn compared(declared: &[FlightOnly], wanted: impl Fn(&Case) -> bool) -> Compared {
    let flight = PolicySet::new(judged(Tier::Flight), VERSION).expect("policies");
    let ground = PolicySet::new(judged(Tier::Ground), VERSION).expect("policies");
    let mut all = cases(Tier::Flight);
    let known: BTreeSet<String> = all.iter().map(|case| case.name.clone()).collect();
    let more = cases(Tier::Ground).into_iter();
    all.extend(more.filter(|case| !known.contains(&case.name)));
    let requests = all
        .iter()
        .filter(|case| wanted(case))
        .map(|case| (case.name.as_str(), &case.request));
    compare(&flight, &ground, declared, requests)
}

#[test]
fn p_8_ground_and_flight_differ_where_it_is_declared_and_there_they_do() {
    let found = compared(&FLIGHT_ONLY, |_| true);
    println!("{} requests judged by both fences", found.requests);
    assert_eq!(found.undeclared, Vec::<String>::new());
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
        let mut declared = FLIGHT_ONLY.to_vec();
        declared.remove(left_out);
        assert_ne!(
            compared(&declared, refused).undeclared,
            Vec::<String>::new(),
            "{left_out}"
        );
    }
}
