//! Any text as an expression: compiled for the oldest and the newest release, and evaluated.
//!
//! Must hold: no panic (one that the engine catches counts too); a second and 256 MB for each
//! release; at most a million steps.
#![no_main]

mod bounds;

use bounds::within;
use libfuzzer_sys::fuzz_target;
use policies::cel::{Activation, Budget, EvalError, Expression, KubernetesVersion};
use std::sync::LazyLock;

static OBJECT: LazyLock<serde_json::Value> = LazyLock::new(|| {
    serde_json::json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web-1", "labels": {"app": "web", "a.b/c-d": "x"}},
        "spec": {"containers": [{"name": "app", "image": "r.example/a@sha256:00",
            "ports": [{"containerPort": 80}]}], "replicas": 3, "ratio": 0.5, "nothing": null},
    })
});
static REQUEST: LazyLock<serde_json::Value> = LazyLock::new(|| {
    serde_json::json!({
        "uid": "u", "operation": "CREATE", "namespace": "shop", "name": "web-1",
        "userInfo": {"username": "alice", "groups": ["dev", "system:authenticated"]},
    })
});

fuzz_target!(|bytes: &[u8]| {
    let Ok(source) = std::str::from_utf8(bytes) else {
        return;
    };
    for version in [KubernetesVersion::OLDEST, KubernetesVersion::NEWEST] {
        within(|| taken(source, version));
    }
});

fn taken(source: &str, version: KubernetesVersion) {
    let Ok(expression) = Expression::compile(source, version) else {
        return;
    };
    let variable = |text: &str| Expression::compile(text, version);
    let activation = Activation::new()
        .object(&OBJECT)
        .and_then(|with| with.old_object(&OBJECT))
        .and_then(|with| with.request(&REQUEST))
        .expect("these are not deep")
        .variables([
            ("self".to_owned(), variable("object.metadata.labels")),
            ("bad".to_owned(), variable("object.spec.missing + 1")),
        ]);
    let mut budget = Budget::policy();
    let before = budget.left();
    let result = expression.evaluate(&activation, &mut budget);
    assert!(before - budget.left() <= 1_000_000);
    match result {
        Ok(value) => drop(value.type_name()),
        Err(error) => assert_ne!(error, EvalError::Failed),
    }
}
