//! The sidecar of Break-glass for Backstage, and its command line.
//!
//! Invariant: `sessions`, `sweep`, `terminal` and `recording` see the ports and the decisions,
//! never an adapter; only `app` names both (docs/architecture.md).

pub mod app;
pub mod cli;
pub mod clock;
pub mod cluster;
pub mod config;
#[cfg(any(test, feature = "testing"))]
pub mod fakes;
pub mod folder;
pub mod http;
pub mod logs;
pub mod ports;
pub mod recording;
pub mod rekor;
pub mod sessions;
pub mod store;
pub mod sweep;
pub mod terminal;
