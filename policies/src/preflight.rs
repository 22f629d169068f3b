//! The preflight: what the sidecar is about to send, judged by the cluster's own rendered policies
//! before it is sent (P-7).
//!
//! Invariants: only what every policy allows may be sent; what cannot be judged is refused too.
//! An object is judged as it is sent, before the API server's defaults and others' webhooks: the
//! cluster's own fence judges it again, and has the last word. The image's signature is the
//! cluster's to check.

use crate::cel::KubernetesVersion;
use crate::eval::{Decision, Outcome, PolicySet, ProgramError, Request};
use crate::fence::{FenceConfig, render_fence};
use crate::identity::Identity;
use crate::model::{Document, Policy, PolicyKind};
use crate::source::SourceError;
use decisions::names::PROCESS_ACCESS;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Why there can be no preflight for a cluster: what was rendered cannot be judged by.
#[derive(Debug, thiserror::Error)]
pub enum PreflightError {
    /// It cannot be read.
    #[error("the rendered policies cannot be read, so nothing can be judged by them")]
    Source(#[from] SourceError),
    /// It cannot be compiled.
    #[error("the rendered policies cannot be compiled, so nothing can be judged by them")]
    Program(#[from] ProgramError),
}

/// Why something must not be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A policy refuses it, in its own words, as the API server would tell them.
    #[error("{0}")]
    Denied(String),
    /// The fence is about another account, so it would not hold for this one.
    #[error(
        "the cluster's policies are about `{fenced}`, and the cluster knows us as `{actual}`: set \
         `policies.clusters.<name>.backend` to it, render and apply again"
    )]
    AnotherAccount {
        /// The account that the policies were rendered for.
        fenced: String,
        /// Who we are by the cluster's word.
        actual: String,
    },
    /// What the cluster would say is not known.
    #[error("whether the cluster's policy {policy} allows this cannot be judged beforehand: {why}")]
    Undecided {
        /// The policy, or what else stands in the way.
        policy: String,
        /// Why.
        why: String,
    },
}

/// The labels of the namespace that something is sent to; `None` where they cannot be read.
pub type Labels<'a> = Option<&'a BTreeMap<String, String>>;

/// What is about to be sent, as whole objects.
#[derive(Debug, Clone, Copy)]
pub enum Sending<'a> {
    /// A RoleBinding is created (C-7).
    Grant(&'a Value),
    /// A pod gets a debug container (C-8).
    DebugContainer {
        /// The pod as it was read.
        before: &'a Value,
        /// The pod as it will be: [`with_debug_container`].
        after: &'a Value,
    },
    /// A pod's mark of process access is set or taken away (C-8).
    ProcessAccess {
        /// The pod as it was read.
        before: &'a Value,
        /// The pod as it will be: [`with_process_access`].
        after: &'a Value,
    },
    /// A copy is created (C-12).
    Copy(&'a Value),
    /// The grant of this name is deleted (C-18).
    DeleteGrant(&'a str),
    /// The pod is deleted (C-17, C-25).
    Delete(&'a Value),
    /// A terminal is attached to a pod's container.
    Attach {
        /// The pod's name.
        pod: &'a str,
        /// The `PodAttachOptions`: [`attach_options`].
        options: &'a Value,
    },
}

/// The policies of one cluster, ready to judge by.
#[derive(Debug, Clone)]
pub struct Preflight {
    policies: PolicySet,
    backend: Identity,
}

impl Preflight {
    /// Renders and compiles the policies of a cluster, once.
    ///
    /// # Errors
    /// [`PreflightError`]: a defect of what was rendered; nothing can be judged.
    pub fn new(config: &FenceConfig, version: KubernetesVersion) -> Result<Self, PreflightError> {
        let mut documents = Vec::new();
        for file in render_fence(config) {
            documents.extend(Policy::parse_all(file.file_name, file.text.as_bytes())?);
        }
        documents.retain(is_judged);
        Ok(Self {
            policies: PolicySet::new(documents, version)?,
            backend: config.backend.clone(),
        })
    }

    /// Whether the policies are about this account, `username` by the cluster's word (C-1).
    ///
    /// # Errors
    /// [`Refused::AnotherAccount`]: nothing may be sent, it would not be fenced.
    pub fn check_account(&self, username: &str) -> Result<(), Refused> {
        let fenced = self.backend.to_string();
        if fenced == username {
            return Ok(());
        }
        Err(Refused::AnotherAccount {
            fenced,
            actual: username.to_owned(),
        })
    }

    /// Whether this may be sent to `namespace`, whose labels are `labels`.
    ///
    /// # Errors
    /// [`Refused`]: it must not be sent.
    pub fn check(
        &self,
        what: &Sending<'_>,
        namespace: &str,
        labels: Labels<'_>,
    ) -> Result<(), Refused> {
        let undecided = |policy: &str, why: String| Refused::Undecided {
            policy: policy.to_owned(),
            why,
        };
        // No rule about a deleted grant reads the namespace, which may be gone by then.
        let unlabelled = BTreeMap::new();
        let labels = if matches!(what, Sending::DeleteGrant(_)) {
            labels.or(Some(&unlabelled))
        } else {
            labels
        };
        let review = self.review(what, namespace, labels);
        let request =
            Request::from_json(&review).map_err(|why| undecided("of this kind of request", why))?;
        let judgement = self.policies.judge(&request, None);
        if let Some((verdict, denial)) = judgement.denial() {
            return Err(Refused::Denied(verdict.told(denial)));
        }
        let open = judgement
            .verdicts
            .iter()
            .find_map(|verdict| match &verdict.outcome {
                Outcome::Undecided(why) => Some(undecided(&verdict.policy, why.clone())),
                Outcome::NotMatched(_)
                | Outcome::Skipped(_)
                | Outcome::Allowed
                | Outcome::Denied(_)
                | Outcome::Noted(_) => None,
            });
        match (judgement.decision(), open) {
            (Decision::Allowed, None) => Ok(()),
            (_, Some(open)) => Err(open),
            (Decision::Denied | Decision::Undecided, None) => Err(undecided(
                "set",
                "it says neither yes nor why not".to_owned(),
            )),
        }
    }

    /// The request as the API server's admission would see it.
    fn review(&self, what: &Sending<'_>, namespace: &str, labels: Labels<'_>) -> Value {
        let pods = json!({ "group": "", "version": "v1", "resource": "pods" });
        let pod = json!({ "group": "", "version": "v1", "kind": "Pod" });
        let rbac = "rbac.authorization.k8s.io";
        let bindings = json!({ "group": rbac, "version": "v1", "resource": "rolebindings" });
        let binding = json!({ "group": rbac, "version": "v1", "kind": "RoleBinding" });
        let none = &Value::Null;
        let (operation, kind, resource, sub, name, object, old) = match *what {
            Sending::Grant(new) => ("CREATE", binding, bindings, "", name_of(new), new, none),
            // Only its name decides: what it was is not read for it.
            Sending::DeleteGrant(name) => ("DELETE", binding, bindings, "", name, none, none),
            Sending::DebugContainer { before, after } => (
                "UPDATE",
                pod,
                pods,
                "ephemeralcontainers",
                name_of(after),
                after,
                before,
            ),
            Sending::ProcessAccess { before, after } => {
                ("UPDATE", pod, pods, "", name_of(after), after, before)
            }
            Sending::Copy(copy) => ("CREATE", pod, pods, "", name_of(copy), copy, none),
            Sending::Delete(found) => ("DELETE", pod, pods, "", name_of(found), none, found),
            Sending::Attach { pod, options } => (
                "CONNECT",
                json!({ "group": "", "version": "v1", "kind": "PodAttachOptions" }),
                pods,
                "attach",
                pod,
                options,
                none,
            ),
        };
        json!({
            "operation": operation,
            "kind": kind,
            "resource": resource,
            "subResource": sub,
            "name": name,
            "namespace": namespace,
            "userInfo": user(&self.backend),
            "object": object,
            "oldObject": old,
            "namespaceObject": labels.map(|labels| namespace_object(namespace, labels)),
        })
    }
}

fn name_of(object: &Value) -> &str {
    let name = object.pointer("/metadata/name").and_then(Value::as_str);
    name.unwrap_or_default()
}

fn namespace_object(name: &str, labels: &BTreeMap<String, String>) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": { "name": name, "labels": labels },
    })
}

