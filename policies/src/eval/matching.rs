//! Whether a request is a policy's business at all.
//!
//! Invariant: resources are compared as the API server does: `pods` is not `pods/exec`. Selectors
//! look at labels only, and an object without metadata has none to look at (§0.6). What the API
//! server would convert to another version first (`matchPolicy: Equivalent`) is not known here.

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

    /// The same, but for what another version of the resource decides: the API server converts
    /// the object to the version that a rule names, where it serves both, and goes on.
    pub(super) fn matches_any_version(&self, request: &Request, all: bool) -> Matched {
        let matched = self.matches(request, all);
        let Some(constraints) = self.constraints.as_ref().filter(|all| is_equivalent(all)) else {
            return matched;
        };
        let (rules, selected) = match &matched {
            Matched::No(_) => (&constraints.resource_rules, true),
            Matched::Yes => (&constraints.exclude_resource_rules, false),
            Matched::Unknown(_) => return matched,
        };
        let others = rules.iter().flat_map(|rule| other_versions(rule, request));
        let decides = |other: &Request| match self.matches(other, all) {
            Matched::No(_) => !selected,
            Matched::Yes | Matched::Unknown(_) => selected,
        };
        let Some(other) = others.into_iter().find(decides) else {
            return matched;
        };
        Matched::Unknown(format!(
            "by `matchPolicy: Equivalent` an API server that serves `{}` converts the object to \
             it and asks its rule, which cannot be done here",
            named(&other)
        ))
    }
}

fn is_equivalent(constraints: &MatchConstraints) -> bool {
    let policy = constraints.match_policy.as_ref();
    policy.is_none_or(|policy| policy.value == "Equivalent")
}

/// Events are in two groups; everything else that is the same resource is in one.
const EVENTS: [&str; 2] = ["", "events.k8s.io"];

/// The request as the rule would take it: of the same resource in another version.
fn other_versions(rule: &ResourceRule, request: &Request) -> Vec<Request> {
    let resource = |part| request.text(&["resource", part]).to_owned();
    let (group, version) = (resource("group"), resource("version"));
    let events = resource("resource") == "events" && EVENTS.contains(&group.as_str());
    let own = [group.as_str()];
    let groups: &[&str] = if events { &EVENTS } else { &own };
    let mut others = Vec::new();
    for other in groups {
        for named in &rule.api_versions {
            let named = match named.value.as_str() {
                "*" => &version,
                named => named,
            };
            if (*other, named) != (group.as_str(), version.as_str()) {
                others.push(request.in_version(other, named));
            }
        }
    }
    others.retain(|other| rule_matches(rule, other));
    others
}

fn named(request: &Request) -> String {
    let resource = |part| request.text(&["resource", part]);
    match resource("group") {
        "" => format!("{} {}", resource("version"), resource("resource")),
        group => format!("{group}/{} {}", resource("version"), resource("resource")),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Document, Policy};
    use serde_json::json;

    /// Whether a policy about these rules is asked about a request.
    fn asked_about(constraints: &Value, request: &Value) -> Matched {
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": { "name": "p" }, "spec": { "matchConstraints": constraints },
        });
        let read = Policy::parse_all("p", policy.to_string().as_bytes()).unwrap();
        let [Document::Policy(policy)] = read.as_slice() else {
            panic!("a policy");
        };
        let matcher = Matcher::new(policy.match_constraints.as_ref());
        matcher.matches_any_version(&Request::from_json(request).unwrap(), false)
    }

    /// The same, about autoscalers of a version.
    fn asked(constraints: &Value, version: &str) -> Matched {
        let object = json!({ "apiVersion": format!("autoscaling/{version}"),
                             "kind": "HorizontalPodAutoscaler", "metadata": { "name": "x" } });
        asked_about(constraints, &json!({ "object": object }))
    }

    fn rules(version: &str) -> Value {
        json!([{ "apiGroups": ["autoscaling"], "apiVersions": [version], "operations": ["*"],
                 "resources": ["horizontalpodautoscalers"] }])
    }

    #[track_caller]
    fn unknown(matched: &Matched, words: &str) {
        assert!(
            matches!(matched, Matched::Unknown(why) if why.contains(words)),
            "{matched:?}"
        );
    }

    #[test]
    fn another_version_of_the_resource_is_not_known_to_be_left_alone() {
        let v1 = json!({ "resourceRules": rules("v1") });
        assert_eq!(asked(&v1, "v1"), Matched::Yes);
        unknown(
            &asked(&v1, "v2"),
            "`autoscaling/v1 horizontalpodautoscalers`",
        );
        let exact = json!({ "resourceRules": rules("v1"), "matchPolicy": "Exact" });
        assert!(matches!(asked(&exact, "v2"), Matched::No(_)));
        let any = json!({ "resourceRules": rules("*") });
        assert_eq!(asked(&any, "v2"), Matched::Yes);
    }

    #[test]
    fn another_group_another_name_and_another_operation_are() {
        for (key, value) in [
            ("apiGroups", "apps"),
            ("resources", "deployments"),
            ("operations", "DELETE"),
        ] {
            let mut rules = rules("v1");
            rules[0][key] = json!([value]);
            let matched = asked(&json!({ "resourceRules": rules }), "v2");
            assert!(matches!(matched, Matched::No(_)), "{key}: {matched:?}");
        }
    }

    #[test]
    fn a_selector_decides_in_any_version() {
        let selector = json!({ "matchLabels": { "a": "b" } });
        let mut constraints = json!({ "resourceRules": rules("v1"), "objectSelector": selector });
        assert!(matches!(asked(&constraints, "v2"), Matched::No(_)));
        constraints["objectSelector"] = json!({});
        unknown(&asked(&constraints, "v2"), "Equivalent");
    }

    #[test]
    fn an_exception_in_another_version_counts_too() {
        let constraints =
            json!({ "resourceRules": rules("*"), "excludeResourceRules": rules("v1") });
        unknown(&asked(&constraints, "v2"), "autoscaling/v1");
        assert!(matches!(asked(&constraints, "v1"), Matched::No(_)));
    }

    #[test]
    fn events_are_in_two_groups() {
        let constraints = json!({ "resourceRules": [{ "apiGroups": ["events.k8s.io"],
            "apiVersions": ["v1"], "operations": ["*"], "resources": ["events"] }] });
        let event = |group: &str| {
            json!({ "object": { "apiVersion": format!("{group}v1"), "kind": "Event",
                                "metadata": { "name": "x" } } })
        };
        let own = asked_about(&constraints, &event("events.k8s.io/"));
        assert_eq!(own, Matched::Yes);
        unknown(
            &asked_about(&constraints, &event("")),
            "`events.k8s.io/v1 events`",
        );
    }
}
