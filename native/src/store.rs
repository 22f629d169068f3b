//! The Postgres adapter of the store (spec 06).
//!
//! Invariants: every transition is one conditional `UPDATE` under the owner's fence (S-1, D-5);
//! migrations run under an advisory lock (D-2); a pool is small and every statement has a limit.

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
    Claimed, HeldObject, Inserted, Lease, OpenedFacts, Outcome, SavedRecording, Store,
};
use async_trait::async_trait;
use deadpool_postgres::{Object, Pool};
use decisions::limits::Limits;
use decisions::session::{Session, SessionId};
use decisions::transition::{Approve, Deny, End, Extend, Review, Start};
use lease::away;
use std::sync::atomic::{AtomicI64, Ordering};
use tokio_postgres::types::ToSql;

/// The sessions' rows in Postgres.
pub struct PgStore {
    pool: Pool,
    owner: String,
    epoch: AtomicI64,
}

/// A statement's parameters.
type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

impl PgStore {
    /// Prepares a pool; nothing is connected before the first call. `owner` names this process
    /// among those that share the database and must be unique.
    pub fn new(config: &DatabaseConfig, owner: String) -> Result<Self, StoreError> {
        let pool = connect::pool(config)?;
        Ok(Self { pool, owner, epoch: AtomicI64::new(lease::NO_EPOCH) })
    }

    async fn client(&self) -> Result<Object, StoreError> {
        self.pool.get().await.map_err(|error| StoreError::Away(Box::new(error)))
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

    async fn sessions(&self, sql: &str, params: Params<'_>) -> Result<Vec<Session>, StoreError> {
        let client = self.client().await?;
        let statement = client.prepare_cached(sql).await.map_err(away)?;
        let rows = client.query(&statement, params).await.map_err(away)?;
        // One row that cannot be understood must not hide the others (W-3).
        Ok(rows
            .iter()
            .filter_map(|row| {
                rows::session(row)
                    .inspect_err(|error| tracing::error!(%error, "a row was left out"))
                    .ok()
            })
            .collect())
    }
}

#[async_trait]
impl Store for PgStore {
    async fn migrate(&self) -> Result<(), StoreError> {
        migrate::migrate(&mut self.client().await?).await
    }

    async fn take_or_renew_lease(&self) -> Result<Lease, StoreError> {
        self.take_or_renew().await
    }

    async fn release_lease(&self) -> Result<(), StoreError> {
        self.release().await
    }

    async fn insert(&self, session: &Session, limits: &Limits) -> Result<Inserted, StoreError> {
        self.insert_row(session, limits).await
    }

    async fn get(&self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        let client = self.client().await?;
        let sql = format!("SELECT {} FROM breakglass_sessions WHERE id = $1", rows::COLUMNS);
        let statement = client.prepare_cached(&sql).await.map_err(away)?;
        let row = client.query_opt(&statement, &[&id.as_str()]).await.map_err(away)?;
        row.as_ref().map(rows::session).transpose()
    }

    async fn newest(&self, app: &str, env: &str, limit: u32) -> Result<Vec<Session>, StoreError> {
        let sql = format!(
            "SELECT {} FROM breakglass_sessions WHERE app = $1 AND env = $2 \
             ORDER BY created_at DESC, id LIMIT $3",
            rows::COLUMNS
        );
        self.sessions(&sql, &[&app, &env, &i64::from(limit)]).await
    }

    async fn unfinished(&self) -> Result<Vec<Session>, StoreError> {
        let sql = format!(
            "SELECT {} FROM breakglass_sessions WHERE state <> 'ended' ORDER BY expires_at, id",
            rows::COLUMNS
        );
        self.sessions(&sql, &[]).await
    }

    async fn unsettled(&self, limit: u32) -> Result<Vec<Session>, StoreError> {
        self.take_unsettled(limit).await
    }

    async fn claim_approve(&self, claim: &Approve) -> Result<Claimed, StoreError> {
        self.approve(claim).await
    }

    async fn claim_deny(&self, claim: &Deny) -> Result<Claimed, StoreError> {
        self.deny(claim).await
    }

    async fn claim_start(&self, claim: &Start) -> Result<Claimed, StoreError> {
        self.start(claim).await
    }

    async fn claim_extension(&self, claim: &Extend) -> Result<Claimed, StoreError> {
        self.extend(claim).await
    }

    async fn claim_end(&self, claim: &End) -> Result<Claimed, StoreError> {
        self.end(claim).await
    }

    async fn claim_review(&self, claim: &Review) -> Result<Claimed, StoreError> {
        self.review(claim).await
    }

    async fn note_opened(&self, id: &SessionId, facts: &OpenedFacts) -> Result<(), StoreError> {
        self.opened(id, facts).await
    }

    async fn note_checkpoint(
        &self,
        id: &SessionId,
        saved: &SavedRecording,
    ) -> Result<(), StoreError> {
        self.checkpoint(id, saved).await
    }

    async fn note_outcome(&self, id: &SessionId, outcome: &Outcome) -> Result<(), StoreError> {
        self.outcome(id, outcome).await
    }

    async fn note_object(&self, object: &MadeObject) -> Result<(), StoreError> {
        self.add_object(object).await
    }

    async fn forget_object(&self, uid: &str) -> Result<(), StoreError> {
        self.remove_object(uid).await
    }

    async fn keep_object(&self, uid: &str, why: &str) -> Result<(), StoreError> {
        self.mark_kept(uid, why).await
    }

    async fn objects(&self, id: &SessionId) -> Result<Vec<HeldObject>, StoreError> {
        self.held_objects(id).await
    }

    async fn others_on_pod(&self, session: &Session) -> Result<bool, StoreError> {
        let client = self.client().await?;
        let row = client
            .query_one(
                "SELECT EXISTS (SELECT 1 FROM breakglass_sessions WHERE cluster = $1 \
                 AND namespace = $2 AND pod = $3 AND id <> $4 AND state = 'active')",
                &[&session.cluster, &session.namespace, &session.pod, &session.id.as_str()],
            )
            .await
            .map_err(away)?;
        row.try_get(0).map_err(away)
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.client().await?.simple_query("SELECT 1").await.map(|_| ()).map_err(away)
    }
}
