//! The real clocks (W-4).
//!
//! Invariant: a long sleep is one timer of the kernel's on the clock that counts suspension; it
//! wakes nobody before its moment.

use crate::ports::{Clock, Elapsed};
use jiff::Timestamp;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A timer of the runtime does not count suspension; it is asked again at least this often, and
/// used for no longer sleep where the kernel gives a timer of its own.
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
                // Without a descriptor left, short naps do as well.
                if left <= LONGEST_NAP || alarm(at).await.is_err() {
                    tokio::time::sleep(left.min(LONGEST_NAP)).await;
                }
            }
        })
    }
}

/// Waits for the kernel's timer.
async fn alarm(at: Elapsed) -> io::Result<()> {
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    let timer = timerfd_create(TimerfdClockId::Boottime, flags)?;
    let at = at.since(Elapsed::new(Duration::ZERO));
    let moment = Timespec {
        tv_sec: at.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: at.subsec_nanos().into(),
    };
    let once = Itimerspec {
        it_interval: Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        },
        it_value: moment,
    };
    timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &once)?;
    #[expect(
        deprecated,
        reason = "what replaces it is unsafe; a descriptor that is owned here is sound with both"
    )]
    let timer = AsyncFd::with_interest(timer, Interest::READABLE)?;
    // It strikes once and is dropped: nobody reads how often.
    timer.readable().await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::clock_contract::contract;
    use std::sync::Arc;

    #[tokio::test]
    async fn the_machines_clocks_keep_the_contract() {
        // The runtime's timer may wake a fraction of a millisecond before this clock's moment.
        let pass = |by: Duration| tokio::time::sleep(by + Duration::from_millis(2));
        contract(Arc::new(SystemClock), pass).await;
    }

    #[tokio::test]
    async fn an_alarm_strikes_at_its_moment_and_one_that_is_past_at_once() {
        for after in [0, 1, 120] {
            let began = boottime();
            let at = began + Duration::from_millis(after);
            alarm(at).await.unwrap();
            let late = boottime().since(at);
            assert!(boottime() >= at, "{after} ms");
            assert!(late < Duration::from_secs(30), "{after} ms: {late:?}");
        }
    }

    #[tokio::test]
    async fn a_sleep_longer_than_a_nap_is_one_alarm() {
        let at = boottime() + LONGEST_NAP + Duration::from_millis(200);
        let mut sleep = SystemClock.sleep_until(at);
        let mut polls = 0;
        std::future::poll_fn(|cx| {
            polls += 1;
            sleep.as_mut().poll(cx)
        })
        .await;
        assert!(boottime() >= at);
        assert!(polls <= 3, "it was woken {polls} times");
    }
}
