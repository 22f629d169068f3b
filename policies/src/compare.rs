//! The rendered fence against the live one, in words (P-2, P-4a).
//!
//! Invariant: pure. What a cluster has is given; what is wanted is what `render` writes. Every
//! object must be equal field by field: a field that only one of the two has is a difference,
//! unless it says no more than its absence (`defaults`). Of labels and annotations (`metadata`)
//! what is rendered must be there, and none that undoes it.

mod webhooks;

pub use webhooks::not_asked;

use crate::model::GENERATED;
use crate::template::Rendered;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

mod defaults;
mod metadata;

/// What an API server is asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    /// `group/version`, or `v1`.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace, if it has one.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.kind, self.name)
    }
}

/// Why a rendering could not be read back.
#[derive(Debug, thiserror::Error)]
#[error("`{file}` is not a list of Kubernetes objects: {why}")]
pub struct NotManifests {
    /// The file.
    pub file: &'static str,
    /// What is wrong with it.
    pub why: String,
}

const NATIVE: &str = "admissionregistration.k8s.io/v1";
const POLICY: &str = "ValidatingAdmissionPolicy";
const BINDING: &str = "ValidatingAdmissionPolicyBinding";
const KYVERNO: &str = "ValidatingPolicy";

/// What must be live for these manifests to hold: the objects in them, and what Kyverno makes of
/// its own. What runs once or stands elsewhere (the bucket's job, the Application) is left out.
///
/// # Errors
/// [`NotManifests`]: the templates are broken.
pub fn wanted(files: &[Rendered]) -> Result<BTreeMap<ObjectKey, Value>, NotManifests> {
    let mut wanted = BTreeMap::new();
    for file in files {
        let not = |why: String| NotManifests {
            file: file.file_name,
            why,
        };
        for text in file.text.split("\n---\n") {
            let object: Value =
                serde_saphyr::from_str(text).map_err(|error| not(error.to_string()))?;
            let key = key(&object).ok_or_else(|| not("no kind or no name".to_owned()))?;
            if key.kind == "Job" || key.kind == "Application" {
                continue;
            }
            if key.kind == KYVERNO {
                wanted.extend(compiled(&key.name, &object));
            }
            wanted.insert(key, object);
        }
    }
    Ok(wanted)
}

/// The native policy and binding that Kyverno makes of one of its policies: the matching, the
/// conditions, variables and validations as they are; `failurePolicy` is the API's own default.
#[must_use]
pub fn compiled(name: &str, policy: &Value) -> [(ObjectKey, Value); 2] {
    let of = |field: &str| policy["spec"][field].clone();
    let generated = format!("{GENERATED}{name}");
    let object = json!({
        "apiVersion": NATIVE,
        "kind": POLICY,
        "metadata": { "name": generated },
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": of("matchConstraints"),
            "matchConditions": of("matchConditions"),
            "variables": of("variables"),
            "validations": of("validations"),
        },
    });
    let bound = format!("{generated}-binding");
    let binding = json!({
        "apiVersion": NATIVE,
        "kind": BINDING,
        "metadata": { "name": bound },
        "spec": { "policyName": generated, "validationActions": of("validationActions") },
    });
    let key = |kind: &str, name: String| ObjectKey {
        api_version: NATIVE.to_owned(),
        kind: kind.to_owned(),
        namespace: None,
        name,
    };
    [
        (key(POLICY, generated.clone()), object),
        (key(BINDING, bound), binding),
    ]
}

/// What differs, a sentence each; nothing where the live fence is the rendered one.
/// `exceptions` are all of Kyverno's PolicyExceptions.
#[must_use]
pub fn differences(
    wanted: &BTreeMap<ObjectKey, Value>,
    live: &BTreeMap<ObjectKey, Value>,
    exceptions: &[Value],
) -> Vec<String> {
    let mut said = Vec::new();
    for (key, object) in wanted {
        match live.get(key) {
            None => said.push(missing(key)),
            Some(found) => {
                let mut paths = Vec::new();
                compare(&mut paths, "", &content(object), &content(found), &key.kind);
                said.extend(paths.into_iter().map(|path| in_words(key, found, &path)));
                said.extend(metadata::differences(key, object, found));
            }
        }
    }
    said.extend(exceptions.iter().filter_map(excepted));
    said
}

