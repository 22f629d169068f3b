//! The cases of the admission policies, as data (P-10): who sends what, and what must come of it.
//!
//! Invariant: a case is a small change of a request that is right; what is right, the builders of
//! `decisions` say. So what they build is allowed, and each case shows one clause at work.

// By their paths: the proofs of the package `policies` take this file in, too.
#[path = "policy_cases/objects.rs"]
mod objects;
#[path = "policy_cases/requests.rs"]
mod requests;

pub use objects::{
    APP_IMAGE, COPY_ANNOTATIONS, CasePod, DEBUG_IMAGES, INSTALLATION, SESSION, actor_groups,
    good_copy, good_grant,
};

use decisions::session::Tier;
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;

/// Who sends a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Actor {
    /// Break-glass itself.
    Backend,
    /// A member of the operators' group.
    Operator,
    /// Somebody of the app's team.
    Developer,
    /// Kyverno's admission controller.
    Kyverno,
    /// Kyverno's cleanup controller.
    KyvernoCleanup,
    /// A controller of the cluster's own.
    Controller,
    /// Argo CD's application controller, which rolls the fence out.
    Applier,
}

/// The namespace's labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// An app's namespace.
    App,
    /// The same, which the platform declares to be Ground.
    Ground,
    /// The same, a preview.
    Preview,
    /// The same, which says that it is Flight and no preview.
    SaysFlight,
    /// Nobody's: no label of ours.
    Plain,
    /// Its app's label is empty.
    Unnamed,
}

/// What is asked of the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// `patch` over a good grant.
    CreateGrant,
    /// `patch` sent to the binding of `given`.
    UpdateGrant,
    /// Deletes the binding of `given`.
    DeleteGrant,
    /// Adds a good debug container, as `debug` changes it, and those of `also`, to the pod.
    AddDebug,
    /// Writes the pod's debug containers as they are.
    AddNothing,
    /// `patch` over a good copy, its debug container as `debug` and its app's as `app` change it.
    CreateCopy,
    /// `patch` over a pod of an app.
    CreatePod,
    /// Deletes the pod.
    DeletePod,
    /// Deletes a collection, of which the pod is one.
    DeleteAll,
    /// Evicts the pod.
    Evict,
    /// `patch` sent to the pod.
    PatchPod,
    /// `patch` sent to its status.
    PatchStatus,
    /// `patch` sent to its sizes.
    Resize,
    /// A command in the container that `patch` names.
    Exec,
    /// A terminal on the container that `patch` names.
    Attach,
    /// A port of the pod.
    PortForward,
    /// `patch` over a PolicyException of today.
    Except,
    /// The same, of Kyverno's older kind.
    ExceptOld,
    /// `patch` over a policy of Kyverno's, of the kind that it says.
    MakePolicy,
    /// `patch` sent to the policy of `given`.
    ChangePolicy,
    /// `patch` sent to its status.
    ChangePolicyStatus,
    /// Deletes the policy of `given`.
    DeletePolicy,
}

/// What must come of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// Admission lets it through.
    Allowed,
    /// This policy refuses it, in words that contain these.
    Denied {
        /// The policy.
        policy: String,
        /// Part of its message.
        says: String,
    },
    /// The API's own validation refuses it first, with this status.
    Refused(u16),
}

