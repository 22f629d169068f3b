//! How many sessions may be open at once, and that process access is one session's per pod (S-14c).
//!
//! Invariant: the counts never include the session that is asked for. Counting and inserting must
//! be one step in the store; what is here only judges the counts.

use crate::session::{Session, SessionId, State, UserRef};
use core::fmt;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The most sessions that may be open at once (S-14c).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub struct Limits {
    /// Of one requester, in all apps.
    pub per_user: u32,
    /// Of one app, in all environments.
    pub per_app: u32,
    /// On one cluster.
    pub per_cluster: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            per_user: 3,
            per_app: 10,
            per_cluster: 50,
        }
    }
}

/// A limit's name, as an answer and the configuration spell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub enum LimitName {
    /// `Limits::per_user`
    PerUser,
    /// `Limits::per_app`
    PerApp,
    /// `Limits::per_cluster`
    PerCluster,
}

impl LimitName {
    /// The limit's value.
    pub fn of(self, limits: Limits) -> u32 {
        match self {
            Self::PerUser => limits.per_user,
            Self::PerApp => limits.per_app,
            Self::PerCluster => limits.per_cluster,
        }
    }
}

impl fmt::Display for LimitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PerUser => "perUser",
            Self::PerApp => "perApp",
            Self::PerCluster => "perCluster",
        })
    }
}

/// How many other sessions are open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenCounts {
    /// Of the requester.
    pub of_user: u32,
    /// Of the app.
    pub of_app: u32,
    /// On the cluster.
    pub on_cluster: u32,
}

impl OpenCounts {
    /// Counts among these sessions: the reference for what a store's query must answer.
    pub fn among<'a>(
        sessions: impl IntoIterator<Item = &'a Session>,
        user: &UserRef,
        app: &str,
        cluster: &str,
        now: Timestamp,
    ) -> Self {
        let mut counts = Self::default();
        for session in sessions.into_iter().filter(|session| is_open(session, now)) {
            counts.of_user += u32::from(session.requester == *user);
            counts.of_app += u32::from(session.app == app);
            counts.on_cluster += u32::from(session.cluster == cluster);
        }
        counts
    }
}

/// Whether a session counts: requested or approved within its deadline, or active. An active one
/// past its deadline still holds its pod until it is ended.
pub fn is_open(session: &Session, now: Timestamp) -> bool {
    match session.state {
        State::Requested | State::Approved => now < session.expires_at,
        State::Active => true,
        State::Ended => false,
    }
}

/// The limit that one more session would be over, if any (S-14c).
pub fn over_limit(open: OpenCounts, limits: Limits) -> Option<LimitName> {
    [
        (LimitName::PerUser, open.of_user),
        (LimitName::PerApp, open.of_app),
        (LimitName::PerCluster, open.on_cluster),
    ]
    .into_iter()
    .find(|(name, count)| *count >= name.of(limits))
    .map(|(name, _)| name)
}

/// Why there cannot be one more session; 409 (S-14c).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitRefusal {
    /// A limit is reached.
    #[error("the limit `{name}` is reached: {max} open at once; end one of them first")]
    Reached {
        /// Which limit.
        name: LimitName,
        /// Its value.
        max: u32,
    },
    /// Another session has process access to the pod.
    #[error(
        "session `{other}` has process access to this pod, and only one can; ask without process \
         access or wait for its end"
    )]
    ProcessAccessTaken {
        /// The session that has it.
        other: SessionId,
    },
}

/// Judges the counts, and process access: `holder` is an open session with process access to the
/// same pod (cluster, namespace and name), if there is one.
///
/// # Errors
/// The first limit that one more session would be over.
pub fn check_limits(
    open: OpenCounts,
    limits: Limits,
    process_access: bool,
    holder: Option<&SessionId>,
) -> Result<(), LimitRefusal> {
    if let Some(name) = over_limit(open, limits) {
        return Err(LimitRefusal::Reached {
            name,
            max: name.of(limits),
        });
    }
    match holder {
        Some(other) if process_access => Err(LimitRefusal::ProcessAccessTaken {
            other: other.clone(),
        }),
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn the_last_one_below_a_limit_is_taken_and_the_next_is_refused_by_name() {
        let limits = Limits::default();
        let check = |of_user, of_app, on_cluster, expected| {
            let open = OpenCounts {
                of_user,
                of_app,
                on_cluster,
            };
            assert_eq!(over_limit(open, limits), expected, "{open:?}");
        };
        check(0, 0, 0, None);
        check(2, 9, 49, None);
        check(3, 0, 0, Some(LimitName::PerUser));
        check(0, 10, 0, Some(LimitName::PerApp));
        check(0, 0, 50, Some(LimitName::PerCluster));
        check(u32::MAX, u32::MAX, u32::MAX, Some(LimitName::PerUser));
        let none = Limits {
            per_user: 0,
            ..limits
        };
        assert_eq!(
            over_limit(OpenCounts::default(), none),
            Some(LimitName::PerUser)
        );
    }

    #[test]
    fn the_refusal_names_the_limit_as_the_configuration_spells_it() {
        let open = OpenCounts {
            of_app: 10,
            ..OpenCounts::default()
        };
        let refusal = check_limits(open, Limits::default(), false, None).unwrap_err();
        assert!(refusal.to_string().contains("`perApp`"), "{refusal}");
        for name in [LimitName::PerUser, LimitName::PerApp, LimitName::PerCluster] {
            assert_eq!(serde_json::json!(name), name.to_string());
        }
    }

    #[test]
    fn process_access_to_a_pod_is_one_sessions() {
        let (none, limits) = (OpenCounts::default(), Limits::default());
        let holder = fixture::id();
        assert_eq!(check_limits(none, limits, true, None), Ok(()));
        assert_eq!(check_limits(none, limits, false, Some(&holder)), Ok(()));
        assert_eq!(
            check_limits(none, limits, true, Some(&holder)),
            Err(LimitRefusal::ProcessAccessTaken {
                other: holder.clone()
            })
        );
    }

    #[test]
    fn what_expired_unopened_does_not_count_and_what_is_active_does() {
        let (session, now) = (fixture::requested(), fixture::requested().expires_at);
        let count = |state, now| {
            let session = Session {
                state,
                ..session.clone()
            };
            OpenCounts::among([&session], &session.requester, "shop", "other", now)
        };
        let one = OpenCounts {
            of_user: 1,
            of_app: 1,
            on_cluster: 0,
        };
        let before = now - jiff::SignedDuration::from_nanos(1);
        for state in [State::Requested, State::Approved] {
            assert_eq!(count(state, before), one, "{state:?}");
            assert_eq!(count(state, now), OpenCounts::default(), "{state:?}");
        }
        assert_eq!(count(State::Active, now), one);
        assert_eq!(count(State::Ended, before), OpenCounts::default());
    }
}