fn missing(key: &ObjectKey) -> String {
    if key.name.starts_with(GENERATED) {
        format!(
            "{key} is not there: Kyverno has not made it, so the API server refuses nothing by it; \
             look at the status of Kyverno's policy"
        )
    } else {
        format!("{key} is not there: apply what is rendered")
    }
}

fn in_words(key: &ObjectKey, found: &Value, path: &str) -> String {
    let shown = |field: &str| found["spec"][field].to_string();
    match (key.kind.as_str(), path) {
        (BINDING, path) if path.starts_with("spec.validationActions") => format!(
            "{key} does not deny: its actions are {}",
            shown("validationActions")
        ),
        (BINDING, _) => format!("{key} is narrowed or turned elsewhere: `{path}` differs"),
        (_, "spec.failurePolicy") => format!(
            "{key} has the failurePolicy {}: what it cannot judge goes through",
            shown("failurePolicy")
        ),
        (POLICY, path) if path.starts_with("spec.matchConditions") => format!(
            "{key} applies to fewer or other requests than rendered: `{path}` differs (Kyverno \
             writes a PolicyException there)"
        ),
        _ => format!("{key} is not as rendered: `{path}` differs"),
    }
}

/// What of an object says something by itself: not who made it, nor what became of it.
fn content(object: &Value) -> Value {
    let Value::Object(map) = object else {
        return Value::Null;
    };
    let said = map.iter().filter(|(field, _)| {
        !matches!(
            field.as_str(),
            "metadata" | "status" | "apiVersion" | "kind"
        )
    });
    Value::Object(
        said.map(|(field, value)| (field.clone(), value.clone()))
            .collect(),
    )
}

/// Nothing said: what an API server writes as absent.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Notes the paths at which the two differ.
fn compare(paths: &mut Vec<String>, at: &str, wanted: &Value, found: &Value, kind: &str) {
    match (wanted, found) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let fields: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
            for field in fields {
                let below = if at.is_empty() {
                    field.clone()
                } else {
                    format!("{at}.{field}")
                };
                let of = |map: &serde_json::Map<String, Value>| {
                    map.get(field).cloned().unwrap_or_default()
                };
                compare(paths, &below, &of(ours), &of(theirs), kind);
            }
        }
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            for (position, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                compare(paths, &format!("{at}[{position}]"), ours, theirs, kind);
            }
        }
        // An object that only one of them has may hold nothing but defaults.
        (Value::Null, Value::Object(_)) => compare(paths, at, &json!({}), found, kind),
        (Value::Object(_), Value::Null) => compare(paths, at, wanted, &json!({}), kind),
        (Value::Null, said) | (said, Value::Null) if defaults::adds_nothing(kind, at, said) => {}
        _ if is_empty(wanted) && is_empty(found) => {}
        _ if wanted == found => {}
        _ => paths.push(at.to_owned()),
    }
}

fn in_list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A PolicyException that names one of our policies, in words.
fn excepted(exception: &Value) -> Option<String> {
    let names = |list: &str, field: &str| -> Vec<String> {
        in_list(&exception["spec"][list])
            .filter_map(|item| Some(item[field].as_str()?.to_owned()))
            .collect()
    };
    let mut named = names("policyRefs", "name");
    named.extend(names("exceptions", "policyName"));
    // `namespace/name`, where the policy is a namespace's.
    let ours = named.iter().find(|name| {
        let (_, name) = name.rsplit_once('/').unwrap_or(("", name));
        name.starts_with(crate::fence::PREFIX)
    })?;
    let key = key(exception)?;
    let namespace = key.namespace.as_deref().unwrap_or("default");
    Some(format!(
        "{key} in `{namespace}` excepts requests from `{ours}`: delete it"
    ))
}

/// Which object this is.
#[must_use]
pub fn key(object: &Value) -> Option<ObjectKey> {
    let text = |pointer: &str| object.pointer(pointer)?.as_str().map(str::to_owned);
    Some(ObjectKey {
        api_version: text("/apiVersion")?,
        kind: text("/kind")?,
        namespace: text("/metadata/namespace"),
        name: text("/metadata/name")?,
    })
}

#[cfg(test)]
mod tests;
