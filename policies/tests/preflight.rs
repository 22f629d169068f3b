//! The preflight's property (P-7): what the builders make passes, and any other change of one
//! field is refused, but for those on a list that says why each does no harm.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test panics to fail"
)]

#[path = "preflight/built.rs"]
mod built;
#[path = "preflight/change.rs"]
mod change;
#[path = "preflight/harmless.rs"]
mod harmless;

use built::FENCES;
use change::changes;
use decisions::session::Tier;
use harmless::Harmless;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[test]
fn what_the_builders_have_made_passes() {
    for tier in FENCES {
        for sent in built::fixtures(tier) {
            assert_eq!(sent.judged(tier), Ok(()), "{tier:?}: {}", sent.name);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn whatever_the_builders_make_passes(pod in built::pods(), choices in built::choices()) {
        for tier in FENCES {
                for sent in built::made(tier, &pod, &choices) {
                prop_assert_eq!(sent.judged(tier), Ok(()), "{:?}: {}", tier, sent.name);
            }
        }
    }
}

#[test]
fn a_change_of_one_field_is_refused_or_known_to_do_no_harm() {
    let fields = serde_saphyr::from_str(include_str!("preflight/fields.yaml")).expect("fields");
    let list = include_str!("../../tests/policies/harmless-paths.yaml");
    let mut harmless = Harmless::parse(list);
    let (mut tried, mut refused) = (0_usize, 0_usize);
    let mut holes: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for tier in FENCES {
        for sent in built::fixtures(tier) {
            for change in changes(&fields, sent.kind, &sent.object) {
                if !sent.sends(&change.path) {
                    continue;
                }
                tried += 1;
                let on = format!("{}-{}", sent.sending, tier_name(tier));
                if sent.with(change.object.clone()).judged(tier).is_err() {
                    refused += 1;
                } else if !harmless.excuses(&on, &change)
                    && !harmless.excuses(sent.sending, &change)
                {
                    let at = (on, change.path);
                    holes.entry(at).or_default().push(change.becomes);
                }
            }
        }
    }
    println!("{tried} changes of one field tried, {refused} refused");
    assert!(
        holes.is_empty(),
        "neither refused nor on the list:\n{holes:#?}"
    );
    assert_eq!(
        harmless.idle(),
        Vec::<String>::new(),
        "these excuse nothing"
    );
    assert!(tried >= 10_000, "{tried}");
}

fn tier_name(tier: Tier) -> &'static str {
    match tier {
        Tier::Ground => "ground",
        Tier::Flight => "flight",
    }
}
