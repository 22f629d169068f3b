//! Every change of one field: taken away, given another value, added, doubled.
//!
//! Invariant: the same object gives the same changes; each changes one place and says which.

use serde_json::{Map, Value, json};

/// What the API knows: kind, field, what stands there.
pub(crate) type Fields = Value;

/// One changed object.
pub(crate) struct Change {
    /// Where: `spec.containers[app].env[].value`; an entry that is new is `[+]`.
    pub(crate) path: String,
    /// What stands there now, as text; `(removed)`.
    pub(crate) becomes: String,
    /// The whole object.
    pub(crate) object: Value,
}

/// Texts that mean something somewhere.
const TEXTS: [&str; 9] = [
    "",
    "x",
    "0",
    "*",
    "true",
    "15m",
    "76m",
    "zzzzzzzzzzzz",
    "user:default/alice",
];
const NUMBERS: [i64; 3] = [0, 1000, 1 << 40];

/// Every change of one field of an object of this `kind`.
pub(crate) fn changes(fields: &Fields, kind: &str, object: &Value) -> Vec<Change> {
    let mut walk = Walk {
        fields,
        whole: object,
        found: Vec::new(),
    };
    walk.object(object, kind, "", "");
    walk.found
}

struct Walk<'w> {
    fields: &'w Fields,
    whole: &'w Value,
    found: Vec<Change>,
}

impl Walk<'_> {
    /// Puts `value` at `pointer`, whose last part may be new; `None` takes it away.
    fn put(&mut self, pointer: &str, path: &str, value: Option<Value>) {
        let mut object = self.whole.clone();
        let (parent, last) = pointer.rsplit_once('/').expect("a pointer");
        let last = last.replace("~1", "/").replace("~0", "~");
        let becomes = match &value {
            None => "(removed)".to_owned(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        match (object.pointer_mut(parent).expect("a parent"), value) {
            (Value::Object(map), Some(value)) => drop(map.insert(last, value)),
            (Value::Object(map), None) => drop(map.remove(&last)),
            (Value::Array(list), value) => {
                let at: usize = last.parse().expect("a place");
                match value {
                    Some(value) if at < list.len() => list[at] = value,
                    Some(value) => list.push(value),
                    None => drop(list.remove(at)),
                }
            }
            (other, _) => panic!("{pointer}: {other}"),
        }
        if object != *self.whole {
            let path = path.trim_start_matches('.').to_owned();
            self.found.push(Change {
                path,
                becomes,
                object,
            });
        }
    }

    fn object(&mut self, value: &Value, kind: &str, pointer: &str, path: &str) {
        let known = self.fields.get(kind).cloned().unwrap_or_else(|| json!({}));
        let there = value.as_object().expect("an object");
        for (field, child) in there {
            let pointer = format!("{pointer}/{}", escaped(field));
            let path = format!("{path}{}", segment(kind, field));
            self.put(&pointer, &path, None);
            let of = known[field]["of"].as_str().unwrap_or_default();
            self.value(child, of, &known[field], &pointer, &path);
        }
        for (field, what) in known.as_object().expect("fields") {
            let pointer = format!("{pointer}/{}", escaped(field));
            let path = format!("{path}{}", segment(kind, field));
            for value in items(&what["values"]) {
                self.put(&pointer, &path, Some(value.clone()));
            }
        }
    }

    fn value(&mut self, value: &Value, of: &str, known: &Value, pointer: &str, path: &str) {
        match value {
            Value::Object(map) => {
                self.object(value, of, pointer, path);
                for (key, added) in known["add"].as_object().unwrap_or(&Map::new()) {
                    if !map.contains_key(key) {
                        let pointer = format!("{pointer}/{}", escaped(key));
                        self.put(&pointer, &format!("{path}[{key}]"), Some(added.clone()));
                    }
                }
            }
            Value::Array(list) => self.list(list, of, known, pointer, path),
            Value::String(text) => {
                let shouted = text.to_uppercase();
                let others = [format!("{text}x"), format!("x{text}"), shouted];
                let fixed = TEXTS.iter().map(|text| (*text).to_owned());
                for other in others.into_iter().chain(fixed) {
                    self.put(pointer, path, Some(other.into()));
                }
            }
            Value::Number(number) => {
                let number = number.as_i64().expect("a whole number");
                for other in [number - 1, number + 1].into_iter().chain(NUMBERS) {
                    self.put(pointer, path, Some(other.into()));
                }
            }
            Value::Bool(set) => self.put(pointer, path, Some((!set).into())),
            Value::Null => {}
        }
    }

    fn list(&mut self, list: &[Value], of: &str, known: &Value, pointer: &str, path: &str) {
        for (at, child) in list.iter().enumerate() {
            let pointer = format!("{pointer}/{at}");
            let path = format!("{path}[{}]", entry(of, child));
            self.put(&pointer, &path, None);
            self.value(child, of, &Value::Null, &pointer, &path);
        }
        let doubled = list.iter();
        for more in doubled.chain(items(&known["entries"])) {
            let (end, path) = (format!("{pointer}/{}", list.len()), format!("{path}[+]"));
            self.put(&end, &path, Some(more.clone()));
        }
    }
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn escaped(field: &str) -> String {
    field.replace('~', "~0").replace('/', "~1")
}

/// A key of a map is written as an entry.
fn segment(kind: &str, field: &str) -> String {
    match kind {
        "Label" | "Annotation" => format!("[{field}]"),
        _ => format!(".{field}"),
    }
}

/// Which entry of a list: containers are told apart by what they are.
fn entry(of: &str, child: &Value) -> &'static str {
    let name = child
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    match of {
        "Container" if name.starts_with("debug-") => "debug",
        "Container" => "app",
        _ => "",
    }
}
