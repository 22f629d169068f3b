//! A row as a `Session` and back.
//!
//! Invariant: every column is named once, in `COLUMNS`; a row of any age is readable, and what
//! cannot be understood is an error that names row and column, never a guess.

use crate::ports::StoreError;
use crate::ports::store::Place;
use decisions::session::{MountedVolume, Session, SessionId, UserRef};
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

/// The columns of a row, as every query returns them. The casts make an older table's types
/// (knex: integer for a size, text for JSON) read as this version's; an ended row has no deadline
/// any more, and an older version may have left it empty.
pub(super) const COLUMNS: &str = "id, app, env, cluster, namespace, pod, container, mode, \
    coalesce(process_access, false) AS process_access, \
    coalesce(volume_access, false) AS volume_access, volumes::text AS volumes, \
    coalesce(recycle_last_pod, false) AS recycle_last_pod, recycled, reason, ticket_url, \
    requester, tier, duration_minutes::int4 AS duration_minutes, approver, approved_at, \
    decision_note, coalesce(glass_broken, false) AS glass_broken, review_state, reviewed_by, \
    reviewed_at, review_note, created_at, started_at, extended_at, \
    CASE WHEN state = 'ended' THEN coalesce(expires_at, ended_at, created_at) ELSE expires_at END \
    AS expires_at, ended_at, \
    end_reason, ended_by, role_binding, copy_pod, debug_container, recording_key, \
    recording_sha256, recording_bytes::int8 AS recording_bytes, recording_bucket, \
    recording_version, coalesce(sensitive, false) AS sensitive, \
    coalesce(hold_app, false) AS hold_app, pod_image, pod_image_id, recycle_waived_reason, \
    review_reminded_at, review_escalated_at, \
    recording_rekor_index::int8 AS recording_rekor_index, recording_rekor_uuid, \
    anchor_attempted_at, anchor_error, cleanup_notes, state";

/// Reads one row.
pub(super) fn session(row: &Row) -> Result<Session, StoreError> {
    let row = Reader {
        id: text_or_unknown(row),
        row,
    };
    Ok(Session {
        id: SessionId::parse(&row.get::<String>("id")?).map_err(|_| row.unreadable("id"))?,
        app: row.get("app")?,
        env: row.get("env")?,
        cluster: row.get("cluster")?,
        namespace: row.get("namespace")?,
        pod: row.get("pod")?,
        container: row.get("container")?,
        mode: row.word("mode")?,
        process_access: row.get("process_access")?,
        volume_access: row.get("volume_access")?,
        volumes: row.volumes()?,
        recycle_last_pod: row.get("recycle_last_pod")?,
        recycled: row.get("recycled")?,
        reason: row.get("reason")?,
        ticket_url: row.get("ticket_url")?,
        requester: row.word("requester")?,
        tier: row.word("tier")?,
        duration_minutes: u32::try_from(row.get::<i32>("duration_minutes")?)
            .map_err(|_| row.unreadable("duration_minutes"))?,
        approver: row.user("approver")?,
        approved_at: row.time("approved_at")?,
        decision_note: row.get("decision_note")?,
        glass_broken: row.get("glass_broken")?,
        review_state: row.optional_word("review_state")?,
        reviewed_by: row.user("reviewed_by")?,
        reviewed_at: row.time("reviewed_at")?,
        review_note: row.get("review_note")?,
        created_at: row.get("created_at")?,
        started_at: row.time("started_at")?,
        extended_at: row.time("extended_at")?,
        expires_at: row.get("expires_at")?,
        ended_at: row.time("ended_at")?,
        end_reason: row.get("end_reason")?,
        ended_by: row.user("ended_by")?,
        role_binding: row.get("role_binding")?,
        copy_pod: row.get("copy_pod")?,
        debug_container: row.get("debug_container")?,
        recording_key: row.get("recording_key")?,
        recording_sha256: row.get("recording_sha256")?,
        recording_bytes: row.get("recording_bytes")?,
        recording_bucket: row.get("recording_bucket")?,
        recording_version: row.get("recording_version")?,
        sensitive: row.get("sensitive")?,
        hold_app: row.get("hold_app")?,
        pod_image: row.get("pod_image")?,
        pod_image_id: row.get("pod_image_id")?,
        recycle_waived_reason: row.get("recycle_waived_reason")?,
        review_reminded_at: row.time("review_reminded_at")?,
        review_escalated_at: row.time("review_escalated_at")?,
        recording_rekor_index: row.get("recording_rekor_index")?,
        recording_rekor_uuid: row.get("recording_rekor_uuid")?,
        anchor_attempted_at: row.time("anchor_attempted_at")?,
        anchor_error: row.get("anchor_error")?,
        cleanup_notes: row.get("cleanup_notes")?,
        state: row.word("state")?,
    })
}

