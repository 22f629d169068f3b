//! Rows: stored as they are, counted against the limits, listed in their order.

use super::{
    NO_LIMITS, World, approve, claim, end, everything, minute, new_id, opened, owner, requested,
    row, start, stored,
};
use crate::ports::Store;
use crate::ports::store::{Inserted, Place};
use decisions::limits::{LimitName, LimitRefusal, Limits};
use decisions::session::{Session, SessionId, State};
use futures_util::future::join_all;
use std::sync::Arc;

/// Every column that an insert writes comes back as it was, to the microsecond and the character.
pub async fn a_stored_row_reads_back_as_it_was(world: &dyn World) {
    let store = owner(world).await;
    for given in [requested(), opened(), everything()] {
        let given = stored(&*store, given).await;
        assert_eq!(row(&*store, &given).await, given);
        // Another process reads the same, whoever owns the sessions.
        assert_eq!(row(&*world.process(), &given).await, given);
    }
}

/// S-3: a collision is an answer, and the row that was there stays as it was.
pub async fn a_taken_id_is_said_and_changes_nothing(world: &dyn World) {
    let store = owner(world).await;
    let first = stored(&*store, requested()).await;
    let second = Session {
        id: first.id.clone(),
        ..everything()
    };
    let answer = store.insert(&second, &NO_LIMITS).await;
    assert!(matches!(answer, Ok(Inserted::IdTaken)), "{answer:?}");
    assert_eq!(row(&*store, &first).await, first);
}

/// A session of the same user, app or cluster as the other one.
fn of(limit: LimitName, other: &Session) -> Session {
    let new = requested();
    match limit {
        LimitName::PerUser => Session {
            requester: other.requester.clone(),
            ..new
        },
        LimitName::PerApp => Session {
            app: other.app.clone(),
            ..new
        },
        LimitName::PerCluster => Session {
            cluster: other.cluster.clone(),
            ..new
        },
    }
}

fn limits(limit: LimitName, max: u32) -> Limits {
    let mut limits = NO_LIMITS;
    match limit {
        LimitName::PerUser => limits.per_user = max,
        LimitName::PerApp => limits.per_app = max,
        LimitName::PerCluster => limits.per_cluster = max,
    }
    limits
}

const LIMITS: [LimitName; 3] = [LimitName::PerUser, LimitName::PerApp, LimitName::PerCluster];

/// S-14c: the one over the limit is refused by the limit's name, and is not stored.
pub async fn each_limit_is_counted_and_named(world: &dyn World) {
    let store = owner(world).await;
    for name in LIMITS {
        let first = requested();
        for one in [first.clone(), of(name, &first)] {
            let answer = store.insert(&one, &limits(name, 2)).await;
            assert!(matches!(answer, Ok(Inserted::Stored)), "{name}: {answer:?}");
        }
        let over = of(name, &first);
        let answer = store
            .insert(&over, &limits(name, 2))
            .await
            .expect("the store answers");
        let refusal = LimitRefusal::Reached { name, max: 2 };
        assert_eq!(answer, Inserted::OverLimit(refusal));
        assert!(
            store
                .get(&over.id)
                .await
                .expect("the store answers")
                .is_none()
        );
        // Nothing of the refused one is left behind that counts.
        let answer = store.insert(&over, &limits(name, 3)).await;
        assert!(matches!(answer, Ok(Inserted::Stored)), "{name}: {answer:?}");
    }
}

/// What expired unopened or has ended does not count; what is active does, even past its deadline.
pub async fn what_is_not_open_does_not_count(world: &dyn World) {
    let store = owner(world).await;
    let by = "user:default/bob";
    let fits = async |first: &Session, at| {
        let next = Session {
            created_at: at,
            ..of(LimitName::PerUser, first)
        };
        let answer = store.insert(&next, &limits(LimitName::PerUser, 1)).await;
        match answer.expect("the store answers") {
            Inserted::Stored => true,
            Inserted::OverLimit(_) => false,
            Inserted::IdTaken => panic!("a new id"),
        }
    };

    let waiting = stored(&*store, requested()).await;
    assert!(!fits(&waiting, super::before(waiting.expires_at)).await);
    assert!(
        fits(&waiting, waiting.expires_at).await,
        "an expired request"
    );

    let approved = stored(&*store, requested()).await;
    let yes = approve(&approved, by, minute(1));
    claim(&*store, &yes.clone().into())
        .await
        .expect("the store answers");
    assert!(!fits(&approved, super::before(yes.expires_at)).await);
    assert!(fits(&approved, yes.expires_at).await, "an expired approval");

    let active = stored(&*store, opened()).await;
    assert!(!fits(&active, minute(1000)).await, "it still holds its pod");
    let over = end(&active, State::Active, by, minute(1001));
    claim(&*store, &over.into())
        .await
        .expect("the store answers");
    assert!(fits(&active, minute(1001)).await, "an ended one");
}

