//! Who owns the sessions (D-5), by the database's own time.
//!
//! Invariant: at most one epoch is current. A writer holds its epoch's row against a taking over
//! for the length of its statement, so what a former owner still sends changes nothing.

use super::PgStore;
use crate::ports::StoreError;
use crate::ports::store::Lease;
use std::sync::atomic::Ordering;

/// How long a lease lasts without renewal (D-5).
pub const LEASE_SECONDS: i64 = 20;

/// The fence that every write carries: `$1` is the epoch, `$2` the owner.
pub(super) const OWNED: &str =
    "SELECT 1 FROM breakglass_owner WHERE epoch = $1 AND owner = $2 FOR KEY SHARE";

/// An epoch that no owner ever has.
pub(super) const NO_EPOCH: i64 = -1;

impl PgStore {
    pub(super) async fn take_or_renew(&self) -> Result<Lease, StoreError> {
        let client = self.client().await?;
        // By the owner's name, which is this process's alone: a taking whose answer was lost is
        // found here, and nobody can have been in between.
        let renewed = client
            .query_opt(
                "UPDATE breakglass_owner SET expires_at = now() + $2::int8 * interval '1 second' \
                 WHERE owner = $1 RETURNING epoch",
                &[&self.owner, &LEASE_SECONDS],
            )
            .await
            .map_err(away)?;
        if let Some(row) = renewed {
            return self.hold(&row);
        }
        self.epoch.store(NO_EPOCH, Ordering::SeqCst);
        let taken = client
            .query_opt(
                "UPDATE breakglass_owner SET epoch = epoch + 1, owner = $1, \
                 expires_at = now() + $2::int8 * interval '1 second' \
                 WHERE expires_at < now() RETURNING epoch",
                &[&self.owner, &LEASE_SECONDS],
            )
            .await
            .map_err(away)?;
        match taken {
            Some(row) => self.hold(&row),
            None => Ok(Lease::HeldByAnother),
        }
    }

    fn hold(&self, row: &tokio_postgres::Row) -> Result<Lease, StoreError> {
        let epoch: i64 = row.try_get(0).map_err(away)?;
        self.epoch.store(epoch, Ordering::SeqCst);
        Ok(Lease::Held { epoch })
    }

    pub(super) async fn release(&self) -> Result<(), StoreError> {
        self.epoch.store(NO_EPOCH, Ordering::SeqCst);
        let client = self.client().await?;
        // The name goes too, so that taking it again is a taking over like any other's.
        client
            .execute(
                "UPDATE breakglass_owner SET owner = '', expires_at = '-infinity' WHERE owner = $1",
                &[&self.owner],
            )
            .await
            .map_err(away)?;
        Ok(())
    }
}

/// A database error whose effect is unknown or none.
///
/// Of what the server says only the code and the message are kept: its detail, hint and context
/// quote rows, and a row holds what a person gave as the reason.
pub(super) fn away(error: tokio_postgres::Error) -> StoreError {
    let said = error.as_db_error().map(|said| Said {
        code: said.code().code().to_owned(),
        message: said.message().to_owned(),
    });
    match said {
        Some(said) => StoreError::Away(Box::new(said)),
        None => StoreError::Away(Box::new(error)),
    }
}

/// What may be repeated of a refusal of the server.
#[derive(Debug, thiserror::Error)]
#[error("the database refused it ({code}): {message}")]
struct Said {
    code: String,
    message: String,
}
