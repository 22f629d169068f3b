//! The driver's only clock: how long a step took, and waiting for a state with a bound.
//!
//! Invariant: nothing here waits for a time to pass; every wait ends when its state is there, when
//! it can no longer come, or at its bound.
#![expect(
    clippy::disallowed_methods,
    reason = "a driver of processes measures and polls; no decision depends on this clock"
)]

use std::thread;
use std::time::{Duration, Instant};

use super::error::ClusterError;

/// How often a state is asked for: short beside the second that a part takes to come up.
const POLL_EVERY: Duration = Duration::from_millis(50);

/// How long something has taken so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stopwatch(Instant);

impl Stopwatch {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Says on stderr what begins; the returned step says how long it took.
pub(super) fn step(what: impl Into<String>) -> Step {
    Step {
        what: what.into(),
        watch: Stopwatch::start(),
    }
}

/// A step of the work that a person waits for.
#[derive(Debug)]
pub(super) struct Step {
    what: String,
    watch: Stopwatch,
}

impl Step {
    pub(super) fn done(self) {
        say(&format!(
            "{} ({:.1} s)",
            self.what,
            self.watch.elapsed().as_secs_f32()
        ));
    }
}

/// One line of progress.
pub(super) fn say(line: &str) {
    eprintln!("cluster: {line}");
}

/// Asks `ready` until it says yes.
///
/// # Errors
/// [`ClusterError::TimedOut`] at the bound; whatever `ready` fails with, at once.
pub(super) fn wait_for(
    what: &str,
    bound: Duration,
    mut ready: impl FnMut() -> Result<bool, ClusterError>,
) -> Result<(), ClusterError> {
    let watch = Stopwatch::start();
    while !ready()? {
        if watch.elapsed() >= bound {
            return Err(ClusterError::TimedOut {
                what: what.to_owned(),
                bound,
            });
        }
        thread::sleep(POLL_EVERY);
    }
    Ok(())
}
