//! .

pub mod copy_pod;
pub mod debug_container;
pub mod grant;
pub mod mounts;
pub mod names;
pub mod pod;
pub mod reason;
pub mod recycle;
pub mod session;
