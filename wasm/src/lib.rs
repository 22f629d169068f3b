//! Every decision that Break-glass for Backstage makes, and nothing else.
//!
//! Invariant: no standard library, so no clock, randomness or IO; and no async. Time is an
//! argument, so the same arguments give the same answer in the browser, in Node and in the sidecar.
//! Not here: who the caller is, what the cluster says, how a row is written.

#![cfg_attr(not(test), no_std)]

extern crate alloc;
// Where there is a standard library, it brings the allocator and what a panic does.
#[cfg(not(target_arch = "wasm32"))]
extern crate std;

pub mod access;
#[cfg(target_arch = "wasm32")]
pub mod browser;
pub mod copy_pod;
pub mod debug_container;
pub mod door;
pub mod grant;
pub mod limits;
mod lower;
pub mod mounts;
pub mod names;
pub mod pod;
pub mod queue;
pub mod reason;
pub mod recycle;
pub mod request;
pub mod session;
pub mod settings;
pub mod sweep;
pub mod target;
pub mod text;
pub mod tier;
pub mod time;
pub mod transition;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod testing;
