//! The sessions' rows (spec 06).
//!
//! Invariants: every transition is one conditional update (S-1), its deadline part of the
//! condition; losing is an answer, not an error. Rows are never deleted. Only the process that
//! holds the lease changes a row (D-5): the adapter checks its epoch in every statement.

use super::cluster::MadeObject;
use async_trait::async_trait;
use decisions::limits::{LimitRefusal, Limits};
use decisions::session::{MountedVolume, Session, SessionId, State};
use decisions::transition::{Approve, Deny, End, Extend, Review, Start};
use jiff::Timestamp;

/// Why the store did not answer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database is away; nothing was changed, or whether it was is unknown.
    #[error("the database cannot be reached, try again in a moment")]
    Away(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// This process does not own the sessions (D-5); nothing was changed.
    #[error("another sidecar owns the sessions of this database")]
    NotOwner,
    /// What the database holds is not what this version understands.
    #[error("a row cannot be understood: {what}")]
    Unreadable {
        /// Which row and column.
        what: String,
    },
}

/// What became of a claim (S-1).
#[derive(Debug, Clone, PartialEq)]
pub enum Claimed {
    /// Ours: the row as it is now.
    Won(Box<Session>),
    /// Somebody else was faster, or the deadline passed; the row's state now.
    Lost {
        /// The state that the row is in.
        now_in: State,
    },
    /// There is no such session.
    Unknown,
}

/// What became of an insert (S-3, S-14c).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inserted {
    /// Stored.
    Stored,
    /// The id exists: draw again.
    IdTaken,
    /// One more would pass this limit; nothing was stored. Counted in the same transaction.
    OverLimit(LimitRefusal),
}

/// Facts that opening adds to the row; `None` leaves a column as it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OpenedFacts {
    /// `volumes`
    pub volumes: Option<Vec<MountedVolume>>,
    /// `sensitive`
    pub sensitive: Option<bool>,
    /// `role_binding`
    pub role_binding: Option<String>,
    /// `debug_container`
    pub debug_container: Option<String>,
    /// `copy_pod`
    pub copy_pod: Option<String>,
}

/// What the end leaves on the row (C-20).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// `recycled`; once true, it stays so.
    pub recycled: Option<bool>,
    /// The final version; `None` leaves the last checkpoint's.
    pub recording: Option<SavedRecording>,
    /// `cleanup_notes`; replaces what was there. `None` clears it.
    pub notes: Option<String>,
}

/// A saved recording, as its row keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedRecording {
    /// `recording_key`
    pub key: String,
    /// `recording_bucket`
    pub bucket: String,
    /// `recording_version`
    pub version: String,
    /// `recording_sha256`: lower-case hex.
    pub sha256: String,
    /// `recording_bytes`
    pub bytes: u64,
}

/// An object that is not known to be gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldObject {
    /// The object.
    pub object: MadeObject,
    /// Why it was left in place on purpose; `None` for one that is to be removed.
    pub kept: Option<String>,
}

/// Whether this process owns the sessions (D-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lease {
    /// It does, under this epoch; each taking over has a higher one.
    Held {
        /// The fencing number.
        epoch: i64,
    },
    /// Another process does.
    HeldByAnother,
}

/// A place among the unfinished rows: behind the row with this deadline and id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The row's deadline.
    pub expires_at: Timestamp,
    /// The row's id, which orders rows of one deadline.
    pub id: String,
}

/// A part of the unfinished rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// Those that can be understood.
    pub rows: Vec<Session>,
    /// Where the next page begins; `None` where this one reached the end.
    pub next: Option<Place>,
}

/// The sessions' rows.
#[async_trait]
pub trait Store: Send + Sync {
    /// Brings the tables up to this version's shape (D-2). Safe when two processes start at once.
    async fn migrate(&self) -> Result<(), StoreError>;

    /// Takes the lease if it is free or lapsed, or renews it if it is ours (D-5). Database time.
    async fn take_or_renew_lease(&self) -> Result<Lease, StoreError>;

    /// Gives the lease back, so that the one standing by need not wait for it to lapse.
    async fn release_lease(&self) -> Result<(), StoreError>;

    /// Stores a new row, limits checked in the same transaction (S-14c).
    async fn insert(&self, session: &Session, limits: &Limits) -> Result<Inserted, StoreError>;

    /// One row.
    async fn get(&self, id: &SessionId) -> Result<Option<Session>, StoreError>;

    /// The newest rows of an app's environment, newest first.
    async fn newest(&self, app: &str, env: &str, limit: u32) -> Result<Vec<Session>, StoreError>;

    /// Up to `limit` of the rows that are not ended, oldest deadline first: the first ones, or
    /// those behind a place that an earlier page ended at (W-3).
    async fn unfinished(&self, after: Option<&Place>, limit: u32) -> Result<Page, StoreError>;

    /// Ended rows with an object in a cluster that is not known to be gone (C-23). Those looked at
    /// longest ago come first, so that every one gets its turn.
    async fn unsettled(&self, limit: u32) -> Result<Vec<Session>, StoreError>;

    /// Requested → approved.
    async fn claim_approve(&self, claim: &Approve) -> Result<Claimed, StoreError>;
    /// Requested → ended, with the decision on the row.
    async fn claim_deny(&self, claim: &Deny) -> Result<Claimed, StoreError>;
    /// Approved → active.
    async fn claim_start(&self, claim: &Start) -> Result<Claimed, StoreError>;
    /// Active, not yet extended → active with a later deadline.
    async fn claim_extension(&self, claim: &Extend) -> Result<Claimed, StoreError>;
    /// Any unfinished state, the one the claim names → ended.
    async fn claim_end(&self, claim: &End) -> Result<Claimed, StoreError>;
    /// Ended and due → reviewed.
    async fn claim_review(&self, claim: &Review) -> Result<Claimed, StoreError>;

    /// Adds what opening learned; only while the row is active. Whether it was: `false` means
    /// that the session ended meanwhile (or is not there) and nothing was noted.
    async fn note_opened(&self, id: &SessionId, facts: &OpenedFacts) -> Result<bool, StoreError>;

    /// Keeps where the newest saved version of the recording is, from the header on.
    async fn note_checkpoint(
        &self,
        id: &SessionId,
        saved: &SavedRecording,
    ) -> Result<(), StoreError>;

    /// Stores what the end left (C-20); only on an ended row.
    async fn note_outcome(&self, id: &SessionId, outcome: &Outcome) -> Result<(), StoreError>;

    /// Remembers an object before the next step (C-26). Repeating it is harmless.
    async fn note_object(&self, object: &MadeObject) -> Result<(), StoreError>;

    /// Forgets that a session holds an object, which is gone. Another session's record of the
    /// same object stays: each end settles its own (C-26).
    async fn forget_object(&self, session: &SessionId, uid: &str) -> Result<(), StoreError>;

    /// Marks a session's object that was left in place on purpose, and why: it is watched until
    /// it is gone, but not removed by the sweep (C-17, C-25).
    async fn keep_object(
        &self,
        session: &SessionId,
        uid: &str,
        why: &str,
    ) -> Result<(), StoreError>;

    /// The objects of a session that are not known to be gone.
    async fn objects(&self, id: &SessionId) -> Result<Vec<HeldObject>, StoreError>;

    /// Whether another active session is on the same pod (C-17).
    async fn others_on_pod(&self, session: &Session) -> Result<bool, StoreError>;

    /// A cheap question, for readyz.
    async fn ping(&self) -> Result<(), StoreError>;
}
