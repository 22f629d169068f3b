//! A row's notes: column `cleanup_notes` (C-20, C-22).
//!
//! Invariants: what is joined is what is split again; each note stands there once; a note is
//! bounded, whatever an API server wrote into it.

use std::collections::BTreeSet;

const BETWEEN: &str = "; ";
const NOTE_CHARS_MAX: usize = 500;

/// The column's value; none where there is nothing to say.
pub(super) fn joined(notes: &[String]) -> Option<String> {
    let mut seen = BTreeSet::new();
    let notes: Vec<String> = notes
        .iter()
        .map(|note| one(note))
        .filter(|note| !note.is_empty() && seen.insert(note.clone()))
        .collect();
    (!notes.is_empty()).then(|| notes.join(BETWEEN))
}

/// The notes of a column's value but for those that begin with one of `settled`.
pub(super) fn without(notes: Option<&str>, settled: &[&str]) -> Vec<String> {
    let notes = notes.unwrap_or_default().split(BETWEEN);
    notes
        .filter(|note| !note.is_empty() && !settled.iter().any(|begins| note.starts_with(begins)))
        .map(str::to_owned)
        .collect()
}

fn one(note: &str) -> String {
    let mut kept: String = note.trim().chars().take(NOTE_CHARS_MAX).collect();
    if kept.len() < note.trim().len() {
        kept.push('…');
    }
    kept.replace(BETWEEN, ", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_that_holds_the_separator_is_still_one_note() {
        let policy = "pod not recycled: denied; nothing was done".to_owned();
        let other = "recording not saved: away".to_owned();
        let column = joined(&[policy.clone(), other.clone(), policy]).expect("notes");
        assert_eq!(
            column,
            "pod not recycled: denied, nothing was done; recording not saved: away"
        );
        assert_eq!(without(Some(&column), &["pod not recycled"]), [other]);
    }

    #[test]
    fn the_same_failure_again_and_again_leaves_one_note() {
        let mut column = None;
        for _ in 0..5 {
            let mut notes = vec!["pod not recycled: refused; and why; and more".to_owned()];
            notes.extend(without(column.as_deref(), &["pod not recycled"]));
            column = joined(&notes);
        }
        assert_eq!(
            column.as_deref(),
            Some("pod not recycled: refused, and why, and more")
        );
    }

    #[test]
    fn a_note_is_bounded_and_an_empty_one_is_none() {
        let column = joined(&["ä".repeat(10_000)]).expect("a note");
        assert_eq!(column.chars().count(), NOTE_CHARS_MAX + 1);
        assert_eq!(joined(&[" ".to_owned()]), None);
        assert!(without(None, &[]).is_empty());
    }
}
