//! Whether the pod that a session asks for may be debugged under that app's name (S-14), and what
//! about it is another when the session opens (C-4).
//!
//! Invariant: what could not be read is refused. The namespace's own labels say whose it is; what
//! the request says is only compared with them.

use crate::settings::LabelNames;
use crate::text::joined;
use crate::tier::{Labels, is_preview};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The target as a request or a row names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the row's columns (spec 06)")]
pub struct Target<'a> {
    pub app: &'a str,
    pub env: &'a str,
    pub namespace: &'a str,
    pub pod: &'a str,
    pub container: &'a str,
}

impl<'a> From<&'a crate::request::SessionRequest> for Target<'a> {
    fn from(request: &'a crate::request::SessionRequest) -> Self {
        let crate::request::SessionRequest {
            app,
            env,
            namespace,
            pod,
            container,
            ..
        } = request;
        Self {
            app,
            env,
            namespace,
            pod,
            container,
        }
    }
}

impl<'a> From<&'a crate::session::Session> for Target<'a> {
    fn from(session: &'a crate::session::Session) -> Self {
        let crate::session::Session {
            app,
            env,
            namespace,
            pod,
            container,
            ..
        } = session;
        Self {
            app,
            env,
            namespace,
            pod,
            container,
        }
    }
}

/// What the cluster says about the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetFacts {
    /// The namespace's labels; `None` where it could not be read.
    pub namespace_labels: Option<Labels>,
    /// The pod; `None` where there is none of this name.
    pub pod: Option<PodFacts>,
}

/// What the cluster says about the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodFacts {
    /// `status.phase`.
    pub phase: Option<String>,
    /// It has a deletion timestamp.
    pub deleting: bool,
    /// The names of `spec.containers`.
    pub containers: Vec<String>,
}

/// A target that may be debugged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckedTarget {
    /// The namespace is a preview (S-9, rule 1).
    pub preview: bool,
}

/// Why a target cannot be debugged (S-14).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say it")]
pub enum TargetRefusal {
    #[error(
        "namespace `{namespace}` does not exist or could not be read, so it is not known whose \
         it is"
    )]
    NamespaceUnreadable { namespace: String },
    #[error(
        "namespace `{namespace}` carries no label `{label}`, so it belongs to no app that can be \
         debugged"
    )]
    Unlabelled { namespace: String, label: String },
    #[error("namespace `{namespace}` belongs to app `{found}`, not to `{asked}`")]
    OtherApp {
        namespace: String,
        asked: String,
        found: String,
    },
    #[error("namespace `{namespace}` is environment `{found}` of its app, not `{asked}`")]
    OtherEnv {
        namespace: String,
        asked: String,
        found: String,
    },
    #[error("there is no pod `{pod}` in namespace `{namespace}`")]
    NoPod { namespace: String, pod: String },
    #[error("pod `{pod}` is being deleted; choose the one that replaces it")]
    Deleting { pod: String },
    #[error("pod `{pod}` is {phase}, and only a Running pod can be debugged")]
    NotRunning { pod: String, phase: String },
    #[error("pod `{pod}` has no container `{container}`; it has {known}")]
    NoContainer {
        pod: String,
        container: String,
        known: String,
    },
}

