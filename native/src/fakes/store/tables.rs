//! The fake's tables: rows, objects and the lease, and what a statement does to them.
//!
//! Invariant: each function is one statement of the real adapter: all of it happens, or nothing.

use super::{away, held};
use crate::ports::cluster::MadeObject;
use crate::ports::store::{
    Claimed, HeldObject, Inserted, Lease, OpenedFacts, Outcome, SavedRecording,
};
use crate::ports::store::{Page, Place};
use crate::ports::{Elapsed, StoreError};
use crate::store::LEASE_SECONDS;
use decisions::limits::{Limits, OpenCounts, check_limits, is_open};
use decisions::session::{Session, SessionId, State};
use decisions::transition::Claim;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// An epoch that no owner ever has.
pub(super) const NO_EPOCH: i64 = -1;

#[derive(Default)]
pub(super) struct Tables {
    pub(super) rows: BTreeMap<SessionId, Session>,
    pub(super) held: Vec<Held>,
    pub(super) spoiled: BTreeSet<SessionId>,
    lease: LeaseRow,
    looks: u64,
}

/// An object, and at which look it was looked at; zero for never.
pub(super) struct Held {
    pub(super) held: HeldObject,
    looked: u64,
}

impl Held {
    fn is(&self, session: &SessionId, uid: &str) -> bool {
        self.held.object.session == *session && self.held.object.uid == uid
    }
}

#[derive(Default)]
struct LeaseRow {
    epoch: i64,
    /// Zero is nobody.
    owner: u64,
    until: Option<Elapsed>,
}

impl Tables {
    pub(super) fn is_owned(&self, epoch: i64, owner: u64) -> bool {
        self.lease.epoch == epoch && self.lease.owner == owner
    }

    pub(super) fn take_or_renew(&mut self, owner: u64, now: Elapsed) -> Lease {
        let lease = &mut self.lease;
        let lapsed = lease.until.is_none_or(|until| now > until);
        if lease.owner != owner {
            if !lapsed {
                return Lease::HeldByAnother;
            }
            lease.epoch += 1;
            lease.owner = owner;
        }
        lease.until = Some(now + Duration::from_secs(LEASE_SECONDS.unsigned_abs()));
        Lease::Held { epoch: lease.epoch }
    }

    pub(super) fn release(&mut self, owner: u64) {
        if self.lease.owner == owner {
            self.lease.owner = 0;
            self.lease.until = None;
        }
    }

    pub(super) fn insert(&mut self, session: &Session, limits: Limits) -> Inserted {
        let now = session.created_at;
        let counts = OpenCounts::among(
            self.rows.values(),
            &session.requester,
            &session.app,
            &session.cluster,
            now,
        );
        let holder = self.rows.values().find(|other| {
            other.process_access && is_open(other, now) && on_one_pod(other, session)
        });
        let holder = holder.map(|other| &other.id);
        if let Err(refusal) = check_limits(counts, limits, session.process_access, holder) {
            return Inserted::OverLimit(refusal);
        }
        if self.rows.contains_key(&session.id) {
            return Inserted::IdTaken;
        }
        self.rows.insert(session.id.clone(), session.clone());
        Inserted::Stored
    }

    pub(super) fn get(&self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        if self.spoiled.contains(id) {
            let what = format!("session {id}, column state");
            return Err(StoreError::Unreadable { what });
        }
        Ok(self.rows.get(id).cloned())
    }

    /// What can be read of what is asked for, in this order.
    pub(super) fn list<K: Ord>(
        &self,
        of: impl Fn(&Session) -> bool,
        key: impl Fn(&Session) -> K,
    ) -> Vec<Session> {
        let rows = self
            .rows
            .values()
            .filter(|row| !self.spoiled.contains(&row.id));
        let mut found: Vec<Session> = rows.filter(|row| of(row)).cloned().collect();
        found.sort_by_key(|row| (key(row), row.id.clone()));
        found
    }

    /// Rows that cannot be understood take up room like any other.
    pub(super) fn unfinished(&self, after: Option<&Place>, limit: u32) -> Page {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let place = |row: &Session| Place {
            expires_at: row.expires_at,
            id: row.id.to_string(),
        };
        let open = self.rows.values().filter(|row| row.state != State::Ended);
        let behind = open.filter(|row| after.is_none_or(|after| place(row) > *after));
        let mut found: Vec<&Session> = behind.collect();
        found.sort_by_key(|row| place(row));
        found.truncate(limit);
        let last = found.last().filter(|_| found.len() == limit);
        Page {
            next: last.map(|row| place(row)),
            rows: found
                .into_iter()
                .filter(|row| !self.spoiled.contains(&row.id))
                .cloned()
                .collect(),
        }
    }

