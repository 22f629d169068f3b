//! What every adapter of the [`Clock`] port does (W-4), whoever moves it.

use crate::ports::{Clock, Elapsed};
use futures_util::FutureExt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// Longer than any sleep here takes on a busy machine.
const PROMPT: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(10);

/// What every adapter must do. `pass` lets about so much time pass on its clock.
///
/// # Panics
/// Where the adapter does not: it is a test's body.
pub async fn contract<C, F>(clock: Arc<C>, pass: impl Fn(Duration) -> F)
where
    C: Clock,
    F: Future<Output = ()>,
{
    elapsed_time_goes_on_and_never_back(&*clock, &pass).await;
    a_moment_that_is_past_is_not_waited_for(&*clock);
    sleepers_wake_and_none_before_its_moment(&clock, &pass).await;
    a_sleep_that_nobody_polled_is_not_late(&*clock, &pass).await;
}

async fn elapsed_time_goes_on_and_never_back<F>(clock: &dyn Clock, pass: impl Fn(Duration) -> F)
where
    F: Future<Output = ()>,
{
    let (began, wall) = (clock.elapsed(), clock.wall());
    let mut last = began;
    for _ in 0..1000 {
        let now = clock.elapsed();
        assert!(now >= last, "{now:?} came after {last:?}");
        last = now;
    }
    pass(STEP).await;
    let passed = clock.elapsed().since(began);
    assert!(passed >= STEP, "{passed:?}");
    assert_eq!(began.since(clock.elapsed()), Duration::ZERO);
    assert!(clock.wall() > wall, "nobody sets this machine's clock back");
}

fn a_moment_that_is_past_is_not_waited_for(clock: &dyn Clock) {
    let now = clock.elapsed();
    for past in [Elapsed::new(Duration::ZERO), now] {
        let slept = clock.sleep_until(past).now_or_never();
        assert!(slept.is_some(), "{past:?} at {now:?}");
    }
    let later = clock.elapsed() + Duration::from_secs(3600);
    assert!(clock.sleep_until(later).now_or_never().is_none());
}

#[expect(clippy::expect_used, reason = "a test's body panics to fail")]
async fn sleepers_wake_and_none_before_its_moment<C, F>(
    clock: &Arc<C>,
    pass: impl Fn(Duration) -> F,
) where
    C: Clock,
    F: Future<Output = ()>,
{
    let began = clock.elapsed();
    // Out of order, two at once, and one that is longer than a nap of the real clock.
    let sleepers = [30, 10, 1100, 10, 20].map(|after| {
        let at = began + Duration::from_millis(after);
        let clock = Arc::clone(clock);
        tokio::spawn(async move {
            clock.sleep_until(at).await;
            let now = clock.elapsed();
            assert!(now >= at, "woken {:?} early", at.since(now));
        })
    });
    let all = futures_util::future::join_all(sleepers);
    let time_passes = async {
        loop {
            pass(STEP).await;
        }
    };
    tokio::select! {
        woken = tokio::time::timeout(PROMPT, all) => {
            for sleeper in woken.expect("everybody wakes") {
                sleeper.expect("in time");
            }
        }
        () = time_passes => {}
    }
}

/// A sleep is until a moment, not for a while from its first poll on.
async fn a_sleep_that_nobody_polled_is_not_late<F>(clock: &dyn Clock, pass: impl Fn(Duration) -> F)
where
    F: Future<Output = ()>,
{
    let sleep = clock.sleep_until(clock.elapsed() + STEP);
    pass(STEP + STEP).await;
    assert!(sleep.now_or_never().is_some());
}