/// Checks a target against what the cluster says (S-14); the same check again when it opens (C-4).
///
/// # Errors
/// The first thing that is wrong, from the namespace to the container.
pub fn check_target(
    target: Target<'_>,
    facts: &TargetFacts,
    names: &LabelNames,
) -> Result<CheckedTarget, TargetRefusal> {
    let Target {
        app,
        env,
        namespace,
        pod,
        container,
    } = target;
    let Some(labels) = &facts.namespace_labels else {
        return Err(TargetRefusal::NamespaceUnreadable {
            namespace: namespace.to_owned(),
        });
    };
    let label = |name: &str| {
        labels.get(name).ok_or_else(|| TargetRefusal::Unlabelled {
            namespace: namespace.to_owned(),
            label: name.to_owned(),
        })
    };
    let (found_app, found_env) = (label(&names.app)?, label(&names.env)?);
    if found_app != app {
        let (asked, found) = (app.to_owned(), found_app.to_owned());
        return Err(TargetRefusal::OtherApp {
            namespace: namespace.to_owned(),
            asked,
            found,
        });
    }
    if found_env != env {
        let (asked, found) = (env.to_owned(), found_env.to_owned());
        return Err(TargetRefusal::OtherEnv {
            namespace: namespace.to_owned(),
            asked,
            found,
        });
    }
    let Some(facts) = &facts.pod else {
        let (namespace, pod) = (namespace.to_owned(), pod.to_owned());
        return Err(TargetRefusal::NoPod { namespace, pod });
    };
    check_pod(pod, container, facts)?;
    Ok(CheckedTarget {
        preview: is_preview(Some(labels), names),
    })
}

fn check_pod(pod: &str, container: &str, facts: &PodFacts) -> Result<(), TargetRefusal> {
    if facts.deleting {
        return Err(TargetRefusal::Deleting {
            pod: pod.to_owned(),
        });
    }
    let phase = facts.phase.as_deref().unwrap_or("in an unknown phase");
    if phase != "Running" {
        let (pod, phase) = (pod.to_owned(), phase.to_owned());
        return Err(TargetRefusal::NotRunning { pod, phase });
    }
    if !facts.containers.iter().any(|name| name == container) {
        let known: Vec<String> = facts.containers.iter().map(|n| format!("`{n}`")).collect();
        return Err(TargetRefusal::NoContainer {
            pod: pod.to_owned(),
            container: container.to_owned(),
            known: if known.is_empty() {
                "none".to_owned()
            } else {
                joined(&known, ", ")
            },
        });
    }
    Ok(())
}

/// Which pod it is, beyond its name, and what it runs (C-4).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TargetIdentity {
    /// The pod's UID.
    pub uid: Option<String>,
    /// The container's image, as the pod names it.
    pub image: Option<String>,
    /// The image's digest, as the kubelet reports it.
    pub image_id: Option<String>,
}

/// What about a target is another than when it was asked for; its text is the recording's marker
/// and stands in the audit event (C-4).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say it")]
pub enum TargetChange {
    #[error("the pod is another than at the request: it was `{was}` and is `{is}`")]
    Uid { was: String, is: String },
    #[error("the image is another than at the request: it was `{was}` and is `{is}`")]
    Image { was: String, is: String },
    #[error("the image's digest is another than at the request: it was `{was}` and is `{is}`")]
    ImageId { was: String, is: String },
}

