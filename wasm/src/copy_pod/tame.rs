//! What a copy keeps of how the app's containers are confined and what they are given (C-12).
//!
//! Invariant: what is kept is what a pod may have that nothing of its node's is given to: the
//! SELinux types of Pod Security's baseline, processor time, memory and scratch space.

use crate::pod::Resources;
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::{Map, Value};

/// The types that Pod Security's baseline lets a container have.
const SE_LINUX_TYPES: [&str; 5] = [
    "",
    "container_t",
    "container_init_t",
    "container_kvm_t",
    "container_engine_t",
];
/// What is no device.
const PLAIN_RESOURCES: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// These options without user, role and a type that is not a container's.
pub(super) fn se_linux(options: Option<&Value>) -> Option<Value> {
    let mut kept = options?.as_object()?.clone();
    kept.retain(|field, value| match field.as_str() {
        "level" => true,
        "type" => value
            .as_str()
            .is_some_and(|kind| SE_LINUX_TYPES.contains(&kind)),
        _ => false,
    });
    (!kept.is_empty()).then_some(Value::Object(kept))
}

/// These resources without devices.
pub(super) fn resources(from: Option<&Resources>) -> Option<Resources> {
    let from = from?;
    Some(Resources {
        limits: plain(from.limits.as_ref()),
        requests: plain(from.requests.as_ref()),
        claims: None,
    })
}

/// The devices among these resources, by name.
pub(super) fn devices(from: Option<&Resources>) -> Vec<String> {
    let names = from.into_iter().flat_map(|r| [&r.limits, &r.requests]);
    let mut names: Vec<String> = names
        .filter_map(|listed| listed.as_ref()?.as_object())
        .flat_map(Map::keys)
        .filter(|name| !is_plain(name))
        .cloned()
        .collect();
    names.sort();
    names.dedup();
    names
}

fn plain(listed: Option<&Value>) -> Option<Value> {
    let listed = listed?.as_object()?.iter();
    let kept = listed.filter(|(name, _)| is_plain(name));
    Some(Value::Object(
        kept.map(|(name, amount)| (name.to_owned(), amount.clone()))
            .collect(),
    ))
}

fn is_plain(name: &str) -> bool {
    PLAIN_RESOURCES.contains(&name) || name.starts_with("hugepages-")
}
