//! Findings about policies as SARIF 2.1.0, which code scanning reads.
//!
//! Invariant: a finding names a rule that the tool has; where it stands is told where it is known,
//! in characters from 1.

use crate::lint::Severity;
use crate::model::{GENERATED, Policy};
use crate::source::Position;
use serde_json::{Value, json};
use std::fmt::Write;

/// What a tool looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Its id, which stays.
    pub id: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Why it matters.
    pub why: &'static str,
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file, as it was named.
    pub file: String,
    /// Where in it.
    pub at: Position,
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule's id.
    pub rule: &'static str,
    /// How bad it is.
    pub level: Severity,
    /// What it is, in words.
    pub message: String,
    /// Where, if that is known.
    pub place: Option<Place>,
}

/// Policies, each with the file that it was read from.
#[derive(Debug, Clone, Default)]
pub struct Sources<'p>(Vec<(&'p str, &'p Policy)>);

impl<'p> FromIterator<(&'p str, &'p Policy)> for Sources<'p> {
    fn from_iter<I: IntoIterator<Item = (&'p str, &'p Policy)>>(policies: I) -> Self {
        Self(policies.into_iter().collect())
    }
}

impl Sources<'_> {
    /// Where a part of a policy stands, such as `validation 3` of `owned`; of an unknown part, the
    /// policy. One that Kyverno generates may stand where it is generated from, and the reverse.
    #[must_use]
    pub fn place(&self, policy: &str, part: &str) -> Option<Place> {
        let of = |name: &str| self.0.iter().find(|(_, one)| one.name.value == name);
        let generated_from = || policy.strip_prefix(GENERATED).and_then(of);
        let generated = || of(&format!("{GENERATED}{policy}"));
        let (file, policy) = of(policy).or_else(generated_from).or_else(generated)?;
        Some(Place {
            file: (*file).to_owned(),
            at: policy.position_of(part),
        })
    }
}

/// The log of one run of `breakglass policies COMMAND`. What could not be looked at is `undone`.
#[must_use]
pub fn log(command: &str, rules: &[Rule], findings: &[Finding], undone: &[String]) -> Value {
    let result = |finding: &Finding| {
        let mut result = json!({
            "ruleId": finding.rule,
            "ruleIndex": rules.iter().position(|rule| rule.id == finding.rule),
            "level": finding.level,
            "message": { "text": finding.message },
        });
        if let Some(Place { file, at }) = &finding.place {
            result["locations"] = json!([{ "physicalLocation": {
                "artifactLocation": { "uri": uri(file) },
                "region": { "startLine": at.line, "startColumn": at.column },
            } }]);
        }
        result
    };
    let rule = |rule: &Rule| {
        json!({
            "id": rule.id, "name": rule.name,
            "shortDescription": { "text": rule.name },
            "fullDescription": { "text": rule.why },
            "help": { "text": rule.why },
        })
    };
    let notification = |text: &String| json!({ "level": "error", "message": { "text": text } });
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": format!("breakglass policies {command}"),
                "informationUri": "https://github.com/hangar/breakglass-for-backstage",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules.iter().map(rule).collect::<Vec<Value>>(),
            } },
            "columnKind": "unicodeCodePoints",
            "invocations": [{
                "executionSuccessful": undone.is_empty(),
                "toolExecutionNotifications":
                    undone.iter().map(notification).collect::<Vec<Value>>(),
            }],
            "results": findings.iter().map(result).collect::<Vec<Value>>(),
        }],
    })
}

/// A file's name as a relative reference: what is not plain is escaped.
fn uri(file: &str) -> String {
    let mut uri = String::new();
    for byte in file.replace('\\', "/").bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(byte));
            }
            _ => {
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    uri
}