async fn insert_at_once(store: &Arc<dyn Store>, rows: Vec<Session>, max: Limits) -> Vec<Inserted> {
    let asking = rows.into_iter().map(|row| {
        let store = Arc::clone(store);
        tokio::spawn(async move { store.insert(&row, &max).await })
    });
    let answers = join_all(asking).await.into_iter();
    answers
        .map(|answer| answer.expect("no panic").expect("the store answers"))
        .collect()
}

fn stored_among(answers: &[Inserted]) -> usize {
    answers
        .iter()
        .filter(|answer| **answer == Inserted::Stored)
        .count()
}

/// S-14c: counted and stored in one transaction. 20 at once with a limit of 3: exactly 3.
pub async fn limits_hold_when_everybody_asks_at_once(world: &dyn World) {
    let store = owner(world).await;
    for name in LIMITS {
        let first = requested();
        let rows = (0..20).map(|_| of(name, &first)).collect();
        let answers = insert_at_once(&store, rows, limits(name, 3)).await;
        assert_eq!(stored_among(&answers), 3, "{name}");
        let refused = Inserted::OverLimit(LimitRefusal::Reached { name, max: 3 });
        assert_eq!(
            answers.iter().filter(|answer| **answer == refused).count(),
            17
        );
    }
}

/// Process access to the pod of this row.
fn on_pod_of(other: &Session, process_access: bool) -> Session {
    Session {
        cluster: other.cluster.clone(),
        namespace: other.namespace.clone(),
        pod: other.pod.clone(),
        process_access,
        ..requested()
    }
}

/// S-14c: one session with process access per pod, also of many that ask at once.
pub async fn process_access_to_a_pod_is_one_sessions(world: &dyn World) {
    let store = owner(world).await;
    let place = requested();
    let rows: Vec<_> = (0..10).map(|_| on_pod_of(&place, true)).collect();
    let answers = insert_at_once(&store, rows.clone(), NO_LIMITS).await;
    assert_eq!(stored_among(&answers), 1);
    let stored_at = answers
        .iter()
        .position(|answer| *answer == Inserted::Stored);
    let holder = &rows[stored_at.expect("one is stored")];
    let other = holder.id.clone();
    let refused = Inserted::OverLimit(LimitRefusal::ProcessAccessTaken { other });
    assert_eq!(
        answers.iter().filter(|answer| **answer == refused).count(),
        9
    );

    // Without it there is room on the pod; with it, elsewhere.
    stored(&*store, on_pod_of(&place, false)).await;
    for elsewhere in [
        Session {
            pod: "web-2".to_owned(),
            ..on_pod_of(&place, true)
        },
        Session {
            namespace: "another".to_owned(),
            ..on_pod_of(&place, true)
        },
        Session {
            cluster: "another".to_owned(),
            ..on_pod_of(&place, true)
        },
    ] {
        stored(&*store, elsewhere).await;
    }
    // An ended session gives it back.
    let over = end(holder, State::Requested, "user:default/bob", minute(1));
    claim(&*store, &over.into())
        .await
        .expect("the store answers");
    stored(&*store, on_pod_of(&place, true)).await;
}

fn ids(rows: &[Session]) -> Vec<&SessionId> {
    rows.iter().map(|row| &row.id).collect()
}

/// The newest of one app's environment, newest first, as many as were asked for.
pub async fn the_newest_come_first_and_only_of_their_environment(world: &dyn World) {
    let store = owner(world).await;
    let first = requested();
    let mut mine = Vec::new();
    for minutes in [3, 1, 2, 4] {
        let one = Session {
            id: new_id(),
            created_at: minute(minutes),
            ..first.clone()
        };
        mine.push(stored(&*store, one).await);
    }
    let env = Session {
        id: new_id(),
        env: "staging".to_owned(),
        ..first.clone()
    };
    stored(&*store, env).await;
    let app = Session {
        id: new_id(),
        app: format!("{}-2", first.app),
        ..first.clone()
    };
    stored(&*store, app).await;

    mine.sort_by_key(|row| std::cmp::Reverse(row.created_at));
    for limit in [0, 1, 3, 50] {
        let found = store
            .newest(&first.app, &first.env, limit)
            .await
            .expect("the store answers");
        let expected = &mine[..mine.len().min(limit as usize)];
        assert_eq!(ids(&found), ids(expected), "{limit}");
    }
    // An ended one is still listed: the list is the audit record.
    let over = end(&mine[0], State::Requested, "user:default/bob", minute(5));
    claim(&*store, &over.into())
        .await
        .expect("the store answers");
    let found = store
        .newest(&first.app, &first.env, 50)
        .await
        .expect("the store answers");
    assert_eq!(ids(&found), ids(&mine));
    assert!(
        store
            .newest("nobody's", &first.env, 50)
            .await
            .expect("an answer")
            .is_empty()
    );
}

