//! Findings as text, JSON and SARIF 2.1.0.

use super::{Report, Rule, Severity};
use serde_json::{Value, json};
use std::fmt::Write;

/// How findings are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people: `file:line:col: severity[id]: what`, then why and the fix.
    Text,
    /// One object with `findings`, `unread` and counts.
    Json,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
}

/// Writes a report.
#[must_use]
pub fn format(report: &Report, format: Format) -> String {
    match format {
        Format::Text => text(report),
        Format::Json => format!("{:#}", as_json(report)),
        Format::Sarif => format!("{:#}", sarif(report)),
    }
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        let _ = writeln!(
            text,
            "{}:{}:{}: {}[{}]: {}\n    why: {}\n    fix: {}",
            finding.file,
            finding.line,
            finding.column,
            finding.severity,
            finding.rule.id(),
            finding.what,
            finding.rule.why(),
            finding.fix,
        );
    }
    for unread in &report.unread {
        let _ = writeln!(text, "{unread}");
    }
    let count = |severity| {
        report
            .findings
            .iter()
            .filter(|f| f.severity == severity)
            .count()
    };
    let _ = write!(
        text,
        "{} policies: {} errors, {} warnings, {} notes; {} files not read",
        report.policies,
        count(Severity::Error),
        count(Severity::Warning),
        count(Severity::Note),
        report.unread.len(),
    );
    text
}

fn as_json(report: &Report) -> Value {
    let findings: Vec<Value> = report
        .findings
        .iter()
        .map(|finding| {
            json!({
                "file": finding.file, "line": finding.line, "column": finding.column,
                "rule": finding.rule, "severity": finding.severity, "policy": finding.policy,
                "what": finding.what, "why": finding.rule.why(), "fix": finding.fix,
            })
        })
        .collect();
    let unread: Vec<String> = report.unread.iter().map(ToString::to_string).collect();
    json!({
        "policies": report.policies, "passedOver": report.passed_over,
        "findings": findings, "unread": unread,
    })
}

fn sarif(report: &Report) -> Value {
    let rules: Vec<Value> = Rule::ALL
        .iter()
        .map(|rule| {
            json!({
                "id": rule.id(), "name": rule.name(),
                "shortDescription": { "text": rule.name() },
                "fullDescription": { "text": rule.why() },
                "help": { "text": rule.why() },
            })
        })
        .collect();
    let results: Vec<Value> = report
        .findings
        .iter()
        .map(|finding| {
            json!({
                "ruleId": finding.rule.id(),
                "ruleIndex": Rule::ALL.iter().position(|rule| *rule == finding.rule),
                "level": finding.severity,
                "message": { "text": format!("{}; {}", finding.what, finding.fix) },
                "locations": [{ "physicalLocation": {
                    "artifactLocation": { "uri": uri(&finding.file) },
                    "region": { "startLine": finding.line, "startColumn": finding.column },
                } }],
            })
        })
        .collect();
    let unread: Vec<Value> = report
        .unread
        .iter()
        .map(|error| json!({ "level": "error", "message": { "text": error.to_string() } }))
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "breakglass policies lint",
                "informationUri": "https://github.com/hangar/breakglass-for-backstage",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            } },
            "columnKind": "unicodeCodePoints",
            "invocations": [{
                "executionSuccessful": report.unread.is_empty(),
                "toolExecutionNotifications": unread,
            }],
            "results": results,
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
