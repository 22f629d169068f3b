//! What the authorizer answers, as a request says it: `authorizer`, a list.
//!
//! Invariant: an answer is for the one question that it names, part by part. A question that is
//! not listed has no answer, and what asks it stays undecided.

use crate::cel::{Answer, Authorizer, Question};
use serde::Deserialize;
use serde_json::Value;

/// The answers that were given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Answers(Vec<(Question, Answer)>);

/// One of them. What is asked is called as the functions that ask it are.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    #[serde(default)]
    service_account: Option<Account>,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    group: Option<String>,
    #[serde(default)]
    resource: Option<String>,
    #[serde(default)]
    subresource: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    field_selector: String,
    #[serde(default)]
    label_selector: String,
    verb: String,
    allowed: bool,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Account {
    namespace: String,
    name: String,
}

impl Answers {
    /// Reads them.
    pub(super) fn from_json(json: &Value) -> Result<Self, String> {
        let written = Vec::<Written>::deserialize(json)
            .map_err(|error| format!("`authorizer` is no list of answers: {error}"))?;
        let mut answers = Vec::new();
        for (position, one) in written.into_iter().enumerate() {
            let (question, answer) = one
                .answer()
                .map_err(|what| format!("`authorizer[{position}]` {what}"))?;
            if answers.iter().any(|(known, _)| *known == question) {
                return Err(format!("`authorizer[{position}]` is answered before"));
            }
            answers.push((question, answer));
        }
        Ok(Self(answers))
    }
}

impl Written {
    fn answer(self) -> Result<(Question, Answer), &'static str> {
        let about_a_resource = self.group.is_some()
            || [
                &self.subresource,
                &self.namespace,
                &self.name,
                &self.field_selector,
                &self.label_selector,
            ]
            .iter()
            .any(|part| !part.is_empty());
        match (&self.path, &self.resource) {
            (Some(_), Some(_)) => return Err("has both `path` and `resource`"),
            (None, None) => return Err("has neither `path` nor `resource`"),
            (Some(_), None) if about_a_resource => return Err("is about a path: it has no more"),
            (Some(_), None) | (None, Some(_)) => {}
        }
        let group = match self.resource.is_some() {
            true => Some(self.group.unwrap_or_default()), // absent: the core group
            false => None,
        };
        let question = Question {
            service_account: self.service_account.map(|one| (one.namespace, one.name)),
            path: self.path,
            group,
            resource: self.resource,
            subresource: self.subresource,
            namespace: self.namespace,
            name: self.name,
            field_selector: self.field_selector,
            label_selector: self.label_selector,
            verb: self.verb,
        };
        let answer = Answer {
            allowed: self.allowed,
            reason: self.reason,
            error: self.error,
        };
        Ok((question, answer))
    }
}

impl Authorizer for Answers {
    fn answer(&self, question: &Question) -> Option<Answer> {
        let found = self.0.iter().find(|(known, _)| known == question);
        found.map(|(_, answer)| answer.clone())
    }
}
