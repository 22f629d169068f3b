//! What is declared to be in the native set alone.

use crate::eval::{RequestError, content, list};
use crate::fence::FlightOnly;
use serde::Deserialize;

/// A rule or a policy that Kyverno's set has not, and why.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NativeOnly {
    /// The policy's name.
    pub policy: String,
    /// The rule's message, whole; none: the whole policy.
    #[serde(default)]
    pub message: Option<String>,
    /// Why, for a person.
    pub reason: String,
}

impl NativeOnly {
    /// Reads a file: a list of `policy`, where only a rule of it is meant the rule's `message`, and
    /// the `reason`.
    ///
    /// # Errors
    ///
    /// [`RequestError`]: the file is none of this form; no entry was taken.
    pub fn parse_all(file: &str, bytes: &[u8]) -> Result<Vec<Self>, RequestError> {
        let entries = list(file, bytes)?.into_iter().enumerate();
        let entry = |(at, entry)| {
            let wrong = |why: &str| content(file, &format!("{at}: {why}"));
            let entry: Self =
                serde_json::from_value(entry).map_err(|error| wrong(&error.to_string()))?;
            let empty = |text: &String| text.trim().is_empty();
            if empty(&entry.reason) || entry.message.as_ref().is_some_and(empty) {
                return Err(wrong("a difference needs a reason, and a rule its message"));
            }
            Ok(entry)
        };
        entries.map(entry).collect()
    }

    pub(super) fn is_policy(&self, policy: &str) -> bool {
        self.message.is_none() && self.policy == policy
    }

    pub(super) fn is_rule(&self, policy: &str, message: &str) -> bool {
        let says = |words: &String| words.trim() == message.trim();
        self.policy == policy && self.message.as_ref().is_some_and(says)
    }
}

impl From<&FlightOnly> for NativeOnly {
    fn from(declared: &FlightOnly) -> Self {
        let (policy, why, message) = match declared {
            FlightOnly::Clause {
                policy,
                why,
                message,
                ..
            } => (policy, why, Some((*message).to_owned())),
            FlightOnly::Policy { policy, why } => (policy, why, None),
        };
        Self {
            policy: (*policy).to_owned(),
            message,
            reason: (*why).to_owned(),
        }
    }
}
