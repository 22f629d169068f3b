//! Objects in a cluster that carry this installation's labels and belong to no open session (C-23).
//!
//! Invariants: what an open session made is left alone, and so is what is not past its own
//! `expires-at` by 15 minutes: an end may still be at it. Only grants are removed: at rest there is
//! no right to anything else (C-2a). A look is bounded and delays nothing but the next look.
//! A grant of an ended session of this database goes on record and is taken up like any other.

use super::Sessions;
use super::runtime::lock;
use crate::http::error::chain;
use crate::ports::cluster::{Cluster, Leftover, ObjectKind};
use crate::ports::{ClusterError, Elapsed, StoreError};
use decisions::session::{Session, State};
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

/// Between two looks through one cluster.
const LOOK_EVERY: Duration = Duration::from_secs(600);
/// One look, with what it does about what it finds.
const LOOK_WITHIN: Duration = Duration::from_secs(60);
/// So long after its own end an object may still have somebody at it.
const GRACE: SignedDuration = SignedDuration::from_mins(15);
/// Objects that one look judges; the removal of some makes room for the next.
const JUDGED_A_LOOK: usize = 500;

/// When each cluster was looked through last.
#[derive(Debug, Default)]
pub(crate) struct Looks(Mutex<BTreeMap<String, Elapsed>>);

impl Looks {
    /// Whether a look is due; if so, the next one is due `LOOK_EVERY` later.
    fn take_due(&self, cluster: &str, now: Elapsed) -> bool {
        let mut looked = lock(&self.0);
        let due = looked
            .get(cluster)
            .is_none_or(|at| now.since(*at) >= LOOK_EVERY);
        if due {
            looked.insert(cluster.to_owned(), now);
        }
        due
    }
}

/// What to do about an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// It has an owner, or may have one still.
    Leave,
    /// Its session is over: onto the record, from which the sweep removes it.
    Record,
    /// Nobody knows its session, and its time is long over.
    Remove,
    /// A person has to look.
    Report,
}

/// What to do about an object, given the row that its label names.
fn verdict(left: &Leftover, row: Option<&Session>, now: Timestamp) -> Verdict {
    let lapsed = left.expires_at.map(|at| now.duration_since(at) >= GRACE);
    let is_grant = left.object.kind == ObjectKind::RoleBinding;
    let is_elsewhere = row.is_some_and(|row| row.cluster != left.object.cluster);
    match (row, lapsed) {
        (Some(row), _) if row.state != State::Ended && !is_elsewhere => Verdict::Leave,
        (_, Some(false)) => Verdict::Leave,
        (_, None) => Verdict::Report,
        (_, Some(true)) if !is_grant || is_elsewhere => Verdict::Report,
        (Some(_), Some(true)) => Verdict::Record,
        (None, Some(true)) => Verdict::Remove,
    }
}

