//! The shapes of the questions that a form asks before there is a session, and of their answers.
//!
//! Invariant: what is here only moves fields; every judgement is a module's own.

use super::shape::shape;
use crate::limits::{self, LimitName, Limits, OpenCounts};
use crate::request::{self, Problem, SessionRequest};
use crate::session::{Mode, Tier};
use crate::settings::{LabelNames, Settings};
use crate::target::{self, PodFacts, Target, TargetFacts};
use crate::tier::{self, Labels};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde::Serialize;
use serde_json::Value;

/// A body that was read, or everything that is wrong with it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub(super) enum Parsed<T> {
    /// What it says.
    Value(T),
    /// Every problem, in the order of the fields.
    Problems(Vec<Problem>),
}

impl<T> From<Result<T, Vec<Problem>>> for Parsed<T> {
    fn from(result: Result<T, Vec<Problem>>) -> Self {
        match result {
            Ok(value) => Self::Value(value),
            Err(problems) => Self::Problems(problems),
        }
    }
}

/// The body of a request, as far as it is filled in.
#[derive(Debug)]
#[cfg_attr(
    test,
    derive(serde::Deserialize, ts_rs::TS),
    serde(rename_all = "camelCase"),
    ts(export)
)]
pub(super) struct RequestForm {
    /// The body.
    #[cfg_attr(test, ts(type = "unknown"))]
    body: Value,
    /// The session's tier, if it is known.
    #[cfg_attr(test, ts(optional = nullable))]
    tier: Option<Tier>,
}

shape!(RequestForm { body, tier });

pub(super) fn parse_session_request(form: RequestForm) -> Parsed<SessionRequest> {
    request::parse_session_request(&form.body, form.tier).into()
}

/// The body of an approval, and the session that it is about.
#[derive(Debug)]
#[cfg_attr(
    test,
    derive(serde::Deserialize, ts_rs::TS),
    serde(rename_all = "camelCase"),
    ts(export)
)]
pub(super) struct ApprovalForm {
    /// The body; null where there is none.
    #[cfg_attr(test, ts(type = "unknown"))]
    body: Value,
    /// The session's mode.
    mode: Mode,
    /// The session's tier.
    tier: Tier,
}

shape!(ApprovalForm { body, mode, tier });

/// What an approver wrote.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub(super) struct ApprovalNotes {
    /// The note.
    note: Option<String>,
    /// Why the pod is kept; null where it is not.
    keep_pod_reason: Option<String>,
}

pub(super) fn parse_approval(form: ApprovalForm) -> Parsed<ApprovalNotes> {
    request::parse_approval(&form.body, form.mode, form.tier)
        .map(|approval| ApprovalNotes {
            note: approval.note.map(request::Note::into_string),
            keep_pod_reason: approval.keep_pod_reason.map(request::Note::into_string),
        })
        .into()
}

/// A body that holds a note.
#[derive(Debug)]
#[cfg_attr(
    test,
    derive(serde::Deserialize, ts_rs::TS),
    serde(rename_all = "camelCase"),
    ts(export)
)]
pub(super) struct NoteForm {
    /// The body; null where there is none.
    #[cfg_attr(test, ts(type = "unknown"))]
    body: Value,
}

shape!(NoteForm { body });

pub(super) fn parse_denial(form: NoteForm) -> Parsed<Option<String>> {
    request::parse_denial(&form.body)
        .map(|note| note.map(request::Note::into_string))
        .into()
}

pub(super) fn parse_review(form: NoteForm) -> Parsed<String> {
    request::parse_review(&form.body)
        .map(request::Note::into_string)
        .into()
}

/// What a cluster's fence looks at.
#[derive(Debug)]
#[cfg_attr(
    test,
    derive(serde::Deserialize, ts_rs::TS),
    serde(rename_all = "camelCase"),
    ts(export)
)]
pub(super) struct Fence {
    /// The session's tier.
    tier: Tier,
    /// The cluster.
    cluster: String,
    /// The namespace.
    namespace: String,
    /// The namespace's labels; null where they could not be read.
    #[cfg_attr(test, ts(type = "{ [key in string]: string } | null"))]
    namespace_labels: Option<Labels>,
    /// The clusters that have no such fence.
    ground_clusters: Vec<String>,
    /// The labels' names, if they are not the usual ones.
    #[cfg_attr(test, ts(optional = nullable))]
    label_names: Option<LabelNames>,
}