/// Compares the target at its opening with the one that was asked for (C-4). What was not known at
/// the request cannot have changed; what was known and is not any longer has.
pub fn target_changes(asked: &TargetIdentity, found: &TargetIdentity) -> Vec<TargetChange> {
    let pairs = |was: &Option<String>, is: &Option<String>| {
        let was = was.clone()?;
        let is = is.clone().unwrap_or_else(|| "unknown".to_owned());
        (was != is).then_some((was, is))
    };
    let uid = pairs(&asked.uid, &found.uid).map(|(was, is)| TargetChange::Uid { was, is });
    let image = pairs(&asked.image, &found.image).map(|(was, is)| TargetChange::Image { was, is });
    let image_id =
        pairs(&asked.image_id, &found.image_id).map(|(was, is)| TargetChange::ImageId { was, is });
    uid.into_iter().chain(image).chain(image_id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    const TARGET: Target<'_> = Target {
        app: "shop",
        env: "staging",
        namespace: "shop-staging",
        pod: "web-1",
        container: "web",
    };

    const LABELS: [(&str, &str); 2] = [("hangar.io/app", "shop"), ("hangar.io/env", "staging")];

    fn good() -> TargetFacts {
        TargetFacts {
            namespace_labels: Some(named(LABELS)),
            pod: Some(PodFacts {
                phase: Some("Running".to_owned()),
                deleting: false,
                containers: vec!["web".to_owned(), "proxy".to_owned()],
            }),
        }
    }

    fn label(facts: &mut TargetFacts, name: &str, value: Option<&str>) {
        let mut labels = BTreeMap::from(LABELS);
        match value {
            Some(value) => labels.insert(name, value),
            None => labels.remove(name),
        };
        facts.namespace_labels = Some(named(labels));
    }

    fn named<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Labels {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        labels.into_iter().map(owned).collect()
    }

    #[track_caller]
    fn refused(change: impl FnOnce(&mut TargetFacts), part: &str) {
        let mut facts = good();
        change(&mut facts);
        let refusal = check_target(TARGET, &facts, &LabelNames::default()).unwrap_err();
        assert!(refusal.to_string().contains(part), "{part} in {refusal}");
    }

    #[test]
    fn a_running_pod_of_the_apps_namespace_may_be_debugged() {
        let names = LabelNames::default();
        assert_eq!(
            check_target(TARGET, &good(), &names),
            Ok(CheckedTarget { preview: false })
        );
        let mut facts = good();
        label(&mut facts, "hangar.io/ephemeral-env", Some("true"));
        assert_eq!(
            check_target(TARGET, &facts, &names),
            Ok(CheckedTarget { preview: true })
        );
    }

    #[test]
    fn a_namespace_that_does_not_say_whose_it_is_is_refused() {
        refused(|f| f.namespace_labels = None, "could not be read");
        refused(
            |f| label(f, "hangar.io/app", None),
            "no label `hangar.io/app`",
        );
        refused(
            |f| label(f, "hangar.io/env", None),
            "no label `hangar.io/env`",
        );
    }

    #[test]
    fn another_apps_or_environments_namespace_is_refused() {
        refused(
            |f| label(f, "hangar.io/app", Some("bank")),
            "belongs to app `bank`",
        );
        refused(
            |f| label(f, "hangar.io/app", Some("Shop")),
            "belongs to app `Shop`",
        );
        refused(
            |f| label(f, "hangar.io/env", Some("production")),
            "environment `production`",
        );
        refused(|f| label(f, "hangar.io/env", Some("")), "not `staging`");
    }

    #[test]
    fn a_pod_that_cannot_be_debugged_is_refused_with_its_state() {
        refused(|f| f.pod = None, "no pod `web-1`");
        refused(
            |f| f.pod.as_mut().unwrap().deleting = true,
            "is being deleted",
        );
        for phase in ["Pending", "Succeeded", "Failed", "Unknown"] {
            refused(
                |f| f.pod.as_mut().unwrap().phase = Some(phase.to_owned()),
                phase,
            );
        }
        refused(
            |f| f.pod.as_mut().unwrap().phase = None,
            "in an unknown phase",
        );
    }

    #[test]
    fn a_container_that_does_not_exist_is_refused_with_those_that_do() {
        refused(
            |f| f.pod.as_mut().unwrap().containers.remove(0).clear(),
            "it has `proxy`",
        );
        refused(
            |f| f.pod.as_mut().unwrap().containers.clear(),
            "it has none",
        );
    }

    #[test]
    fn what_changed_between_request_and_opening_is_named() {
        let identity = |uid: &str, image: &str, id: Option<&str>| TargetIdentity {
            uid: Some(uid.to_owned()),
            image: Some(image.to_owned()),
            image_id: id.map(str::to_owned),
        };
        let asked = identity("u1", "web:1", Some("sha256:a"));
        assert_eq!(target_changes(&asked, &asked), []);
        assert_eq!(target_changes(&TargetIdentity::default(), &asked), []);
        let texts: Vec<String> = target_changes(&asked, &identity("u2", "web:2", None))
            .iter()
            .map(TargetChange::to_string)
            .collect();
        assert_eq!(
            texts,
            [
                "the pod is another than at the request: it was `u1` and is `u2`",
                "the image is another than at the request: it was `web:1` and is `web:2`",
                "the image's digest is another than at the request: it was `sha256:a` and is \
                 `unknown`",
            ]
        );
    }
}
