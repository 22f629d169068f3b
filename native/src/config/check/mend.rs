//! Every value of the wrong type, at once: what is wrong is told, taken out, and the rest is read
//! again. What comes of it is only looked at for further problems, never run on.

use super::Config;
use serde_json::{Value, json};
use serde_path_to_error::Segment;
use std::collections::BTreeSet;

/// More problems than this are not looked for.
const MOST: usize = 100;

/// What can be read of the file, and whether that is all of it; each problem is noted.
pub(super) fn mended(mut value: Value, problems: &mut Vec<String>) -> (Option<Config>, bool) {
    let mut taken = BTreeSet::new();
    for round in 0..MOST {
        let error = match serde_path_to_error::deserialize::<_, Config>(&value) {
            Ok(config) => return (Some(config), round == 0),
            Err(error) => error,
        };
        let path = keys(&error);
        let why = error.inner().to_string();
        let missing = missing_field(&why);
        let mut needed = path.clone();
        needed.extend(missing.map(str::to_owned));
        if !follows(&needed, missing.is_some(), &taken) {
            problems.push(match path.as_slice() {
                [] => why.clone(),
                path => format!("`{}`: {why}", path.join(".")),
            });
        }
        let filled = missing.is_some() && fill(&mut value, &needed);
        if !filled && !take(&mut value, &path) {
            break;
        }
        if !filled {
            taken.insert(path);
        }
    }
    (None, false)
}

/// Whether a problem is there only because something was taken out: that itself is missing, or
/// what it stood in cannot be without it.
fn follows(at: &[String], missing: bool, taken: &BTreeSet<Vec<String>>) -> bool {
    taken
        .iter()
        .any(|path| path == at || (!missing && path.starts_with(at)))
}

/// The keys down to what is wrong; a list counts as one value, so that what remains of it is not
/// numbered anew.
fn keys(error: &serde_path_to_error::Error<serde_json::Error>) -> Vec<String> {
    error
        .path()
        .iter()
        .map_while(|segment| match segment {
            Segment::Map { key } => Some(key.clone()),
            Segment::Seq { .. } | Segment::Enum { .. } | Segment::Unknown => None,
        })
        .collect()
}

fn missing_field(why: &str) -> Option<&str> {
    why.strip_prefix("missing field `")?.split('`').next()
}

/// Puts something usable where a needed key is missing; `false` if there is no such thing.
fn fill(value: &mut Value, needed: &[String]) -> bool {
    let usable = json!({
        "socket": "/socket",
        "spool": "/spool",
        "recordings": {"folder": {"path": "/recordings"}},
        "debugImages": [format!("image@sha256:{}", "0".repeat(64))],
    });
    let pointer = |keys: &[String]| keys.iter().map(|key| format!("/{key}")).collect::<String>();
    let Some(substitute) = usable.pointer(&pointer(needed)) else {
        return false;
    };
    let Some((last, above)) = needed.split_last() else {
        return false;
    };
    match value.pointer_mut(&pointer(above)) {
        Some(Value::Object(map)) => {
            map.insert(last.clone(), substitute.clone());
            true
        }
        _ => false,
    }
}

/// Takes out the value at the path, or else what is nearest above it.
fn take(value: &mut Value, path: &[String]) -> bool {
    let Some((first, below)) = path.split_first() else {
        return false;
    };
    let Value::Object(map) = value else {
        return false;
    };
    let deeper = map.get_mut(first).is_some_and(|child| take(child, below));
    deeper || map.remove(first).is_some()
}
