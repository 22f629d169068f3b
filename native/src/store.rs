//! The Postgres adapter of the store (spec 06).
//!
//! Invariants: every transition is one conditional `UPDATE` under the owner's fence (S-1, D-5);
//! migrations run under an advisory lock (D-2); a pool is small, and every statement and every
//! call has a limit, so that a database that hangs is one that is away (D-3, W-3).

mod claims;
mod connect;
mod lease;
mod migrate;
mod objects;
mod rows;

pub use connect::{DatabaseConfig, TlsMode};
pub use lease::LEASE_SECONDS;

use crate::ports::StoreError;
use crate::ports::cluster::MadeObject;
use crate::ports::store::{
    Claimed, HeldObject, Inserted, Lease, OpenedFacts, Outcome, Page, Place, SavedRecording, Store,
};
use async_trait::async_trait;
use deadpool_postgres::{Object, Pool};
use decisions::limits::Limits;
use decisions::session::{Session, SessionId};
use decisions::transition::{Approve, Deny, End, Extend, Review, Start};
use lease::away;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio_postgres::types::ToSql;

/// The sessions' rows in Postgres.
pub struct PgStore {
    pool: Pool,
    owner: String,
    epoch: AtomicI64,
}

/// The longest that a call waits for its answer; a little more than the server allows a statement.
const CALL_LIMIT: Duration = Duration::from_secs(12);

/// An answer within the limit, or `Away`: a server that hangs has no limits of its own.
async fn limited<T>(work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    match tokio::time::timeout(CALL_LIMIT, work).await {
        Ok(answer) => answer,
        Err(late) => Err(StoreError::Away(Box::new(late))),
    }
}

/// A statement's parameters.
type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

impl PgStore {
    /// Prepares a pool; nothing is connected before the first call. `owner` names this process
    /// among those that share the database and must be unique.
    pub fn new(config: &DatabaseConfig, owner: String) -> Result<Self, StoreError> {
        let pool = connect::pool(config)?;
        Ok(Self {
            pool,
            owner,
            epoch: AtomicI64::new(lease::NO_EPOCH),
        })
    }

    async fn client(&self) -> Result<Object, StoreError> {
        self.pool
            .get()
            .await
            .map_err(|error| StoreError::Away(Box::new(error)))
    }

    fn held_epoch(&self) -> i64 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// Runs one write under the fence; `$1` and `$2` are taken, `params` begin at `$3`. `sql` must
    /// have the fence as its CTE `owner`. Answers how many rows changed.
    async fn fenced(&self, sql: &str, params: Params<'_>) -> Result<u64, StoreError> {
        let epoch = self.held_epoch();
        let client = self.client().await?;
        let statement = client.prepare_cached(sql).await.map_err(away)?;
        let mut all: Vec<&(dyn ToSql + Sync)> = vec![&epoch, &self.owner];
        all.extend_from_slice(params);
        let changed = client.execute(&statement, &all).await.map_err(away)?;
        if changed == 0 && !self.owns(&client, epoch).await? {
            return Err(StoreError::NotOwner);
        }
        Ok(changed)
    }

    async fn owns(&self, client: &Object, epoch: i64) -> Result<bool, StoreError> {
        let found = client
            .query_opt(lease::OWNED, &[&epoch, &self.owner])
            .await
            .map_err(away)?;
        Ok(found.is_some())
    }

    async fn one(&self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        let client = self.client().await?;
        let sql = format!(
            "SELECT {} FROM breakglass_sessions WHERE id = $1",
            rows::COLUMNS
        );
        let statement = client.prepare_cached(&sql).await.map_err(away)?;
        let row = client
            .query_opt(&statement, &[&id.as_str()])
            .await
            .map_err(away)?;
        row.as_ref().map(rows::session).transpose()
    }

    async fn others_are_on_pod(&self, session: &Session) -> Result<bool, StoreError> {
        let client = self.client().await?;
        let row = client
            .query_one(
                "SELECT EXISTS (SELECT 1 FROM breakglass_sessions WHERE cluster = $1 \
                 AND namespace = $2 AND pod = $3 AND id <> $4 AND state = 'active')",
                &[
                    &session.cluster,
                    &session.namespace,
                    &session.pod,
                    &session.id.as_str(),
                ],
            )
            .await
            .map_err(away)?;
        row.try_get(0).map_err(away)
    }

    async fn sessions(&self, sql: &str, params: Params<'_>) -> Result<Vec<Session>, StoreError> {
        let client = self.client().await?;
        let statement = client.prepare_cached(sql).await.map_err(away)?;
        let rows = client.query(&statement, params).await.map_err(away)?;
        Ok(rows::understood(&rows))
    }

