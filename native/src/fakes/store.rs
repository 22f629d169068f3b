//! The sessions' rows in memory, shared by any number of processes, with faults on command.
//!
//! Invariants: a claim does what `decisions::transition::Claim` says, and nothing else changes a
//! state; every write asks the fence first (D-5). Lease time is the clock's that never jumps.

mod port;
mod tables;

use crate::ports::cluster::MadeObject;
use crate::ports::store::HeldObject;
use crate::ports::{Clock, Elapsed, StoreError};
use decisions::session::{Session, SessionId};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tables::Tables;

/// The port's questions, to say which one fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is the port's method of that name")]
pub enum Call {
    Migrate,
    TakeOrRenewLease,
    ReleaseLease,
    Insert,
    Get,
    Newest,
    Unfinished,
    Unsettled,
    ClaimApprove,
    ClaimDeny,
    ClaimStart,
    ClaimExtension,
    ClaimEnd,
    ClaimReview,
    NoteOpened,
    NoteCheckpoint,
    NoteOutcome,
    NoteObject,
    ForgetObject,
    KeepObject,
    Objects,
    OthersOnPod,
    Ping,
}

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing happens; the answer is `Away`.
    Away,
    /// It happens; the answer is lost, so that it is `Away` all the same.
    ReplyLost,
    /// Nothing happens, and no answer ever comes.
    Hangs,
}

/// One process's store. Those made by [`FakeStore::another_process`] share its rows.
pub struct FakeStore {
    shared: Arc<Shared>,
    owner: u64,
    epoch: AtomicI64,
}

struct Shared {
    clock: Arc<dyn Clock>,
    processes: AtomicU64,
    tables: Mutex<Tables>,
    faults: Mutex<Faults>,
}

#[derive(Default)]
struct Faults {
    away: bool,
    next: VecDeque<(Call, Fault)>,
    log: Vec<Call>,
}

impl FakeStore {
    /// An empty database and the first process on it. Leases last by this clock's elapsed time.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let shared = Shared {
            clock,
            processes: AtomicU64::new(0),
            tables: Mutex::default(),
            faults: Mutex::default(),
        };
        Self::process_on(Arc::new(shared))
    }

    /// One more process on the same rows.
    pub fn another_process(&self) -> Self {
        Self::process_on(Arc::clone(&self.shared))
    }

    fn process_on(shared: Arc<Shared>) -> Self {
        let owner = shared.processes.fetch_add(1, Ordering::SeqCst) + 1;
        Self {
            shared,
            owner,
            epoch: AtomicI64::new(tables::NO_EPOCH),
        }
    }

    /// From here on every call of every process is `Away`, or answered again.
    pub fn set_away(&self, away: bool) {
        self.faults().away = away;
    }

    /// The next such call fails; told more often, as many of the next ones, in that order.
    pub fn fail_next(&self, call: Call, fault: Fault) {
        self.faults().next.push_back((call, fault));
    }

    /// Every call so far, oldest first, those that failed too.
    pub fn calls(&self) -> Vec<Call> {
        self.faults().log.clone()
    }

    /// Puts a row as it is, past fence and limits: one that was there before this process.
    pub fn put(&self, session: Session) {
        self.tables().rows.insert(session.id.clone(), session);
    }

    /// Every row, by id; unreadable ones too.
    pub fn rows(&self) -> Vec<Session> {
        self.tables().rows.values().cloned().collect()
    }

    /// Every object that is not known to be gone, of any session.
    pub fn held(&self) -> Vec<HeldObject> {
        self.tables()
            .held
            .iter()
            .map(|it| it.held.clone())
            .collect()
    }

    /// From here on this row cannot be understood.
    pub fn spoil(&self, id: &SessionId) {
        self.tables().spoiled.insert(id.clone());
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.shared
            .tables
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.shared
            .faults
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Elapsed {
        self.shared.clock.elapsed()
    }

    /// Does what is asked, unless it was told to fail.
    async fn call<T>(
        &self,
        call: Call,
        act: impl FnOnce(&mut Tables) -> Result<T, StoreError> + Send,
    ) -> Result<T, StoreError> {
        match self.fault_of(call) {
            None => act(&mut self.tables()),
            Some(Fault::Away) => Err(away("the fake database is away")),
            Some(Fault::ReplyLost) => {
                // Its outcome is what nobody gets to know.
                let _ = act(&mut self.tables());
                Err(away("the answer was lost"))
            }
            Some(Fault::Hangs) => std::future::pending().await,
        }
    }

    /// A call that writes: refused unless this process holds the current epoch (D-5).
    async fn write<T>(
        &self,
        call: Call,
        act: impl FnOnce(&mut Tables) -> Result<T, StoreError> + Send,
    ) -> Result<T, StoreError> {
        let (epoch, owner) = (self.epoch.load(Ordering::SeqCst), self.owner);
        self.call(call, move |tables| {
            if !tables.is_owned(epoch, owner) {
                return Err(StoreError::NotOwner);
            }
            act(tables)
        })
        .await
    }

    fn fault_of(&self, call: Call) -> Option<Fault> {
        let mut faults = self.faults();
        faults.log.push(call);
        let told = faults.next.iter().position(|(of, _)| *of == call);
        let told = told
            .and_then(|at| faults.next.remove(at))
            .map(|(_, fault)| fault);
        told.or(faults.away.then_some(Fault::Away))
    }
}

fn away(why: &str) -> StoreError {
    StoreError::Away(why.into())
}

fn held(object: &MadeObject) -> HeldObject {
    HeldObject {
        object: object.clone(),
        kept: None,
    }
}

#[cfg(test)]
mod tests;
