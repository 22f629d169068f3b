//! Admission policies as they stand in files: what the linter judges and the engine runs.
//!
//! Invariant: whatever a file holds becomes a [`Document`]; a field of the wrong type is left out
//! and named in [`Policy::problems`], an unknown kind is a [`Document::Unknown`]. Nothing is
//! defaulted: `None` means that the file does not say it.
//!
//! Not here: what a policy means, and whether its expressions are CEL.

mod read;

#[cfg(test)]
mod tests;

use crate::source::{self, Node, Position, SourceError, Spanned};
use std::fmt;

/// What Kyverno puts before the name of a ValidatingPolicy, in that of the native policy that it
/// generates from it.
pub const GENERATED: &str = "vpol-";

/// One object of a file.
#[derive(Debug, Clone, PartialEq)]
pub enum Document {
    /// A policy. A webhook configuration is one for each of its webhooks.
    Policy(Box<Policy>),
    /// What puts a ValidatingAdmissionPolicy in force.
    Binding(Box<Binding>),
    /// What excepts objects from Kyverno's policies.
    Exception(Exception),
    /// Anything else.
    Unknown(Unknown),
}

/// The kinds of policy that are understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyKind {
    /// `admissionregistration.k8s.io` ValidatingAdmissionPolicy.
    ValidatingAdmissionPolicy,
    /// `policies.kyverno.io` ValidatingPolicy, or its namespaced twin.
    KyvernoValidatingPolicy,
    /// `policies.kyverno.io` ImageValidatingPolicy, or its namespaced twin.
    ImageValidatingPolicy,
    /// One webhook of a Validating- or MutatingWebhookConfiguration.
    WebhookConfiguration,
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ValidatingAdmissionPolicy => "ValidatingAdmissionPolicy",
            Self::KyvernoValidatingPolicy => "ValidatingPolicy of Kyverno",
            Self::ImageValidatingPolicy => "ImageValidatingPolicy",
            Self::WebhookConfiguration => "webhook",
        })
    }
}

/// A policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// Its kind.
    pub kind: PolicyKind,
    /// As the file says it, such as `policies.kyverno.io/v1`.
    pub api_version: String,
    /// The name; for a webhook the webhook's own. Empty at the object's place if it has none.
    pub name: Spanned<String>,
    /// Where the object begins.
    pub at: Position,
    /// `Fail` or `Ignore`.
    pub failure_policy: Option<Spanned<String>>,
    /// What is matched; for a webhook its `rules` and selectors.
    pub match_constraints: Option<MatchConstraints>,
    /// Conditions that all must hold for the policy to speak.
    pub match_conditions: Vec<Named>,
    /// Named expressions, in order: each may use those before it.
    pub variables: Vec<Named>,
    /// The rules.
    pub validations: Vec<Validation>,
    /// What is written to the audit log; `name` is the key.
    pub audit_annotations: Vec<Named>,
    /// What the policy's parameters are.
    pub param_kind: Option<ParamKind>,
    /// Kyverno only; a ValidatingAdmissionPolicy has them in its binding.
    pub validation_actions: Option<Vec<Spanned<String>>>,
    /// What only Kyverno's kinds have.
    pub kyverno: Kyverno,
    /// Fields that were left out because they have the wrong type.
    pub problems: Vec<Problem>,
    /// Whether it has no `spec` and nothing else but a name and a status: what a test tool waits
    /// for, and nobody applies.
    pub outline: bool,
}

/// A field that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where it stands.
    pub at: Position,
    /// What is wrong with it.
    pub what: String,
}

/// What a policy is asked about.
#[derive(Debug, Clone, PartialEq)]
pub struct MatchConstraints {
    /// Where they begin.
    pub at: Position,
    /// Any of them is enough.
    pub resource_rules: Vec<ResourceRule>,
    /// Any of them excepts.
    pub exclude_resource_rules: Vec<ResourceRule>,
    /// On the labels of the object's namespace.
    pub namespace_selector: Option<Selector>,
    /// On the labels of the object or of the old object.
    pub object_selector: Option<Selector>,
    /// `Exact` or `Equivalent`.
    pub match_policy: Option<Spanned<String>>,
}

