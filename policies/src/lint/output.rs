//! Findings as text, JSON and SARIF 2.1.0.

use super::{Report, Rule, Severity};
use crate::sarif;
use crate::source::Position;
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
    let rule = |rule: &Rule| sarif::Rule {
        id: rule.id(),
        name: rule.name(),
        why: rule.why(),
    };
    let rules: Vec<sarif::Rule> = Rule::ALL.iter().map(rule).collect();
    let findings: Vec<sarif::Finding> = report
        .findings
        .iter()
        .map(|finding| sarif::Finding {
            rule: finding.rule.id(),
            level: finding.severity,
            message: format!("{}; {}", finding.what, finding.fix),
            place: Some(sarif::Place {
                file: finding.file.clone(),
                at: Position {
                    line: finding.line,
                    column: finding.column,
                },
            }),
        })
        .collect();
    let unread: Vec<String> = report.unread.iter().map(ToString::to_string).collect();
    sarif::log("lint", &rules, &findings, &unread)
}
