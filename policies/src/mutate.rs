//! Mutants of policies: small changes that a good set of cases notices (P-9).
//!
//! Invariants: the same policy gives the same mutants under the same ids; a mutant that no case
//! decides otherwise survives, and only one that is listed with a reason may. What kills is
//! what the case says: that a request is allowed, or that it is refused in a rule's own words. So
//! an evaluation that fails where a rule should refuse kills too.

mod matching;
mod operators;
mod output;
mod regex;

#[cfg(test)]
mod tests;

pub use output::{as_json, as_sarif, as_text};

use crate::cel::{KubernetesVersion, ast::Node, parse};
use crate::eval::{Case, Change, ProgramError, RequestError, Trial, content, list};
use crate::model::{Policy, PolicyKind};
use crate::progress::Progress;
use crate::source::Spanned;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What says which mutant it is, in files too.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Id {
    /// The policy's name.
    pub policy: String,
    /// What of it is changed, such as `validation 3` (from 0) or `variable labels`.
    pub place: String,
    /// How, such as `drop clause`.
    pub operator: String,
    /// What stood there and what stands there now, and which one of several such.
    pub change: String,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            policy,
            place,
            operator,
            change,
        } = self;
        write!(f, "{policy}: {place}: {operator}: {change}")
    }
}

/// A survivor that no case can kill, and why.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Equivalent {
    /// The policy's name.
    pub policy: String,
    /// As [`Id::place`].
    pub place: String,
    /// As [`Id::operator`].
    pub operator: String,
    /// As [`Id::change`].
    pub change: String,
    /// Why it decides every possible request as the policy does.
    pub reason: String,
}

/// What is wrong with a set of cases, or with the list of equivalents (P-9).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    /// The unchanged policy decides a case otherwise than it must.
    Unmet {
        /// The policy's name.
        policy: String,
        /// The case's.
        case: String,
    },
    /// An entry of the list does not fit, in words.
    Listed(String),
    /// No case kills a mutant that is not listed.
    Survives(Id),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unmet { policy, case } => {
                write!(f, "{policy}: decides the case `{case}` wrongly itself")
            }
            Self::Listed(what) => f.write_str(what),
            Self::Survives(id) => write!(f, "survives: {id}"),
        }
    }
}

/// What came of all mutants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Score {
    /// Each mutant that a case killed, with the case's name.
    pub killed: BTreeMap<Id, String>,
    /// Those that no case killed.
    pub survivors: BTreeSet<Id>,
    /// Changes that are no expression: they are no mutants.
    pub stillborn: usize,
    /// Cases that the unchanged policies decide otherwise than they must, as policy and case.
    pub unmet: Vec<(String, String)>,
    /// How many cases each policy was tried on.
    pub cases: BTreeMap<String, usize>,
}

impl Score {
    /// How many mutants there were.
    #[must_use]
    pub fn mutants(&self) -> usize {
        self.killed.len() + self.survivors.len()
    }

    /// How many of the survivors are listed.
    #[must_use]
    pub fn listed(&self, listed: &[Equivalent]) -> usize {
        let ids: BTreeSet<Id> = listed.iter().map(Equivalent::id).collect();
        self.survivors.intersection(&ids).count()
    }

    /// What is wrong, in the light of the list of equivalents: survivors that are not listed,
    /// and entries that are killed, are not there, are there twice, or give no reason (P-9).
    #[must_use]
    pub fn problems(&self, listed: &[Equivalent]) -> Vec<Problem> {
        let unmet = self.unmet.iter().cloned();
        let mut problems: Vec<Problem> = unmet
            .map(|(policy, case)| Problem::Unmet { policy, case })
            .collect();
        let mut tell = |what: String| problems.push(Problem::Listed(what));
        let mut seen = BTreeSet::new();
        for entry in listed {
            let id = entry.id();
            if entry.reason.trim().is_empty() {
                tell(format!("listed without a reason: {id}"));
            }
            if let Some(case) = self.killed.get(&id) {
                tell(format!("listed, but `{case}` kills it: {id}"));
            } else if !self.survivors.contains(&id) {
                tell(format!("listed, but there is no such mutant: {id}"));
            }
            if !seen.insert(id.clone()) {
                tell(format!("listed twice: {id}"));
            }
        }
        let unlisted = self.survivors.iter().filter(|id| !seen.contains(id));
        problems.extend(unlisted.cloned().map(Problem::Survives));
        problems
    }
}

impl Equivalent {
    /// Reads a file: a list of `policy`, `place`, `operator`, `change` and `reason`.
    ///
    /// # Errors
    ///
    /// [`RequestError`]: the file is none of this form; no entry was taken.
    pub fn parse_all(file: &str, bytes: &[u8]) -> Result<Vec<Self>, RequestError> {
        let entries = list(file, bytes)?.into_iter().enumerate();
        let entry = |(at, entry)| {
            serde_json::from_value(entry).map_err(|error| content(file, &format!("{at}: {error}")))
        };
        entries.map(entry).collect()
    }

