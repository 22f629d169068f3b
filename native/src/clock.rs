//! The real clocks (W-4).

use crate::ports::{Clock, Elapsed};
use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// A timer of the runtime does not count suspension; it is asked again at least this often.
const LONGEST_NAP: Duration = Duration::from_secs(1);

/// The machine's clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

fn boottime() -> Elapsed {
    let now = clock_gettime(ClockId::Boottime);
    Elapsed::new(Duration::new(
        u64::try_from(now.tv_sec).unwrap_or_default(),
        u32::try_from(now.tv_nsec).unwrap_or_default(),
    ))
}

impl Clock for SystemClock {
    fn wall(&self) -> Timestamp {
        let now = clock_gettime(ClockId::Realtime);
        // Milliseconds: what Postgres, JSON and JavaScript carry without loss.
        Timestamp::from_millisecond(
            now.tv_sec
                .saturating_mul(1000)
                .saturating_add(now.tv_nsec / 1_000_000),
        )
        .unwrap_or(Timestamp::UNIX_EPOCH)
    }

    fn elapsed(&self) -> Elapsed {
        boottime()
    }

    fn sleep_until(&self, at: Elapsed) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            loop {
                let left = at.since(boottime());
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left.min(LONGEST_NAP)).await;
            }
        })
    }
}
