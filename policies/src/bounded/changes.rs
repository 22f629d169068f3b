//! The requests that are tried: the cases', each with one or two changes.
//!
//! Invariant: no change takes away what the API requires, and none sets null where the API server
//! writes none. The tables here and the linter's were written by hand from the API's types; a
//! wrong entry hides an error.

use super::reads::{Path, Step};
use crate::lint::always_there;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt;

/// Without the root, what always stands where its parent does, and why.
const REQUIRED: &[(&str, &str)] = &[
    ("metadata", "every object that has one has it always"),
    ("spec", "a struct, and validation wants containers in it"),
    ("spec.containers", "validation wants at least one"),
    ("spec.containers[*].name", NAMED),
    ("spec.initContainers[*].name", NAMED),
    ("spec.ephemeralContainers[*].name", NAMED),
    ("spec.containers[*].volumeMounts[*].name", NAMED),
    ("spec.initContainers[*].volumeMounts[*].name", NAMED),
    ("spec.ephemeralContainers[*].volumeMounts[*].name", NAMED),
    ("spec.containers[*].volumeMounts[*].mountPath", MOUNTED),
    ("spec.initContainers[*].volumeMounts[*].mountPath", MOUNTED),
    ("spec.volumes[*].name", NAMED),
    ("roleRef", "a struct, and validation wants its parts"),
    ("roleRef.apiGroup", "defaulted, never empty"),
    ("roleRef.kind", "validation wants it"),
    ("roleRef.name", "validation wants it"),
    ("subjects[*].kind", "written without `omitempty`"),
    ("subjects[*].name", "written without `omitempty`"),
    ("operation", "admission sets it"),
    ("resource", "admission sets it"),
    ("resource.resource", "admission sets it"),
    ("userInfo", "a struct"),
];
const NAMED: &str = "validation wants a name";
const MOUNTED: &str = "a mount is refused without a path";

/// The one resource of the fence whose `spec` may be missing: a CustomResourceDefinition's.
const NO_SPEC: &str = "policyexceptions";

/// What counts as always there, once its parent is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Required {
    /// As little as can be: the fence's own kinds, by the table here.
    Least,
    /// By the linter's table too (P-5): what validation, defaults and admission see to, of the
    /// kinds that it knows.
    Known,
}

/// What a request is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct About {
    pub(super) operation: String,
    pub(super) resource: String,
    pub(super) sub_resource: String,
}

impl About {
    pub(super) fn of(seen: &Value) -> Self {
        let request = &seen["request"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self {
            operation: text(&request["operation"]),
            resource: text(&request["resource"]["resource"]),
            sub_resource: text(&request["subResource"]),
        }
    }

    /// Whether what stands at the pattern below the root always does.
    fn requires(&self, required: Required, root: &str, pattern: &str) -> bool {
        let ours = REQUIRED.iter().any(|(of, _)| *of == pattern);
        match required {
            Required::Least => ours && !(self.resource == NO_SPEC && pattern == "spec"),
            Required::Known => {
                let (resource, sub) = (self.resource.as_str(), self.sub_resource.as_str());
                let always = |pattern| always_there(&self.operation, resource, sub, root, pattern);
                // `spec` is none of an object of a kind that the linter does not know.
                always(pattern) || ours && (root == "request" || always("spec"))
            }
        }
    }
}

impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            operation,
            resource,
            sub_resource,
        } = self;
        match sub_resource.as_str() {
            "" => write!(f, "{operation} {resource}"),
            sub => write!(f, "{operation} {resource}/{sub}"),
        }
    }
}

/// Where null may stand, and why. Every other field that the policies read is written with
/// `omitempty`, which leaves null out, or is a struct, or may not be null by its schema. In a pod
/// or in the template of one.
const NULLABLE: &[(&str, &str)] = &[(
    "volumes[*].projected.sources",
    "a list written without `omitempty`, and validation takes an empty one",
)];

/// One step into a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Field(String),
    Item(usize),
}

/// One change of a request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Deviation {
    at: Vec<Key>,
    /// None: it is taken away.
    new: Option<Value>,
}