/// Why a look was broken off.
#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Sessions {
    /// The clusters that are to be looked through now; each is then not due for a while.
    pub(crate) fn due_for_a_look(&self) -> Vec<String> {
        let now = self.clock.elapsed();
        let due = |name: &&String| self.looks.take_due(name, now);
        self.clusters.keys().filter(due).cloned().collect()
    }

    /// Looks through one cluster. What cannot be done now waits for the next look.
    pub(crate) async fn look_for_leftovers(&self, name: &str) {
        let Some(cluster) = self.clusters.get(name) else {
            return;
        };
        let late = self.clock.sleep_until(self.clock.elapsed() + LOOK_WITHIN);
        tokio::select! {
            looked = self.look(cluster.as_ref()) => if let Err(error) = looked {
                tracing::warn!(cluster = name, error = %chain(&error),
                    "the search for leftovers was broken off; it is repeated in 10 minutes");
            },
            () = late => tracing::warn!(cluster = name,
                "the search for leftovers took too long; it is repeated in 10 minutes"),
        }
    }

    async fn look(&self, cluster: &dyn Cluster) -> Result<(), LookError> {
        let found = cluster.leftovers().await?;
        for left in found.into_iter().take(JUDGED_A_LOOK) {
            // Asked each time: the lease may go meanwhile (D-5).
            let runs = self.is_at(&left.object.session);
            if !self.tenure.may_open(self.clock.elapsed()) {
                return Ok(());
            }
            if !runs {
                self.judge(cluster, left).await?;
            }
        }
        Ok(())
    }

    async fn judge(&self, cluster: &dyn Cluster, left: Leftover) -> Result<(), LookError> {
        let object = &left.object;
        // A row that cannot be understood is a session that is known: nothing is guessed of it.
        let row = match self.store.get(&object.session).await {
            Err(StoreError::Unreadable { .. }) => return Ok(()),
            row => row?,
        };
        let (session, name) = (&object.session, object.name.as_str());
        match verdict(&left, row.as_ref(), self.clock.wall()) {
            Verdict::Leave => {}
            Verdict::Record => self.store.note_object(object).await?,
            Verdict::Remove => {
                cluster.delete_grant(object).await?;
                tracing::warn!(cluster = object.cluster, %session, name,
                    "a grant of a session that this database does not know was removed");
            }
            Verdict::Report => {
                tracing::warn!(cluster = object.cluster, %session, name, kind = ?object.kind,
                    "an object of no open session is left; an admin has to look at it");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::store_contract::opened;
    use crate::ports::Clock as _;
    use crate::ports::cluster::MadeObject;

    fn left(kind: ObjectKind, cluster: &str, expires_at: Option<Timestamp>) -> Leftover {
        let object = MadeObject {
            session: opened().id,
            cluster: cluster.to_owned(),
            kind,
            namespace: "shop".to_owned(),
            name: "tower-breakglass-x".to_owned(),
            uid: "uid".to_owned(),
        };
        Leftover { object, expires_at }
    }

    #[test]
    fn only_a_grant_that_lapsed_15_minutes_ago_and_has_no_open_session_goes() {
        use ObjectKind::{CopyPod, RoleBinding};
        use Verdict::{Leave, Record, Remove, Report};
        let now = crate::fakes::clock::FakeClock::new().wall();
        let ago = |minutes| Some(now - SignedDuration::from_mins(minutes));
        let open = opened();
        let ended = Session {
            state: State::Ended,
            ..open.clone()
        };
        let here = open.cluster.clone();
        let rows = [
            (RoleBinding, ago(60), Some(&open), Leave),
            (RoleBinding, None, Some(&open), Leave),
            (RoleBinding, ago(14), Some(&ended), Leave),
            (RoleBinding, ago(15), Some(&ended), Record),
            (RoleBinding, None, Some(&ended), Report),
            (CopyPod, ago(60), Some(&ended), Report),
            (RoleBinding, ago(-5), None, Leave),
            (RoleBinding, ago(14), None, Leave),
            (RoleBinding, ago(15), None, Remove),
            (RoleBinding, None, None, Report),
            (CopyPod, ago(60), None, Report),
        ];
        for (number, (kind, expires_at, row, expected)) in rows.into_iter().enumerate() {
            let left = left(kind, &here, expires_at);
            assert_eq!(verdict(&left, row, now), expected, "row {number}");
        }
        for row in [&open, &ended] {
            let elsewhere = left(RoleBinding, "another", ago(60));
            assert_eq!(verdict(&elsewhere, Some(row), now), Report);
        }
    }

    #[test]
    fn each_cluster_is_looked_through_at_once_and_then_every_ten_minutes() {
        let looks = Looks::default();
        let at = |seconds| Elapsed::new(Duration::from_secs(seconds));
        assert!(looks.take_due("one", at(5)));
        assert!(!looks.take_due("one", at(6)));
        assert!(looks.take_due("two", at(6)), "each has its own");
        assert!(!looks.take_due("one", at(604)));
        assert!(looks.take_due("one", at(605)));
        assert!(!looks.take_due("one", at(606)));
    }
}
