//! Whether a request is a policy's business at all.
//!
//! Invariant: resources are compared as the API server does: `pods` is not `pods/exec`. Selectors
//! look at labels only, and an object without metadata has none to look at (§0.6).

use super::Request;
use crate::model::{MatchConstraints, ResourceRule};
use crate::source::Spanned;
use serde_json::Value;

/// Rules and selectors, ready to be asked.
#[derive(Debug, Clone, Default)]
pub(super) struct Matcher {
    constraints: Option<MatchConstraints>,
}

/// What comes of asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Matched {
    Yes,
    /// Which part does not match.
    No(String),
    /// Why it cannot be known.
    Unknown(String),
}

impl Matcher {
    pub(super) fn new(constraints: Option<&MatchConstraints>) -> Self {
        Self {
            constraints: constraints.cloned(),
        }
    }

    /// Whether it matches; without rules, `all` says whether that means everything.
    pub(super) fn matches(&self, request: &Request, all: bool) -> Matched {
        let Some(constraints) = &self.constraints else {
            return match all {
                true => Matched::Yes,
                false => Matched::No("it has no `matchConstraints`".to_owned()),
            };
        };
        let rules = &constraints.resource_rules;
        let any = |rules: &[ResourceRule]| rules.iter().any(|rule| rule_matches(rule, request));
        if !(any(rules) || all && rules.is_empty()) {
            return Matched::No("none of its resource rules matches".to_owned());
        }
        if any(&constraints.exclude_resource_rules) {
            return Matched::No("one of its `excludeResourceRules` matches".to_owned());
        }
        match namespace_matches(constraints, request) {
            Matched::Yes => {}
            other @ (Matched::No(_) | Matched::Unknown(_)) => return other,
        }
        let Some(selector) = constraints
            .object_selector
            .as_ref()
            .filter(|s| !s.is_empty())
        else {
            return Matched::Yes;
        };
        let selector = selector.0.to_json();
        for object in [&request.object, &request.old_object] {
            match labels(object).map(|labels| selects(&selector, labels)) {
                Some(Some(true)) => return Matched::Yes,
                Some(None) => return bad_selector("objectSelector"),
                Some(Some(false)) | None => {}
            }
        }
        Matched::No("its `objectSelector` does not select the object".to_owned())
    }
}

fn bad_selector(name: &str) -> Matched {
    Matched::Unknown(format!("the API server would refuse its `{name}`"))
}

fn namespace_matches(constraints: &MatchConstraints, request: &Request) -> Matched {
    let selector = constraints
        .namespace_selector
        .as_ref()
        .filter(|s| !s.is_empty());
    let Some(selector) = selector else {
        return Matched::Yes;
    };
    let namespace_itself = is_namespace(request);
    let object = if namespace_itself {
        // What is created or changed is asked for the labels that it will have.
        if request.object.is_null() {
            &request.old_object
        } else {
            &request.object
        }
    } else if request.text(&["namespace"]).is_empty() {
        return Matched::Yes;
    } else if request.namespace_object.is_null() {
        return Matched::Unknown(
            "its `namespaceSelector` needs the namespace, and the request has no \
             `namespaceObject`"
                .to_owned(),
        );
    } else {
        &request.namespace_object
    };
    match labels(object).map(|labels| selects(&selector.0.to_json(), labels)) {
        Some(Some(true)) => Matched::Yes,
        Some(None) => bad_selector("namespaceSelector"),
        Some(Some(false)) | None => {
            Matched::No("its `namespaceSelector` does not select the namespace".to_owned())
        }
    }
}

fn is_namespace(request: &Request) -> bool {
    request.text(&["resource", "group"]).is_empty()
        && request.text(&["resource", "resource"]) == "namespaces"
}

fn rule_matches(rule: &ResourceRule, request: &Request) -> bool {
    let has = |list: &[Spanned<String>], wanted: &str| {
        list.iter()
            .any(|item| item.value == "*" || item.value == wanted)
    };
    let (resource, sub) = (
        request.text(&["resource", "resource"]),
        request.text(&["subResource"]),
    );
    let resource_matches = rule.resources.iter().any(|item| {
        let (main, part) = item.value.split_once('/').unwrap_or((&item.value, ""));
        (main == "*" || main == resource) && (part == "*" || part == sub)
    });
    let name = request.text(&["name"]);
    let name_matches =
        rule.resource_names.is_empty() || rule.resource_names.iter().any(|one| one.value == name);
    let namespaced = !request.text(&["namespace"]).is_empty() && !is_namespace(request);
    let scope_matches = match rule.scope.as_ref().map(|scope| scope.value.as_str()) {
        Some("Namespaced") => namespaced,
        Some("Cluster") => !namespaced,
        Some(_) | None => true,
    };
    has(&rule.operations, request.text(&["operation"]))
        && has(&rule.api_groups, request.text(&["resource", "group"]))
        && has(&rule.api_versions, request.text(&["resource", "version"]))
        && resource_matches
        && name_matches
        && scope_matches
}

/// An object's labels; none where it has no metadata, which no selector matches.
fn labels(object: &Value) -> Option<&Value> {
    let metadata = object.get("metadata")?;
    Some(metadata.get("labels").unwrap_or(&Value::Null))
}

/// Whether a selector selects labels; nothing where it is none.
fn selects(selector: &Value, labels: &Value) -> Option<bool> {
    let label = |key: &str| labels.get(key).and_then(Value::as_str);
    let exact = selector.get("matchLabels").and_then(Value::as_object);
    for (key, wanted) in exact.into_iter().flatten() {
        if label(key) != Some(wanted.as_str()?) {
            return Some(false);
        }
    }
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    let mut all = true;
    for expression in expressions.into_iter().flatten() {
        let found = label(expression.get("key")?.as_str()?);
        let values: Vec<&str> = expression
            .get("values")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let among = found.is_some_and(|found| values.contains(&found));
        all &= match expression.get("operator")?.as_str()? {
            "In" if !values.is_empty() => among,
            "NotIn" if !values.is_empty() => !among,
            "Exists" if values.is_empty() => found.is_some(),
            "DoesNotExist" if values.is_empty() => found.is_none(),
            _ => return None,
        };
    }
    Some(all)
}