impl Deviation {
    /// Changes the request; whether the change could be made and is one.
    pub(super) fn apply(&self, seen: &mut Value) -> bool {
        let Some((last, above)) = self.at.split_last() else {
            return false;
        };
        let parent = above.iter().try_fold(seen, |value, key| match key {
            Key::Field(name) => value.get_mut(name),
            Key::Item(at) => value.get_mut(at),
        });
        match (parent, last, &self.new) {
            (Some(Value::Object(fields)), Key::Field(name), Some(new)) => {
                fields.insert(name.clone(), new.clone()).as_ref() != Some(new)
            }
            (Some(Value::Object(fields)), Key::Field(name), None) => fields.remove(name).is_some(),
            (Some(Value::Array(items)), Key::Item(at), Some(new)) => {
                items.get_mut(*at).is_some_and(|item| {
                    let before = std::mem::replace(item, new.clone());
                    before != *new
                })
            }
            _ => false,
        }
    }

    /// Whether the two are tried together: at two places, and not where both only give a text,
    /// a number or a boolean another value.
    pub(super) fn goes_with(&self, other: &Self) -> bool {
        self.at != other.at && !(self.is_value() && other.is_value())
    }

    fn is_value(&self) -> bool {
        matches!(
            self.new,
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_))
        )
    }
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, key) in self.at.iter().enumerate() {
            match key {
                Key::Field(name) if place == 0 => f.write_str(name)?,
                Key::Field(name) if name.contains(['.', '/', '-']) => write!(f, "['{name}']")?,
                Key::Field(name) => write!(f, ".{name}")?,
                Key::Item(at) => write!(f, "[{at}]")?,
            }
        }
        match &self.new {
            None => f.write_str(" is absent"),
            Some(new) => write!(f, " is {new}"),
        }
    }
}

/// What stands at a path in the cases: the largest of each.
#[derive(Debug)]
pub(super) struct Samples {
    required: Required,
    of: BTreeMap<Path, Value>,
}

impl Samples {
    pub(super) fn new(required: Required) -> Self {
        let of = BTreeMap::new();
        Self { required, of }
    }

    pub(super) fn add(&mut self, seen: &Value, path: &Path) {
        for place in located(seen, path) {
            let Some(value) = found(seen, &place).filter(|value| !value.is_null()) else {
                continue;
            };
            let sample = self.of.entry(path.clone()).or_insert(Value::Null);
            if sample.is_null() || value.to_string().len() > sample.to_string().len() {
                *sample = value.clone();
            }
        }
    }

    /// Of the path, or of its like in the other object.
    fn of(&self, path: &Path) -> Option<&Value> {
        let twin = || {
            let (first, rest) = path.split_first()?;
            let other = match first {
                Step::Field(root) if root == "object" => "oldObject",
                Step::Field(root) if root == "oldObject" => "object",
                Step::Field(_) | Step::Each => return None,
            };
            let mut twin = vec![Step::Field(other.to_owned())];
            twin.extend_from_slice(rest);
            self.of.get(&twin)
        };
        self.of.get(path).or_else(twin)
    }

    pub(super) fn has(&self, path: &Path) -> bool {
        self.of(path).is_some()
    }

    /// A request in which everything that is read is there: fields that no real object has
    /// together among them.
    pub(super) fn fill(&self, seen: &mut Value, paths: &[Path]) {
        const MOST: usize = 2;
        for path in paths {
            let Some(sample) = self.of(path) else {
                continue;
            };
            let mut sample = sample.clone();
            if let Value::Array(items) = &mut sample {
                items.truncate(MOST);
            }
            for at in located(seen, path) {
                if path.len() > 1 && found(seen, &at).is_none() {
                    let new = Some(sample.clone());
                    Deviation { at, new }.apply(seen);
                }
            }
        }
    }

    /// The changes of a request at a path.
    pub(super) fn deviations(&self, about: &About, seen: &Value, path: &Path) -> Vec<Deviation> {
        let (root, pattern) = (root(path), pattern(path));
        let required = about.requires(self.required, root, &pattern);
        let mut made = Vec::new();
        for at in located(seen, path) {
            let now = found(seen, &at);
            let Some(kind) = now.filter(|now| !now.is_null()).or_else(|| self.of(path)) else {
                continue;
            };
            let mut push = |new: Option<Value>| {
                if new.as_ref() != now {
                    let at = at.clone();
                    made.push(Deviation { at, new });
                }
            };
            // Which objects a request has, its operation says. No namespace has none.
            if path.len() == 1 {
                if now.is_some() && root == "namespaceObject" {
                    push(Some(Value::Null));
                }
                continue;
            }
            if !required && path.last() != Some(&Step::Each) {
                push(None);
            }
            if NULLABLE.iter().any(|(of, _)| pattern.ends_with(of)) {
                push(Some(Value::Null));
            }
            if now.is_none() {
                push(Some(kind.clone()));
            }
            self.other_values(about, path, kind)
                .into_iter()
                .for_each(|new| push(Some(new)));
        }
        made
    }

