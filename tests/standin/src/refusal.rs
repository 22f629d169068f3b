//! What the API server says when it says no: a `Status` object.
//!
//! The wording follows the real API server, because callers read it: kube prints it, and the
//! adapter tells a policy's refusal from a missing right by it.

use serde_json::{Value, json};

use crate::route::Action;

/// A refusal with the code, reason and message of a Kubernetes `Status`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) code: u16,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) details: Value,
}

impl Refusal {
    pub(crate) fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.to_owned(),
            message: message.into(),
            details: Value::Null,
        }
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn internal(message: impl std::fmt::Display) -> Self {
        Self::new(
            500,
            "InternalError",
            format!("Internal error occurred: {message}"),
        )
    }

    pub(crate) fn unknown_path() -> Self {
        Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
    }

    pub(crate) fn not_found(action: &Action, name: &str) -> Self {
        let what = action.qualified_resource();
        Self::new(404, "NotFound", format!("{what} \"{name}\" not found")).about(action, name)
    }

    pub(crate) fn already_exists(action: &Action, name: &str) -> Self {
        let what = action.qualified_resource();
        Self::new(
            409,
            "AlreadyExists",
            format!("{what} \"{name}\" already exists"),
        )
        .about(action, name)
    }

    pub(crate) fn conflict(action: &Action, name: &str, why: &str) -> Self {
        let what = action.qualified_resource();
        let message = format!("Operation cannot be fulfilled on {what} \"{name}\": {why}");
        Self::new(409, "Conflict", message).about(action, name)
    }

    /// The object was changed by somebody else since it was read.
    pub(crate) fn modified(action: &Action, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version \
                   and try again";
        Self::conflict(action, name, why)
    }

    pub(crate) fn invalid(kind: &str, name: &str, field: &str, why: &str) -> Self {
        let message = format!("{kind} \"{name}\" is invalid: {field}: {why}");
        let mut refusal = Self::new(422, "Invalid", message);
        refusal.details = json!({
            "name": name, "kind": kind,
            "causes": [{ "reason": "FieldValueInvalid", "message": why, "field": field }],
        });
        refusal
    }

    /// RBAC says no.
    pub(crate) fn forbidden(action: &Action, user: &str) -> Self {
        let name = action.name.as_deref().unwrap_or_default();
        let what = action.qualified_resource();
        let subject = match name {
            "" => format!("{what} is forbidden"),
            name => format!("{what} \"{name}\" is forbidden"),
        };
        let scope = match &action.namespace {
            Some(namespace) => format!("in the namespace \"{namespace}\""),
            None => "at the cluster scope".to_owned(),
        };
        let message = format!(
            "{subject}: User \"{user}\" cannot {} resource \"{}\" in API group \"{}\" {scope}",
            action.verb,
            action.full_resource(),
            action.group,
        );
        Self::new(403, "Forbidden", message).about(action, name)
    }

    pub(crate) fn about(mut self, action: &Action, name: &str) -> Self {
        self.details = json!({ "name": name, "group": action.group, "kind": action.resource });
        self
    }

    pub(crate) fn body(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }
}
