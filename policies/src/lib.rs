//! The fence of Break-glass: what the clusters themselves allow and refuse, rendered from the
//! same configuration that the sidecar runs on (P-2).
//!
//! Invariant: text in, text out. No clock, no randomness, no network and no files: the same
//! configuration gives the same bytes, so that Git and Argo CD see a change only where there is
//! one.
#![forbid(unsafe_code)]

mod bounded;
pub mod cel;
pub mod compare;
pub mod equivalence;
pub mod eval;
pub mod fence;
pub mod identity;
pub mod lint;
pub mod model;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "an operator names the nodes that it changes"
)]
pub mod mutate;
pub mod never_errors;
pub mod preflight;
pub mod progress;
pub mod render;
pub mod sarif;
pub mod source;
mod template;