    /// The empty value of a kind, and those that policies trip over.
    fn other_values(&self, about: &About, path: &Path, kind: &Value) -> Vec<Value> {
        let pattern = pattern(path);
        match kind {
            Value::Object(_) => vec![self.least(about, root(path), &pattern, kind)],
            Value::Array(items) => {
                let mut each = path.clone();
                each.push(Step::Each);
                let element = match items.first().or_else(|| self.of(&each)) {
                    Some(Value::String(_)) => json!(""),
                    Some(sample) => self.least(about, root(path), &format!("{pattern}[*]"), sample),
                    None => json!({}),
                };
                // Of pods' lists this one is never empty.
                let never_empty = pattern == "containers" || pattern.ends_with(".containers");
                let emptied = (!never_empty).then(|| json!([]));
                emptied.into_iter().chain([json!([element])]).collect()
            }
            // No label's value, and nothing that a regular expression of ours takes.
            Value::String(_) => vec![json!(""), json!("-not a label:/@\u{e9}-")],
            Value::Number(_) => vec![json!(0), json!(-1)],
            Value::Bool(now) => vec![json!(false), json!(!now)],
            Value::Null => Vec::new(),
        }
    }

    /// Of a sample nothing but what is required.
    fn least(&self, about: &About, root: &str, pattern: &str, sample: &Value) -> Value {
        match sample {
            Value::Object(fields) => {
                let mut kept = Map::new();
                for (field, value) in fields {
                    let below = match pattern {
                        "" => field.clone(),
                        above => format!("{above}.{field}"),
                    };
                    if about.requires(self.required, root, &below) {
                        kept.insert(field.clone(), self.least(about, root, &below, value));
                    }
                }
                Value::Object(kept)
            }
            Value::Array(items) => {
                let each = format!("{pattern}[*]");
                let first = items.iter().take(1);
                first
                    .map(|item| self.least(about, root, &each, item))
                    .collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => sample.clone(),
        }
    }
}

/// As the tables write it: without the root.
fn pattern(path: &Path) -> String {
    let mut text = String::new();
    for step in path.iter().skip(1) {
        match step {
            Step::Field(name) if text.is_empty() => text.push_str(name),
            Step::Field(name) => {
                text.push('.');
                text.push_str(name);
            }
            Step::Each => text.push_str("[*]"),
        }
    }
    text
}

fn root(path: &Path) -> &str {
    match path.first() {
        Some(Step::Field(root)) => root,
        Some(Step::Each) | None => "",
    }
}

/// A path, as it is told.
pub(super) fn words(path: &Path) -> String {
    match (root(path), pattern(path).as_str()) {
        (root, "") => root.to_owned(),
        (root, below) => format!("{root}.{below}"),
    }
}

/// Every place that a path means in a request; the last field need not be there.
fn located(seen: &Value, path: &Path) -> Vec<Vec<Key>> {
    let mut places = vec![Vec::new()];
    for step in path {
        let mut further = Vec::new();
        for place in places {
            let keys: Vec<Key> = match (found(seen, &place), step) {
                (Some(Value::Object(_)), Step::Field(name)) => vec![Key::Field(name.clone())],
                (Some(Value::Object(fields)), Step::Each) => {
                    fields.keys().cloned().map(Key::Field).collect()
                }
                (Some(Value::Array(items)), Step::Each) => {
                    (0..items.len()).map(Key::Item).collect()
                }
                _ => Vec::new(),
            };
            further.extend(keys.into_iter().map(|key| {
                let mut next = place.clone();
                next.push(key);
                next
            }));
        }
        places = further;
    }
    places
}

fn found<'v>(seen: &'v Value, place: &[Key]) -> Option<&'v Value> {
    place.iter().try_fold(seen, |value, key| match key {
        Key::Field(name) => value.get(name),
        Key::Item(at) => value.get(at),
    })
}