/// A rule of resources and operations.
#[derive(Debug, Clone, PartialEq)]
pub struct ResourceRule {
    /// Where it begins.
    pub at: Position,
    /// API groups, `""` for the core.
    pub api_groups: Vec<Spanned<String>>,
    /// API versions.
    pub api_versions: Vec<Spanned<String>>,
    /// `CREATE`, `UPDATE`, `DELETE`, `CONNECT` or `*`.
    pub operations: Vec<Spanned<String>>,
    /// Resources such as `pods` or `pods/exec`.
    pub resources: Vec<Spanned<String>>,
    /// Names; none means all.
    pub resource_names: Vec<Spanned<String>>,
    /// `Namespaced`, `Cluster` or `*`.
    pub scope: Option<Spanned<String>>,
}

/// A label selector as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Selector(pub Node);

impl Selector {
    /// Whether it selects everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0
            .entries()
            .iter()
            .all(|(_, node)| node.entries().is_empty() && node.items().is_empty())
    }
}

/// An expression with a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Named {
    /// Its name, or key.
    pub name: Option<Spanned<String>>,
    /// The CEL expression.
    pub expression: Spanned<String>,
}

/// A rule and what is said when it is broken.
#[derive(Debug, Clone, PartialEq)]
pub struct Validation {
    /// The CEL expression.
    pub expression: Spanned<String>,
    /// A fixed message.
    pub message: Option<Spanned<String>>,
    /// A CEL expression that gives the message.
    pub message_expression: Option<Spanned<String>>,
    /// Which status the refusal has.
    pub reason: Option<Spanned<String>>,
}

/// The kind of a policy's parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamKind {
    /// Where it begins.
    pub at: Position,
    /// Its API version.
    pub api_version: Option<String>,
    /// Its kind.
    pub kind: Option<String>,
}

/// What only Kyverno's kinds have.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Kyverno {
    /// `autogen.podControllers.controllers`: `Some` of none switches it off.
    pub autogen_controllers: Option<Vec<Spanned<String>>>,
    /// `autogen.validatingAdmissionPolicy.enabled`.
    pub generate_admission_policy: Option<bool>,
    /// `evaluation.admission.enabled`.
    pub admission: Option<bool>,
    /// `evaluation.background.enabled`.
    pub background: Option<bool>,
    /// `evaluation.mode`: `Kubernetes`, or what else the policy is about: `JSON`, `HTTP`, `Envoy`.
    pub mode: Option<Spanned<String>>,
    /// `webhookConfiguration.timeoutSeconds`.
    pub timeout_seconds: Option<i64>,
    /// `matchImageReferences`.
    pub images: Vec<ImageReference>,
    /// `validationConfigurations`.
    pub image_checks: ImageChecks,
    /// `attestors`, as they stand.
    pub attestors: Vec<Attestor>,
}

/// Images that an ImageValidatingPolicy looks at.
#[derive(Debug, Clone, PartialEq)]
pub enum ImageReference {
    /// By a pattern with `*`.
    Glob(Spanned<String>),
    /// By a CEL expression.
    Expression(Spanned<String>),
}

/// `validationConfigurations`: all three are true where the file says nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImageChecks {
    /// Tags are replaced by digests.
    pub mutate_digest: Option<bool>,
    /// Images must be named by digest.
    pub verify_digest: Option<bool>,
    /// Images must be verified.
    pub required: Option<bool>,
}

/// Who may have signed an image.
#[derive(Debug, Clone, PartialEq)]
pub struct Attestor {
    /// Its name, which the expressions use.
    pub name: Option<Spanned<String>>,
    /// As it stands: `cosign` or `notary` below it.
    pub node: Node,
}

/// What puts a policy in force.
#[derive(Debug, Clone, PartialEq)]
pub struct Binding {
    /// Its name.
    pub name: Spanned<String>,
    /// Where the object begins.
    pub at: Position,
    /// The policy's name.
    pub policy_name: Option<Spanned<String>>,
    /// `Deny`, `Warn`, `Audit`.
    pub validation_actions: Vec<Spanned<String>>,
    /// What it narrows the policy to.
    pub match_resources: Option<MatchConstraints>,
    /// Which parameters, as it stands.
    pub param_ref: Option<Node>,
    /// Fields that were left out because they have the wrong type.
    pub problems: Vec<Problem>,
    /// As of a policy.
    pub outline: bool,
}

