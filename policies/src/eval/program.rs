//! A policy with its expressions compiled.
//!
//! Invariant: an expression that does not compile stays as its error: the API server too meets it
//! only when it would evaluate it.

use super::Request;
use super::matching::{Matched, Matcher};
use crate::cel::{CompileError, Expression, KubernetesVersion};
use crate::model::{Binding, GENERATED, Policy, PolicyKind, Problem};
use crate::source::{Node, Spanned};

/// Why a policy cannot be judged at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// A kind that is not decided by expressions alone.
    #[error(
        "`{policy}` is of the kind {kind}, which this command cannot evaluate; nothing was \
         evaluated; leave its file out"
    )]
    Kind {
        /// The policy.
        policy: String,
        /// Its kind.
        kind: PolicyKind,
    },
    /// What excepts from Kyverno's policies: what a policy refuses may go through.
    #[error(
        "`{0}` excepts from policies, which this command cannot evaluate; nothing was evaluated; \
         leave its file out, and know that what it names is not refused"
    )]
    Exception(String),
    /// A field that the cluster would refuse.
    #[error("`{name}` at {at}: {what}; nothing was evaluated; correct it first")]
    Problem {
        /// The object.
        name: String,
        /// Where.
        at: crate::source::Position,
        /// What is wrong.
        what: String,
    },
    /// Parameters, which are objects of a cluster.
    #[error(
        "`{0}` takes parameters, which this command does not have; nothing was evaluated; leave \
         its file out"
    )]
    Params(String),
}

/// An expression, or why it is none.
pub(super) type Compiled = Result<Expression, CompileError>;

/// A match condition, a variable or an audit annotation.
#[derive(Debug, Clone)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) source: String,
    pub(super) compiled: Compiled,
}

/// A validation.
#[derive(Debug, Clone)]
pub(super) struct Validation {
    pub(super) source: String,
    pub(super) compiled: Compiled,
    pub(super) message: String,
    pub(super) message_expression: Option<Compiled>,
    pub(super) reason: String,
}

/// A policy that can be run.
#[derive(Debug, Clone)]
pub struct Program {
    pub(super) name: String,
    pub(super) fails_closed: bool,
    pub(super) matcher: Matcher,
    pub(super) conditions: Vec<Named>,
    pub(super) variables: Vec<Named>,
    pub(super) validations: Vec<Validation>,
    pub(super) annotations: Vec<Named>,
    /// Whether an expression other than the match conditions reads the namespace's object.
    pub(super) reads_namespace: bool,
    /// Of Kyverno's kind: whether the binding that Kyverno makes denies.
    own_actions: Option<bool>,
}

