//! Bringing the tables up to this version's shape (D-2, D-4).
//!
//! Invariants: one process migrates at a time (advisory lock held for the transaction); a step is
//! applied once, and a step that was applied must read as it did then.

use super::lease::away;
use crate::ports::StoreError;
use deadpool_postgres::Object;
use sha2::{Digest, Sha256};

/// Every step, in order; a step that has shipped never changes.
const STEPS: [(i32, &str); 1] = [(1, include_str!("migrations/1.sql"))];

/// Chosen once; two programs that migrate the same tables must agree on it.
const LOCK: i64 = 0x0062_7265_616b_676c;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS breakglass_schema (\
    version integer PRIMARY KEY, checksum text NOT NULL, \
    applied_at timestamptz NOT NULL DEFAULT now())";

pub(super) async fn migrate(client: &mut Object) -> Result<(), StoreError> {
    let transaction = client.transaction().await.map_err(away)?;
    // Another process may be migrating: its steps are short.
    transaction
        .execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK])
        .await
        .map_err(away)?;
    transaction.batch_execute(TABLE).await.map_err(away)?;
    let applied = transaction
        .query("SELECT version, checksum FROM breakglass_schema", &[])
        .await
        .map_err(away)?;
    for (version, sql) in STEPS {
        let checksum = hex(&Sha256::digest(sql.as_bytes()));
        let before = applied.iter().find(|row| row.get::<_, i32>(0) == version);
        match before.map(|row| row.get::<_, String>(1)) {
            Some(then) if then == checksum => continue,
            Some(_) => {
                return Err(StoreError::Unreadable {
                    what: format!("breakglass_schema: step {version} differs from this version's"),
                });
            }
            None => {
                transaction.batch_execute(sql).await.map_err(away)?;
                transaction
                    .execute(
                        "INSERT INTO breakglass_schema (version, checksum) VALUES ($1, $2)",
                        &[&version, &checksum],
                    )
                    .await
                    .map_err(away)?;
                tracing::info!(version, "database brought up to date");
            }
        }
    }
    transaction.commit().await.map_err(away)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
