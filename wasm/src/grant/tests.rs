use super::*;
use crate::pod::policy_table;
use crate::testing::golden;
use proptest::prelude::*;

fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn user(text: &str) -> UserRef {
    UserRef::new(text)
}

fn spec() -> GrantSpec {
    GrantSpec {
        id: SessionId::parse("k3v9x0a1b2c3").expect("an id"),
        namespace: "shop-prod".to_owned(),
        mode: Mode::Live,
        subject: Subject::from_username("system:serviceaccount:tower:backstage"),
        duration_minutes: 30,
        requester: user("user:default/alice"),
        sanction: Sanction::Approved(user("user:default/bob")),
        expires_at: at("2026-11-30T12:30:00.987Z"),
        installation: "tower".to_owned(),
        second: false,
    }
}

#[test]
fn an_approved_live_session_gets_this_binding() {
    golden("grant-flight-approved", &grant(&spec()));
}

#[test]
fn a_glass_broken_copy_session_gets_this_binding() {
    let subject = Subject::from_username("backstage@hangar.example");
    let sanction = Sanction::GlassBroken;
    let broken = GrantSpec {
        mode: Mode::Copy,
        sanction,
        subject,
        duration_minutes: 60,
        ..spec()
    };
    golden("grant-flight-glass-broken", &grant(&broken));
}

#[test]
fn a_ground_session_gets_this_binding() {
    golden(
        "grant-ground",
        &grant(&GrantSpec {
            sanction: Sanction::Ground,
            ..spec()
        }),
    );
}

#[test]
fn an_extended_session_gets_this_second_binding() {
    golden(
        "grant-second",
        &grant(&GrantSpec {
            second: true,
            duration_minutes: 10,
            ..spec()
        }),
    );
}

#[test]
fn only_a_whole_service_account_name_is_one() {
    let account = |namespace: &str, name: &str| Subject::ServiceAccount {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let read = Subject::from_username;
    assert_eq!(
        read("system:serviceaccount:tower:backstage"),
        account("tower", "backstage")
    );
    for other in [
        "alice",
        "system:serviceaccount:tower",
        "system:serviceaccount::backstage",
        "system:serviceaccount:tower:",
        "system:serviceaccount:tower:backstage:x",
        "oidc:system:serviceaccount:tower:backstage",
        "",
    ] {
        assert_eq!(
            read(other),
            Subject::User {
                name: other.to_owned()
            }
        );
    }
}

#[test]
fn a_ttl_is_the_duration_and_15_minutes_within_the_policys_bounds() {
    assert_eq!(
        [0, 15, 30, 60, 61, u32::MAX].map(grant_ttl_minutes),
        [15, 30, 45, 75, 75, 75]
    );
}

/// Whether the second grant is due for a session of 30 minutes that was opened at 12:00:05.
#[track_caller]
fn check_second(expires_at: &str, now: &str, due: bool) {
    let at = |time: &str| at(&format!("2026-11-30T{time}Z"));
    assert_eq!(
        second_grant_due(at("12:00:05"), 30, at(expires_at), at(now)),
        due
    );
}

#[test]
fn a_session_that_was_not_extended_never_needs_a_second_grant() {
    check_second("12:30:00", "12:29:59", false);
    check_second("12:30:00", "12:45:04", false);
}

#[test]
fn an_extended_session_gets_its_second_grant_ten_minutes_before_the_first_lapses() {
    check_second("12:45:00", "12:35:05", false);
    check_second("12:45:00", "12:35:06", true);
    check_second("12:45:00", "12:50:00", true);
}

#[test]
fn the_end_of_time_is_no_panic() {
    assert!(second_grant_due(
        Timestamp::MIN,
        60,
        Timestamp::MAX,
        Timestamp::MAX
    ));
    assert!(!second_grant_due(
        Timestamp::MAX,
        60,
        Timestamp::MIN,
        Timestamp::MIN
    ));
}

fn sanction() -> impl Strategy<Value = Sanction> {
    prop_oneof![
        Just(Sanction::Ground),
        Just(Sanction::GlassBroken),
        Just(Sanction::Approved(user("user:default/bob"))),
    ]
}

proptest! {
    #[test]
    fn every_grant_is_one_that_the_policy_takes(
        id in "[0-9a-z]{12}", live in any::<bool>(), second in any::<bool>(),
        duration_minutes in any::<u32>(), username in ".{0,60}", sanction in sanction(),
    ) {
        let flight = sanction != Sanction::Ground;
        let binding = grant(&GrantSpec {
            id: SessionId::parse(&id).expect("an id"),
            mode: if live { Mode::Live } else { Mode::Copy },
            subject: Subject::from_username(&username),
            duration_minutes, second, sanction, ..spec()
        });
        prop_assert_eq!(policy_table::grant(&binding, flight), Ok(()));
    }
}
