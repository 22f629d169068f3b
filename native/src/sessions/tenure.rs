//! Whether this process may act for the sessions at this moment (D-5).
//!
//! Invariants: what would make something new in a cluster asks `may_open`, which is false as soon
//! as the lease could be another's; what takes something down goes on only while its term does.
//! A term that ended never goes on, also where this process is the owner again.

use super::runtime::lock;
use crate::ports::Elapsed;
use std::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// The lease, as the use cases see it.
#[derive(Debug, Default)]
pub(crate) struct Tenure(Mutex<Option<Held>>);

/// Held; certainly so until then.
#[derive(Debug)]
struct Held {
    until: Elapsed,
    term: CancellationToken,
}

/// The term in which something was begun is over: the sessions are another owner's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TermOver;

impl Tenure {
    /// The lease was confirmed; it is certainly ours until then.
    pub(crate) fn confirmed(&self, until: Elapsed) {
        let mut held = lock(&self.0);
        match &mut *held {
            Some(held) => held.until = until,
            None => {
                *held = Some(Held {
                    until,
                    term: CancellationToken::new(),
                });
            }
        }
    }

    /// Another process owns the sessions, or did meanwhile.
    pub(crate) fn lost(&self) {
        if let Some(held) = lock(&self.0).take() {
            held.term.cancel();
        }
    }

    /// Whether something new may be made: the lease is certainly ours.
    pub(crate) fn may_open(&self, now: Elapsed) -> bool {
        matches!(&*lock(&self.0), Some(held) if now < held.until)
    }

    /// Does this as far as the term goes: it breaks off at once where another owner is found.
    pub(crate) async fn within<T>(&self, work: impl Future<Output = T>) -> Result<T, TermOver> {
        let term = lock(&self.0).as_ref().map(|held| held.term.clone());
        let term = term.ok_or(TermOver)?;
        tokio::select! {
            biased;
            () = term.cancelled() => Err(TermOver),
            done = work => Ok(done),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn what_was_begun_in_a_term_that_ended_does_not_go_on_in_the_next() {
        let tenure = Tenure::default();
        let until = Elapsed::new(Duration::ZERO) + Duration::from_secs(20);
        assert_eq!(tenure.within(async {}).await, Err(TermOver), "never held");
        tenure.confirmed(until);
        assert_eq!(tenure.within(async { 1 }).await, Ok(1));
        let broken = tenure.within(async {
            tenure.lost();
            tenure.confirmed(until);
            tokio::task::yield_now().await;
            panic!("it went on");
        });
        assert_eq!(broken.await, Err(TermOver));
        assert_eq!(tenure.within(async { 2 }).await, Ok(2));
        assert!(tenure.may_open(Elapsed::new(Duration::ZERO)));
        assert!(!tenure.may_open(until));
    }
}
