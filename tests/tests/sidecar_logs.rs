//! What the sidecar logs, in a process of its own: the subscriber is the process's, so that every
//! thread logs into it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    clippy::type_complexity,
    dead_code,
    reason = "a test panics to fail; the stand has more than this one test needs"
)]

#[path = "sidecar/logs.rs"]
mod logs;
#[path = "sidecar/plan.rs"]
mod plan;
#[path = "sidecar/stand.rs"]
mod stand;
#[path = "sidecar/terminal.rs"]
mod terminal;
