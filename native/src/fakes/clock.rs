//! Two clocks that move only when they are told to (W-4).

use crate::ports::{Clock, Elapsed};
use jiff::{SignedDuration, Timestamp};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Clocks under a test's control. Clones are the same clocks.
#[derive(Debug, Clone)]
pub struct FakeClock(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    at: Mutex<At>,
    moved: Notify,
}

#[derive(Debug)]
struct At {
    wall: Timestamp,
    elapsed: Duration,
}

impl Default for FakeClock {
    /// The wall clock at 1 800 000 000 s of Unix time, the other an hour after its zero.
    fn default() -> Self {
        let wall = Timestamp::from_second(1_800_000_000).unwrap_or(Timestamp::UNIX_EPOCH);
        let at = At {
            wall,
            elapsed: Duration::from_secs(3600),
        };
        Self(Arc::new(Shared {
            at: Mutex::new(at),
            moved: Notify::new(),
        }))
    }
}

impl FakeClock {
    /// Both clocks at their start.
    pub fn new() -> Self {
        Self::default()
    }

    /// Time passes: both clocks move, and who waited for it wakes.
    pub fn advance(&self, by: Duration) {
        {
            let mut at = self.at();
            at.elapsed += by;
            at.wall += by;
        }
        self.0.moved.notify_waiters();
    }

    /// Somebody sets the wall clock; no time passes.
    pub fn jump_wall(&self, by: SignedDuration) {
        self.at().wall += by;
    }

    fn at(&self) -> MutexGuard<'_, At> {
        self.0.at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for FakeClock {
    fn wall(&self) -> Timestamp {
        self.at().wall
    }

    fn elapsed(&self) -> Elapsed {
        Elapsed::new(self.at().elapsed)
    }

    fn sleep_until(&self, at: Elapsed) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let clock = self.clone();
        Box::pin(async move {
            loop {
                let moved = clock.0.moved.notified();
                tokio::pin!(moved);
                // Registered before the look, so that a move between the two is not missed.
                moved.as_mut().enable();
                if clock.elapsed() >= at {
                    return;
                }
                moved.await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::clock_contract::contract;

    #[tokio::test]
    async fn the_fake_keeps_the_clocks_contract() {
        let clock = FakeClock::new();
        let moved = clock.clone();
        let pass = |by| {
            let clock = moved.clone();
            async move {
                clock.advance(by);
                tokio::task::yield_now().await;
            }
        };
        contract(Arc::new(clock), pass).await;
    }
}
