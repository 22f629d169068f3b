//! Sessions for tests. Time zero is `T0`; each session's clock starts there.

use crate::session::{
    Actor, Mode, Permission, ReviewState, Session, SessionId, State, Tier, UserRef,
};
use jiff::{SignedDuration, Timestamp};

/// When every fixture entered its state.
pub(crate) const T0: &str = "2026-03-01T10:00:00Z";
/// The requester.
pub(crate) const ALICE: &str = "user:default/alice";
/// Somebody else.
pub(crate) const BOB: &str = "user:default/bob";

/// `+29m59s`, `-1h`: that long after `T0`.
pub(crate) fn at(offset: &str) -> Timestamp {
    let (sign, text) = offset.split_at(1);
    let offset: SignedDuration = text.parse().unwrap();
    let zero: Timestamp = T0.parse().unwrap();
    if sign == "-" {
        zero - offset
    } else {
        zero + offset
    }
}

pub(crate) fn id() -> SessionId {
    SessionId::parse("0123456789ab").unwrap()
}

/// A caller of app `shop`.
pub(crate) fn actor(user: &str, allowed: &[Permission]) -> Actor {
    Actor {
        user: UserRef::new(user),
        app: "shop".to_owned(),
        allowed: allowed.to_vec(),
        reviewer: false,
    }
}

/// A live Flight request of 15 minutes by Alice.
pub(crate) fn requested() -> Session {
    Session {
        id: id(),
        app: "shop".to_owned(),
        env: "production".to_owned(),
        cluster: "prod".to_owned(),
        namespace: "shop-production".to_owned(),
        pod: "web-1".to_owned(),
        container: "web".to_owned(),
        mode: Mode::Live,
        process_access: false,
        volume_access: false,
        volumes: Vec::new(),
        recycle_last_pod: false,
        recycled: None,
        reason: "orders hang".to_owned(),
        ticket_url: None,
        requester: UserRef::new(ALICE),
        tier: Tier::Flight,
        duration_minutes: 15,
        approver: None,
        approved_at: None,
        decision_note: None,
        glass_broken: false,
        review_state: None,
        reviewed_by: None,
        reviewed_at: None,
        review_note: None,
        created_at: at("+0m"),
        started_at: None,
        extended_at: None,
        expires_at: at("+30m"),
        ended_at: None,
        end_reason: None,
        ended_by: None,
        role_binding: None,
        copy_pod: None,
        debug_container: None,
        recording_key: None,
        recording_sha256: None,
        recording_bytes: None,
        recording_bucket: None,
        recording_version: None,
        sensitive: false,
        hold_app: false,
        pod_image: None,
        pod_image_id: None,
        recycle_waived_reason: None,
        review_reminded_at: None,
        review_escalated_at: None,
        recording_rekor_index: None,
        recording_rekor_uuid: None,
        anchor_attempted_at: None,
        anchor_error: None,
        cleanup_notes: None,
        state: State::Requested,
    }
}

/// The request, approved by Bob at `T0`.
pub(crate) fn approved() -> Session {
    Session {
        state: State::Approved,
        created_at: at("-5m"),
        approver: Some(UserRef::new(BOB)),
        approved_at: Some(at("+0m")),
        expires_at: at("+10m"),
        ..requested()
    }
}

/// The approved session, started at `T0`.
pub(crate) fn active() -> Session {
    Session {
        state: State::Active,
        approved_at: Some(at("-5m")),
        started_at: Some(at("+0m")),
        expires_at: at("+15m"),
        ..approved()
    }
}

/// A glass-broken session of Alice that ended at `T0`, recorded, its review due.
pub(crate) fn ended_glass_broken() -> Session {
    Session {
        state: State::Ended,
        created_at: at("-20m"),
        started_at: Some(at("-20m")),
        expires_at: at("-5m"),
        ended_at: Some(at("+0m")),
        end_reason: Some("expired".to_owned()),
        glass_broken: true,
        review_state: Some(ReviewState::Due),
        recording_key: Some("shop/production/0123456789ab.cast".to_owned()),
        recording_sha256: Some("00".repeat(32)),
        ..requested()
    }
}
