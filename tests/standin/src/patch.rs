//! Patches and selectors, as pure functions over JSON.

use serde_json::Value;

use crate::refusal::Refusal;

/// How deep a patch may nest; deeper ones are refused before they are applied.
const DEPTH_MAX: usize = 32;

/// The two kinds of patch that are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchKind {
    Merge,
    Strategic,
}

impl PatchKind {
    pub(crate) fn from_content_type(text: &str) -> Option<Self> {
        match text.split(';').next().unwrap_or_default().trim() {
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::Strategic),
            _ => None,
        }
    }
}

/// Applies `patch` to `object`.
pub(crate) fn apply(kind: PatchKind, object: &mut Value, patch: &Value) -> Result<(), Refusal> {
    if depth(patch) > DEPTH_MAX {
        return Err(Refusal::bad_request("the patch nests too deeply"));
    }
    merge(kind, object, patch);
    Ok(())
}

fn depth(value: &Value) -> usize {
    // serde_json itself stops at 128 levels, so that this recursion is bounded.
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn merge(kind: PatchKind, target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(fields) = target else {
        return;
    };
    for (field, change) in changes {
        if change.is_null() {
            fields.remove(field);
            continue;
        }
        let slot = fields.entry(field.clone()).or_insert(Value::Null);
        match (kind, merge_key(field), change) {
            (PatchKind::Strategic, Some(key), Value::Array(items)) => {
                merge_list(slot, key, items);
            }
            _ => merge(kind, slot, change),
        }
    }
}

/// The lists of a pod that a strategic patch merges by key; every other list is replaced.
fn merge_key(field: &str) -> Option<&'static str> {
    match field {
        "containers" | "initContainers" | "ephemeralContainers" | "volumes" | "env" => Some("name"),
        "volumeMounts" => Some("mountPath"),
        "ownerReferences" => Some("uid"),
        _ => None,
    }
}

fn merge_list(target: &mut Value, key: &str, items: &[Value]) {
    if !target.is_array() {
        *target = Value::Array(Vec::new());
    }
    let Value::Array(existing) = target else {
        return;
    };
    for item in items {
        match existing
            .iter_mut()
            .find(|one| !item[key].is_null() && one[key] == item[key])
        {
            Some(one) => merge(PatchKind::Strategic, one, item),
            None => existing.push(item.clone()),
        }
    }
}

