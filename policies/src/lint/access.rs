//! L1, L2 and L7: every expression's needs, under what the match conditions established.

use super::expressions::Trees;
use super::facts::{Basis, Case, Facts, Variable, Variables};
use super::paths::{self, Root};
use super::walk::{Missing, Need, NeedsOf, Walk, filters};
use super::work::{FILTERS, KEPT, VARIABLES, Work};
use super::{Findings, Rule, Severity, resources};
use crate::cel::ast::Node;
use crate::model::{Policy, Role};
use std::collections::BTreeSet;

/// Larger expressions are not judged, and said not to be.
const MAX_NODES: usize = 3_000;

pub(super) fn judge(policy: &Policy, trees: &Trees<'_>, work: &Work, findings: &mut Findings<'_>) {
    if resources::is_about_others(policy) {
        return;
    }
    let cases = resources::cases(policy);
    let (variables, needs_of) = of_variables(policy, trees, &cases, work);
    let conditions: Vec<&Node> = policy
        .match_conditions
        .iter()
        .filter_map(|condition| trees.of(&condition.expression))
        .filter(|tree| !too_large(tree))
        .collect();
    let basis = Basis {
        cases: &cases,
        variables: &variables,
        work,
    };
    let mut rule = None;
    for (role, text) in policy.expressions() {
        let tree = trees.of(text);
        if role == Role::Validation {
            rule = tree.filter(|tree| !too_large(tree));
        }
        let Some(tree) = tree else { continue };
        if work.is_over() {
            let what = "there is too much in this file: expressions from here on are not judged";
            let fix = "split the file, or the policy";
            findings.add(Rule::Presence, Severity::Note, text.at, what, fix);
            return;
        }
        if too_large(tree) {
            let what = "the expression is too large to be judged";
            findings.add(
                Rule::Presence,
                Severity::Note,
                text.at,
                what,
                "split it into variables",
            );
            continue;
        }
        let facts = match role {
            Role::Variable => continue,
            // Any condition that is false spares the policy, whatever another one met: each may
            // rely on what the others establish, and on what those before it read.
            Role::Condition => {
                let own = conditions
                    .iter()
                    .position(|condition| std::ptr::eq(*condition, tree));
                let (before, after) = conditions.split_at(own.unwrap_or(conditions.len()));
                let after = after.get(1..).unwrap_or_default();
                held(&basis, true, before)
                    .zip(held(&basis, false, after))
                    .map(|(mut all, more)| {
                        all.extend(more);
                        all
                    })
            }
            Role::Validation | Role::Audit => held(&basis, true, &conditions),
            // A message is asked for where its rule is broken.
            Role::Message => held(&basis, true, &conditions)
                .zip(broken(&basis, rule))
                .map(|(mut all, more)| {
                    all.extend(more);
                    all
                }),
        };
        let walk = Walk::new(&basis, &needs_of, text);
        for need in walk.needs(tree, &facts) {
            say(policy, role, &need, findings);
        }
    }
}

/// What is known of each variable, and what it needs.
fn of_variables(
    policy: &Policy,
    trees: &Trees<'_>,
    cases: &[Case],
    work: &Work,
) -> (Variables, NeedsOf) {
    let mut variables = Variables::new();
    let mut needs_of = NeedsOf::new();
    let no_scope = Vec::new();
    let nothing: Facts = Some(BTreeSet::new());
    for named in policy.variables.iter().take(VARIABLES) {
        let (Some(name), Some(tree)) = (&named.name, trees.of(&named.expression)) else {
            continue;
        };
        if too_large(tree) {
            continue;
        }
        let basis = Basis {
            cases,
            variables: &variables,
            work,
        };
        let mut needs = Walk::new(&basis, &needs_of, &named.expression).needs(tree, &nothing);
        needs.truncate(KEPT);
        needs_of.insert(name.value.clone(), needs);
        let view = basis.view(&no_scope, true);
        let kept = |facts: Facts| facts.map(|all| all.into_iter().take(KEPT).collect());
        let known = Variable {
            path: paths::resolve(tree, &no_scope, &variables),
            when_true: kept(view.when(tree, true)),
            when_false: kept(view.when(tree, false)),
            optional: paths::is_optional(tree, &no_scope, &variables),
            filters: filters(tree, &variables)
                .into_iter()
                .take(FILTERS)
                .collect(),
        };
        variables.insert(name.value.clone(), known);
    }
    (variables, needs_of)
}

/// What holds where all of these came out true.
fn held(basis: &Basis<'_>, read: bool, of: &[&Node]) -> Facts {
    let scope = Vec::new();
    let view = basis.view(&scope, read);
    of.iter().try_fold(BTreeSet::new(), |mut all, tree| {
        all.extend(view.when(tree, true)?);
        Some(all)
    })
}

/// What holds where a rule came out false.
fn broken(basis: &Basis<'_>, rule: Option<&Node>) -> Facts {
    let scope = Vec::new();
    let view = basis.view(&scope, true);
    rule.map_or_else(|| Some(BTreeSet::new()), |rule| view.when(rule, false))
}

fn too_large(tree: &Node) -> bool {
    let mut left = vec![tree];
    let mut count = 0;
    while let Some(node) = left.pop() {
        count += 1;
        left.extend(node.children());
    }
    count > MAX_NODES
}

fn say(policy: &Policy, role: Role, need: &Need, findings: &mut Findings<'_>) {
    let ignored = policy
        .failure_policy
        .as_ref()
        .is_some_and(|fail| fail.value == "Ignore");
    // An error in a message only costs the message.
    let harmless = ignored || role == Role::Message;
    let severity = if need.certain && !harmless {
        Severity::Error
    } else {
        Severity::Warning
    };
    let when = if need.when.is_empty() {
        String::new()
    } else {
        format!(" ({})", need.when)
    };
    match &need.what {
        Missing::Absent(path) => {
            let what = format!("`{path}` may be absent{when}");
            findings.add(Rule::Presence, severity, need.at, what, guard(path));
        }
        Missing::Null(path) => {
            let name = path.to_string();
            let name = name.split(['.', '[']).next().unwrap_or_default();
            let what = format!("`{path}` is read where `{name}` is null{when}");
            let fix = match path.root {
                Root::Object => {
                    "guard it with `object != null &&`, or leave DELETE out of the operations"
                }
                Root::OldObject => {
                    "guard it with `oldObject != null &&`, or leave CREATE and CONNECT out"
                }
                Root::Request | Root::Namespace => {
                    "guard it with `namespaceObject != null &&`: the object has no namespace"
                }
            };
            findings.add(Rule::Nullness, severity, need.at, what, fix);
        }
        Missing::NoOptional(function) => {
            let what = format!("`{function}` is called on what is no optional");
            let fix = "write `.?field` or `[?key]` at the last step before it";
            findings.add(Rule::Optionals, Severity::Error, need.at, what, fix);
        }
    }
}

fn guard(path: &paths::Path) -> String {
    let parent = path
        .parent()
        .map(|parent| parent.to_string())
        .unwrap_or_default();
    match path.steps.last() {
        Some(paths::Step::Field(name)) if path.to_string().ends_with(&format!(".{name}")) => {
            format!("guard it with `has({path}) &&`, or write `{parent}.?{name}.orValue(…)`")
        }
        Some(paths::Step::Field(name)) => format!("guard it with `'{name}' in {parent} &&`"),
        Some(paths::Step::At(index)) => format!("guard it with `size({parent}) > {index} &&`"),
        Some(paths::Step::Item(_) | paths::Step::By(_)) | None => {
            format!("guard it with `key in {parent} &&`")
        }
    }
}
