//! What sessions made in clusters and is not known to be gone (C-26).

use super::lease::{OWNED, away};
use super::{PgStore, rows};
use crate::ports::StoreError;
use crate::ports::cluster::{MadeObject, ObjectKind};
use crate::ports::store::HeldObject;
use decisions::session::{Session, SessionId};
use tokio_postgres::Row;

impl PgStore {
    pub(super) async fn add_object(&self, object: &MadeObject) -> Result<(), StoreError> {
        self.fenced(
            &format!(
                "WITH owner AS MATERIALIZED ({OWNED}) INSERT INTO breakglass_objects \
                 (uid, session_id, cluster, kind, namespace, name) \
                 SELECT $3, $4, $5, $6, $7, $8 WHERE EXISTS (SELECT 1 FROM owner) \
                 ON CONFLICT (uid, session_id) DO NOTHING"
            ),
            &[
                &object.uid,
                &object.session.as_str(),
                &object.cluster,
                &kind_text(object.kind),
                &object.namespace,
                &object.name,
            ],
        )
        .await
        .map(|_| ())
    }

    pub(super) async fn remove_object(
        &self,
        session: &SessionId,
        uid: &str,
    ) -> Result<(), StoreError> {
        self.fenced(
            &format!(
                "WITH owner AS MATERIALIZED ({OWNED}) DELETE FROM breakglass_objects \
                 WHERE session_id = $3 AND uid = $4 AND EXISTS (SELECT 1 FROM owner)"
            ),
            &[&session.as_str(), &uid],
        )
        .await
        .map(|_| ())
    }

    pub(super) async fn mark_kept(
        &self,
        session: &SessionId,
        uid: &str,
        why: &str,
    ) -> Result<(), StoreError> {
        self.fenced(
            &format!(
                "WITH owner AS MATERIALIZED ({OWNED}) UPDATE breakglass_objects \
                 SET kept = $5 WHERE session_id = $3 AND uid = $4 \
                 AND EXISTS (SELECT 1 FROM owner)"
            ),
            &[&session.as_str(), &uid, &why],
        )
        .await
        .map(|_| ())
    }

    pub(super) async fn held_objects(&self, id: &SessionId) -> Result<Vec<HeldObject>, StoreError> {
        let client = self.client().await?;
        let statement = client
            .prepare_cached(
                "SELECT uid, session_id, cluster, kind, namespace, name, kept \
                 FROM breakglass_objects WHERE session_id = $1 ORDER BY made_at, uid",
            )
            .await
            .map_err(away)?;
        let found = client
            .query(&statement, &[&id.as_str()])
            .await
            .map_err(away)?;
        found.iter().map(held).collect()
    }

    pub(super) async fn take_unsettled(&self, limit: u32) -> Result<Vec<Session>, StoreError> {
        let sql = format!(
            "WITH owner AS MATERIALIZED ({OWNED}), \
             due AS (SELECT o.session_id, min(coalesce(o.checked_at, '-infinity')) AS seen \
               FROM breakglass_objects o JOIN breakglass_sessions s ON s.id = o.session_id \
               WHERE s.state = 'ended' AND EXISTS (SELECT 1 FROM owner) \
               GROUP BY o.session_id ORDER BY seen, o.session_id LIMIT $3), \
             marked AS (UPDATE breakglass_objects SET checked_at = now() \
               WHERE session_id IN (SELECT session_id FROM due)) \
             SELECT {} FROM due JOIN breakglass_sessions ON id = session_id \
             ORDER BY seen, id",
            rows::COLUMNS
        );
        let epoch = self.held_epoch();
        let found = self
            .sessions(&sql, &[&epoch, &self.owner, &i64::from(limit)])
            .await?;
        if found.is_empty() && !self.owns(&self.client().await?, epoch).await? {
            return Err(StoreError::NotOwner);
        }
        Ok(found)
    }
}

fn held(row: &Row) -> Result<HeldObject, StoreError> {
    let text = |column: &str| row.try_get::<_, String>(column).map_err(away);
    let uid = text("uid")?;
    let unreadable = |column| StoreError::Unreadable {
        what: format!("object {uid}, {column}"),
    };
    Ok(HeldObject {
        object: MadeObject {
            session: SessionId::parse(&text("session_id")?)
                .map_err(|_| unreadable("session_id"))?,
            cluster: text("cluster")?,
            kind: kind(&text("kind")?).ok_or_else(|| unreadable("kind"))?,
            namespace: text("namespace")?,
            name: text("name")?,
            uid: uid.clone(),
        },
        kept: row.try_get("kept").map_err(away)?,
    })
}

fn kind_text(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::RoleBinding => "role-binding",
        ObjectKind::CopyPod => "copy-pod",
        ObjectKind::LivePod => "live-pod",
    }
}

fn kind(text: &str) -> Option<ObjectKind> {
    [
        ObjectKind::RoleBinding,
        ObjectKind::CopyPod,
        ObjectKind::LivePod,
    ]
    .into_iter()
    .find(|kind| kind_text(*kind) == text)
}
