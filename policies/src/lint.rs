//! What is wrong with a policy before it meets a request (P-5): twelve rules, `L1` to `L12`.
//!
//! Invariants: nothing is asked of a cluster, and nothing is evaluated; the same files give the
//! same findings in the same order; a file that cannot be read is a [`Finding`] of no rule, never
//! the end of the others. A finding says where, what, why and what to do.
//!
//! Soundness: a value of the wrong *type* still errs, and of kinds that are not in `required`
//! nothing is known.

mod access;
mod conditions;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a rule names the shapes that it knows; of all others it says nothing"
)]
mod expressions;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a rule names the shapes that it knows; of all others it says nothing"
)]
mod facts;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a rule names the shapes that it knows; of all others it says nothing"
)]
mod images;
mod kyverno;
mod output;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a rule names the shapes that it knows; of all others it says nothing"
)]
mod paths;
mod required;
mod resources;
mod rules;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a rule names the shapes that it knows; of all others it says nothing"
)]
mod subresources;
mod walk;
mod work;

#[cfg(test)]
mod tests;

pub use output::{Format, format};
pub(crate) use resources::always_there;
pub use rules::{Rule, Severity};

use crate::cel::KubernetesVersion;
use crate::model::{Binding, Document, Exception, Policy};
use crate::source::{Position, SourceError};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::{BTreeSet, HashSet};
use work::Work;

/// Something that a rule objects to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// The file, as it was named.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// The rule.
    pub rule: Rule,
    /// How bad it is.
    pub severity: Severity,
    /// The policy, binding or exception.
    pub policy: String,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub fix: String,
}

/// What was read: a file's name, and its documents or why it has none.
pub type Read = (String, Result<Vec<Document>, SourceError>);

/// The findings of a set of files, and what they are about.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// In the order of files and places.
    pub findings: Vec<Finding>,
    /// Files that could not be read.
    pub unread: Vec<SourceError>,
    /// Policies that were looked at.
    pub policies: usize,
    /// Objects that are no policy, and were passed over.
    pub passed_over: usize,
}

impl Report {
    /// The command's exit code: 2 where a file could not be read, 1 where there is an error,
    /// else 0.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        let error = self
            .findings
            .iter()
            .any(|finding| finding.severity == Severity::Error);
        if self.unread.is_empty() {
            u8::from(error)
        } else {
            2
        }
    }
}

/// Where findings of one object go.
struct Findings<'a> {
    file: &'a str,
    policy: &'a str,
    all: Vec<Finding>,
}

impl<'a> Findings<'a> {
    fn new(file: &'a str, policy: &'a str) -> Self {
        Self {
            file,
            policy,
            all: Vec::new(),
        }
    }

    fn add(
        &mut self,
        rule: Rule,
        severity: Severity,
        at: Position,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.all.push(Finding {
            file: self.file.to_owned(),
            line: at.line,
            column: at.column,
            rule,
            severity,
            policy: self.policy.to_owned(),
            what: what.into(),
            fix: fix.into(),
        });
    }
}

/// All objects of all files: what a rule may look at besides the policy itself.
#[derive(Default)]
struct Together<'a> {
    bindings: Vec<&'a Binding>,
    exceptions: Vec<(&'a str, &'a Exception)>,
    /// Of each policy for ephemeral containers, what it asks.
    ephemeral: Vec<BTreeSet<String>>,
}

/// Judges files together, for a release of Kubernetes.
#[must_use]
pub fn lint(files: &[Read], kubernetes: KubernetesVersion) -> Report {
    lint_telling(files, kubernetes, &|| {})
}

/// The same, and tells each time that a file is judged; from any thread.
#[must_use]
pub fn lint_telling(
    files: &[Read],
    kubernetes: KubernetesVersion,
    judged: &(dyn Fn() + Sync),
) -> Report {
    let mut report = Report::default();
    let mut together = Together::default();
    let documents = || {
        files.iter().flat_map(|(file, read)| {
            read.iter()
                .flatten()
                .filter(|document| !is_outline(document))
                .map(move |document| (file.as_str(), document))
        })
    };
    for (file, document) in documents() {
        match document {
            Document::Binding(binding) => together.bindings.push(binding),
            Document::Exception(exception) => together.exceptions.push((file, exception)),
            Document::Unknown(_) => report.passed_over += 1,
            Document::Policy(policy) => {
                report.policies += 1;
                together
                    .ephemeral
                    .extend(subresources::of_ephemeral(policy));
            }
        }
    }
    let all = files.iter().flat_map(|(_, read)| read.iter().flatten());
    report.passed_over += all.filter(|document| is_outline(document)).count();
    report.unread = files
        .iter()
        .filter_map(|(_, read)| read.as_ref().err().cloned())
        .collect();
    let found: Vec<Vec<Finding>> = files
        .par_iter()
        .map(|(file, read)| {
            let found = of_one_file(file, read, &together, kubernetes);
            judged();
            found
        })
        .collect();
    report.findings.extend(found.into_iter().flatten());
    for (file, exception) in &together.exceptions {
        let mut findings = Findings::new(file, &exception.name.value);
        kyverno::exception(exception, &mut findings);
        report.findings.extend(findings.all);
    }
    report.findings.sort();
    once_each(&mut report.findings);
    report
}

/// What is found in one file, in the light of all.
fn of_one_file(
    file: &str,
    read: &Result<Vec<Document>, SourceError>,
    together: &Together<'_>,
    kubernetes: KubernetesVersion,
) -> Vec<Finding> {
    let work = Work::of_a_file();
    let mut found = Vec::new();
    for document in read.iter().flatten().filter(|one| !is_outline(one)) {
        match document {
            Document::Policy(policy) => {
                found.extend(one(file, policy, together, &work, kubernetes));
            }
            Document::Binding(binding) => {
                let mut findings = Findings::new(file, &binding.name.value);
                conditions::binding(binding, &mut findings);
                found.extend(findings.all);
            }
            Document::Exception(_) | Document::Unknown(_) => {}
        }
    }
    found
}

/// Whether the document is what a test tool waits for, and nothing that anybody applies.
fn is_outline(document: &Document) -> bool {
    match document {
        Document::Policy(policy) => policy.outline,
        Document::Binding(binding) => binding.outline,
        Document::Exception(_) | Document::Unknown(_) => false,
    }
}

/// Of findings that say the same of the same place, the worst: a variable is read in many.
fn once_each(findings: &mut Vec<Finding>) {
    let mut said = HashSet::new();
    let first: Vec<bool> = findings
        .iter()
        .map(|f| said.insert((&f.file, f.line, f.column, f.rule, &f.policy, &f.what)))
        .collect();
    let mut first = first.into_iter();
    findings.retain(|_| first.next().unwrap_or(true));
}

/// Judges one policy.
fn one(
    file: &str,
    policy: &Policy,
    together: &Together<'_>,
    work: &Work,
    kubernetes: KubernetesVersion,
) -> Vec<Finding> {
    let mut findings = Findings::new(file, &policy.name.value);
    let trees = expressions::parse(policy, kubernetes, &mut findings);
    access::judge(policy, &trees, work, &mut findings);
    expressions::judge(policy, &trees, &mut findings);
    resources::judge(policy, &trees, together, &mut findings);
    conditions::judge(policy, together, &mut findings);
    kyverno::judge(policy, &mut findings);
    images::judge(policy, &trees, &mut findings);
    findings.all
}
