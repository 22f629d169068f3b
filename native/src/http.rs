//! The sidecar's HTTP on its Unix socket (docs/caller-protocol.md).
//!
//! Invariants: a peer that is not on the list gets no byte; the caller's identity comes from the
//! caller header alone; every refusal goes through the one status table in `error`.

pub mod body;
pub mod caller;
pub mod error;
pub mod routes;
pub mod socket;
pub mod upgrade;