impl Program {
    /// Compiles a policy (P-6).
    ///
    /// # Errors
    ///
    /// [`ProgramError`]: it cannot be judged here. An expression that does not compile is no such
    /// error.
    pub fn new(policy: &Policy, version: KubernetesVersion) -> Result<Self, ProgramError> {
        let name = policy.name.value.clone();
        let kyverno = match policy.kind {
            PolicyKind::ValidatingAdmissionPolicy => false,
            PolicyKind::KyvernoValidatingPolicy => true,
            kind @ (PolicyKind::ImageValidatingPolicy | PolicyKind::WebhookConfiguration) => {
                return Err(ProgramError::Kind { policy: name, kind });
            }
        };
        usable_fields(&name, &policy.problems)?;
        if policy.param_kind.is_some() {
            return Err(ProgramError::Params(name));
        }
        let declared = policy.declared_variables();
        // A variable sees those before it, everything else sees all.
        let within = |text: &Spanned<String>, declared: &[&str]| {
            Expression::compile(&text.value, version)
                .and_then(|expression| expression.with_variables(declared))
        };
        let compile = |text: &Spanned<String>| within(text, &declared);
        let named = |all: &[crate::model::Named], seen: &dyn Fn(usize) -> usize| -> Vec<Named> {
            all.iter()
                .enumerate()
                .map(|(at, one)| Named {
                    name: text(one.name.as_ref()),
                    source: one.expression.value.clone(),
                    compiled: within(
                        &one.expression,
                        declared.get(..seen(at)).unwrap_or(&declared),
                    ),
                })
                .collect()
        };
        let all = |_| declared.len();
        let ignores = policy
            .failure_policy
            .as_ref()
            .is_some_and(|text| text.value == "Ignore");
        let denies = |actions: &[Spanned<String>]| has_deny(actions);
        let mut program = Self {
            name: if kyverno {
                format!("{GENERATED}{name}")
            } else {
                name
            },
            fails_closed: kyverno || !ignores,
            matcher: Matcher::new(policy.match_constraints.as_ref()),
            conditions: named(&policy.match_conditions, &all),
            variables: named(&policy.variables, &|at| at),
            validations: policy
                .validations
                .iter()
                .map(|one| Validation {
                    source: one.expression.value.clone(),
                    compiled: compile(&one.expression),
                    message: text(one.message.as_ref()),
                    message_expression: one.message_expression.as_ref().map(&compile),
                    reason: one
                        .reason
                        .as_ref()
                        .map_or_else(|| "Invalid".to_owned(), |text| text.value.clone()),
                })
                .collect(),
            annotations: named(&policy.audit_annotations, &all),
            reads_namespace: false,
            own_actions: kyverno.then(|| policy.validation_actions.as_deref().is_some_and(denies)),
        };
        program.reads_namespace = program.mentions_namespace();
        Ok(program)
    }

    /// Whether what cannot be evaluated is refused.
    pub(crate) fn fails_closed(&self) -> bool {
        self.fails_closed
    }

    /// Whether a request is the policy's business, as far as is known.
    pub(crate) fn matches(&self, request: &Request) -> bool {
        !matches!(self.matcher.matches(request, false), Matched::No(_))
    }

    /// Whether a binding puts this policy in force.
    pub(super) fn is_bound_by(&self, binding: &Binding) -> bool {
        self.own_actions.is_none()
            && binding
                .policy_name
                .as_ref()
                .is_some_and(|name| name.value == self.name)
    }

    /// The name of the binding that Kyverno makes.
    pub(super) fn own_binding(&self) -> Option<String> {
        self.own_actions.map(|_| format!("{}-binding", self.name))
    }

    /// Whether what it refuses is refused.
    pub(super) fn denies(&self, binding: Option<&Binding>) -> bool {
        match (binding, self.own_actions) {
            (Some(binding), _) => has_deny(&binding.validation_actions),
            (None, Some(denies)) => denies,
            (None, None) => true,
        }
    }

    fn mentions_namespace(&self) -> bool {
        let rules = self
            .validations
            .iter()
            .flat_map(|one| std::iter::once(&one.compiled).chain(one.message_expression.as_ref()));
        let others = self.variables.iter().chain(&self.annotations);
        rules
            .chain(others.map(|one| &one.compiled))
            .flatten()
            .any(|expression| expression.mentions("namespaceObject"))
    }
}

/// A binding that can be judged by.
pub(super) fn usable(binding: Binding) -> Result<Binding, ProgramError> {
    usable_fields(&binding.name.value, &binding.problems)?;
    let params = binding
        .param_ref
        .as_ref()
        .is_some_and(|node: &Node| !node.entries().is_empty());
    if params {
        return Err(ProgramError::Params(binding.name.value));
    }
    Ok(binding)
}

fn usable_fields(name: &str, problems: &[Problem]) -> Result<(), ProgramError> {
    problems.first().map_or(Ok(()), |problem| {
        Err(ProgramError::Problem {
            name: name.to_owned(),
            at: problem.at,
            what: problem.what.clone(),
        })
    })
}

fn has_deny(actions: &[Spanned<String>]) -> bool {
    actions.iter().any(|action| action.value == "Deny")
}

fn text(text: Option<&Spanned<String>>) -> String {
    text.map(|text| text.value.clone()).unwrap_or_default()
}
