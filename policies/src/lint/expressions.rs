//! Parsing a policy's expressions; and L4, L9 and L10: names and functions that are not there.

use super::{Findings, Rule, Severity};
use crate::cel::ast::{Binary, Kind, Literal, MacroKind, Node, Unary, variables_read};
use crate::cel::{KubernetesVersion, in_dialect, parse as parse_cel};
use crate::model::{Policy, PolicyKind, Role};
use crate::source::{Position, Spanned};
use std::collections::HashMap;

/// The trees of a policy's expressions, found by the expression's place.
pub(super) struct Trees<'a> {
    trees: HashMap<*const Spanned<String>, Node>,
    policy: &'a Policy,
}

impl Trees<'_> {
    /// The tree, if the expression is CEL.
    pub(super) fn of(&self, text: &Spanned<String>) -> Option<&Node> {
        self.trees.get(&std::ptr::from_ref(text))
    }

    /// All trees, in the policy's order.
    pub(super) fn all(&self) -> impl Iterator<Item = &Node> {
        self.policy
            .expressions()
            .filter_map(|(_, text)| self.of(text))
    }
}

/// Parses every expression; what is no CEL, or not the release's, is found by L10.
pub(super) fn parse<'a>(
    policy: &'a Policy,
    kubernetes: KubernetesVersion,
    findings: &mut Findings<'_>,
) -> Trees<'a> {
    let mut trees = HashMap::new();
    for (_, text) in policy.expressions() {
        match parse_cel(&text.value) {
            Ok(tree) => {
                trees.insert(std::ptr::from_ref(text), tree);
                // Kyverno's engine has functions of its own.
                if !is_kyverno(policy) {
                    dialect(text, kubernetes, findings);
                }
            }
            Err(error) => {
                let at = text.place_of(error.at.line, error.at.column);
                if error.engine_limit {
                    not_judged(at, &error.message, findings);
                    continue;
                }
                let what = format!("this is no CEL: {}", error.message);
                let fix = "correct the expression; until then it is an error each time";
                findings.add(Rule::Dialect, Severity::Error, at, what, fix);
            }
        }
    }
    Trees { trees, policy }
}

fn is_kyverno(policy: &Policy) -> bool {
    matches!(
        policy.kind,
        PolicyKind::KyvernoValidatingPolicy | PolicyKind::ImageValidatingPolicy
    )
}

fn dialect(text: &Spanned<String>, kubernetes: KubernetesVersion, findings: &mut Findings<'_>) {
    let Err(error) = in_dialect(&text.value, kubernetes) else {
        return;
    };
    let at = text.place_of(error.at.line, error.at.column);
    if error.engine_limit {
        return not_judged(at, &error.message, findings);
    }
    // L4 and L9 say it better.
    let known = ["params", "variables", "namespaceObject"];
    if known
        .iter()
        .any(|name| error.message.contains(&format!("`{name}`")))
    {
        return;
    }
    let later = (kubernetes.minor() + 1..=KubernetesVersion::NEWEST.minor())
        .filter_map(KubernetesVersion::new)
        .find(|version| in_dialect(&text.value, *version).is_ok());
    let (what, fix) = match later {
        Some(version) => (
            format!("{} (Kubernetes {kubernetes})", error.message),
            format!("write it otherwise, or wait for Kubernetes {version}"),
        ),
        None => (
            format!("{} (Kubernetes {kubernetes})", error.message),
            "write it with what the API server has".to_owned(),
        ),
    };
    findings.add(Rule::Dialect, Severity::Error, at, what, fix);
}

/// What is more than this engine reads, and may well be what the API server takes.
fn not_judged(at: Position, why: &str, findings: &mut Findings<'_>) {
    let what = format!("not judged: {why}");
    let fix = "ask an API server of the release, which may take it";
    findings.add(Rule::Dialect, Severity::Note, at, what, fix);
}

/// L10: variables that are not declared, or only further down.
fn variables(policy: &Policy, trees: &Trees<'_>, findings: &mut Findings<'_>) {
    if webhook(policy) {
        return; // L4 says that it has none
    }
    let declared = policy.declared_variables();
    let own = |text: &Spanned<String>| {
        let mut all = policy.variables.iter();
        all.position(|one| std::ptr::eq(&raw const one.expression, text))
    };
    for (_, text) in policy.expressions() {
        let Some(tree) = trees.of(text) else { continue };
        let seen = own(text).unwrap_or(declared.len());
        let (before, after) = declared.split_at(seen);
        for (name, at) in variables_read(tree) {
            if before.contains(&name) {
                continue;
            }
            let at = text.place_of(at.line, at.column);
            let (what, fix) = if after.contains(&name) {
                (
                    format!("`variables.{name}` is read before it is declared"),
                    "declare it further up",
                )
            } else {
                (
                    format!("`variables.{name}` is read, and no variable is called so"),
                    "declare it, or correct the name",
                )
            };
            findings.add(Rule::Dialect, Severity::Error, at, what, fix);
        }
    }
}

