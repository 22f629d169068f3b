//! How the decisions' own types are read; the questions are beside their types.
//!
//! Invariant: what is read here is what serde's derive reads; `door`'s tests compare.

use super::shape::{Place, Shape, shape};
use crate::limits::Limits;
use crate::session::{
    Actor, Mode, MountedVolume, Permission, ReviewState, Session, SessionId, State, Tier, UserRef,
};
use crate::settings::LabelNames;
use crate::tier::TierFacts;
use crate::time;
use alloc::string::String;
use alloc::vec::Vec;
use jiff::Timestamp;
use serde_json::Value;

/// Enums without data, and the blank that stands for what did not fit.
macro_rules! words {
    ($($Type:ident = $blank:ident),+ $(,)?) => {$(
        impl Shape for $Type {
            fn of(given: Option<Value>, at: &mut Place) -> Self {
                at.word(given).unwrap_or(Self::$blank)
            }
        }
    )+};
}

words! {
    Mode = Live,
    Permission = Request,
    ReviewState = Due,
    State = Ended,
    Tier = Flight,
}

impl Shape for SessionId {
    fn of(given: Option<Value>, at: &mut Place) -> Self {
        at.parsed(given, |text| Self::parse(text).ok())
            .unwrap_or_else(Self::blank)
    }
}

impl Shape for UserRef {
    fn of(given: Option<Value>, at: &mut Place) -> Self {
        Self::new(&String::of(given, at))
    }
}

impl Shape for Timestamp {
    fn of(given: Option<Value>, at: &mut Place) -> Self {
        at.parsed(given, time::read).unwrap_or_default()
    }
}

shape!(Actor { user, app, allowed = Vec::new(), reviewer = false });
shape!(MountedVolume {
    name,
    mount_path,
    app_path,
    note
});
shape!(Session {
    id,
    app,
    env,
    cluster,
    namespace,
    pod,
    container,
    mode,
    process_access,
    volume_access,
    volumes,
    recycle_last_pod,
    recycled,
    reason,
    ticket_url,
    requester,
    tier,
    duration_minutes,
    approver,
    approved_at,
    decision_note,
    glass_broken,
    review_state,
    reviewed_by,
    reviewed_at,
    review_note,
    created_at,
    started_at,
    extended_at,
    expires_at,
    ended_at,
    end_reason,
    ended_by,
    role_binding,
    copy_pod,
    debug_container,
    recording_key,
    recording_sha256,
    recording_bytes,
    recording_bucket,
    recording_version,
    sensitive,
    hold_app,
    pod_image,
    pod_image_id,
    recycle_waived_reason,
    review_reminded_at,
    review_escalated_at,
    recording_rekor_index,
    recording_rekor_uuid,
    anchor_attempted_at,
    anchor_error,
    cleanup_notes,
    state
});
shape!(TierFacts { preview = false, declared, cluster, ground_clusters = Vec::new() });

impl Shape for Limits {
    fn of(given: Option<Value>, at: &mut Place) -> Self {
        let mut members = at.members(given);
        let default = Self::default();
        Self {
            per_user: at.member_or(&mut members, "per_user", default.per_user),
            per_app: at.member_or(&mut members, "per_app", default.per_app),
            per_cluster: at.member_or(&mut members, "per_cluster", default.per_cluster),
        }
    }
}

impl Shape for LabelNames {
    fn of(given: Option<Value>, at: &mut Place) -> Self {
        let mut members = at.members(given);
        let default = Self::default();
        Self {
            app: at.member_or(&mut members, "app", default.app),
            env: at.member_or(&mut members, "env", default.env),
            ephemeral_env: at.member_or(&mut members, "ephemeral_env", default.ephemeral_env),
            tier: at.member_or(&mut members, "tier", default.tier),
            process_access: at.member_or(&mut members, "process_access", default.process_access),
        }
    }
}
