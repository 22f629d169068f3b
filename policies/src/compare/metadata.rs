//! Labels and annotations, compared.
//!
//! Invariant: what is rendered must be there. What others add is theirs (a tool that applies, a
//! team, Kyverno), unless it hands the object's rights on or has the object deleted.

use super::ObjectKey;
use serde_json::{Map, Value};

/// A ClusterRole with such a label lends its rules to others; Kyverno's controllers get theirs so.
const AGGREGATES: [&str; 2] = ["rbac.authorization.k8s.io/aggregate-to-", KYVERNOS];
const KYVERNOS: &str = "rbac.kyverno.io/aggregate-to-";
/// Kyverno deletes what has it.
const TTL: &str = "cleanup.kyverno.io/ttl";

/// What differs, a sentence each.
pub(super) fn differences(key: &ObjectKey, wanted: &Value, found: &Value) -> Vec<String> {
    let nothing = Map::new();
    let of = |object: &'_ Value, field: &str| {
        let map = object["metadata"][field].as_object().unwrap_or(&nothing);
        map.clone()
    };
    let mut said = Vec::new();
    for field in ["labels", "annotations"] {
        let live = of(found, field);
        for (name, value) in of(wanted, field) {
            if live.get(&name) != Some(&value) {
                said.push(changed(key, field, &name));
            }
        }
    }
    let ours = of(wanted, "labels");
    let added = of(found, "labels");
    let added = added.keys().filter(|name| !ours.contains_key(*name));
    said.extend(added.filter_map(|name| undoing(key, name)));
    said
}

fn changed(key: &ObjectKey, field: &str, name: &str) -> String {
    let differs = format!("{key} is not as rendered: `metadata.{field}` differs at `{name}`");
    match name.starts_with(KYVERNOS) {
        true => format!(
            "{differs}, by which Kyverno's controller gets the right; without it grants and copies \
             that have lapsed stay"
        ),
        false => differs,
    }
}

fn undoing(key: &ObjectKey, name: &str) -> Option<String> {
    if name == TTL {
        return Some(format!("{key} has the label `{name}`: Kyverno deletes it"));
    }
    let aggregates = AGGREGATES.iter().any(|prefix| name.starts_with(prefix));
    (key.kind == "ClusterRole" && aggregates).then(|| {
        format!("{key} has the label `{name}`: whom that role is bound to gets these rights too")
    })
}
