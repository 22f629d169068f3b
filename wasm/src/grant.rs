//! The grant: the RoleBinding that gives the backend its debug role for one session (C-7, C-14).
//!
//! Invariant: one subject, which is the backend itself; a role that is one of our two; a TTL of 15
//! to 75 minutes; and never both marks, an approver and broken glass: the type has no such value.

use crate::names::{self, TRUE, TTL};
use crate::session::{Mode, SessionId, UserRef};
use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

/// Minutes that a grant outlives what it is for, so that the end still has its rights (C-7).
pub const GRANT_MARGIN_MINUTES: u32 = 15;
/// The policy's ceiling for a grant's TTL, in minutes (C-14).
pub const GRANT_TTL_MAX_MINUTES: u32 = 75;
/// What the end of a session may need its grant for after the deadline: a recycle that waits.
const CLEAN_UP: SignedDuration = SignedDuration::from_mins(10);
/// How long before the first grant lapses the second is made: some forty turns of the sweep.
const LEAD: SignedDuration = SignedDuration::from_mins(10);

const RBAC: &str = "rbac.authorization.k8s.io";
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// Who a grant is for: the backend, as the cluster knows it (C-1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A service account of the cluster.
    ServiceAccount {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// Any other user name.
    User {
        /// The name, as the cluster reports it.
        name: String,
    },
}

impl Subject {
    /// Reads the user name of a SelfSubjectReview (C-1): `system:serviceaccount:<ns>:<name>` is a
    /// service account, anything else a user of exactly that name.
    pub fn from_username(username: &str) -> Self {
        let account = username
            .strip_prefix(SERVICE_ACCOUNT)
            .and_then(|rest| rest.split_once(':'));
        match account {
            Some((namespace, name))
                if !namespace.is_empty() && !name.is_empty() && !name.contains(':') =>
            {
                Self::ServiceAccount {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                }
            }
            _ => Self::User {
                name: username.to_owned(),
            },
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::ServiceAccount { namespace, name } => {
                json!({ "kind": "ServiceAccount", "namespace": namespace, "name": name })
            }
            Self::User { name } => json!({ "apiGroup": RBAC, "kind": "User", "name": name }),
        }
    }
}

/// By what right the session opens: what the grant's annotations say (C-7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sanction {
    /// Low stakes: nobody has to agree.
    Ground,
    /// A second person approved.
    Approved(UserRef),
    /// An admin opened it without one.
    GlassBroken,
}

/// What a grant is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantSpec {
    /// The session.
    pub id: SessionId,
    /// The app's namespace.
    pub namespace: String,
    /// Chooses the role.
    pub mode: Mode,
    /// The backend's own identity.
    pub subject: Subject,
    /// Minutes that the grant is for, counted from its creation; it lives 15 longer. A session's
    /// duration at its opening, what is left of it for a second grant, 0 for a clean-up (C-18).
    pub duration_minutes: u32,
    /// Who asked.
    pub requester: UserRef,
    /// Who agreed, if anyone had to.
    pub sanction: Sanction,
    /// The session's deadline.
    pub expires_at: Timestamp,
    /// This installation's name (C-2c).
    pub installation: String,
    /// Whether this is the grant of an extended session, under the second name (C-14).
    pub second: bool,
}

impl GrantSpec {
    /// The RoleBinding's name.
    pub fn name(&self) -> String {
        if self.second {
            names::second_grant_name(&self.id)
        } else {
            names::grant_name(&self.id)
        }
    }
}

/// The TTL, in minutes, of a grant that is made for so many (C-7, C-14).
pub fn grant_ttl_minutes(duration_minutes: u32) -> u32 {
    duration_minutes
        .saturating_add(GRANT_MARGIN_MINUTES)
        .min(GRANT_TTL_MAX_MINUTES)
}

/// The RoleBinding, ready to be created (C-7).
pub fn grant(spec: &GrantSpec) -> Value {
    let mut labels = names::our_labels(&spec.installation, &spec.id);
    labels.insert(
        TTL.to_owned(),
        names::ttl(grant_ttl_minutes(spec.duration_minutes)),
    );
    let role = match spec.mode {
        Mode::Live => names::DEBUG_LIVE_ROLE,
        Mode::Copy => names::DEBUG_COPY_ROLE,
    };
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {
            "name": spec.name(),
            "namespace": spec.namespace,
            "labels": labels,
            "annotations": annotations(spec),
        },
        "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": role },
        "subjects": [spec.subject.json()],
    })
}

fn annotations(spec: &GrantSpec) -> Map<String, Value> {
    let mut marks = Map::new();
    let mut mark = |key: &str, value: String| marks.insert(key.to_owned(), Value::String(value));
    mark(names::REQUESTER, spec.requester.to_string());
    mark(
        names::EXPIRES_AT,
        whole_seconds(spec.expires_at).to_string(),
    );
    match &spec.sanction {
        Sanction::Ground => {}
        Sanction::Approved(approver) => {
            mark(names::APPROVER, approver.to_string());
        }
        Sanction::GlassBroken => {
            mark(names::GLASS_BROKEN, TRUE.to_owned());
        }
    }
    marks
}

/// A time as an annotation holds it: a fraction of a second is of no use to anyone who reads it.
pub(crate) fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

/// Whether an extended session must get its second grant by `now` (C-14): the first lapses before
/// the session and its clean-up are over, and that moment is near. `created_at` is the first
/// grant's creation, `duration_minutes` what it was made for.
pub fn second_grant_due(
    created_at: Timestamp,
    duration_minutes: u32,
    expires_at: Timestamp,
    now: Timestamp,
) -> bool {
    let ttl = SignedDuration::from_mins(i64::from(grant_ttl_minutes(duration_minutes)));
    let lapses_after = |at: Timestamp, need: SignedDuration| match at.checked_add(need) {
        Ok(needed_until) => created_at
            .checked_add(ttl)
            .is_ok_and(|lapses| lapses < needed_until),
        // Past the end of time: no TTL reaches that far.
        Err(_) => true,
    };
    lapses_after(expires_at, CLEAN_UP) && lapses_after(now, LEAD)
}

#[cfg(test)]
mod tests;
