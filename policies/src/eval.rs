//! One request, judged by policies as the API server judges it, without one (P-6).
//!
//! Invariants: the verdict and its message are the API server's, less its prefix; where that
//! cannot be known the outcome is [`Outcome::Undecided`] and says why, and whoever acts on it
//! takes it for a refusal. A panic is such an outcome.
//!
//! A policy of Kyverno's is judged as the ValidatingAdmissionPolicy that Kyverno makes of it: its
//! `failurePolicy` is not copied and so is `Fail`. A policy without a binding is judged as if one
//! denied, and the verdict says so.

mod answers;
mod cases;
mod matching;
mod program;
mod request;
mod run;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a value that is no boolean is none, and one node alone names a variable"
)]
mod trial;

#[cfg(test)]
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "what a test does not wait for fails it"
)]
mod tests;

pub(crate) use cases::list;
pub use cases::{Case, Refusal};
pub use program::{Program, ProgramError};
pub(crate) use request::content;
pub use request::{Request, RequestError};
pub(crate) use trial::{Change, Trial};

use crate::cel::{Authorizer, KubernetesVersion};
use crate::model::{Binding, Document};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// What one policy, by one binding, says of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The policy's name, as the cluster knows it.
    pub policy: String,
    /// The binding's name; none where no binding was given.
    pub binding: Option<String>,
    /// What it says.
    pub outcome: Outcome,
}

/// What a policy can say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The request is none of its business: which part does not match.
    NotMatched(String),
    /// A match condition does not hold.
    Skipped(Rule),
    /// Every rule holds, or what failed is ignored.
    Allowed,
    /// The request is refused.
    Denied(Denial),
    /// It would be refused, but the binding only warns or audits.
    Noted(Denial),
    /// What the API server would say is not known: why.
    Undecided(String),
}

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// The rule that decided.
    pub rule: Rule,
    /// What the API server says, behind `… denied request: `.
    pub message: String,
    /// The status reason: `Invalid`, `Forbidden` …
    pub reason: String,
    /// Whether the rule could not be evaluated, rather than that it does not hold.
    pub error: bool,
}

/// A rule of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// A match condition: its place from 0, and its name.
    Condition(usize, String),
    /// A validation: its place from 0.
    Validation(usize),
    /// An audit annotation: its place from 0, and its key.
    AuditAnnotation(usize, String),
    /// The validations as a whole: they cost too much.
    Budget,
}

impl Rule {
    /// The part of the policy that it is, as [`crate::model::Policy::position_of`] takes it.
    #[must_use]
    pub fn part(&self) -> String {
        match self {
            Self::Condition(at, _) => format!("condition {at}"),
            Self::Validation(at) => format!("validation {at}"),
            Self::AuditAnnotation(at, _) => format!("audit annotation {at}"),
            Self::Budget => String::new(),
        }
    }
}

/// Policies and bindings that are judged together.
#[derive(Debug, Clone)]
pub struct PolicySet {
    programs: Vec<Program>,
    bindings: Vec<Binding>,
}

impl PolicySet {
    /// Takes the policies and bindings of files; other objects are left out.
    ///
    /// # Errors
    ///
    /// [`ProgramError`]: one of them cannot be judged here, or excepts from policies.
    pub fn new(
        documents: impl IntoIterator<Item = Document>,
        version: KubernetesVersion,
    ) -> Result<Self, ProgramError> {
        let mut set = Self {
            programs: Vec::new(),
            bindings: Vec::new(),
        };
        for document in documents {
            match document {
                Document::Policy(policy) => set.programs.push(Program::new(&policy, version)?),
                Document::Binding(binding) => set.bindings.push(program::usable(*binding)?),
                Document::Exception(one) => {
                    return Err(ProgramError::Exception(one.name.value));
                }
                Document::Unknown(_) => {}
            }
        }
        Ok(set)
    }

    /// Whether there is no policy in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.programs.is_empty()
    }

    /// Native policies that none of the bindings puts in force.
    pub fn unbound(&self) -> impl Iterator<Item = &str> {
        let programs = self.programs.iter().filter(|program| {
            program.own_binding().is_none() && self.bindings_of(program) == [None]
        });
        programs.map(|program| program.name.as_str())
    }

    /// The policies' names, and whether one of their bindings refuses what they refuse.
    pub(crate) fn enforced(&self) -> impl Iterator<Item = (&str, bool)> {
        self.programs.iter().map(|program| {
            let bindings = self.bindings_of(program);
            let denies = bindings.into_iter().any(|one| program.denies(one));
            (program.name.as_str(), denies)
        })
    }

    /// Each of its bindings; where there is none, it is judged once without.
    fn bindings_of(&self, program: &Program) -> Vec<Option<&Binding>> {
        let bound = self.bindings.iter().filter(|one| program.is_bound_by(one));
        let bound: Vec<_> = bound.map(Some).collect();
        match bound.is_empty() {
            true => vec![None],
            false => bound,
        }
    }

    /// Judges a request (P-6): a verdict for each policy with each of its bindings, in the order
    /// of the files.
    #[must_use]
    pub fn judge(&self, request: &Request, authorizer: Option<Rc<dyn Authorizer>>) -> Judgement {
        let verdicts = self.programs.iter().flat_map(|program| {
            let bindings = self.bindings_of(program).into_iter();
            bindings.map(|binding| judge(program, binding, request, authorizer.clone()))
        });
        Judgement {
            verdicts: verdicts.collect(),
        }
    }
}

fn judge(
    program: &Program,
    binding: Option<&Binding>,
    request: &Request,
    authorizer: Option<Rc<dyn Authorizer>>,
) -> Verdict {
    let run = || run::outcome(program, binding, request, authorizer);
    let outcome = catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|_| Outcome::Undecided("the engine failed".to_owned()));
    Verdict {
        policy: program.name.clone(),
        binding: binding
            .map(|binding| binding.name.value.clone())
            .or_else(|| program.own_binding()),
        outcome,
    }
}

/// What all policies say together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// Of each policy and binding, in the order of the files.
    pub verdicts: Vec<Verdict>,
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// No policy refuses it.
    Allowed,
    /// At least one refuses it.
    Denied,
    /// None refuses it that could be evaluated, and one could not.
    Undecided,
}

impl Judgement {
    /// What becomes of the request. Only [`Decision::Allowed`] lets it through.
    #[must_use]
    pub fn decision(&self) -> Decision {
        let any = |is: fn(&Outcome) -> bool| self.verdicts.iter().any(|v| is(&v.outcome));
        if any(|outcome| matches!(outcome, Outcome::Denied(_))) {
            Decision::Denied
        } else if any(|outcome| matches!(outcome, Outcome::Undecided(_))) {
            Decision::Undecided
        } else {
            Decision::Allowed
        }
    }

    /// The first refusal: the one that the API server tells.
    #[must_use]
    pub fn denial(&self) -> Option<(&Verdict, &Denial)> {
        self.verdicts
            .iter()
            .find_map(|verdict| match &verdict.outcome {
                Outcome::Denied(denial) => Some((verdict, denial)),
                Outcome::NotMatched(_)
                | Outcome::Skipped(_)
                | Outcome::Allowed
                | Outcome::Noted(_)
                | Outcome::Undecided(_) => None,
            })
    }
}

impl Verdict {
    /// What the API server answers, whole.
    #[must_use]
    pub fn told(&self, denial: &Denial) -> String {
        let binding = self.binding.as_deref().unwrap_or("");
        format!(
            "ValidatingAdmissionPolicy '{}' with binding '{binding}' denied request: {}",
            self.policy, denial.message
        )
    }
}
