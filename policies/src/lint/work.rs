//! How long one file is thought about.
//!
//! Invariant: whatever the linter does more than once for a part of an expression is paid for here,
//! so that a file of [`crate::source::limits::BYTES`] is judged, or said not to be, in time. No
//! clock: the same file gives the same findings.

use std::cell::Cell;

/// Steps for a file: some hundred times what a published bundle needs, and less than a second.
const STEPS: u64 = 8_000_000;
/// What is kept of a variable, at most: facts of each outcome, and needs. Of the needs those that
/// are left out show when these are mended; without a fact more is reported, never less.
pub(super) const KEPT: usize = 200;
/// Filters that are kept of a variable.
pub(super) const FILTERS: usize = 16;
/// Variables of a policy that are looked at.
pub(super) const VARIABLES: usize = 500;

/// The steps that are left.
pub(super) struct Work(Cell<u64>);

impl Work {
    pub(super) fn of_a_file() -> Self {
        Self(Cell::new(STEPS))
    }

    /// Pays, and says whether anything is left.
    pub(super) fn spend(&self, steps: usize) -> bool {
        let left = self.0.get().saturating_sub(steps as u64);
        self.0.set(left);
        left > 0
    }

    pub(super) fn is_over(&self) -> bool {
        self.0.get() == 0
    }
}
