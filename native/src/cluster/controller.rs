//! What a recycle has to know of a pod's controller and its disruption budgets (C-17).

use super::KubeCluster;
use super::call::Caller;
use super::list;
use super::object::{meta, texts, uid};
use super::path;
use crate::ports::ClusterError;
use crate::ports::cluster::ControllerFacts;
use decisions::pod::PodFacts;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

pub(super) async fn facts(
    cluster: &KubeCluster,
    pod: &Value,
) -> Result<ControllerFacts, ClusterError> {
    let namespace = meta(pod, "namespace").unwrap_or_default();
    let pods = path::pods(namespace)?;
    let budgets = path::budgets(namespace)?;
    let caller = cluster.reach.caller().await?;
    let mut others = 0;
    let listed = list::each(&caller, &pods, "", "pods", |other| {
        others += u32::from(is_ready_sibling(&other, pod));
    });
    // The session's grant lets us list pods: a refusal means that it lapsed, and whoever asks
    // makes it again. As "unknown" it would leave the pod in place for good (C-17, C-18).
    listed.await?;
    let mut fewest = None;
    let disruptions_allowed = {
        let listed = each_budget(&caller, &budgets, |budget| {
            fewest = fewer(fewest, allowed_by(&budget, pod));
        });
        unless_forbidden(listed.await)?.and(fewest)
    };
    Ok(ControllerFacts {
        other_ready_pods: Some(others),
        disruptions_allowed,
    })
}

async fn each_budget(
    caller: &Caller<'_>,
    budgets: &kube::core::Request,
    look: impl FnMut(Value) + Send,
) -> Result<(), ClusterError> {
    list::each(caller, budgets, "", "PodDisruptionBudgets", look).await
}

fn unless_forbidden(result: Result<(), ClusterError>) -> Result<Option<()>, ClusterError> {
    match result {
        Ok(()) => Ok(Some(())),
        Err(ClusterError::Forbidden { .. } | ClusterError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn controller_uid(pod: &Value) -> Option<String> {
    let facts = PodFacts::read(pod).ok()?;
    facts
        .controller()
        .map(|owner| owner.uid.clone())
        .filter(|uid| !uid.is_empty())
}

/// Whether `other` is a ready pod of the same controller as `pod`, and not `pod` itself.
pub(crate) fn is_ready_sibling(other: &Value, pod: &Value) -> bool {
    let controller = controller_uid(pod);
    controller.is_some()
        && controller_uid(other) == controller
        && uid(other) != uid(pod)
        && PodFacts::read(other).is_ok_and(|facts| facts.is_ready())
}

/// The smaller of two counts, where there are any.
pub(crate) fn fewer(one: Option<u32>, other: Option<u32>) -> Option<u32> {
    one.into_iter().chain(other).min()
}

/// How many disruptions a PodDisruptionBudget still allows; `None` where it does not cover the pod.
pub(crate) fn allowed_by(budget: &Value, pod: &Value) -> Option<u32> {
    let selector = budget
        .pointer("/spec/selector")
        .filter(|selector| !selector.is_null())?;
    // A selector that cannot be read may well cover the pod: it counts as if it did.
    let covers = LabelSelector::deserialize(selector)
        .map_or(true, |selector| selects(&selector, &texts(pod, "labels")));
    let allowed = budget
        .pointer("/status/disruptionsAllowed")
        .and_then(Value::as_i64);
    covers.then(|| u32::try_from(allowed.unwrap_or(0)).unwrap_or(0))
}

fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let equal = selector.match_labels.iter().flatten();
    let rules = selector.match_expressions.iter().flatten();
    equal
        .into_iter()
        .all(|(key, value)| labels.get(key) == Some(value))
        && rules.into_iter().all(|rule| holds(rule, labels))
}

fn holds(rule: &LabelSelectorRequirement, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(&rule.key);
    let listed = value.is_some_and(|value| rule.values.iter().flatten().any(|one| one == value));
    match rule.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        // An operator of a later API: the budget counts as covering the pod.
        _ => true,
    }
}

#[cfg(test)]
mod tests;