    pub(super) fn claim(&mut self, claim: &Claim) -> Claimed {
        let Some(row) = self.rows.get_mut(claim.id()) else {
            return Claimed::Unknown;
        };
        if claim.apply(row) {
            return Claimed::Won(Box::new(row.clone()));
        }
        Claimed::Lost { now_in: row.state }
    }

    pub(super) fn opened(&mut self, id: &SessionId, facts: &OpenedFacts) -> bool {
        let row = self
            .rows
            .get_mut(id)
            .filter(|row| row.state == State::Active);
        let Some(row) = row else { return false };
        let facts = facts.clone();
        if let Some(volumes) = facts.volumes {
            row.volumes = volumes;
        }
        row.sensitive = facts.sensitive.unwrap_or(row.sensitive);
        row.role_binding = facts.role_binding.or(row.role_binding.take());
        row.debug_container = facts.debug_container.or(row.debug_container.take());
        row.copy_pod = facts.copy_pod.or(row.copy_pod.take());
        true
    }

    pub(super) fn checkpoint(&mut self, id: &SessionId, saved: &SavedRecording) {
        let bytes = size(saved);
        let grown = |row: &&mut Session| row.recording_bytes.is_none_or(|had| had <= bytes);
        if let Some(row) = self.rows.get_mut(id).filter(grown) {
            keep_recording(row, saved);
        }
    }

    pub(super) fn outcome(&mut self, id: &SessionId, outcome: &Outcome) {
        let row = self
            .rows
            .get_mut(id)
            .filter(|row| row.state == State::Ended);
        let Some(row) = row else { return };
        row.recycled = row
            .recycled
            .filter(|done| *done)
            .or(outcome.recycled)
            .or(row.recycled);
        row.cleanup_notes.clone_from(&outcome.notes);
        if let Some(saved) = &outcome.recording {
            keep_recording(row, saved);
        }
    }

    pub(super) fn add_object(&mut self, object: &MadeObject) -> Result<(), StoreError> {
        if !self.rows.contains_key(&object.session) {
            return Err(away("an object of a session that is not there"));
        }
        let (session, uid) = (&object.session, &object.uid);
        if !self.held.iter().any(|it| it.is(session, uid)) {
            self.held.push(Held {
                held: held(object),
                looked: 0,
            });
        }
        Ok(())
    }

    pub(super) fn forget(&mut self, session: &SessionId, uid: &str) {
        self.held.retain(|it| !it.is(session, uid));
    }

    pub(super) fn keep(&mut self, session: &SessionId, uid: &str, why: &str) {
        for it in self.held.iter_mut().filter(|it| it.is(session, uid)) {
            it.held.kept = Some(why.to_owned());
        }
    }

    pub(super) fn objects(&self, id: &SessionId) -> Vec<HeldObject> {
        let of = self.held.iter().filter(|it| it.held.object.session == *id);
        of.map(|it| it.held.clone()).collect()
    }

    pub(super) fn unsettled(&mut self, limit: u32) -> Vec<Session> {
        let mut looked: BTreeMap<SessionId, u64> = BTreeMap::new();
        for it in &self.held {
            let id = &it.held.object.session;
            if self
                .rows
                .get(id)
                .is_some_and(|row| row.state == State::Ended)
            {
                let seen = looked.entry(id.clone()).or_insert(it.looked);
                *seen = it.looked.min(*seen);
            }
        }
        let mut due: Vec<(u64, SessionId)> = looked.into_iter().map(|(id, at)| (at, id)).collect();
        due.sort();
        due.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        self.looks += 1;
        for it in &mut self.held {
            if due.iter().any(|(_, id)| *id == it.held.object.session) {
                it.looked = self.looks;
            }
        }
        let readable = due.iter().filter_map(|(_, id)| self.get(id).ok().flatten());
        readable.collect()
    }

    pub(super) fn others_on_pod(&self, session: &Session) -> bool {
        self.rows.values().any(|other| {
            other.id != session.id && other.state == State::Active && on_one_pod(other, session)
        })
    }
}

fn on_one_pod(one: &Session, other: &Session) -> bool {
    one.cluster == other.cluster && one.namespace == other.namespace && one.pod == other.pod
}

fn size(saved: &SavedRecording) -> i64 {
    i64::try_from(saved.bytes).unwrap_or(i64::MAX)
}

fn keep_recording(row: &mut Session, saved: &SavedRecording) {
    row.recording_bytes = Some(size(saved));
    row.recording_key = Some(saved.key.clone());
    row.recording_bucket = Some(saved.bucket.clone());
    row.recording_version = Some(saved.version.clone());
    row.recording_sha256 = Some(saved.sha256.clone());
}