/// The rows as sessions. One that cannot be understood must not hide the others (W-3).
pub(super) fn understood(rows: &[Row]) -> Vec<Session> {
    let read = |row| {
        session(row)
            .inspect_err(|error| tracing::error!(%error, "a row was left out"))
            .ok()
    };
    rows.iter().filter_map(read).collect()
}

/// Where a row stands among the unfinished, whether or not the rest of it can be understood;
/// `None` where it has no deadline, and so stands last.
pub(super) fn place(row: &Row) -> Option<Place> {
    let expires_at = row.try_get::<_, Option<Timestamp>>("expires_at").ok()??;
    let id = row.try_get("id").ok()?;
    Some(Place { expires_at, id })
}

/// A one-word value (state, tier, mode…) as its column's text.
pub(super) fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        // The vocabulary's enums serialize to strings; a test of each column proves it.
        Ok(_) | Err(_) => String::new(),
    }
}

fn text_or_unknown(row: &Row) -> String {
    row.try_get::<_, String>("id")
        .unwrap_or_else(|_| "?".to_owned())
}

struct Reader<'a> {
    id: String,
    row: &'a Row,
}

impl Reader<'_> {
    fn unreadable(&self, column: &str) -> StoreError {
        StoreError::Unreadable {
            what: format!("session {}, column {column}", self.id),
        }
    }

    fn get<'r, T: FromSql<'r>>(&'r self, column: &str) -> Result<T, StoreError> {
        self.row
            .try_get(column)
            .map_err(|_| self.unreadable(column))
    }

    fn time(&self, column: &str) -> Result<Option<Timestamp>, StoreError> {
        self.get(column)
    }

    fn user(&self, column: &str) -> Result<Option<UserRef>, StoreError> {
        Ok(self
            .get::<Option<String>>(column)?
            .map(|text| UserRef::new(&text)))
    }

    fn word<T: DeserializeOwned>(&self, column: &str) -> Result<T, StoreError> {
        self.optional_word(column)?
            .ok_or_else(|| self.unreadable(column))
    }

    fn optional_word<T: DeserializeOwned>(&self, column: &str) -> Result<Option<T>, StoreError> {
        let Some(text) = self.get::<Option<String>>(column)? else {
            return Ok(None);
        };
        serde_json::from_value(serde_json::Value::String(text))
            .map(Some)
            .map_err(|_| self.unreadable(column))
    }

    /// The volumes; what an older version wrote in another shape is shown as it was written.
    fn volumes(&self) -> Result<Vec<MountedVolume>, StoreError> {
        let Some(text) = self.get::<Option<String>>("volumes")? else {
            return Ok(Vec::new());
        };
        let values: Option<Vec<serde_json::Value>> =
            serde_json::from_str(&text).map_err(|_| self.unreadable("volumes"))?;
        Ok(values.unwrap_or_default().into_iter().map(volume).collect())
    }
}

fn volume(value: serde_json::Value) -> MountedVolume {
    serde_json::from_value(value.clone()).unwrap_or_else(|_| {
        let text = |key: &str| value.get(key).and_then(|v| v.as_str()).map(str::to_owned);
        let mount_path = text("mountPath").unwrap_or_default();
        MountedVolume {
            name: text("name").unwrap_or_else(|| value.to_string()),
            app_path: mount_path.clone(),
            mount_path,
            note: None,
        }
    })
}