/// One case.
#[derive(Debug, Clone)]
pub struct Case {
    /// What it shows, a sentence.
    pub name: String,
    /// The policy that it is about.
    pub policy: String,
    /// The tiers on which it comes out so.
    pub tiers: Vec<Tier>,
    /// Who sends it.
    pub actor: Actor,
    /// Where.
    pub place: Place,
    /// What is asked.
    pub action: Action,
    /// What is changed in the object that is there before.
    pub given: Value,
    /// The body.
    pub body: Value,
    /// What must come of it.
    pub expected: Expected,
    /// What must come of it where Kyverno's own kinds are there, and refuse it first.
    pub kyverno: Option<Expected>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    name: String,
    #[serde(default)]
    tiers: Option<Vec<TierName>>,
    #[serde(default = "backend")]
    actor: Actor,
    #[serde(default = "app")]
    place: Place,
    request: Action,
    #[serde(default)]
    given: Value,
    #[serde(default)]
    patch: Value,
    #[serde(default)]
    debug: Value,
    #[serde(default)]
    app: Value,
    #[serde(default)]
    also: Vec<Value>,
    #[serde(default)]
    each: Option<Each>,
    #[serde(default)]
    allow: bool,
    #[serde(default)]
    deny: Option<String>,
    #[serde(default)]
    by: Option<String>,
    #[serde(default)]
    api: Option<u16>,
    /// Kyverno's own schema refuses it first, with this status, where it is there.
    #[serde(default)]
    kyverno: Option<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum TierName {
    Ground,
    Flight,
}

/// The same case for each of some values.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Each {
    /// Which change the value is put into.
    r#in: Part,
    /// The way to it.
    at: Vec<String>,
    /// The values.
    of: Vec<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Part {
    Given,
    Patch,
    Debug,
    App,
}

fn backend() -> Actor {
    Actor::Backend
}

fn app() -> Place {
    Place::App
}

/// Why the cases cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("`{file}`: {why}")]
pub struct BadCases {
    file: String,
    why: String,
}

/// Every case, file by file. `backend` is Break-glass's user name on the cluster.
///
/// # Errors
/// [`BadCases`]: a file is not there or not of this form.
pub fn all(root: &Path, backend: &str) -> Result<Vec<Case>, BadCases> {
    let mut cases = Vec::new();
    for policy in [
        "rolebinding",
        "debug-container",
        "pod-delete",
        "pod-annotate",
        "attach",
        "no-exec",
        "guard",
    ] {
        let file = format!("tests/policies/{policy}.yaml");
        cases.extend(read(root, file, policy, backend)?);
    }
    Ok(cases)
}

/// The cases of debug containers that only the offline evaluation takes, in the same form.
///
/// # Errors
/// [`BadCases`]: the file is not there or not of this form.
pub fn offline(root: &Path, backend: &str) -> Result<Vec<Case>, BadCases> {
    let policy = "debug-container";
    let file = format!("tests/policies/offline/{policy}.yaml");
    read(root, file, policy, backend)
}

fn read(root: &Path, file: String, policy: &str, backend: &str) -> Result<Vec<Case>, BadCases> {
    let bad = |why: String| BadCases {
        file: file.clone(),
        why,
    };
    let text = std::fs::read_to_string(root.join(&file)).map_err(|error| bad(error.to_string()))?;
    let written: Vec<Written> =
        serde_saphyr::from_str(&text).map_err(|error| bad(error.to_string()))?;
    let written = written.into_iter().flat_map(expanded);
    written
        .map(|written| case(written, policy, backend).map_err(bad))
        .collect()
}

/// One for each value, the value in its name.
fn expanded(written: Written) -> Vec<Written> {
    let Some(each) = written.each.clone() else {
        return vec![written];
    };
    let one = |value: &Value| {
        let mut written = written.clone();
        written.name = format!("{}: {value}", written.name);
        let part = match each.r#in {
            Part::Given => &mut written.given,
            Part::Patch => &mut written.patch,
            Part::Debug => &mut written.debug,
            Part::App => &mut written.app,
        };
        objects::put(part, &each.at, value.clone());
        written
    };
    each.of.iter().map(one).collect()
}

fn case(written: Written, policy: &str, backend: &str) -> Result<Case, String> {
    let full = |name: &str| format!("tower-breakglass-{name}");
    let expected = match (written.allow, &written.deny, written.api) {
        (true, None, None) => Expected::Allowed,
        (false, Some(says), None) => Expected::Denied {
            policy: full(written.by.as_deref().unwrap_or(policy)),
            says: says.clone(),
        },
        (false, None, Some(status)) => Expected::Refused(status),
        _ => return Err(format!("`{}`: one of allow, deny and api", written.name)),
    };
    let both = vec![TierName::Ground, TierName::Flight];
    let tiers = written
        .tiers
        .clone()
        .unwrap_or(both)
        .into_iter()
        .map(|tier| match tier {
            TierName::Ground => Tier::Ground,
            TierName::Flight => Tier::Flight,
        });
    Ok(Case {
        policy: full(policy),
        tiers: tiers.collect(),
        actor: written.actor,
        place: written.place,
        action: written.request,
        body: objects::body(&written, backend)?,
        given: written.given.clone(),
        name: written.name,
        expected,
        kyverno: written.kyverno.map(Expected::Refused),
    })
}