/// What is decided by expressions; the image's signature is not.
fn is_judged(document: &Document) -> bool {
    match document {
        Document::Policy(policy) => match policy.kind {
            PolicyKind::ValidatingAdmissionPolicy | PolicyKind::KyvernoValidatingPolicy => true,
            PolicyKind::ImageValidatingPolicy | PolicyKind::WebhookConfiguration => false,
        },
        Document::Binding(_) => true,
        Document::Exception(_) | Document::Unknown(_) => false,
    }
}

/// Break-glass as the API server reports it, with the groups that it gives by itself.
fn user(backend: &Identity) -> Value {
    let authenticated = "system:authenticated".to_owned();
    let groups = match backend {
        Identity::ServiceAccount(account) => vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{}", account.namespace()),
            authenticated,
        ],
        Identity::User(_) => vec![authenticated],
    };
    json!({ "username": backend.to_string(), "groups": groups })
}

/// The pod with one more ephemeral container, as a patch of its subresource makes it.
#[must_use]
pub fn with_debug_container(pod: &Value, container: &Value) -> Value {
    let mut after = pod.clone();
    let spec = &mut after["spec"];
    match spec
        .get_mut("ephemeralContainers")
        .and_then(Value::as_array_mut)
    {
        Some(there) => there.push(container.clone()),
        None => spec["ephemeralContainers"] = json!([container]),
    }
    after
}

/// The pod with the mark of process access for this session, or without any.
#[must_use]
pub fn with_process_access(pod: &Value, session: Option<&str>) -> Value {
    let mut after = pod.clone();
    let metadata = &mut after["metadata"];
    let marks = metadata
        .get_mut("annotations")
        .and_then(Value::as_object_mut);
    match (session, marks) {
        (Some(session), Some(marks)) => {
            marks.insert(PROCESS_ACCESS.to_owned(), session.into());
        }
        (Some(session), None) => metadata["annotations"] = json!({ PROCESS_ACCESS: session }),
        (None, Some(marks)) => {
            marks.remove(PROCESS_ACCESS);
        }
        (None, None) => {}
    }
    after
}

/// What an attach to a container's terminal asks for.
#[must_use]
pub fn attach_options(container: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PodAttachOptions",
        "stdin": true,
        "stdout": true,
        "tty": true,
        "container": container,
    })
}

#[cfg(test)]
mod tests;