    fn id(&self) -> Id {
        Id {
            policy: self.policy.clone(),
            place: self.place.clone(),
            operator: self.operator.clone(),
            change: self.change.clone(),
        }
    }
}

struct Mutant {
    id: Id,
    change: Change,
}

/// A change before it has its id.
struct Draft {
    operator: &'static str,
    text: String,
    change: Change,
}

/// Tries every mutant of every policy on the cases (P-9). Policies that are not decided by
/// expressions alone are left out.
///
/// # Errors
///
/// [`ProgramError`]: a policy cannot be judged here; nothing was tried.
pub fn score(
    policies: &[Policy],
    version: KubernetesVersion,
    cases: &[Case],
    mut tell: impl FnMut(Progress<'_>),
) -> Result<Score, ProgramError> {
    let mut score = Score::default();
    for policy in policies.iter().filter(|policy| is_judged(policy)) {
        let name = policy.name.value.as_str();
        let trial = Trial::new(policy, version, cases)?;
        score.cases.insert(name.to_owned(), trial.len());
        if let Some(case) = trial.unmet() {
            score.unmet.push((name.to_owned(), case.name.clone()));
        }
        let mutants = mutants(policy);
        for (at, mutant) in mutants.iter().enumerate() {
            match trial.killer(&mutant.change) {
                Err(_) => score.stillborn += 1,
                Ok(None) => {
                    score.survivors.insert(mutant.id.clone());
                }
                Ok(Some(case)) => {
                    score.killed.insert(mutant.id.clone(), case.name.clone());
                }
            }
            tell(Progress {
                policy: name,
                done: at + 1,
                of: mutants.len(),
            });
        }
    }
    Ok(score)
}

fn is_judged(policy: &Policy) -> bool {
    match policy.kind {
        PolicyKind::ValidatingAdmissionPolicy | PolicyKind::KyvernoValidatingPolicy => true,
        PolicyKind::ImageValidatingPolicy | PolicyKind::WebhookConfiguration => false,
    }
}

/// Every mutant of a policy, each with an id of its own.
fn mutants(policy: &Policy) -> Vec<Mutant> {
    let mut made = Made {
        policy,
        ids: BTreeMap::new(),
        mutants: Vec::new(),
    };
    for (at, condition) in policy.match_conditions.iter().enumerate() {
        let place = format!("condition {at}");
        made.dropped(&place, "drop match condition", Change::Condition(at, None));
        let change = |node| Change::Condition(at, Some(node));
        made.expression(&place, &condition.expression, change);
    }
    for (at, variable) in policy.variables.iter().enumerate() {
        let name = variable.name.as_ref().map_or("", |name| &name.value);
        let place = format!("variable {name}");
        made.expression(&place, &variable.expression, |node| {
            Change::Variable(at, node)
        });
    }
    for (at, validation) in policy.validations.iter().enumerate() {
        let place = format!("validation {at}");
        made.dropped(&place, "drop rule", Change::Validation(at, None));
        let change = |node| Change::Validation(at, Some(node));
        made.expression(&place, &validation.expression, change);
    }
    for draft in policy.match_constraints.iter().flat_map(matching::drafts) {
        made.push("match", draft);
    }
    made.mutants
}

struct Made<'a> {
    policy: &'a Policy,
    ids: BTreeMap<(String, &'static str, String), usize>,
    mutants: Vec<Mutant>,
}

impl Made<'_> {
    fn dropped(&mut self, place: &str, operator: &'static str, change: Change) {
        let text = "the whole".to_owned();
        self.push(
            place,
            Draft {
                operator,
                text,
                change,
            },
        );
    }

    fn expression(
        &mut self,
        place: &str,
        source: &Spanned<String>,
        change: impl Fn(Node) -> Change,
    ) {
        // What does not parse has no mutants: the API server never evaluates it either.
        let Ok(node) = parse(&source.value) else {
            return;
        };
        for mutation in operators::mutations(&node) {
            self.push(
                place,
                Draft {
                    operator: mutation.operator,
                    text: mutation.text,
                    change: change(mutation.node),
                },
            );
        }
    }

    fn push(&mut self, place: &str, draft: Draft) {
        let key = (place.to_owned(), draft.operator, draft.text.clone());
        let count = self.ids.entry(key).or_default();
        *count += 1;
        let change = match count {
            1 => draft.text,
            more => format!("{} ({more})", draft.text),
        };
        self.mutants.push(Mutant {
            id: Id {
                policy: self.policy.name.value.clone(),
                place: place.to_owned(),
                operator: draft.operator.to_owned(),
                change,
            },
            change: draft.change,
        });
    }
}