/// Whether an object's labels meet a label selector: `a=b`, `a==b`, `a!=b`, `a`, `!a`, joined by
/// commas, and the set forms `a in (b,c)` and `a notin (b,c)`.
pub(crate) fn labels_match(selector: &str, object: &Value) -> Result<bool, Refusal> {
    let labels = &object["metadata"]["labels"];
    for term in split_terms(selector) {
        let term = term.trim();
        if !term.is_empty() && !term_matches(term, labels)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn split_terms(selector: &str) -> Vec<&str> {
    let (mut terms, mut open, mut start) = (Vec::new(), false, 0);
    for (at, c) in selector.char_indices() {
        match c {
            '(' => open = true,
            ')' => open = false,
            ',' if !open => {
                terms.push(&selector[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&selector[start..]);
    terms
}

fn term_matches(term: &str, labels: &Value) -> Result<bool, Refusal> {
    let value = |key: &str| labels[key.trim()].as_str();
    if let Some((key, set)) = term.split_once(" notin ") {
        return Ok(!set_holds(set, value(key)));
    }
    if let Some((key, set)) = term.split_once(" in ") {
        return Ok(set_holds(set, value(key)));
    }
    if let Some((key, wanted)) = term.split_once("!=") {
        return Ok(value(key) != Some(wanted.trim()));
    }
    if let Some((key, wanted)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return Ok(value(key) == Some(wanted.trim()));
    }
    if term.contains(char::is_whitespace) {
        return Err(Refusal::bad_request(format!(
            "unable to parse requirement: {term}"
        )));
    }
    match term.strip_prefix('!') {
        Some(key) => Ok(value(key).is_none()),
        None => Ok(value(term).is_some()),
    }
}

fn set_holds(set: &str, value: Option<&str>) -> bool {
    let inner = set.trim().trim_start_matches('(').trim_end_matches(')');
    value.is_some_and(|value| inner.split(',').any(|one| one.trim() == value))
}

/// Whether a pod meets a field selector; a field that the API does not select by is a 400.
pub(crate) fn fields_match(selector: &str, object: &Value) -> Result<bool, Refusal> {
    for term in selector
        .split(',')
        .map(str::trim)
        .filter(|term| !term.is_empty())
    {
        let (field, wanted, negated) = match term.split_once("!=") {
            Some((field, wanted)) => (field, wanted, true),
            None => match term.split_once("==").or_else(|| term.split_once('=')) {
                Some((field, wanted)) => (field, wanted, false),
                None => return Err(Refusal::bad_request(format!("invalid selector: {term}"))),
            },
        };
        let pointer = match field {
            "metadata.name" | "metadata.namespace" | "spec.nodeName" | "status.phase" => {
                format!("/{}", field.replace('.', "/"))
            }
            other => {
                let message = format!("field label not supported: {other}");
                return Err(Refusal::bad_request(message));
            }
        };
        let value = object
            .pointer(&pointer)
            .and_then(Value::as_str)
            .unwrap_or_default();
        if (value == wanted) == negated {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check_patch(kind: PatchKind, object: Value, patch: Value, expected: Value) {
        let mut patched = object;
        apply(kind, &mut patched, &patch).unwrap();
        assert_eq!(patched, expected);
    }

    #[test]
    fn a_null_removes_and_an_object_merges() {
        let object = json!({ "metadata": { "annotations": { "a": "1", "b": "2" } } });
        let patch = json!({ "metadata": { "annotations": { "a": null, "c": "3" } } });
        let expected = json!({ "metadata": { "annotations": { "b": "2", "c": "3" } } });
        check_patch(
            PatchKind::Merge,
            object.clone(),
            patch.clone(),
            expected.clone(),
        );
        check_patch(PatchKind::Strategic, object, patch, expected);
    }

    #[test]
    fn a_strategic_patch_adds_to_a_list_by_name_and_a_merge_patch_replaces_it() {
        let object = json!({ "ephemeralContainers": [{ "name": "a", "image": "x" }] });
        let patch = json!({ "ephemeralContainers": [{ "name": "b", "image": "y" }] });
        let both = json!({ "ephemeralContainers": [
            { "name": "a", "image": "x" }, { "name": "b", "image": "y" }] });
        check_patch(PatchKind::Strategic, object.clone(), patch.clone(), both);
        check_patch(PatchKind::Merge, object, patch.clone(), patch);
    }

    #[test]
    fn a_deep_patch_is_refused() {
        let mut patch = json!(1);
        for _ in 0..40 {
            patch = json!({ "x": patch });
        }
        assert_eq!(
            apply(PatchKind::Merge, &mut json!({}), &patch)
                .unwrap_err()
                .code,
            400
        );
    }

    #[test]
    fn label_selectors_are_met_as_kubernetes_meets_them() {
        let object = json!({ "metadata": { "labels": { "app": "shop", "hangar.io/env": "dev" } } });
        for (selector, expected) in [
            ("", true),
            ("app=shop", true),
            ("app==shop,hangar.io/env=dev", true),
            ("app!=shop", false),
            ("tier!=web", true),
            ("app", true),
            ("!app", false),
            ("app in (bank, shop)", true),
            ("app notin (bank,shop),hangar.io/env", false),
        ] {
            assert_eq!(labels_match(selector, &object), Ok(expected), "{selector}");
        }
        assert!(labels_match("app is shop", &object).is_err());
    }

    #[test]
    fn only_known_fields_select() {
        let object = json!({ "metadata": { "name": "a" }, "status": { "phase": "Running" } });
        assert_eq!(
            fields_match("metadata.name=a,status.phase!=Failed", &object),
            Ok(true)
        );
        assert_eq!(fields_match("metadata.name=b", &object), Ok(false));
        assert!(fields_match("spec.image=x", &object).is_err());
    }
}
