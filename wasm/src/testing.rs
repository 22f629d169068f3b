//! What the tests of the builders share.

use serde_json::{Map, Value};
use std::path::PathBuf;

/// Compares an object with `tests/golden/objects/<name>.json`; with `UPDATE_GOLDEN` set it writes
/// the file, for a person to read the difference.
#[track_caller]
pub(crate) fn golden(name: &str, object: &Value) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/objects");
    let file = folder.join(format!("{name}.json"));
    let text = serde_json::to_string_pretty(&sorted(object)).expect("JSON") + "\n";
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(&folder).expect("the folder");
        std::fs::write(&file, &text).expect("the file");
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(
        text, expected,
        "{name} differs; UPDATE_GOLDEN=1 writes the file"
    );
}

/// The same value with its keys in order, whatever the build's maps do.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(key, _)| *key);
            let sorted = fields
                .into_iter()
                .map(|(key, value)| (key.clone(), sorted(value)));
            Value::Object(sorted.collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}
