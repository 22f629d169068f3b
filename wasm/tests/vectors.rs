//! The shared vectors through the decisions themselves; `tests/vectors/README.md` says what a row
//! may hold, and `tests/vectors/rows.mjs` is this file's twin for Node and browsers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "a test panics to fail, and tells its story in one piece"
)]

use decisions::door;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    decision: String,
    /// What rows leave out of the members of their input.
    #[serde(default)]
    base: Map<String, Value>,
    cases: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    #[serde(default, deserialize_with = "given")]
    input: Option<Value>,
    #[serde(default, deserialize_with = "given")]
    text: Option<Value>,
    #[serde(default, deserialize_with = "given")]
    expected: Option<Value>,
    error: Option<String>,
    /// The row leaves things out on purpose.
    #[serde(default)]
    bare: bool,
}

/// `null` is a value here; only an absent field is `None`.
fn given<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

/// Writes out what a row says in short: `{"repeat": ["a", 3]}` is "aaa".
fn expand(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(expand).collect(),
        Value::Object(members) => short(members).unwrap_or_else(|| {
            Value::Object(
                members
                    .iter()
                    .map(|(key, v)| (key.clone(), expand(v)))
                    .collect(),
            )
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn short(members: &Map<String, Value>) -> Option<Value> {
    let (key, given) = members.iter().next().filter(|_| members.len() == 1)?;
    match (key.as_str(), given) {
        ("utf16", Value::Array(units)) => {
            let unit = |unit: &Value| u16::try_from(unit.as_u64().unwrap()).unwrap();
            let units: Vec<u16> = units.iter().map(unit).collect();
            Some(String::from_utf16_lossy(&units).into())
        }
        ("repeat", Value::Array(parts)) => {
            let times = usize::try_from(parts[1].as_u64().unwrap()).unwrap();
            Some(expand(&parts[0]).as_str().unwrap().repeat(times).into())
        }
        ("join", Value::Array(parts)) => {
            let part = |part: &Value| expand(part).as_str().unwrap().to_owned();
            Some(parts.iter().map(part).collect::<String>().into())
        }
        ("nest", Value::Number(depth)) => {
            let depth = depth.as_u64().unwrap();
            Some((1..depth).fold(json!([]), |nested, _| json!([nested])))
        }
        _ => None,
    }
}

/// A row's input, with what it leaves out taken from the file's `base`.
fn filled(file: &File, row: &Row, input: &Value) -> Value {
    let mut input = expand(input);
    if row.bare {
        return input;
    }
    for (name, members) in &file.base {
        if let Some(given) = input.get_mut(name).and_then(Value::as_object_mut) {
            for (key, member) in members.as_object().unwrap() {
                given.entry(key).or_insert_with(|| member.clone());
            }
        }
    }
    input
}

fn outcome(file: &File, row: &Row) -> Value {
    let text = match (&row.input, &row.text) {
        (Some(input), None) => filled(file, row, input).to_string(),
        (None, Some(text)) => expand(text).as_str().unwrap().to_owned(),
        _ => panic!("{}: either input or text", row.name),
    };
    let answer: Value = serde_json::from_str(&door::decide(&file.decision, &text)).unwrap();
    match answer.get("error") {
        Some(error) => json!({ "error": error["code"] }),
        None => answer,
    }
}

fn expected(row: &Row) -> Value {
    match (&row.expected, &row.error) {
        (Some(expected), None) => json!({ "ok": expand(expected) }),
        (None, Some(code)) => json!({ "error": code }),
        _ => panic!("{}: either expected or error", row.name),
    }
}

fn files() -> Vec<(PathBuf, File)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors");
    let of_npm = ["package.json", "package-lock.json", "tsconfig.json"];
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
        .filter(|path| !of_npm.iter().any(|name| path.ends_with(name)))
        .collect();
    paths.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        let file =
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        (path, file)
    };
    paths.into_iter().map(read).collect()
}

#[test]
fn every_row_of_the_vectors_holds() {
    let mut failures = String::new();
    let mut rows = 0;
    for (path, file) in files() {
        for row in &file.cases {
            rows += 1;
            let (expected, got) = (expected(row), outcome(&file, row));
            if expected != got {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                failures += &format!(
                    "{name}: {}\n  expected {expected}\n  got      {got}\n",
                    row.name
                );
            }
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
    assert!(rows > 100, "only {rows} rows were found");
}

#[test]
fn every_decision_has_vectors() {
    let tested: BTreeSet<String> = files().into_iter().map(|(_, file)| file.decision).collect();
    let all: BTreeSet<String> = door::ALL
        .iter()
        .map(|decision| decision.name.to_owned())
        .collect();
    assert_eq!(tested, all);
}
