//! Cases: requests, and what must become of them.

use super::{Request, RequestError, content};
use crate::source;
use serde_json::Value;

/// A request, and what must become of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// What it shows.
    pub name: String,
    /// What is asked.
    pub request: Request,
    /// What must refuse it; none: it is let through.
    pub denied: Option<Refusal>,
}

/// What must refuse a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The policy, as the cluster knows it.
    pub by: String,
    /// Part of the rule's message; empty: any.
    pub says: String,
}

impl Case {
    /// Reads a file: a list of `name`, `request` (as [`Request::from_json`] takes it), and
    /// where it must be refused `deniedBy`, the policy's name, and `says`, part of its message.
    ///
    /// # Errors
    ///
    /// [`RequestError`]: the file is none of this form; no case was taken.
    pub fn parse_all(file: &str, bytes: &[u8]) -> Result<Vec<Self>, RequestError> {
        let cases = list(file, bytes)?.into_iter().enumerate();
        let case = |(at, case): (usize, Value)| {
            Self::from_json(&case).map_err(|why| content(file, &format!("case {at}: {why}")))
        };
        cases.map(case).collect()
    }

    fn from_json(case: &Value) -> Result<Self, String> {
        let known = ["name", "request", "deniedBy", "says"];
        let fields = case.as_object().ok_or("no object")?;
        if let Some(key) = fields.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(format!("a case has no `{key}`"));
        }
        let text = |key: &str| match case.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(format!("`{key}` is no text")),
        };
        let denied = match (text("deniedBy")?, text("says")?) {
            (None, None) => None,
            (None, Some(_)) => return Err("`says` without `deniedBy`".to_owned()),
            (Some(by), says) => Some(Refusal {
                by,
                says: says.unwrap_or_default(),
            }),
        };
        Ok(Self {
            name: case["name"].as_str().unwrap_or_default().to_owned(),
            request: Request::from_json(&case["request"])?,
            denied,
        })
    }
}

/// The one list that a file holds.
pub(crate) fn list(file: &str, bytes: &[u8]) -> Result<Vec<Value>, RequestError> {
    let nodes = source::read(file, bytes)?;
    let [node] = nodes.as_slice() else {
        return Err(content(file, "one list is wanted"));
    };
    let Value::Array(entries) = node.to_json() else {
        return Err(content(file, "a list is wanted"));
    };
    Ok(entries)
}
