//! Two clocks behind one port, and no third (W-4).
//!
//! Invariant: the wall clock is what people agreed on and may jump; elapsed time counts
//! suspension, never jumps and never goes back. A running session's deadline is on the second.

use jiff::Timestamp;
use std::future::Future;
use std::ops::Add;
use std::pin::Pin;
use std::time::Duration;

/// A point on the clock that never jumps: time since some fixed moment of this machine's boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Elapsed(Duration);

impl Elapsed {
    /// The point `since` after the clock's own zero.
    pub fn new(since: Duration) -> Self {
        Self(since)
    }

    /// How long after `earlier` this is; zero where it is not after.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Elapsed {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

/// The two clocks.
pub trait Clock: Send + Sync + 'static {
    /// What people agreed on: request and approval deadlines, times on the row.
    fn wall(&self) -> Timestamp;
    /// How long since: session deadlines, idle, detached, checkpoint age (CLOCK_BOOTTIME).
    fn elapsed(&self) -> Elapsed;
    /// Waits until `elapsed()` has reached `at`.
    fn sleep_until(&self, at: Elapsed) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}