pub(super) fn judge(policy: &Policy, trees: &Trees<'_>, findings: &mut Findings<'_>) {
    variables(policy, trees, findings);
    for (role, text) in policy.expressions() {
        let Some(tree) = trees.of(text) else { continue };
        let mut names = Vec::new();
        free_names(tree, &mut Vec::new(), &mut names);
        for (name, node) in names {
            let at = text.place_of(node.at.line, node.at.column);
            if role == Role::Condition {
                condition_name(policy, name, at, findings);
            }
            if name == "params" && policy.param_kind.is_none() && !webhook(policy) {
                let what = "`params` is read, but the policy has no paramKind";
                let fix = "write the values into the policy, or give it a paramKind";
                findings.add(Rule::Parameters, Severity::Error, at, what, fix);
            }
        }
        let sense = match role {
            Role::Validation => Sense::Allows,
            Role::Condition | Role::Variable | Role::Message | Role::Audit => Sense::Either,
        };
        patterns(tree, text, sense, findings);
    }
    if let Some(params) = &policy.param_kind {
        let own = params.api_version.as_deref() != Some("v1");
        let what = if own {
            "parameters are objects of another API: just after a start of the API server they are \
             not known, and requests are refused"
        } else {
            "parameters that are missing or not yet known refuse requests"
        };
        let severity = if own {
            Severity::Warning
        } else {
            Severity::Note
        };
        let fix = "write the values into the policy when it is rendered";
        findings.add(Rule::Parameters, severity, params.at, what, fix);
    }
}

fn webhook(policy: &Policy) -> bool {
    policy.kind == PolicyKind::WebhookConfiguration
}

/// L4: names that are not there while conditions are decided.
fn condition_name(policy: &Policy, name: &str, at: Position, findings: &mut Findings<'_>) {
    let (severity, what, fix) = match name {
        "namespaceObject" => (
            Severity::Error,
            "`namespaceObject` is null in match conditions".to_owned(),
            "ask in a validation, or use namespaceSelector",
        ),
        "variables" if !webhook(policy) => (
            Severity::Warning,
            "`variables` in match conditions are not documented".to_owned(),
            "write the expression itself",
        ),
        "variables" | "params" if webhook(policy) => (
            Severity::Error,
            format!("a webhook's match conditions have no `{name}`"),
            "write the value itself",
        ),
        _ => return,
    };
    findings.add(Rule::ConditionNames, severity, at, what, fix);
}

/// The names that no macro binds.
fn free_names<'n>(node: &'n Node, bound: &mut Vec<&'n str>, names: &mut Vec<(&'n str, &'n Node)>) {
    match &node.kind {
        Kind::Name(name) if !bound.contains(&name.as_str()) => names.push((name, node)),
        Kind::Macro(inner) => {
            free_names(&inner.range, bound, names);
            let depth = bound.len();
            bound.push(&inner.name);
            bound.extend(inner.second.as_deref());
            for part in inner.condition.iter().chain([&inner.body]) {
                free_names(part, bound, names);
            }
            bound.truncate(depth);
        }
        _ => {
            for child in node.children() {
                free_names(child, bound, names);
            }
        }
    }
}

/// What it means for a policy that a part of an expression is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sense {
    Allows,
    Refuses,
    Either,
}

impl Sense {
    fn opposite(self) -> Self {
        match self {
            Self::Allows => Self::Refuses,
            Self::Refuses => Self::Allows,
            Self::Either => Self::Either,
        }
    }
}

/// L10: regular expressions that match anywhere, but for those that only make a rule stricter.
fn patterns(node: &Node, text: &Spanned<String>, sense: Sense, findings: &mut Findings<'_>) {
    if let Kind::Call {
        function,
        target,
        arguments,
    } = &node.kind
        && function == "matches"
        && sense != Sense::Refuses
        && let Some(Kind::Literal(Literal::String(pattern))) = arguments
            .get(usize::from(target.is_none()))
            .map(|node| &node.kind)
        && let Some((what, fix)) = loose(pattern)
    {
        let at = text.place_of(node.at.line, node.at.column);
        findings.add(Rule::Dialect, Severity::Note, at, what, fix);
    }
    match &node.kind {
        Kind::Unary {
            operator: Unary::Not,
            operand,
        } => patterns(operand, text, sense.opposite(), findings),
        Kind::Binary {
            operator: Binary::And | Binary::Or,
            left,
            right,
        } => {
            patterns(left, text, sense, findings);
            patterns(right, text, sense, findings);
        }
        Kind::Conditional { condition, yes, no } => {
            patterns(condition, text, Sense::Either, findings);
            patterns(yes, text, sense, findings);
            patterns(no, text, sense, findings);
        }
        Kind::Macro(inner) if matches!(inner.kind, MacroKind::All | MacroKind::Exists) => {
            patterns(&inner.range, text, Sense::Either, findings);
            patterns(&inner.body, text, sense, findings);
        }
        _ => {
            for child in node.children() {
                patterns(child, text, Sense::Either, findings);
            }
        }
    }
}

/// What a pattern leaves open, and what to do; nothing where it says where it begins and where it
/// ends. `.*` says it too, and so does a group that may end there: `(/|$)`.
pub(super) fn loose(pattern: &str) -> Option<(String, &'static str)> {
    let begins =
        pattern.starts_with(['^']) || pattern.starts_with("\\A") || pattern.starts_with(".*");
    let ends = ["$", "\\z", ".*", "$)"]
        .iter()
        .any(|end| pattern.ends_with(end));
    match (begins, ends) {
        (true, true) => None,
        (true, false) => Some((
            format!("the pattern `{pattern}` says not where the text ends"),
            "end it with `$`, or with what must come next, such as `/`",
        )),
        (false, true) => Some((
            format!("the pattern `{pattern}` says not where the text begins"),
            "begin it with `^`",
        )),
        (false, false) => Some((
            format!("the pattern `{pattern}` matches anywhere within the text"),
            "begin it with `^` and end it with `$`",
        )),
    }
}
