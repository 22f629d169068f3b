//! A request, from an AdmissionReview or a short form of one.
//!
//! The short form is an object with `object` and `oldObject` (at least one), and, where they are
//! not to be taken from these: `operation`, `kind`, `resource`, `subResource`, `name`,
//! `namespace`, `userInfo`, `options`, `dryRun`. Beside either form, `namespaceObject` is the
//! namespace that the request is in: a review does not carry it, the API server looks it up. So
//! is `authorizer`, what the authorizer answers ([`super::answers`]).

use super::answers::Answers;
use crate::cel::{Activation, InputError};
use crate::source::{self, SourceError};
use serde_json::{Map, Value, json};

/// What may stand in a request.
const FIELDS: &[&str] = &[
    "apiVersion",
    "kind",
    "uid",
    "requestKind",
    "resource",
    "requestResource",
    "subResource",
    "requestSubResource",
    "name",
    "namespace",
    "operation",
    "userInfo",
    "object",
    "oldObject",
    "dryRun",
    "options",
    "namespaceObject",
    "authorizer",
];

/// Why a file is no request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// It cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// It says something else.
    #[error("{file}: {what}; nothing was evaluated")]
    Content {
        /// The file.
        file: String,
        /// What is wrong.
        what: String,
    },
}

/// A request as the API server's admission sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    pub(super) object: Value,
    pub(super) old_object: Value,
    pub(super) namespace_object: Value,
    pub(super) answers: Answers,
    /// What expressions see as `request`.
    request: Value,
}

impl Request {
    /// Reads a request (P-6), within the bounds of any file ([`source::limits`]).
    ///
    /// # Errors
    ///
    /// [`RequestError`]: it is no request.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, RequestError> {
        let nodes = source::read(file, bytes)?;
        let [node] = nodes.as_slice() else {
            let what = format!(
                "one request is wanted, the file has {} documents",
                nodes.len()
            );
            return Err(content(file, &what));
        };
        Self::from_json(&node.to_json()).map_err(|what| content(file, &what))
    }

    /// Takes a request as JSON.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn from_json(json: &Value) -> Result<Self, String> {
        let Value::Object(outer) = json else {
            return Err("an AdmissionReview is wanted, or its request".to_owned());
        };
        let inner = match (
            outer.get("kind").and_then(Value::as_str),
            outer.get("request"),
        ) {
            (Some("AdmissionReview"), Some(Value::Object(inner))) => inner,
            (Some("AdmissionReview"), _) => {
                return Err("the AdmissionReview has no `request`".to_owned());
            }
            (_, Some(_)) => return Err("`request` stands in something else".to_owned()),
            (_, None) => outer,
        };
        if let Some(key) = inner.keys().find(|key| !FIELDS.contains(&key.as_str())) {
            return Err(format!("a request has no `{key}`"));
        }
        let part = |key: &str| inner.get(key).cloned().unwrap_or(Value::Null);
        let (object, old_object) = (part("object"), part("oldObject"));
        for (name, value) in [("object", &object), ("oldObject", &old_object)] {
            if !value.is_null() && !value.is_object() {
                return Err(format!("`{name}` is no object"));
            }
        }
        let namespace = outer
            .get("namespaceObject")
            .or_else(|| inner.get("namespaceObject"));
        let answers = outer.get("authorizer").or_else(|| inner.get("authorizer"));
        let answers = answers.map_or(Ok(Answers::default()), Answers::from_json)?;
        let request = described(inner, &object, &old_object)?;
        Ok(Self {
            object,
            old_object,
            namespace_object: namespace.cloned().unwrap_or(Value::Null),
            answers,
            request,
        })
    }

    /// What expressions see, by its name.
    pub(crate) fn seen(&self) -> Value {
        json!({
            "object": self.object,
            "oldObject": self.old_object,
            "request": self.request,
            "namespaceObject": self.namespace_object,
        })
    }

    /// The same request of another version of its resource, as far as matching goes.
    pub(super) fn in_version(&self, group: &str, version: &str) -> Self {
        let mut other = self.clone();
        if let Some(resource) = other.request.get_mut("resource") {
            resource["group"] = group.into();
            resource["version"] = version.into();
        }
        other
    }

    /// A text of `request`, or nothing.
    pub(super) fn text(&self, path: &[&str]) -> &str {
        text(&self.request, path).unwrap_or_default()
    }

    /// What expressions see; in match conditions the namespace's object is null (§1.1).
    pub(super) fn activation(&self, in_conditions: bool) -> Result<Activation, InputError> {
        let namespace = match in_conditions {
            true => &Value::Null,
            false => &self.namespace_object,
        };
        Activation::new()
            .object(&self.object)?
            .old_object(&self.old_object)?
            .request(&self.request)?
            .namespace_object(namespace)
    }
}

