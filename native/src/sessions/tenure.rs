//! Whether this process may act for the sessions at this moment (D-5).
//!
//! Invariants: what would make something new in a cluster asks `may_open`, which is false as soon
//! as the lease could be another's; once another owns the sessions, nothing here touches a cluster.

use super::runtime::lock;
use crate::ports::Elapsed;
use std::sync::Mutex;

/// The lease, as the use cases see it.
#[derive(Debug, Default)]
pub(crate) struct Tenure(Mutex<State>);

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Never held, or another's: hands off.
    #[default]
    NotOurs,
    /// Held; certainly so until then.
    HeldUntil(Elapsed),
}

impl Tenure {
    /// The lease was confirmed; it is certainly ours until then.
    pub(crate) fn confirmed(&self, until: Elapsed) {
        *lock(&self.0) = State::HeldUntil(until);
    }

    /// Another process owns the sessions.
    pub(crate) fn lost(&self) {
        *lock(&self.0) = State::NotOurs;
    }

    /// Whether something new may be made: the lease is certainly ours.
    pub(crate) fn may_open(&self, now: Elapsed) -> bool {
        matches!(*lock(&self.0), State::HeldUntil(until) if now < until)
    }

    /// Whether a session may still be taken down: nobody is known to have taken over.
    pub(crate) fn may_end(&self) -> bool {
        *lock(&self.0) != State::NotOurs
    }
}
