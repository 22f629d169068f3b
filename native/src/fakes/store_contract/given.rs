//! Rows and claims for tests of a store.
//!
//! Invariant: a claim is made by the decision that makes it in the product, from a copy of the row
//! in the state that the claim is for; so a test can make one that the row itself would not allow.

use crate::ports::cluster::{MadeObject, ObjectKind};
use crate::ports::store::SavedRecording;
use decisions::reason::EndReason;
use decisions::request::{parse_approval, parse_denial, parse_review};
use decisions::session::{
    Actor, Mode, Permission, ReviewState, Session, SessionId, State, Tier, UserRef,
};
use decisions::transition::{
    self, Approve, Claim, Deny, End, Extend, Review, Start, end_by_system, end_by_user,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

/// When every given row was asked for.
pub fn t0() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("a time")
}

/// Minutes after `t0`.
pub fn minute(minutes: i64) -> Timestamp {
    t0() + SignedDuration::from_mins(minutes)
}

/// A session id that nobody had before.
pub fn new_id() -> SessionId {
    loop {
        if let Some(id) = SessionId::from_random(rand::random()) {
            return id;
        }
    }
}

/// A Flight request of 15 minutes of a new id, with an app, a requester and a pod of its own.
pub fn requested() -> Session {
    let id = new_id();
    let row = json!({
        "id": id, "app": format!("app-{id}"), "env": "production", "cluster": format!("on-{id}"),
        "namespace": format!("shop-{id}"), "pod": format!("web-{id}"), "container": "web",
        "mode": "live", "processAccess": false, "volumeAccess": false, "volumes": [],
        "recycleLastPod": false, "reason": "orders hang", "requester": format!("user:default/{id}"),
        "tier": "Flight", "durationMinutes": 15, "glassBroken": false, "createdAt": t0(),
        "expiresAt": minute(30), "sensitive": false, "holdApp": false, "state": "requested",
    });
    serde_json::from_value(row).expect("a session")
}

/// A glass-broken session that is active from `t0` on, its review due.
pub fn opened() -> Session {
    Session {
        state: State::Active,
        started_at: Some(t0()),
        expires_at: minute(15),
        glass_broken: true,
        review_state: Some(ReviewState::Due),
        ..requested()
    }
}

/// A row with something in every column that an insert writes.
pub fn everything() -> Session {
    let volume = json!({
        "name": "data", "mountPath": "/volumes/data", "appPath": "/var/lib/data",
        "note": "sub-path `a\"b` of the whole volume — ß 🛫",
    });
    Session {
        mode: Mode::Copy,
        process_access: true,
        volume_access: true,
        volumes: vec![serde_json::from_value(volume).expect("a volume")],
        recycle_last_pod: true,
        reason: "ß 🛫 'quoted' \"twice\" \\ and\nmore ".repeat(50),
        ticket_url: Some(format!("https://tickets.example/{}", "x".repeat(470))),
        tier: Tier::Ground,
        duration_minutes: 60,
        created_at: t0() + SignedDuration::from_micros(123_457),
        started_at: Some(t0() + SignedDuration::from_micros(123_457)),
        expires_at: minute(60) + SignedDuration::from_micros(123_457),
        sensitive: true,
        hold_app: true,
        pod_image: Some("registry.example/shop/web:1".to_owned()),
        pod_image_id: Some(format!(
            "registry.example/shop/web@sha256:{}",
            "ab".repeat(32)
        )),
        ..opened()
    }
}

/// Somebody who may everything on the row's app.
fn anybody(row: &Session, name: &str) -> Actor {
    Actor {
        user: UserRef::new(name),
        app: row.app.clone(),
        allowed: vec![
            Permission::Request,
            Permission::Approve,
            Permission::Terminate,
        ],
        reviewer: true,
    }
}

fn requester(row: &Session) -> Actor {
    anybody(row, row.requester.as_str())
}

/// The row, were it in this state with its deadline far away.
fn were(row: &Session, state: State) -> Session {
    Session {
        state,
        expires_at: Timestamp::MAX,
        ..row.clone()
    }
}

