//! What is declared to be in the native set alone.

use crate::eval::{RequestError, content, list};
use crate::fence::FlightOnly;
use serde::Deserialize;

/// A rule or a policy that Kyverno's set has not, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeOnly {
    /// The policy's name.
    pub policy: String,
    /// The words of the rule; none: the whole policy.
    pub rule: Option<Words>,
    /// Why, for a person.
    pub reason: String,
}

/// By which words a rule is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Words {
    /// Its message.
    Message(String),
    /// A text in which its message stands.
    Within(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    policy: String,
    #[serde(default)]
    message: Option<String>,
    reason: String,
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
            let written: Written =
                serde_json::from_value(entry).map_err(|error| wrong(&error.to_string()))?;
            if written.reason.trim().is_empty() {
                return Err(wrong("a difference needs a reason"));
            }
            Ok(Self {
                policy: written.policy,
                rule: written.message.map(Words::Message),
                reason: written.reason,
            })
        };
        entries.map(entry).collect()
    }

    pub(super) fn is_policy(&self, policy: &str) -> bool {
        self.rule.is_none() && self.policy == policy
    }

    pub(super) fn is_rule(&self, policy: &str, message: &str) -> bool {
        let message = message.trim();
        let says = match &self.rule {
            Some(Words::Message(words)) => words.trim() == message,
            Some(Words::Within(text)) => text.contains(message),
            None => false,
        };
        self.policy == policy && !message.is_empty() && says
    }
}

impl From<&FlightOnly> for NativeOnly {
    fn from(declared: &FlightOnly) -> Self {
        let (policy, why, rule) = match declared {
            FlightOnly::Clause { policy, why, text } => {
                (policy, why, Some(Words::Within((*text).to_owned())))
            }
            FlightOnly::Policy { policy, why } => (policy, why, None),
        };
        Self {
            policy: (*policy).to_owned(),
            rule,
            reason: (*why).to_owned(),
        }
    }
}
