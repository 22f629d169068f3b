//! The sidecar in this process, on a real Postgres, a real folder of recordings and the stand-in
//! for a cluster, with a clock that the test moves: what must hold when things go wrong.
//!
//! Nobody waits for minutes here, and nobody sleeps to win a race: a state is polled for with a
//! bound, and the clock is moved.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    clippy::type_complexity,
    reason = "a test panics to fail, and tells its story in one piece"
)]

#[path = "sidecar/access.rs"]
mod access;
#[path = "sidecar/answers.rs"]
mod answers;
#[path = "sidecar/away.rs"]
mod away;
#[path = "sidecar/clusters.rs"]
mod clusters;
#[path = "sidecar/deadlines.rs"]
mod deadlines;
#[path = "sidecar/frames.rs"]
mod frames;
#[path = "sidecar/leftovers.rs"]
mod leftovers;
#[path = "sidecar/meanwhile.rs"]
mod meanwhile;
#[path = "sidecar/opening.rs"]
mod opening;
#[path = "sidecar/peers.rs"]
mod peers;
#[path = "sidecar/plan.rs"]
mod plan;
#[path = "sidecar/requests.rs"]
mod requests;
#[path = "sidecar/revoking.rs"]
mod revoking;
#[path = "sidecar/running.rs"]
mod running;
#[path = "sidecar/shells.rs"]
mod shells;
#[path = "sidecar/spools.rs"]
mod spools;
#[path = "sidecar/stand.rs"]
mod stand;
#[path = "sidecar/stepping_down.rs"]
mod stepping_down;
#[path = "sidecar/stopping.rs"]
mod stopping;
#[path = "sidecar/terminal.rs"]
mod terminal;
#[path = "sidecar/tiers.rs"]
mod tiers;
