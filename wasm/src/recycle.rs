//! What becomes of a live pod when its session ends (C-17).
//!
//! Invariant: only the pod that the session touched is ever deleted (its UID, not its name); on
//! Flight the last ready pod never is; in doubt about how many are ready, the pod stays. Who asks
//! twice with the same facts gets the same answer.

use crate::pod::PodFacts;
use crate::session::{SessionId, Tier};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

/// What is known when a live session ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecycleFacts {
    /// The session that ends.
    pub id: SessionId,
    /// The pod that it opened on.
    pub session_pod_uid: String,
    /// The pod of that name, as it is; `None` when there is none.
    pub pod: Option<LivePod>,
    /// The session's tier: on Flight nobody can ask for the last ready pod.
    pub tier: Tier,
    /// Whether the requester wants it even where it is the last ready pod (`recycleLastPod`).
    pub recycle_last_pod: bool,
    /// Why the approver keeps the pod, if so (S-6).
    pub waived: Option<String>,
    /// Other open live sessions on the same pod.
    pub other_open_sessions: usize,
    /// Disruptions that the pod's tightest PodDisruptionBudget allows at the moment; `None`
    /// without one, or where budgets may not be read.
    pub disruptions_allowed: Option<u32>,
    /// Whether the bound for waiting on a budget has passed.
    pub waited_long_enough: bool,
}

/// The pod, as the end of a session looks at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LivePod {
    /// Its UID.
    pub uid: String,
    /// Whether it carries a debug container of any session (C-26a).
    pub has_debug_container: bool,
    /// The session that its process-access annotation names.
    pub process_access: Option<String>,
    /// Whether it is ready.
    pub ready: bool,
    /// Whether it is shutting down already.
    pub terminating: bool,
    /// What would replace it.
    pub controller: Option<Controller>,
}

/// What would replace a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controller {
    /// Its kind, like `ReplicaSet`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its other pods that are ready and stay; `None` when they could not be counted.
    pub other_ready_pods: Option<usize>,
}

/// What to do with the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecycleDecision {
    /// Delete the pod of this UID; done when that UID is gone (C-25).
    Delete {
        /// The precondition (C-26).
        uid: String,
    },
    /// Nothing is owed: it is gone, was not touched, or is kept by agreement.
    Leave {
        /// For the session's row.
        note: Option<String>,
    },
    /// It should be replaced, and is not: it stays listed until it is (C-25).
    Skip {
        /// For the session's row.
        note: String,
        /// Whether the requester is told.
        notify: bool,
    },
    /// A PodDisruptionBudget says not at the moment: ask again, within the bound.
    WaitForDisruptionBudget,
}

impl LivePod {
    /// Reads a Pod. `other_ready_pods`: those of its controller, `None` when not counted.
    pub fn of(pod: &PodFacts, other_ready_pods: Option<usize>) -> Self {
        let controller = pod.controller().map(|owner| Controller {
            kind: owner.kind.clone(),
            name: owner.name.clone(),
            other_ready_pods,
        });
        Self {
            uid: pod.metadata.uid.clone(),
            has_debug_container: pod.debug_containers().next().is_some(),
            process_access: pod.process_access().map(str::to_owned),
            ready: pod.is_ready(),
            terminating: pod.is_terminating(),
            controller,
        }
    }
}

/// Decides what becomes of the pod (C-17).
pub fn recycle(facts: &RecycleFacts) -> RecycleDecision {
    let touched = facts
        .pod
        .as_ref()
        .filter(|pod| pod.uid == facts.session_pod_uid);
    let Some(pod) = touched.filter(|pod| pod.has_debug_container) else {
        return RecycleDecision::Leave { note: None };
    };
    if let Some(why) = &facts.waived {
        return RecycleDecision::Leave {
            note: Some(format!("pod kept by the approver: {why}")),
        };
    }
    if facts.other_open_sessions > 0 {
        return RecycleDecision::Leave { note: None };
    }
    let delete = RecycleDecision::Delete {
        uid: pod.uid.clone(),
    };
    if pod.terminating {
        return delete;
    }
    let Some(controller) = &pod.controller else {
        return RecycleDecision::Skip {
            note: "pod not recycled: no controller would replace it".to_owned(),
            notify: false,
        };
    };
    let asked = facts.recycle_last_pod && facts.tier == Tier::Ground;
    let skip_unless_asked = |why: String| match asked {
        true => None,
        false => Some(RecycleDecision::Skip {
            note: format!("pod not recycled: {why}"),
            notify: true,
        }),
    };
    if let Some(skip) = last_ready(pod, controller).and_then(skip_unless_asked) {
        return skip;
    }
    if facts.disruptions_allowed == Some(0) {
        if !facts.waited_long_enough {
            return RecycleDecision::WaitForDisruptionBudget;
        }
        let why = "its PodDisruptionBudget allows no disruption".to_owned();
        return skip_unless_asked(why).unwrap_or(delete);
    }
    delete
}

/// Why the app would be without a ready pod, if so. A pod that is not ready takes none away.
fn last_ready(pod: &LivePod, controller: &Controller) -> Option<String> {
    let Controller {
        kind,
        name,
        other_ready_pods,
    } = controller;
    match other_ready_pods {
        _ if !pod.ready => None,
        None => Some(format!(
            "the ready pods of {kind} `{name}` could not be counted"
        )),
        Some(0) => Some(format!("it is the last ready pod of {kind} `{name}`")),
        Some(_) => None,
    }
}

/// Whether the process-access annotation has to be taken off (C-17): the pod of the session stays,
/// and the annotation names this session. Another session's is that one's to take off.
pub fn removes_process_access(facts: &RecycleFacts, decision: &RecycleDecision) -> bool {
    let kept = match decision {
        RecycleDecision::Leave { .. } | RecycleDecision::Skip { .. } => true,
        RecycleDecision::Delete { .. } | RecycleDecision::WaitForDisruptionBudget => false,
    };
    let ours = |pod: &LivePod| {
        pod.uid == facts.session_pod_uid && pod.process_access.as_deref() == Some(facts.id.as_str())
    };
    kept && facts.pod.as_ref().is_some_and(ours)
}

#[cfg(test)]
mod tests;