/// A Kyverno PolicyException of either API group.
#[derive(Debug, Clone, PartialEq)]
pub struct Exception {
    /// Its name.
    pub name: Spanned<String>,
    /// Where the object begins.
    pub at: Position,
    /// The policies that it excepts from; they may have `*`.
    pub policies: Vec<Excepted>,
}

/// A policy that an exception names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excepted {
    /// Its name, or a pattern.
    pub name: Spanned<String>,
    /// Its kind, where the exception says it.
    pub kind: Option<String>,
}

/// An object that is no policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Unknown {
    /// Where it begins.
    pub at: Position,
    /// Its kind, if it says one.
    pub kind: Option<String>,
    /// Its API version, if it says one.
    pub api_version: Option<String>,
    /// Its name, if it says one.
    pub name: Option<String>,
}

impl Policy {
    /// Where a part of it stands, by the names that the proofs give: `condition 0`,
    /// `validation 3`, `message 3` of that, `audit annotation 1` (from 0), `variable labels`,
    /// `match`. Of another part it is where the policy begins.
    #[must_use]
    pub fn position_of(&self, part: &str) -> Position {
        let number = |of: &str| {
            part.strip_prefix(of)
                .and_then(|at| at.parse::<usize>().ok())
        };
        let named = |named: &Named| named.expression.at;
        let within = || {
            if let Some(at) = number("condition ") {
                return self.match_conditions.get(at).map(named);
            }
            if let Some(at) = number("validation ") {
                return self.validations.get(at).map(|rule| rule.expression.at);
            }
            if let Some(at) = number("message ") {
                let message = self.validations.get(at)?.message_expression.as_ref();
                return message.map(|message| message.at);
            }
            if let Some(at) = number("audit annotation ") {
                return self.audit_annotations.get(at).map(named);
            }
            if let Some(name) = part.strip_prefix("variable ") {
                let is = |one: &&Named| one.name.as_ref().is_some_and(|is| is.value == name);
                return self.variables.iter().find(is).map(named);
            }
            let constraints = self.match_constraints.as_ref().filter(|_| part == "match");
            constraints.map(|constraints| constraints.at)
        };
        within().unwrap_or(self.at)
    }

    /// Reads every object of a file, those of a `List` one by one.
    ///
    /// # Errors
    /// [`SourceError`]: the file could not be read; nothing of it was.
    pub fn parse_all(file: &str, bytes: &[u8]) -> Result<Vec<Document>, SourceError> {
        Ok(source::read(file, bytes)?
            .iter()
            .flat_map(read::documents)
            .collect())
    }

    /// The names of the variables, in the order in which each sees those before it; one without a
    /// name has an empty one.
    #[must_use]
    pub fn declared_variables(&self) -> Vec<&str> {
        let names = self.variables.iter().map(|one| one.name.as_ref());
        names
            .map(|name| name.map_or("", |name| name.value.as_str()))
            .collect()
    }

    /// Every expression that a request makes the API server evaluate, with what it is for.
    pub fn expressions(&self) -> impl Iterator<Item = (Role, &Spanned<String>)> {
        let conditions = self
            .match_conditions
            .iter()
            .map(|c| (Role::Condition, &c.expression));
        let variables = self
            .variables
            .iter()
            .map(|v| (Role::Variable, &v.expression));
        let validations = self.validations.iter().flat_map(|v| {
            let message = v.message_expression.iter().map(|m| (Role::Message, m));
            std::iter::once((Role::Validation, &v.expression)).chain(message)
        });
        let audit = self
            .audit_annotations
            .iter()
            .map(|a| (Role::Audit, &a.expression));
        conditions.chain(variables).chain(validations).chain(audit)
    }
}

/// What an expression is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// A condition for the policy to speak.
    Condition,
    /// A variable.
    Variable,
    /// A rule.
    Validation,
    /// A rule's message.
    Message,
    /// A note in the audit log.
    Audit,
}
