//! Functions of strings. Places are counted in characters.
//!
//! Invariant: what a function makes is paid for before it is made.

use super::{format, int};
use crate::cel::evaluate::{Evaluated, Evaluator};
use crate::cel::{Budget, EvalError, Value};

pub(super) fn member(name: &str, text: &str, rest: &[Value], on: &mut Evaluator<'_>) -> Evaluated {
    on.budget.bytes(text.len())?;
    match (name, rest) {
        ("startsWith", [Value::String(other)]) => Ok(Value::Bool(text.starts_with(&**other))),
        ("endsWith", [Value::String(other)]) => Ok(Value::Bool(text.ends_with(&**other))),
        ("contains", [Value::String(other)]) => Ok(Value::Bool(text.contains(&**other))),
        ("matches", [Value::String(pattern)]) => matches(text, pattern, on),
        ("find", [Value::String(pattern)]) => {
            let found = searched(text, pattern, on)?;
            Ok(Value::text(
                found.find(text).map_or("", |found| found.as_str()),
            ))
        }
        ("findAll", [Value::String(pattern)]) => find_all(text, pattern, -1, on),
        ("findAll", [Value::String(pattern), Value::Int(limit)]) => {
            find_all(text, pattern, *limit, on)
        }
        ("charAt", [Value::Int(at)]) => char_at(text, *at),
        ("indexOf", [Value::String(what)]) => index_of(text, what, 0),
        ("indexOf", [Value::String(what), Value::Int(from)]) => index_of(text, what, *from),
        ("lastIndexOf", [Value::String(what)]) => Ok(last_index_of(text, what, None)),
        ("lastIndexOf", [Value::String(what), Value::Int(from)]) => {
            let from = place(text, *from)?;
            Ok(last_index_of(text, what, Some(from)))
        }
        ("lowerAscii", []) => Ok(Value::text(&text.to_ascii_lowercase())),
        ("upperAscii", []) => Ok(Value::text(&text.to_ascii_uppercase())),
        ("trim", []) => Ok(Value::text(text.trim())),
        ("replace", [Value::String(old), Value::String(new)]) => {
            replace(text, old, new, -1, on.budget)
        }
        ("replace", [Value::String(old), Value::String(new), Value::Int(limit)]) => {
            replace(text, old, new, *limit, on.budget)
        }
        ("split", [Value::String(by)]) => split(text, by, -1, on.budget),
        ("split", [Value::String(by), Value::Int(limit)]) => split(text, by, *limit, on.budget),
        ("substring", [Value::Int(from)]) => {
            let end = characters(text);
            substring(text, *from, end)
        }
        ("substring", [Value::Int(from), Value::Int(to)]) => substring(text, *from, *to),
        ("format", [Value::List(arguments)]) => format::format(text, arguments, on.budget),
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// A pattern that may be run over a text: its cost is paid.
fn searched(
    text: &str,
    pattern: &str,
    on: &mut Evaluator<'_>,
) -> Result<::regex::Regex, EvalError> {
    let compiled = on.pattern(pattern)?;
    let steps = (text.len() as u64 / 8 + 1) * (pattern.len() as u64 / 8 + 1);
    on.budget.charge(steps)?;
    Ok(compiled)
}

pub(super) fn matches(text: &str, pattern: &str, on: &mut Evaluator<'_>) -> Evaluated {
    Ok(Value::Bool(searched(text, pattern, on)?.is_match(text)))
}

fn find_all(text: &str, pattern: &str, limit: i64, on: &mut Evaluator<'_>) -> Evaluated {
    let compiled = searched(text, pattern, on)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut found = Vec::new();
    for part in compiled.find_iter(text).take(limit) {
        // Each search may look at the whole rest again.
        on.budget
            .charge(1 + (text.len() - part.start()) as u64 / 64)?;
        found.push(Value::text(part.as_str()));
    }
    Ok(Value::list(found))
}

fn characters(text: &str) -> i64 {
    i64::try_from(text.chars().count()).unwrap_or(i64::MAX)
}

fn out_of_range(at: i64) -> EvalError {
    EvalError::BadValue(format!("index out of range: {at}"))
}

/// The byte at which a character begins, the end included.
fn place(text: &str, at: i64) -> Result<usize, EvalError> {
    let index = usize::try_from(at).map_err(|_| out_of_range(at))?;
    text.char_indices()
        .map(|(byte, _)| byte)
        .chain([text.len()])
        .nth(index)
        .ok_or_else(|| out_of_range(at))
}

fn char_at(text: &str, at: i64) -> Evaluated {
    let byte = place(text, at)?;
    let mut one = [0; 4];
    Ok(Value::text(
        text[byte..]
            .chars()
            .next()
            .map_or("", |c| c.encode_utf8(&mut one)),
    ))
}

fn substring(text: &str, from: i64, to: i64) -> Evaluated {
    let (start, end) = (place(text, from)?, place(text, to)?);
    if start > end {
        return Err(EvalError::BadValue(format!(
            "invalid substring range. start: {from}, end: {to}"
        )));
    }
    Ok(Value::text(&text[start..end]))
}

fn index_of(text: &str, what: &str, from: i64) -> Evaluated {
    let start = place(text, from)?;
    Ok(match text[start..].find(what) {
        Some(byte) => int(text[..start + byte].chars().count()),
        None => Value::Int(-1),
    })
}

/// The last place at or before `from` where `what` begins.
fn last_index_of(text: &str, what: &str, from: Option<usize>) -> Value {
    let limit = from.map_or(text.len(), |from| (from + what.len()).min(text.len()));
    // The limit is no boundary where the needle's length ends inside a character: no match ends
    // there, so the boundary before it has the same ones.
    let limit = (0..=limit)
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0);
    match text[..limit].rfind(what) {
        Some(byte) => int(text[..byte].chars().count()),
        None => Value::Int(-1),
    }
}

fn replace(text: &str, old: &str, new: &str, limit: i64, budget: &mut Budget) -> Evaluated {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    // Every place is looked at, and each may match.
    budget.elements(text.len())?;
    let count = text.matches(old).take(limit).count();
    budget.bytes(text.len().saturating_add(count.saturating_mul(new.len())))?;
    Ok(Value::text(&text.replacen(old, new, limit)))
}

fn split(text: &str, by: &str, limit: i64, budget: &mut Budget) -> Evaluated {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    // Every place is looked at, and each may match.
    budget.elements(text.len())?;
    let count = text.matches(by).take(limit).count();
    budget.elements(count)?;
    let parts: Vec<Value> = match (by, limit) {
        (_, 0) => Vec::new(),
        // An empty separator takes the text apart into its characters.
        ("", _) => characters_of(text, limit),
        (_, _) => text.splitn(limit, by).map(Value::text).collect(),
    };
    Ok(Value::list(parts))
}

fn characters_of(text: &str, limit: usize) -> Vec<Value> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = match rest.char_indices().nth(1) {
            Some((end, _)) if parts.len() + 1 < limit => end,
            _ => rest.len(),
        };
        parts.push(Value::text(&rest[..end]));
        rest = &rest[end..];
    }
    parts
}

pub(super) fn join(elements: &[Value], by: &str, budget: &mut Budget) -> Evaluated {
    let mut texts = Vec::with_capacity(elements.len());
    for element in elements {
        let Value::String(text) = element else {
            return Err(EvalError::NoSuchOverload);
        };
        budget.charge(1 + (text.len() + by.len()) as u64 / 8)?;
        texts.push(text.as_ref());
    }
    Ok(Value::text(&texts.join(by)))
}

pub(super) fn quote(text: &str, budget: &mut Budget) -> Evaluated {
    budget.bytes(2 * text.len())?;
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x0b' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    Ok(Value::text(&quoted))
}
