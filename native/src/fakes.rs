//! Fakes of the ports that can fail on command, and the contracts they share with the real ones.
//!
//! Invariant: a fake refuses what the real adapter refuses; `contract` functions say what.

pub mod clock;
pub mod clock_contract;
pub mod cluster;
pub mod cluster_contract;
pub mod log;
pub mod log_contract;
pub mod recordings;
pub mod shell;
pub mod store;
pub mod store_contract;
