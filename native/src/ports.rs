//! The ports: what the use cases need of the world, in the domain's words.
//!
//! Invariant: use cases see these traits and nothing behind them; every verb may be repeated.
//! Adapters: `cluster/`, `store/`, `folder.rs`, `clock.rs`; fakes for simulation: `fakes/`.

pub mod clock;
pub mod cluster;
pub mod recordings;
pub mod store;

pub use clock::{Clock, Elapsed};
pub use cluster::{Cluster, ClusterError, Clusters};
pub use recordings::{RecordingError, Recordings};
pub use store::{Store, StoreError};
