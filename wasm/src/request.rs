//! What people send, read once: the request for a session (S-5), the note and waiver of a decision
//! (S-6), the note of a review.
//!
//! Invariants: every problem is reported, in the order of the fields, not just the first; the same
//! body has the same problems in every host; a value of `SessionRequest`, `Approval` or `Note` has
//! passed its checks; nothing here depends on who asks.
//!
//! Numbers are JavaScript's: `15`, `15.0` and `1.5e1` are one number, and `"15"` is not a number.
//! `null` is the same as leaving the field out. Unknown fields are ignored.

mod fields;

#[cfg(test)]
mod tests;

use crate::session::{Mode, Tier};
use crate::text::{CONTAINER_NAME_MAX, NAME_MAX};
use alloc::string::String;
use alloc::vec::Vec;
use fields::{Choice, Fields};
use serde::Serialize;
use serde_json::Value;

pub use fields::{Note, Problem, ProblemCode};

/// The lengths a session can be asked for, in minutes (S-5).
pub const DURATIONS_MINUTES: [u32; 3] = [15, 30, 60];

/// A request that has passed `parse_session_request` (S-5); not `Deserialize`, because there is no
/// other way to one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
#[non_exhaustive]
pub struct SessionRequest {
    /// The app, as the catalog and the namespace's label name it.
    pub app: String,
    /// The app's environment.
    pub env: String,
    /// The cluster, by its name in the configuration.
    pub cluster: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod.
    pub pod: String,
    /// The container of the pod that the session is about.
    pub container: String,
    /// How the session looks at the app.
    pub mode: Mode,
    /// One of `DURATIONS_MINUTES`.
    pub duration_minutes: u32,
    /// Why, trimmed; never empty.
    pub reason: String,
    /// An http(s) link to a ticket.
    pub ticket_url: Option<String>,
    /// See the app's processes; live only.
    pub process_access: bool,
    /// See the app's volumes, read-only.
    pub volume_access: bool,
    /// Recycle the pod even if it is its controller's last ready one; live on Ground only.
    pub recycle_last_pod: bool,
    /// Keep the app's containers from running in the copy; copy only.
    pub hold_app: bool,
    /// Open on Flight without a second person.
    pub glass_broken: bool,
}

impl SessionRequest {
    /// Drops what counts for nothing on this tier (S-5): on Flight a last ready pod is never
    /// recycled, and Ground opens at once, so there is no glass to break.
    #[must_use]
    pub fn for_tier(mut self, tier: Tier) -> Self {
        match tier {
            Tier::Ground => self.glass_broken = false,
            Tier::Flight => self.recycle_last_pod = false,
        }
        self
    }
}

const MODES: [Choice<Mode>; 2] = [
    Choice {
        text: "copy",
        value: Mode::Copy,
    },
    Choice {
        text: "live",
        value: Mode::Live,
    },
];