shape!(Fence {
    tier,
    cluster,
    namespace,
    namespace_labels,
    ground_clusters,
    label_names
});

pub(super) fn fence_refusal(fence: Fence) -> Option<String> {
    let settings = Settings {
        ground_clusters: fence.ground_clusters,
        labels: fence.label_names.unwrap_or_default(),
        ..Settings::default()
    };
    let labels = fence.namespace_labels.as_ref();
    tier::fence_refusal(
        fence.tier,
        &fence.cluster,
        &fence.namespace,
        labels,
        &settings,
    )
    .map(|refusal| refusal.to_string())
}

/// A target, and what the cluster says of it.
#[derive(Debug)]
#[cfg_attr(
    test,
    derive(serde::Deserialize, ts_rs::TS),
    serde(rename_all = "camelCase"),
    ts(export)
)]
pub(super) struct TargetQuestion {
    app: String,
    env: String,
    namespace: String,
    pod: String,
    container: String,
    /// The namespace's labels; null where they could not be read.
    #[cfg_attr(test, ts(type = "{ [key in string]: string } | null"))]
    namespace_labels: Option<Labels>,
    /// What the cluster says of the pod; null where there is none.
    pod_facts: Option<TargetPod>,
    /// The labels' names, if they are not the usual ones.
    #[cfg_attr(test, ts(optional = nullable))]
    label_names: Option<LabelNames>,
}

shape!(TargetQuestion {
    app,
    env,
    namespace,
    pod,
    container,
    namespace_labels,
    pod_facts,
    label_names
});

/// What the cluster says of the pod.
#[derive(Debug)]
#[cfg_attr(
    test,
    derive(serde::Deserialize, ts_rs::TS),
    serde(rename_all = "camelCase"),
    ts(export)
)]
pub(super) struct TargetPod {
    /// `status.phase`.
    phase: Option<String>,
    /// It has a deletion timestamp.
    deleting: bool,
    /// The names of `spec.containers`.
    containers: Vec<String>,
}

shape!(TargetPod {
    phase,
    deleting,
    containers
});

/// A target that can be debugged, or why not.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub(super) enum TargetAnswer {
    /// It can.
    Target {
        /// The namespace is a preview (S-9, rule 1).
        preview: bool,
    },
    /// Why not, for people.
    Refusal(String),
}

pub(super) fn check_target(question: TargetQuestion) -> TargetAnswer {
    let target = Target {
        app: &question.app,
        env: &question.env,
        namespace: &question.namespace,
        pod: &question.pod,
        container: &question.container,
    };
    let pod = question.pod_facts.map(|pod| PodFacts {
        phase: pod.phase,
        deleting: pod.deleting,
        containers: pod.containers,
    });
    let facts = TargetFacts {
        namespace_labels: question.namespace_labels,
        pod,
    };
    let names = question.label_names.unwrap_or_default();
    match target::check_target(target, &facts, &names) {
        Ok(checked) => TargetAnswer::Target {
            preview: checked.preview,
        },
        Err(refusal) => TargetAnswer::Refusal(refusal.to_string()),
    }
}

/// How many other sessions are open, and how many may be.
#[derive(Debug)]
#[cfg_attr(
    test,
    derive(serde::Deserialize, ts_rs::TS),
    serde(rename_all = "camelCase"),
    ts(export)
)]
pub(super) struct LimitQuestion {
    /// Of the requester.
    of_user: u32,
    /// Of the app.
    of_app: u32,
    /// On the cluster.
    on_cluster: u32,
    /// The limits.
    limits: Limits,
}

shape!(LimitQuestion {
    of_user,
    of_app,
    on_cluster,
    limits
});

pub(super) fn over_limit(question: LimitQuestion) -> Option<LimitName> {
    let LimitQuestion {
        of_user,
        of_app,
        on_cluster,
        limits,
    } = question;
    limits::over_limit(
        OpenCounts {
            of_user,
            of_app,
            on_cluster,
        },
        limits,
    )
}
