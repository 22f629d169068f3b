//! The port, on the fake's tables.

use super::{Call, FakeStore, tables};
use crate::ports::StoreError;
use crate::ports::cluster::MadeObject;
use crate::ports::store::{
    Claimed, HeldObject, Inserted, Lease, OpenedFacts, Outcome, Page, Place, SavedRecording, Store,
};
use async_trait::async_trait;
use decisions::limits::Limits;
use decisions::session::{Session, SessionId};
use decisions::transition::{Approve, Claim, Deny, End, Extend, Review, Start};
use std::cmp::Reverse;
use std::sync::atomic::Ordering;

impl FakeStore {
    async fn claim(&self, call: Call, claim: Claim) -> Result<Claimed, StoreError> {
        self.write(call, move |tables| Ok(tables.claim(&claim)))
            .await
    }
}

#[async_trait]
impl Store for FakeStore {
    async fn migrate(&self) -> Result<(), StoreError> {
        self.call(Call::Migrate, |_| Ok(())).await
    }

    async fn take_or_renew_lease(&self) -> Result<Lease, StoreError> {
        let (owner, now) = (self.owner, self.now());
        let taken = self.call(Call::TakeOrRenewLease, |tables| {
            Ok(tables.take_or_renew(owner, now))
        });
        let lease = taken.await?;
        let epoch = match lease {
            Lease::Held { epoch } => epoch,
            Lease::HeldByAnother => tables::NO_EPOCH,
        };
        self.epoch.store(epoch, Ordering::SeqCst);
        Ok(lease)
    }

    async fn release_lease(&self) -> Result<(), StoreError> {
        let owner = self.owner;
        self.epoch.store(tables::NO_EPOCH, Ordering::SeqCst);
        self.call(Call::ReleaseLease, |tables| {
            tables.release(owner);
            Ok(())
        })
        .await
    }

    async fn insert(&self, session: &Session, limits: &Limits) -> Result<Inserted, StoreError> {
        self.write(Call::Insert, |tables| Ok(tables.insert(session, *limits)))
            .await
    }

    async fn get(&self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        self.call(Call::Get, |tables| tables.get(id)).await
    }

    async fn newest(&self, app: &str, env: &str, limit: u32) -> Result<Vec<Session>, StoreError> {
        self.call(Call::Newest, |tables| {
            let of = |row: &Session| row.app == app && row.env == env;
            let mut found = tables.list(of, |row| Reverse(row.created_at));
            found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
            Ok(found)
        })
        .await
    }

    async fn unfinished(&self, after: Option<&Place>, limit: u32) -> Result<Page, StoreError> {
        self.call(Call::Unfinished, |tables| {
            Ok(tables.unfinished(after, limit))
        })
        .await
    }

    async fn unsettled(&self, limit: u32) -> Result<Vec<Session>, StoreError> {
        self.write(Call::Unsettled, |tables| Ok(tables.unsettled(limit)))
            .await
    }

    async fn claim_approve(&self, claim: &Approve) -> Result<Claimed, StoreError> {
        self.claim(Call::ClaimApprove, claim.clone().into()).await
    }

    async fn claim_deny(&self, claim: &Deny) -> Result<Claimed, StoreError> {
        self.claim(Call::ClaimDeny, claim.clone().into()).await
    }

    async fn claim_start(&self, claim: &Start) -> Result<Claimed, StoreError> {
        self.claim(Call::ClaimStart, claim.clone().into()).await
    }

    async fn claim_extension(&self, claim: &Extend) -> Result<Claimed, StoreError> {
        self.claim(Call::ClaimExtension, claim.clone().into()).await
    }

    async fn claim_end(&self, claim: &End) -> Result<Claimed, StoreError> {
        self.claim(Call::ClaimEnd, claim.clone().into()).await
    }

    async fn claim_review(&self, claim: &Review) -> Result<Claimed, StoreError> {
        self.claim(Call::ClaimReview, claim.clone().into()).await
    }

    async fn note_opened(&self, id: &SessionId, facts: &OpenedFacts) -> Result<bool, StoreError> {
        self.write(Call::NoteOpened, |tables| Ok(tables.opened(id, facts)))
            .await
    }

    async fn note_checkpoint(
        &self,
        id: &SessionId,
        saved: &SavedRecording,
    ) -> Result<(), StoreError> {
        self.write(Call::NoteCheckpoint, |tables| {
            tables.checkpoint(id, saved);
            Ok(())
        })
        .await
    }

    async fn note_outcome(&self, id: &SessionId, outcome: &Outcome) -> Result<(), StoreError> {
        self.write(Call::NoteOutcome, |tables| {
            tables.outcome(id, outcome);
            Ok(())
        })
        .await
    }

    async fn note_object(&self, object: &MadeObject) -> Result<(), StoreError> {
        self.write(Call::NoteObject, |tables| tables.add_object(object))
            .await
    }

    async fn forget_object(&self, session: &SessionId, uid: &str) -> Result<(), StoreError> {
        self.write(Call::ForgetObject, |tables| {
            tables.forget(session, uid);
            Ok(())
        })
        .await
    }

    async fn keep_object(
        &self,
        session: &SessionId,
        uid: &str,
        why: &str,
    ) -> Result<(), StoreError> {
        self.write(Call::KeepObject, |tables| {
            tables.keep(session, uid, why);
            Ok(())
        })
        .await
    }

    async fn objects(&self, id: &SessionId) -> Result<Vec<HeldObject>, StoreError> {
        self.call(Call::Objects, |tables| Ok(tables.objects(id)))
            .await
    }

    async fn others_on_pod(&self, session: &Session) -> Result<bool, StoreError> {
        self.call(
            Call::OthersOnPod,
            |tables| Ok(tables.others_on_pod(session)),
        )
        .await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.call(Call::Ping, |_| Ok(())).await
    }
}