pub(crate) fn content(file: &str, what: &str) -> RequestError {
    RequestError::Content {
        file: file.to_owned(),
        what: what.to_owned(),
    }
}

fn text<'v>(value: &'v Value, path: &[&str]) -> Option<&'v str> {
    path.iter()
        .try_fold(value, |value, key| value.get(key))?
        .as_str()
}

/// The `request` of expressions: what is given, and what follows from the objects.
fn described(
    inner: &Map<String, Value>,
    object: &Value,
    old_object: &Value,
) -> Result<Value, String> {
    let subject = if object.is_null() { old_object } else { object };
    let mut request = Map::new();
    let operation = match inner.get("operation") {
        Some(Value::String(operation)) => operation.clone(),
        Some(_) => return Err("`operation` is no text".to_owned()),
        None => match (object.is_null(), old_object.is_null()) {
            (true, true) => return Err("there is neither `object` nor `oldObject`".to_owned()),
            (true, false) => "DELETE".to_owned(),
            (false, true) => "CREATE".to_owned(),
            (false, false) => "UPDATE".to_owned(),
        },
    };
    if !["CREATE", "UPDATE", "DELETE", "CONNECT"].contains(&operation.as_str()) {
        return Err(format!("`{operation}` is no operation"));
    }
    let kind = kind_of(inner.get("kind"), subject)?;
    let resource = resource_of(inner.get("resource"), &kind)?;
    request.insert("operation".to_owned(), operation.into());
    for (key, fallback) in [("requestKind", &kind), ("requestResource", &resource)] {
        let given = inner.get(key).unwrap_or(fallback);
        request.insert(key.to_owned(), given.clone());
    }
    request.insert("kind".to_owned(), kind);
    request.insert("resource".to_owned(), resource);
    for key in ["name", "namespace"] {
        let given = match inner.get(key) {
            Some(given) => given
                .as_str()
                .ok_or_else(|| format!("`{key}` is no text"))?,
            None => text(subject, &["metadata", key]).unwrap_or_default(),
        };
        // Empty is absent: the API server leaves it out.
        if !given.is_empty() {
            request.insert(key.to_owned(), given.into());
        }
    }
    if let Some(sub) = inner.get("subResource") {
        let sub = sub.as_str().ok_or("`subResource` is no text")?;
        if !sub.is_empty() {
            request.insert("subResource".to_owned(), sub.into());
            request.insert("requestSubResource".to_owned(), sub.into());
        }
    }
    let user = inner.get("userInfo").cloned().unwrap_or_else(|| json!({}));
    if !user.is_object() {
        return Err("`userInfo` is no object".to_owned());
    }
    request.insert("userInfo".to_owned(), user);
    let dry_run = inner.get("dryRun").cloned().unwrap_or(Value::Bool(false));
    request.insert("dryRun".to_owned(), dry_run);
    if let Some(options) = inner.get("options").filter(|options| !options.is_null()) {
        request.insert("options".to_owned(), options.clone());
    }
    Ok(Value::Object(request))
}

fn kind_of(given: Option<&Value>, subject: &Value) -> Result<Value, String> {
    match given {
        Some(Value::Object(kind)) => return Ok(Value::Object(kind.clone())),
        Some(_) => return Err("`kind` is no group, version and kind".to_owned()),
        None => {}
    }
    let version = text(subject, &["apiVersion"]).unwrap_or_default();
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let kind = text(subject, &["kind"]).unwrap_or_default();
    if kind.is_empty() || version.is_empty() {
        return Err(
            "the object has no `apiVersion` and `kind`, and the request no `kind`".to_owned(),
        );
    }
    Ok(json!({"group": group, "version": version, "kind": kind}))
}

/// The resource: as given, whole or by its name, or the plural that Kubernetes guesses.
fn resource_of(given: Option<&Value>, kind: &Value) -> Result<Value, String> {
    let part = |key: &str| text(kind, &[key]).unwrap_or_default();
    let name = match given {
        Some(Value::Object(resource)) => return Ok(Value::Object(resource.clone())),
        Some(Value::String(name)) => name.clone(),
        Some(_) => return Err("`resource` is no group, version and resource".to_owned()),
        None => plural(&part("kind").to_lowercase()),
    };
    Ok(json!({"group": part("group"), "version": part("version"), "resource": name}))
}

fn plural(singular: &str) -> String {
    if singular == "endpoints" {
        singular.to_owned()
    } else if singular.ends_with('s') {
        format!("{singular}es")
    } else if let Some(stem) = singular.strip_suffix('y') {
        format!("{stem}ies")
    } else {
        format!("{singular}s")
    }
}