    async fn page_of_unfinished(
        &self,
        after: Option<&Place>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        let sql = format!(
            "SELECT {} FROM breakglass_sessions WHERE state <> 'ended' \
             AND ($1::timestamptz IS NULL OR (expires_at, id::text) > ($1, $2::text)) \
             ORDER BY expires_at, id::text LIMIT $3",
            rows::COLUMNS
        );
        let (at, id) = after.map(|it| (it.expires_at, it.id.as_str())).unzip();
        let client = self.client().await?;
        let statement = client.prepare_cached(&sql).await.map_err(away)?;
        let bound = i64::from(limit);
        let found = client.query(&statement, &[&at, &id, &bound]).await;
        let found = found.map_err(away)?;
        let is_full = found.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
        let last = found.last().filter(|_| is_full);
        Ok(Page {
            rows: rows::understood(&found),
            next: last.and_then(rows::place),
        })
    }
}

#[async_trait]
impl Store for PgStore {
    async fn migrate(&self) -> Result<(), StoreError> {
        limited(async { migrate::migrate(&mut self.client().await?).await }).await
    }

    async fn take_or_renew_lease(&self) -> Result<Lease, StoreError> {
        limited(self.take_or_renew()).await
    }

    async fn release_lease(&self) -> Result<(), StoreError> {
        limited(self.release()).await
    }

    async fn insert(&self, session: &Session, limits: &Limits) -> Result<Inserted, StoreError> {
        limited(self.insert_row(session, limits)).await
    }

    async fn get(&self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        limited(self.one(id)).await
    }

    async fn newest(&self, app: &str, env: &str, limit: u32) -> Result<Vec<Session>, StoreError> {
        let sql = format!(
            "SELECT {} FROM breakglass_sessions WHERE app = $1 AND env = $2 \
             ORDER BY created_at DESC, id LIMIT $3",
            rows::COLUMNS
        );
        limited(self.sessions(&sql, &[&app, &env, &i64::from(limit)])).await
    }

    async fn unfinished(&self, after: Option<&Place>, limit: u32) -> Result<Page, StoreError> {
        limited(self.page_of_unfinished(after, limit)).await
    }

    async fn unsettled(&self, limit: u32) -> Result<Vec<Session>, StoreError> {
        limited(self.take_unsettled(limit)).await
    }

    async fn claim_approve(&self, claim: &Approve) -> Result<Claimed, StoreError> {
        limited(self.approve(claim)).await
    }

    async fn claim_deny(&self, claim: &Deny) -> Result<Claimed, StoreError> {
        limited(self.deny(claim)).await
    }

    async fn claim_start(&self, claim: &Start) -> Result<Claimed, StoreError> {
        limited(self.start(claim)).await
    }

    async fn claim_extension(&self, claim: &Extend) -> Result<Claimed, StoreError> {
        limited(self.extend(claim)).await
    }

    async fn claim_end(&self, claim: &End) -> Result<Claimed, StoreError> {
        limited(self.end(claim)).await
    }

    async fn claim_review(&self, claim: &Review) -> Result<Claimed, StoreError> {
        limited(self.review(claim)).await
    }

    async fn note_opened(&self, id: &SessionId, facts: &OpenedFacts) -> Result<bool, StoreError> {
        limited(self.opened(id, facts)).await
    }

    async fn note_checkpoint(
        &self,
        id: &SessionId,
        saved: &SavedRecording,
    ) -> Result<(), StoreError> {
        limited(self.checkpoint(id, saved)).await
    }

    async fn note_outcome(&self, id: &SessionId, outcome: &Outcome) -> Result<(), StoreError> {
        limited(self.outcome(id, outcome)).await
    }

    async fn note_object(&self, object: &MadeObject) -> Result<(), StoreError> {
        limited(self.add_object(object)).await
    }

    async fn forget_object(&self, session: &SessionId, uid: &str) -> Result<(), StoreError> {
        limited(self.remove_object(session, uid)).await
    }

    async fn keep_object(
        &self,
        session: &SessionId,
        uid: &str,
        why: &str,
    ) -> Result<(), StoreError> {
        limited(self.mark_kept(session, uid, why)).await
    }

    async fn objects(&self, id: &SessionId) -> Result<Vec<HeldObject>, StoreError> {
        limited(self.held_objects(id)).await
    }

    async fn others_on_pod(&self, session: &Session) -> Result<bool, StoreError> {
        limited(self.others_are_on_pod(session)).await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        limited(async {
            self.client()
                .await?
                .simple_query("SELECT 1")
                .await
                .map(|_| ())
                .map_err(away)
        })
        .await
    }
}
