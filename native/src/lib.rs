//! .

pub mod cluster;
pub mod ports;
