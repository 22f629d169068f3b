//! Trying again within a bound.
//!
//! The adapter's waits, here and around it, are on tokio's clock and not on the port's: they bound
//! what sockets do, which takes real time also where a test moves the sessions' clock.

use std::time::Duration;
use tokio::time::Instant;

/// How long a new RoleBinding may take to be known to every API server (C-8).
const RIGHTS_ARRIVE: Duration = Duration::from_secs(5);

/// Pauses that double, until a bound has passed.
pub(super) struct Patience {
    until: Instant,
    pause: Duration,
    longest: Duration,
}

impl Patience {
    /// For a right that was just given, or an object that changes while we look (C-8).
    pub(super) fn for_rights() -> Self {
        Self::new(
            RIGHTS_ARRIVE,
            Duration::from_millis(50),
            Duration::from_millis(500),
        )
    }

    /// For a state that somebody else brings about.
    pub(super) fn for_state(bound: Duration) -> Self {
        Self::new(bound, Duration::from_millis(250), Duration::from_secs(1))
    }

    fn new(bound: Duration, first: Duration, longest: Duration) -> Self {
        // A bound beyond the clock's end is as good as a year.
        let now = Instant::now();
        let until = now
            .checked_add(bound)
            .unwrap_or(now + Duration::from_secs(31_536_000));
        Self {
            until,
            pause: first,
            longest,
        }
    }

    /// What is left of the bound.
    pub(super) fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// Waits; `false`, without waiting, when the bound has passed.
    pub(super) async fn again(&mut self) -> bool {
        let left = self.left();
        if left.is_zero() {
            return false;
        }
        tokio::time::sleep(self.pause.min(left)).await;
        self.pause = (self.pause * 2).min(self.longest);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn rights_get_five_seconds_and_a_last_try_at_their_end() {
        let start = Instant::now();
        let mut patience = Patience::for_rights();
        let mut tries = 1;
        while patience.again().await {
            tries += 1;
        }
        assert!(start.elapsed() >= RIGHTS_ARRIVE);
        assert!(start.elapsed() < RIGHTS_ARRIVE + Duration::from_millis(100));
        assert!((10..20).contains(&tries), "{tries}");
    }
}
