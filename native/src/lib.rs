//! .

pub mod cluster;
#[cfg(any(test, feature = "testing"))]
pub mod fakes;
pub mod ports;
