//! The mutation score of the fence (P-9).

use crate::fence::{VERSION, cases, of_other_versions, policies, root};
use decisions::session::Tier;
use policies::mutate::{Equivalent, score};
use std::collections::BTreeMap;

#[test]
fn p_9_every_mutant_is_killed_or_listed_with_a_reason() {
    let name = "equivalent-mutants.yaml";
    let bytes = std::fs::read(root().join("tests/policies").join(name)).expect("the list");
    let equivalent = Equivalent::parse_all(name, &bytes).expect("a list of mutants");
    let mut cases = cases(Tier::Flight);
    cases.extend(of_other_versions());
    let score = score(&policies(Tier::Flight), VERSION, &cases, |_| {});
    let score = score.expect("policies that can be judged");
    let mut operators: BTreeMap<&str, usize> = BTreeMap::new();
    for id in score.killed.keys().chain(&score.survivors) {
        *operators.entry(&id.operator).or_default() += 1;
    }
    println!(
        "{} mutants, {} killed, {} equivalent, {} stillborn; {operators:?}; cases {:?}",
        score.mutants(),
        score.killed.len(),
        equivalent.len(),
        score.stillborn,
        score.cases
    );
    let problems = score.problems(&equivalent);
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert!(
        problems.is_empty(),
        "{} problems:\n{}",
        problems.len(),
        problems.join("\n")
    );
    assert!(score.mutants() >= 400, "{}", score.mutants());
}
