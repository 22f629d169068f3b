//! .

#[cfg(any(test, feature = "testing"))]
pub mod fakes;
pub mod folder;
pub mod ports;
pub mod recording;
