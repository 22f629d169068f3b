//! Whether the API server asks Kyverno about images (P-2).
//!
//! Invariant: pure, and silent about a policy that is not live: that one is told as missing. Of a
//! policy that only Kyverno can judge the object alone says nothing. Kyverno takes its webhooks
//! away when it is scaled to none or removed, and then whatever the policy is about goes through.

use super::{ObjectKey, in_list};
use serde_json::Value;
use std::collections::BTreeMap;

const JUDGED_BY_KYVERNO: &str = "ImageValidatingPolicy";

/// What is wrong with the webhooks of the policies that are live, a sentence each.
/// `configurations` are all of the cluster's ValidatingWebhookConfigurations.
#[must_use]
pub fn not_asked(
    wanted: &BTreeMap<ObjectKey, Value>,
    live: &BTreeMap<ObjectKey, Value>,
    configurations: &[Value],
) -> Vec<String> {
    let webhooks = configurations
        .iter()
        .flat_map(|one| in_list(&one["webhooks"]));
    let webhooks: Vec<&Value> = webhooks.collect();
    let judged = wanted
        .iter()
        .filter(|(key, _)| key.kind == JUDGED_BY_KYVERNO && live.contains_key(key));
    judged
        .filter_map(|(key, policy)| {
            let own: Vec<&Value> = webhooks
                .iter()
                .copied()
                .filter(|webhook| is_of(webhook, &key.name))
                .collect();
            told(key, policy, &own)
        })
        .collect()
}

fn told(key: &ObjectKey, policy: &Value, webhooks: &[&Value]) -> Option<String> {
    if webhooks.is_empty() {
        return Some(format!(
            "{key} has no webhook, so that nobody is asked and every image goes through: is \
             Kyverno scaled to none or removed? Start it, and look at the policy's status"
        ));
    }
    if let Some(open) = webhooks.iter().find(|one| one["failurePolicy"] != "Fail") {
        return Some(format!(
            "{key} has a webhook with the failurePolicy {}: while Kyverno is away every image goes \
             through",
            open["failurePolicy"]
        ));
    }
    let asked = |operation: &Value, resource: &Value| {
        let rules = webhooks
            .iter()
            .flat_map(|webhook| in_list(&webhook["rules"]));
        let mut rules = rules.filter(|rule| {
            let says = |field: &str, value: &Value| in_list(&rule[field]).any(|one| one == value);
            says("operations", operation) && says("resources", resource)
        });
        rules.next().is_some()
    };
    let rules = in_list(&policy["spec"]["matchConstraints"]["resourceRules"]);
    for rule in rules {
        for operation in in_list(&rule["operations"]) {
            let unasked = in_list(&rule["resources"]).find(|one| !asked(operation, one));
            if let Some(resource) = unasked {
                return Some(format!(
                    "{key} has no webhook for {operation} of {resource}: what it would refuse \
                     there goes through"
                ));
            }
        }
    }
    None
}

/// Does this webhook ask about the policy? Kyverno writes the policies' names into its path.
fn is_of(webhook: &Value, policy: &str) -> bool {
    let client = &webhook["clientConfig"];
    let path = client["url"]
        .as_str()
        .or_else(|| client["service"]["path"].as_str());
    path.is_some_and(|path| path.split('/').any(|part| part == policy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::fence;
    use decisions::session::Tier;
    use serde_json::json;

    const POLICY: &str = "tower-breakglass-debug-image";

    /// As Kyverno 1.19.1 makes it.
    fn webhook(client: &Value) -> Value {
        json!({
            "clientConfig": client, "failurePolicy": "Fail",
            "rules": [
                { "operations": ["CREATE"], "resources": ["pods"] },
                { "operations": ["UPDATE"], "resources": ["pods/ephemeralcontainers"] },
            ],
        })
    }

    fn of_a_service() -> Value {
        let path = format!("/ivpol/validate/{POLICY}");
        webhook(&json!({ "service": { "name": "kyverno-svc", "path": path } }))
    }

    fn said(webhooks: &[Value]) -> Vec<String> {
        let fence = fence(Tier::Flight);
        let other = webhook(&json!({ "url": "https://127.0.0.1:1/policyvalidate" }));
        let configurations = [
            json!({ "webhooks": [other] }),
            json!({ "webhooks": webhooks }),
        ];
        not_asked(&fence, &fence, &configurations)
    }

    #[track_caller]
    fn check(change: impl FnOnce(&mut Value), told: &str) {
        let mut webhook = of_a_service();
        change(&mut webhook);
        let said = said(&[webhook]);
        assert!(said.len() == 1 && said[0].contains(told), "{said:#?}");
        assert!(said[0].contains(POLICY), "{said:#?}");
    }

    #[test]
    fn a_webhook_that_asks_about_all_and_fails_closed_is_not_told() {
        let url = format!("https://127.0.0.1:9443/ivpol/validate/{POLICY}");
        for webhook in [of_a_service(), webhook(&json!({ "url": url }))] {
            assert_eq!(said(&[webhook]), [""; 0]);
        }
    }

    #[test]
    fn qk70_a_policy_that_nobody_is_asked_about_is_told() {
        assert!(said(&[])[0].contains("has no webhook, so that nobody is asked"));
        let another = |webhook: &mut Value| {
            webhook["clientConfig"]["service"]["path"] = json!(format!("/validate/{POLICY}-x"));
        };
        check(another, "has no webhook, so that nobody is asked");
    }

    #[test]
    fn qk8_a_webhook_that_fails_open_or_asks_about_less_is_told() {
        check(
            |webhook| webhook["failurePolicy"] = json!("Ignore"),
            "the failurePolicy \"Ignore\"",
        );
        check(
            |webhook| webhook["rules"][1]["resources"] = json!(["pods"]),
            "no webhook for \"UPDATE\" of \"pods/ephemeralcontainers\"",
        );
    }

    #[test]
    fn a_policy_that_is_not_there_is_told_as_missing_alone() {
        let wanted = fence(Tier::Flight);
        assert_eq!(not_asked(&wanted, &BTreeMap::new(), &[]), [""; 0]);
    }
}