/// An approval at this time, by this person.
pub fn approve(row: &Session, by: &str, at: Timestamp) -> Approve {
    let body = json!({"note": format!("{by} says yes")});
    let approval = parse_approval(&body, row.mode, row.tier).expect("an approval");
    let row = were(row, State::Requested);
    transition::approve(&row, &anybody(&row, by), approval, at).expect("an approval")
}

/// An approval that keeps the pod (S-6).
pub fn approve_and_keep(row: &Session, by: &str, at: Timestamp) -> Approve {
    let body = json!({"keepPod": true, "keepPodReason": "evidence"});
    let approval = parse_approval(&body, Mode::Live, Tier::Flight).expect("an approval");
    let row = Session {
        mode: Mode::Live,
        tier: Tier::Flight,
        ..were(row, State::Requested)
    };
    transition::approve(&row, &anybody(&row, by), approval, at).expect("an approval")
}

/// A denial at this time.
pub fn deny(row: &Session, by: &str, at: Timestamp) -> Deny {
    let note = parse_denial(&json!({"note": "not today"})).expect("a note");
    let row = were(row, State::Requested);
    transition::deny(&row, &anybody(&row, by), note, at).expect("a denial")
}

/// A start at this time.
pub fn start(row: &Session, at: Timestamp) -> Start {
    let row = were(row, State::Approved);
    transition::start(&row, &requester(&row), at).expect("a start")
}

/// An extension of this deadline, asked for at this time.
pub fn extend(row: &Session, from: Timestamp, at: Timestamp) -> Extend {
    let row = Session {
        extended_at: None,
        expires_at: from,
        ..were(row, State::Active)
    };
    transition::extend(&row, &requester(&row), None, at.min(before(from))).expect("an extension")
}

/// The end of a row in this state, by a person.
pub fn end(row: &Session, from: State, by: &str, at: Timestamp) -> End {
    let row = were(row, from);
    end_by_user(&row, &anybody(&row, by), at).expect("an end")
}

/// The end of a row in this state, at this deadline.
pub fn end_at(row: &Session, from: State, deadline: Timestamp) -> End {
    let reason = EndReason::of_deadline(from).expect("a state with a deadline");
    let row = Session {
        expires_at: deadline,
        ..were(row, from)
    };
    end_by_system(&row, reason, deadline).expect("an end")
}

/// A review at this time.
pub fn review(row: &Session, by: &str, at: Timestamp) -> Review {
    let note = parse_review(&json!({"note": format!("{by} looked")})).expect("a note");
    let row = Session {
        glass_broken: true,
        review_state: Some(ReviewState::Due),
        ..were(row, State::Ended)
    };
    transition::review(&row, &anybody(&row, by), note, at).expect("a review")
}

/// One claim of every kind on a row, each at this time.
pub fn one_of_each(row: &Session, at: Timestamp) -> Vec<Claim> {
    let by = "user:default/somebody";
    vec![
        approve(row, by, at).into(),
        deny(row, by, at).into(),
        start(row, at).into(),
        extend(row, row.expires_at, at).into(),
        end(row, State::Requested, by, at).into(),
        end(row, State::Approved, by, at).into(),
        end(row, State::Active, by, at).into(),
        review(row, by, at).into(),
    ]
}

/// A microsecond earlier.
pub fn before(at: Timestamp) -> Timestamp {
    at - SignedDuration::from_micros(1)
}

/// A microsecond later.
pub fn after(at: Timestamp) -> Timestamp {
    at + SignedDuration::from_micros(1)
}

/// A saved version of a recording, of this size.
pub fn saved(row: &Session, bytes: u64) -> SavedRecording {
    SavedRecording {
        key: format!("{}/{}/{}.cast", row.app, row.env, row.id),
        bucket: "recordings".to_owned(),
        version: format!("version-{bytes}"),
        sha256: format!("{bytes:064x}"),
        bytes,
    }
}

/// An object that the session made.
pub fn object(row: &Session, kind: ObjectKind, uid: &str) -> MadeObject {
    MadeObject {
        session: row.id.clone(),
        cluster: row.cluster.clone(),
        kind,
        namespace: row.namespace.clone(),
        name: format!("breakglass-{}", row.id),
        uid: uid.to_owned(),
    }
}
