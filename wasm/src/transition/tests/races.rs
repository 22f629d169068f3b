//! Two people, one session: whatever each decided on the same row, one of them wins.

use super::*;
use proptest::prelude::*;

fn any_claim(state: State) -> impl Strategy<Value = Option<Claim>> {
    let event = prop::sample::select(Event::ALL.to_vec());
    (event, -3600i64..7200).prop_map(move |(event, seconds)| {
        let now = at("+0m") + SignedDuration::from_secs(seconds);
        attempt(&session_in(state), event, now).ok()
    })
}

fn any_race() -> impl Strategy<Value = (State, Option<Claim>, Option<Claim>)> {
    prop::sample::select(STATES.to_vec())
        .prop_flat_map(|state| (Just(state), any_claim(state), any_claim(state)))
}

proptest! {
    #[test]
    fn of_two_claims_on_one_session_only_one_wins((state, first, second) in any_race()) {
        if let (Some(first), Some(second)) = (first, second) {
            let mut row = session_in(state);
            prop_assert!(first.apply(&mut row), "what was decided on this row holds on it");
            let after = row.clone();
            // The one pair that is no race: an extended session can be ended by somebody.
            let ends_anyway = matches!(&second, Claim::End(end) if end.deadline.is_none());
            let both = matches!(first, Claim::Extend(_)) && ends_anyway;
            prop_assert_eq!(second.apply(&mut row), both);
            prop_assert!(both || row == after, "who lost wrote nothing");
        }
    }

    #[test]
    fn an_ended_row_never_changes_but_for_its_review((state, claim, _) in any_race()) {
        if let Some(claim) = claim {
            let mut row = Session { state: State::Ended, ..session_in(state) };
            if !matches!(claim, Claim::Review(_)) {
                prop_assert!(!claim.apply(&mut row));
            }
        }
    }
}