/// W-3: oldest deadline first, whatever the state, without the ended ones.
pub async fn the_unfinished_come_by_their_deadline(world: &dyn World) {
    let store = owner(world).await;
    let by = "user:default/bob";
    let waiting = stored(&*store, requested()).await;
    let active = stored(&*store, opened()).await;
    let approved = stored(&*store, requested()).await;
    let yes = approve(&approved, by, minute(10));
    claim(&*store, &yes.into())
        .await
        .expect("the store answers");
    let ended = stored(&*store, opened()).await;
    let over = end(&ended, State::Active, by, minute(1));
    claim(&*store, &over.into())
        .await
        .expect("the store answers");

    let found = every_page(&*store, 500).await;
    let ours = [&waiting.id, &active.id, &approved.id, &ended.id];
    let found: Vec<_> = ids(&found)
        .into_iter()
        .filter(|id| ours.contains(id))
        .collect();
    assert_eq!(found, [&active.id, &approved.id, &waiting.id]);
}

/// W-3: what one pass cannot take, the next takes up, oldest deadline first, and none starves.
pub async fn the_unfinished_come_in_pages_that_leave_none_out(world: &dyn World) {
    let store = owner(world).await;
    let mut ours = Vec::new();
    for minutes in [3, 1, 2, 1, 5, 4, 1] {
        let mut row = opened();
        row.expires_at += jiff::SignedDuration::from_mins(minutes);
        ours.push(stored(&*store, row).await);
    }
    ours.sort_by_key(|row| (row.expires_at, row.id.to_string()));
    let expected = ids(&ours);
    for limit in [1, 2, 3, 7, 500] {
        let found = every_page(&*store, limit).await;
        let found = ids(&found);
        let found: Vec<_> = found
            .into_iter()
            .filter(|it| expected.contains(it))
            .collect();
        assert_eq!(found, expected, "{limit} a page");
    }

    // A place outlives the row that it was behind.
    let place = Place {
        expires_at: ours[1].expires_at,
        id: ours[1].id.to_string(),
    };
    let gone = end(&ours[1], State::Active, "user:default/bob", minute(1));
    claim(&*store, &gone.into())
        .await
        .expect("the store answers");
    let behind = store.unfinished(Some(&place), 500).await;
    let behind = behind.expect("the store answers").rows;
    let behind: Vec<_> = ids(&behind)
        .into_iter()
        .filter(|it| expected.contains(it))
        .collect();
    assert_eq!(behind, expected[2..]);
}

/// Page by page; each within its bound.
async fn every_page(store: &dyn Store, limit: u32) -> Vec<Session> {
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = store.unfinished(after.as_ref(), limit).await;
        let page = page.expect("the store answers");
        assert!(page.rows.len() <= limit as usize);
        found.extend(page.rows);
        match page.next {
            Some(next) => after = Some(next),
            None => return found,
        }
    }
}

/// C-17: somebody else's active session on the same pod keeps it from being recycled.
pub async fn only_active_sessions_count_as_others_on_a_pod(world: &dyn World) {
    let store = owner(world).await;
    let first = stored(&*store, opened()).await;
    let alone = async |what: &str| {
        let others = store
            .others_on_pod(&first)
            .await
            .expect("the store answers");
        assert!(!others, "{what}");
    };
    alone("its own row does not count").await;
    let elsewhere = Session {
        pod: "web-2".to_owned(),
        ..on_pod_of(&first, false)
    };
    let elsewhere = Session {
        state: State::Active,
        ..elsewhere
    };
    stored(&*store, elsewhere).await;
    alone("nor does another pod").await;
    let second = stored(&*store, on_pod_of(&first, false)).await;
    alone("nor does a request").await;
    let yes = approve(&second, "user:default/bob", minute(1));
    claim(&*store, &yes.into())
        .await
        .expect("the store answers");
    let go = start(&second, minute(2));
    claim(&*store, &go.into()).await.expect("the store answers");
    assert!(
        store
            .others_on_pod(&first)
            .await
            .expect("the store answers")
    );
    let over = end(&second, State::Active, "user:default/bob", minute(3));
    claim(&*store, &over.into())
        .await
        .expect("the store answers");
    alone("an ended one does not").await;
}
