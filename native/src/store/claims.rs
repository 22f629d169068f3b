//! Every transition as one conditional update (S-1).
//!
//! Invariant: state, deadline and fence stand in one statement; zero rows is a lost race, told
//! with the state that won.

use super::lease::{OWNED, away};
use super::{PgStore, rows};
use crate::ports::StoreError;
use crate::ports::store::{Claimed, Inserted, OpenedFacts, Outcome, SavedRecording};
use decisions::limits::{Limits, OpenCounts, check_limits};
use decisions::session::{Session, SessionId};
use decisions::transition::{Approve, Deny, End, Extend, Review, Start};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

/// Serializes inserts, so that two of them cannot pass a limit together (S-14c).
const INSERT_LOCK: i64 = 0x0062_7265_616b_696e;

type Param<'a> = &'a (dyn ToSql + Sync);

impl PgStore {
    async fn claim(
        &self,
        id: &SessionId,
        set: &str,
        condition: &str,
        params: &[Param<'_>],
    ) -> Result<Claimed, StoreError> {
        let sql = format!(
            "WITH owner AS MATERIALIZED ({OWNED}) UPDATE breakglass_sessions SET {set} \
             WHERE id = $3 AND {condition} AND EXISTS (SELECT 1 FROM owner) RETURNING {}",
            rows::COLUMNS
        );
        let epoch = self.held_epoch();
        let id_text = id.as_str();
        let mut all: Vec<Param<'_>> = vec![&epoch, &self.owner, &id_text];
        all.extend_from_slice(params);
        let client = self.client().await?;
        let statement = client.prepare_cached(&sql).await.map_err(away)?;
        if let Some(row) = client.query_opt(&statement, &all).await.map_err(away)? {
            return Ok(Claimed::Won(Box::new(rows::session(&row)?)));
        }
        if !self.owns(&client, epoch).await? {
            return Err(StoreError::NotOwner);
        }
        drop(client);
        Ok(match self.one(id).await? {
            Some(session) => Claimed::Lost {
                now_in: session.state,
            },
            None => Claimed::Unknown,
        })
    }

    pub(super) async fn approve(&self, claim: &Approve) -> Result<Claimed, StoreError> {
        self.claim(
            &claim.id,
            "state = 'approved', approver = $4, approved_at = $5, expires_at = $6, \
             decision_note = $7, recycle_waived_reason = $8",
            "state = 'requested' AND expires_at > $5",
            &[
                &claim.approver.as_str(),
                &claim.approved_at,
                &claim.expires_at,
                &claim.decision_note,
                &claim.recycle_waived_reason,
            ],
        )
        .await
    }

    pub(super) async fn deny(&self, claim: &Deny) -> Result<Claimed, StoreError> {
        let reason = claim.reason().to_string();
        self.claim(
            &claim.id,
            "state = 'ended', approver = $4, ended_by = $4, ended_at = $5, decision_note = $6, \
             end_reason = $7",
            "state = 'requested' AND expires_at > $5",
            &[
                &claim.approver.as_str(),
                &claim.at,
                &claim.decision_note,
                &reason,
            ],
        )
        .await
    }

    pub(super) async fn start(&self, claim: &Start) -> Result<Claimed, StoreError> {
        self.claim(
            &claim.id,
            "state = 'active', started_at = $4, expires_at = $5",
            "state = 'approved' AND expires_at > $4",
            &[&claim.started_at, &claim.expires_at],
        )
        .await
    }

    pub(super) async fn extend(&self, claim: &Extend) -> Result<Claimed, StoreError> {
        self.claim(
            &claim.id,
            "extended_at = $4, expires_at = $5",
            "state = 'active' AND extended_at IS NULL AND expires_at = $6",
            &[
                &claim.extended_at,
                &claim.expires_at,
                &claim.from_expires_at,
            ],
        )
        .await
    }

    pub(super) async fn end(&self, claim: &End) -> Result<Claimed, StoreError> {
        let from = rows::word(&claim.from);
        let by = claim.by.as_ref().map(|user| user.as_str());
        self.claim(
            &claim.id,
            "state = 'ended', ended_at = $4, end_reason = $5, ended_by = $6",
            "state = $7 AND ($8::timestamptz IS NULL OR expires_at = $8)",
            &[
                &claim.at,
                &claim.reason.to_string(),
                &by,
                &from,
                &claim.deadline,
            ],
        )
        .await
    }

    pub(super) async fn review(&self, claim: &Review) -> Result<Claimed, StoreError> {
        self.claim(
            &claim.id,
            "review_state = 'done', reviewed_by = $4, reviewed_at = $5, review_note = $6",
            "state = 'ended' AND review_state = 'due'",
            &[&claim.reviewer.as_str(), &claim.at, &claim.note],
        )
        .await
    }

    pub(super) async fn insert_row(
        &self,
        session: &Session,
        limits: &Limits,
    ) -> Result<Inserted, StoreError> {
        let epoch = self.held_epoch();
        let mut client = self.client().await?;
        let transaction = client.transaction().await.map_err(away)?;
        if transaction
            .query_opt(OWNED, &[&epoch, &self.owner])
            .await
            .map_err(away)?
            .is_none()
        {
            return Err(StoreError::NotOwner);
        }
        transaction
            .execute("SELECT pg_advisory_xact_lock($1)", &[&INSERT_LOCK])
            .await
            .map_err(away)?;
        let counts = open_counts(&transaction, session).await?;
        let holder = process_access_holder(&transaction, session).await?;
        if let Err(refusal) = check_limits(counts, *limits, session.process_access, holder.as_ref())
        {
            return Ok(Inserted::OverLimit(refusal));
        }
        match insert(&transaction, session).await {
            Ok(_) => {}
            Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => {
                return Ok(Inserted::IdTaken);
            }
            Err(error) => return Err(away(error)),
        }
        transaction.commit().await.map_err(away)?;
        Ok(Inserted::Stored)
    }

    pub(super) async fn opened(
        &self,
        id: &SessionId,
        facts: &OpenedFacts,
    ) -> Result<bool, StoreError> {
        let volumes = facts
            .volumes
            .as_ref()
            .map(serde_json::to_string)
            .transpose()
            .map_err(|error| StoreError::Unreadable {
                what: error.to_string(),
            })?;
        self.fenced(
            &format!(
                "WITH owner AS MATERIALIZED ({OWNED}) UPDATE breakglass_sessions SET \
                 volumes = coalesce($4::text::json, volumes::text::json), \
                 sensitive = coalesce($5, sensitive), role_binding = coalesce($6, role_binding), \
                 debug_container = coalesce($7, debug_container), \
                 copy_pod = coalesce($8, copy_pod) \
                 WHERE id = $3 AND state = 'active' AND EXISTS (SELECT 1 FROM owner)"
            ),
            &[
                &id.as_str(),
                &volumes,
                &facts.sensitive,
                &facts.role_binding,
                &facts.debug_container,
                &facts.copy_pod,
            ],
        )
        .await
        .map(|changed| changed > 0)
    }

    pub(super) async fn checkpoint(
        &self,
        id: &SessionId,
        saved: &SavedRecording,
    ) -> Result<(), StoreError> {
        let bytes = i64::try_from(saved.bytes).unwrap_or(i64::MAX);
        self.fenced(
            // A recording only grows: a smaller one is an older version that comes late.
            &format!(
                "WITH owner AS MATERIALIZED ({OWNED}) UPDATE breakglass_sessions SET \
                 recording_key = $4, recording_bucket = $5, recording_version = $6, \
                 recording_sha256 = $7, recording_bytes = {} \
                 WHERE id = $3 AND coalesce(recording_bytes, 0) <= $8::int8 \
                 AND EXISTS (SELECT 1 FROM owner)",
                recording_bytes("$8::int8")
            ),
            &[
                &id.as_str(),
                &saved.key,
                &saved.bucket,
                &saved.version,
                &saved.sha256,
                &bytes,
            ],
        )
        .await
        .map(|_| ())
    }

    pub(super) async fn outcome(
        &self,
        id: &SessionId,
        outcome: &Outcome,
    ) -> Result<(), StoreError> {
        let saved = outcome.recording.as_ref();
        let bytes = saved.map(|saved| i64::try_from(saved.bytes).unwrap_or(i64::MAX));
        self.fenced(
            &format!(
                "WITH owner AS MATERIALIZED ({OWNED}) UPDATE breakglass_sessions SET \
                 recycled = coalesce(nullif(recycled, false), $4, recycled), cleanup_notes = $5, \
                 recording_key = coalesce($6, recording_key), \
                 recording_bucket = coalesce($7, recording_bucket), \
                 recording_version = coalesce($8, recording_version), \
                 recording_sha256 = coalesce($9, recording_sha256), \
                 recording_bytes = {} \
                 WHERE id = $3 AND state = 'ended' AND EXISTS (SELECT 1 FROM owner)",
                recording_bytes("coalesce($10::int8, recording_bytes)")
            ),
            &[
                &id.as_str(),
                &outcome.recycled,
                &outcome.notes,
                &saved.map(|saved| &saved.key),
                &saved.map(|saved| &saved.bucket),
                &saved.map(|saved| &saved.version),
                &saved.map(|saved| &saved.sha256),
                &bytes,
            ],
        )
        .await
        .map(|_| ())
    }
}

/// A size for its column. An older table's is a 4-byte integer, for which a larger one is cut off:
/// a size that is too small costs less than a recording that the row does not name.
fn recording_bytes(value: &str) -> String {
    format!(
        "CASE WHEN pg_typeof(recording_bytes) = 'integer'::regtype \
         THEN least({value}, 2147483647) ELSE {value} END"
    )
}

/// What counts as open, as `decisions::limits::is_open` says; `$1` is the time.
const OPEN: &str = "(state = 'active' OR (state IN ('requested', 'approved') AND expires_at > $1))";

async fn open_counts(
    transaction: &deadpool_postgres::Transaction<'_>,
    session: &Session,
) -> Result<OpenCounts, StoreError> {
    let row = transaction
        .query_one(
            &format!(
                "SELECT count(*) FILTER (WHERE requester = $2), \
                 count(*) FILTER (WHERE app = $3), count(*) FILTER (WHERE cluster = $4) \
                 FROM breakglass_sessions WHERE {OPEN}"
            ),
            &[
                &session.created_at,
                &session.requester.as_str(),
                &session.app,
                &session.cluster,
            ],
        )
        .await
        .map_err(away)?;
    let count = |column: usize| -> Result<u32, StoreError> {
        let counted: i64 = row.try_get(column).map_err(away)?;
        Ok(u32::try_from(counted).unwrap_or(u32::MAX))
    };
    Ok(OpenCounts {
        of_user: count(0)?,
        of_app: count(1)?,
        on_cluster: count(2)?,
    })
}

async fn process_access_holder(
    transaction: &deadpool_postgres::Transaction<'_>,
    session: &Session,
) -> Result<Option<SessionId>, StoreError> {
    let row = transaction
        .query_opt(
            &format!(
                "SELECT id FROM breakglass_sessions WHERE {OPEN} AND process_access \
                 AND cluster = $2 AND namespace = $3 AND pod = $4 LIMIT 1"
            ),
            &[
                &session.created_at,
                &session.cluster,
                &session.namespace,
                &session.pod,
            ],
        )
        .await
        .map_err(away)?;
    let Some(row) = row else { return Ok(None) };
    let id: String = row.try_get(0).map_err(away)?;
    let id = SessionId::parse(&id).map_err(|_| StoreError::Unreadable {
        what: "a session's id".to_owned(),
    })?;
    Ok(Some(id))
}

async fn insert(
    transaction: &deadpool_postgres::Transaction<'_>,
    session: &Session,
) -> Result<u64, tokio_postgres::Error> {
    let volumes = serde_json::to_string(&session.volumes).unwrap_or_else(|_| "[]".to_owned());
    let duration = i32::try_from(session.duration_minutes).unwrap_or(i32::MAX);
    let review_state = session.review_state.as_ref().map(rows::word);
    transaction
        .execute(
            "INSERT INTO breakglass_sessions (id, app, env, cluster, namespace, pod, container, \
             mode, process_access, volume_access, volumes, recycle_last_pod, reason, ticket_url, \
             requester, tier, duration_minutes, glass_broken, review_state, created_at, \
             started_at, expires_at, sensitive, hold_app, pod_image, pod_image_id, state) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11::text::json, $12, $13, $14, \
             $15, $16, $17::int4, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27)",
            &[
                &session.id.as_str(),
                &session.app,
                &session.env,
                &session.cluster,
                &session.namespace,
                &session.pod,
                &session.container,
                &rows::word(&session.mode),
                &session.process_access,
                &session.volume_access,
                &volumes,
                &session.recycle_last_pod,
                &session.reason,
                &session.ticket_url,
                &session.requester.as_str(),
                &rows::word(&session.tier),
                &duration,
                &session.glass_broken,
                &review_state,
                &session.created_at,
                &session.started_at,
                &session.expires_at,
                &session.sensitive,
                &session.hold_app,
                &session.pod_image,
                &session.pod_image_id,
                &rows::word(&session.state),
            ],
        )
        .await
}
