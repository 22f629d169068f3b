//! Mutants of what a policy matches: wider, and narrower.

use super::Draft;
use crate::eval::Change;
use crate::model::{MatchConstraints, ResourceRule};
use crate::source::Spanned;

/// The lists of a rule, with their names.
type List = (
    &'static str,
    fn(&mut ResourceRule) -> &mut Vec<Spanned<String>>,
);

const LISTS: [List; 4] = [
    ("apiGroups", |rule| &mut rule.api_groups),
    ("apiVersions", |rule| &mut rule.api_versions),
    ("operations", |rule| &mut rule.operations),
    ("resources", |rule| &mut rule.resources),
];

pub(super) fn drafts(constraints: &MatchConstraints) -> Vec<Draft> {
    let mut drafts = Vec::new();
    let mut push = |operator, text: String, change: &dyn Fn(&mut MatchConstraints)| {
        let mut changed = constraints.clone();
        change(&mut changed);
        drafts.push(Draft {
            operator,
            text,
            change: Change::Matching(changed),
        });
    };
    if constraints
        .namespace_selector
        .as_ref()
        .is_some_and(|selector| !selector.is_empty())
    {
        let text = "namespaceSelector => {}".to_owned();
        push("widen match", text, &|all| all.namespace_selector = None);
    }
    for (at, rule) in constraints.resource_rules.iter().enumerate() {
        let text = format!("rule {at}");
        push("drop resource rule", text, &|all| {
            all.resource_rules.remove(at);
        });
        for (name, list) in LISTS {
            let mut rule = rule.clone();
            let values = list(&mut rule);
            widened(at, name, values, list, &mut push);
        }
    }
    drafts
}

fn widened(
    at: usize,
    name: &'static str,
    values: &[Spanned<String>],
    list: fn(&mut ResourceRule) -> &mut Vec<Spanned<String>>,
    push: &mut impl FnMut(&'static str, String, &dyn Fn(&mut MatchConstraints)),
) {
    for (place, value) in values.iter().enumerate() {
        let value = &value.value;
        if values.len() > 1 {
            let text = format!("rule {at} {name} without {value:?}");
            push("narrow match", text, &|all| {
                if let Some(rule) = all.resource_rules.get_mut(at) {
                    list(rule).remove(place);
                }
            });
        }
        // With its subresources, too.
        let wider = match name {
            "resources" if !value.contains('/') => vec!["*".to_owned(), format!("{value}/*")],
            "resources" => {
                let main = value.split('/').next().unwrap_or_default();
                vec![main.to_owned(), format!("{main}/*")]
            }
            _ if value == "*" => Vec::new(),
            _ => vec!["*".to_owned()],
        };
        for wider in wider {
            let text = format!("rule {at} {name} {value:?} => {wider:?}");
            push("widen match", text, &|all| {
                let rule = all.resource_rules.get_mut(at);
                if let Some(found) = rule.and_then(|rule| list(rule).get_mut(place)) {
                    found.value.clone_from(&wider);
                }
            });
        }
    }
}
