//! The ports: what the use cases need of the world, in the domain's words.
//!
//! Invariant: use cases see these traits and nothing behind them; every verb may be repeated.
//! Adapters: `cluster/`, `store/`, `folder.rs`, `rekor/`, `clock.rs`; fakes: `fakes/`.

pub mod clock;
pub mod cluster;
pub mod log;
pub mod recordings;
pub mod store;

pub use clock::{Clock, Elapsed};
pub use cluster::{Cluster, ClusterError, Clusters};
pub use log::{LogError, TransparencyLog};
pub use recordings::{RecordingError, Recordings};
pub use store::{Store, StoreError};
