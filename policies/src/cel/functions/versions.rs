//! Semantic versions.
//!
//! Invariant: what is a version here is one to the API server: its library reads semver 2.0 too,
//! but holds every number in 64 bits.

use crate::cel::error::short;
use crate::cel::evaluate::Evaluated;
use crate::cel::{Budget, EvalError, Value};
use semver::Version;
use std::cmp::Ordering;
use std::sync::Arc;

fn invalid(text: &str) -> EvalError {
    EvalError::BadValue(format!("not a semantic version: {:?}", short(text)))
}

/// `semver(text)`, and with `normalize` the tolerant form: a `v` before it, a missing minor or
/// patch, and leading zeros are taken.
pub(super) fn parse(text: &str, normalize: bool, budget: &mut Budget) -> Evaluated {
    budget.bytes(8 * text.len())?;
    let version = match normalize {
        true => normalized(text).and_then(|text| read(&text)),
        false => read(text),
    };
    let version = version.ok_or_else(|| invalid(text))?;
    Ok(Value::Version(Arc::new(version)))
}

fn read(text: &str) -> Option<Version> {
    let version = Version::parse(text).ok()?;
    let fits =
        |part: &str| part.contains(|c: char| !c.is_ascii_digit()) || part.parse::<u64>().is_ok();
    let pre = version.pre.as_str();
    (pre.is_empty() || pre.split('.').all(fits)).then_some(version)
}

fn normalized(text: &str) -> Option<String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
    if parts.len() < 3 {
        if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return None;
        }
        parts.resize(3, "0".to_owned());
    }
    Some(parts.join("."))
}

fn without_zeros(part: &str) -> String {
    if part.len() < 2 {
        return part.to_owned();
    }
    let rest = part.trim_start_matches('0');
    match rest.starts_with(|c: char| c.is_ascii_digit()) {
        true => rest.to_owned(),
        false => format!("0{rest}"),
    }
}

pub(super) fn member(name: &str, version: &Version, rest: &[Value]) -> Evaluated {
    // As there: a number beyond an `int` goes round.
    let number = |number: u64| Value::Int(number.cast_signed());
    Ok(match (name, rest) {
        ("major", []) => number(version.major),
        ("minor", []) => number(version.minor),
        ("patch", []) => number(version.patch),
        ("isLessThan", [Value::Version(other)]) => {
            Value::Bool(version.cmp_precedence(other) == Ordering::Less)
        }
        ("isGreaterThan", [Value::Version(other)]) => {
            Value::Bool(version.cmp_precedence(other) == Ordering::Greater)
        }
        ("compareTo", [Value::Version(other)]) => Value::Int(version.cmp_precedence(other) as i64),
        _ => return Err(EvalError::NoSuchOverload),
    })
}
