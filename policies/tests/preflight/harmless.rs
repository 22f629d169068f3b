//! The list of paths whose change does no harm, each with its reason.
//!
//! Invariant: a line that excuses nothing fails the test.

use super::change::Change;
use regex::Regex;
use serde::Deserialize;
use std::collections::BTreeSet;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    on: Vec<String>,
    paths: Vec<String>,
    #[serde(default)]
    becomes: Option<String>,
    #[serde(default)]
    exactly: bool,
    why: String,
}

struct Entry {
    on: Vec<String>,
    path: String,
    exactly: bool,
    becomes: Option<Regex>,
}

/// The list, and which of it was needed.
pub(crate) struct Harmless {
    entries: Vec<Entry>,
    needed: BTreeSet<usize>,
}

impl Harmless {
    pub(crate) fn parse(text: &str) -> Self {
        let written: Vec<Written> = serde_saphyr::from_str(text).expect("the list");
        let mut entries = Vec::new();
        for one in written {
            assert!(one.why.len() > 20, "a reason for {:?}", one.paths);
            let whole = |pattern: String| Regex::new(&format!("^(?:{pattern})$")).expect("regex");
            for path in one.paths {
                entries.push(Entry {
                    on: one.on.clone(),
                    path,
                    exactly: one.exactly,
                    becomes: one.becomes.clone().map(whole),
                });
            }
        }
        Self {
            entries,
            needed: BTreeSet::new(),
        }
    }

    /// Whether the list excuses that this change of a `sending` is let through.
    pub(crate) fn excuses(&mut self, sending: &str, change: &Change) -> bool {
        let excused = self.entries.iter().enumerate().filter(|(_, entry)| {
            entry.on.iter().any(|on| on == sending)
                && covers(&entry.path, &change.path)
                && (!entry.exactly || entry.path == change.path)
                && entry
                    .becomes
                    .as_ref()
                    .is_none_or(|becomes| becomes.is_match(&change.becomes))
        });
        let found: Vec<usize> = excused.map(|(at, _)| at).collect();
        self.needed.extend(&found);
        !found.is_empty()
    }

    /// Lines that excused nothing.
    pub(crate) fn idle(&self) -> Vec<String> {
        let idle = self.entries.iter().enumerate();
        let idle = idle.filter(|(at, _)| !self.needed.contains(at));
        idle.map(|(_, entry)| format!("{:?} {}", entry.on, entry.path))
            .collect()
    }
}

/// Whether the path is the pattern or within it; `[*]` is any entry.
fn covers(pattern: &str, path: &str) -> bool {
    let (pattern, path) = (parts(pattern), parts(path));
    path.len() >= pattern.len()
        && pattern
            .iter()
            .zip(&path)
            .all(|(wanted, found)| wanted == found || (*wanted == "[*]" && found.starts_with('[')))
}

/// `a.b[c.d].e` as `a`, `.b`, `[c.d]`, `.e`.
fn parts(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut within) = (0, false);
    for (at, letter) in path.char_indices() {
        if at > start && !within && (letter == '.' || letter == '[') {
            parts.push(&path[start..at]);
            start = at;
        }
        within = (within || letter == '[') && letter != ']';
    }
    parts.push(&path[start..]);
    parts
}