/// Reads the body of `POST /sessions` (S-5). The tier, where it is known, decides only which flags
/// are dropped (`for_tier`), never which problems there are.
///
/// # Errors
/// Every problem, in the order of the fields.
pub fn parse_session_request(
    body: &Value,
    tier: Option<Tier>,
) -> Result<SessionRequest, Vec<Problem>> {
    let mut fields = Fields::of(body)?;
    let app = fields.name("app", NAME_MAX);
    let env = fields.name("env", NAME_MAX);
    let cluster = fields.name("cluster", NAME_MAX);
    let namespace = fields.name("namespace", NAME_MAX);
    let pod = fields.name("pod", NAME_MAX);
    let container = fields.name("container", CONTAINER_NAME_MAX);
    let mode = fields.choice("mode", &MODES);
    let duration_minutes = fields.one_of_numbers("durationMinutes", &DURATIONS_MINUTES);
    let reason = fields.required_note("reason");
    let ticket_url = fields.url("ticketUrl");
    let process_access = fields.flag("processAccess");
    let volume_access = fields.flag("volumeAccess");
    let recycle_last_pod = fields.flag("recycleLastPod");
    let hold_app = fields.flag("holdApp");
    let glass_broken = fields.flag("glassBroken");

    // Where the mode itself is wrong, nothing can be said about what depends on it.
    if mode == Some(Mode::Copy) {
        for (field, set) in [
            ("processAccess", process_access),
            ("recycleLastPod", recycle_last_pod),
        ] {
            fields.refuse_if(set == Some(true), field, ProblemCode::OnlyWithLive);
        }
    }
    fields.refuse_if(
        mode == Some(Mode::Live) && hold_app == Some(true),
        "holdApp",
        ProblemCode::OnlyWithCopy,
    );

    // Where a field is wrong a blank stands, and `finish` lets nothing with a blank out: written
    // so because a way out after every field weighs a kilobyte (B-11).
    let request = fields.finish(SessionRequest {
        app: app.unwrap_or_default(),
        env: env.unwrap_or_default(),
        cluster: cluster.unwrap_or_default(),
        namespace: namespace.unwrap_or_default(),
        pod: pod.unwrap_or_default(),
        container: container.unwrap_or_default(),
        mode: mode.unwrap_or(Mode::Live),
        duration_minutes: duration_minutes.unwrap_or_default(),
        reason: reason.unwrap_or_else(Note::unwritten).into_string(),
        ticket_url: ticket_url.flatten(),
        process_access: process_access.unwrap_or_default(),
        volume_access: volume_access.unwrap_or_default(),
        recycle_last_pod: recycle_last_pod.unwrap_or_default(),
        hold_app: hold_app.unwrap_or_default(),
        glass_broken: glass_broken.unwrap_or_default(),
    })?;
    Ok(match tier {
        Some(tier) => request.for_tier(tier),
        None => request,
    })
}

/// An approver's answer (S-6): a note, and with `keep_pod_reason` the waiver of the recycle.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Approval {
    /// What the approver wants to say.
    pub note: Option<Note>,
    /// The approver keeps the pod, and why.
    pub keep_pod_reason: Option<Note>,
}

/// Reads the body of `POST …/approve`; no body (`null`) says nothing and is fine (S-14b).
/// `mode` and `tier` are the session's.
///
/// # Errors
/// Every problem, in the order of the fields.
pub fn parse_approval(body: &Value, mode: Mode, tier: Tier) -> Result<Approval, Vec<Problem>> {
    if body.is_null() {
        return Ok(Approval::default());
    }
    let mut fields = Fields::of(body)?;
    let note = fields.note("note");
    let keep_pod = fields.flag("keepPod");
    let reason = fields.note("keepPodReason");
    if let (Some(true), Some(reason)) = (keep_pod, &reason) {
        fields.push(waiver_refusal(mode, tier, reason.as_ref()));
    }
    // A reason for keeping a pod that nobody asked to keep says nothing.
    let kept = keep_pod == Some(true);
    fields.finish(Approval {
        note: note.flatten(),
        keep_pod_reason: reason.flatten().filter(|_| kept),
    })
}

/// Why an approver cannot keep this session's pod, if so (S-6): only a live session recycles one,
/// only Flight has an approver, and keeping it needs a reason.
pub fn waiver_refusal(mode: Mode, tier: Tier, reason: Option<&Note>) -> Option<Problem> {
    if mode != Mode::Live {
        return Some(Problem::new("keepPod", ProblemCode::OnlyWithLive));
    }
    if tier != Tier::Flight {
        return Some(Problem::new("keepPod", ProblemCode::OnlyOnFlight));
    }
    match reason {
        Some(_) => None,
        None => Some(Problem::new("keepPodReason", ProblemCode::Required)),
    }
}

/// Reads the body of `POST …/deny`: an optional note; no body (`null`) is fine (S-14b).
///
/// # Errors
/// Every problem, in the order of the fields.
pub fn parse_denial(body: &Value) -> Result<Option<Note>, Vec<Problem>> {
    if body.is_null() {
        return Ok(None);
    }
    let mut fields = Fields::of(body)?;
    let note = fields.note("note");
    fields.finish(note.flatten())
}

/// Reads the body of `POST …/review`: the note is required.
///
/// # Errors
/// Every problem, in the order of the fields.
pub fn parse_review(body: &Value) -> Result<Note, Vec<Problem>> {
    let mut fields = Fields::of(body)?;
    let note = fields.required_note("note");
    fields.finish(note.unwrap_or_else(Note::unwritten))
}
