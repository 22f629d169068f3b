//! Quantities: `500m`, `1Gi`, `2e3`.
//!
//! Invariant: exact. A quantity is a whole number of billionths, the finest that Kubernetes keeps;
//! what is finer is rounded up, as there.

use crate::cel::error::short;
use crate::cel::evaluate::Evaluated;
use crate::cel::{EvalError, Value};
use std::cmp::Ordering;

const ONE: i128 = 1_000_000_000;

/// The suffixes and what they stand for, in billionths.
const SUFFIXES: &[(&str, i128)] = &[
    ("", ONE),
    ("n", 1),
    ("u", 1_000),
    ("m", 1_000_000),
    ("k", 1_000 * ONE),
    ("M", 1_000_000 * ONE),
    ("G", 1_000_000_000 * ONE),
    ("T", 1_000_000_000_000 * ONE),
    ("P", 1_000_000_000_000_000 * ONE),
    ("E", 1_000_000_000_000_000_000 * ONE),
    ("Ki", (1 << 10) * ONE),
    ("Mi", (1 << 20) * ONE),
    ("Gi", (1 << 30) * ONE),
    ("Ti", (1 << 40) * ONE),
    ("Pi", (1 << 50) * ONE),
    ("Ei", (1 << 60) * ONE),
];

fn invalid(text: &str) -> EvalError {
    EvalError::BadValue(format!(
        "quantities must match the regular expression of Kubernetes: {:?}",
        short(text)
    ))
}

/// Reads a quantity.
pub(super) fn parse(text: &str) -> Result<i128, EvalError> {
    read(text).ok_or_else(|| invalid(text))?
}

fn read(text: &str) -> Option<Result<i128, EvalError>> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = unsigned
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let unit = SUFFIXES
        .iter()
        .find(|(name, _)| *name == suffix)
        .map(|(_, unit)| *unit)
        .or_else(|| exponent(suffix))?;
    let too_large = || EvalError::Unsupported(format!("the quantity {:?}", short(text)));
    if whole.len() > 28 || fraction.len() > 28 || unit == 0 {
        return Some(Err(too_large()));
    }
    let digits = format!("{whole}{fraction}");
    let value = digits
        .parse::<i128>()
        .ok()
        .and_then(|number| number.checked_mul(unit))
        .and_then(|scaled| {
            let power = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
            // Rounded away from zero.
            Some(scaled / power + i128::from(scaled % power != 0))
        });
    Some(
        value
            .map(|value| if negative { -value } else { value })
            .ok_or_else(too_large),
    )
}

/// `e3`, `E-2`; 0 where it is out of what can be held.
fn exponent(suffix: &str) -> Option<i128> {
    let digits = suffix.strip_prefix(['e', 'E'])?;
    let power: i32 = digits.parse().ok()?;
    Some(match u32::try_from(power + 9) {
        Ok(power) if power <= 27 => 10_i128.pow(power),
        _ => 0,
    })
}

/// Called as `sign(q)`: the API server declares no method, whatever its documentation writes.
pub(super) fn sign(quantity: i128) -> Value {
    Value::Int(match quantity.cmp(&0) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    })
}

pub(super) fn member(name: &str, quantity: i128, rest: &[Value]) -> Evaluated {
    let whole = (quantity % ONE == 0)
        .then(|| i64::try_from(quantity / ONE).ok())
        .flatten();
    Ok(match (name, rest) {
        ("isInteger", []) => Value::Bool(whole.is_some()),
        ("asInteger", []) => Value::Int(
            whole
                .ok_or_else(|| EvalError::BadValue("cannot convert value to integer".to_owned()))?,
        ),
        #[expect(
            clippy::cast_precision_loss,
            reason = "approximate is what was asked for"
        )]
        ("asApproximateFloat", []) => Value::Double(quantity as f64 / ONE as f64),
        ("add", [other]) => Value::Quantity(with(quantity, other, i128::checked_add)?),
        ("sub", [other]) => Value::Quantity(with(quantity, other, i128::checked_sub)?),
        ("isLessThan", [Value::Quantity(other)]) => Value::Bool(quantity < *other),
        ("isGreaterThan", [Value::Quantity(other)]) => Value::Bool(quantity > *other),
        ("compareTo", [Value::Quantity(other)]) => Value::Int(quantity.cmp(other) as i64),
        _ => return Err(EvalError::NoSuchOverload),
    })
}

fn with(
    quantity: i128,
    other: &Value,
    operation: fn(i128, i128) -> Option<i128>,
) -> Result<i128, EvalError> {
    let other = match other {
        Value::Quantity(other) => *other,
        Value::Int(other) => i128::from(*other) * ONE,
        _ => return Err(EvalError::NoSuchOverload),
    };
    operation(quantity, other)
        .ok_or_else(|| EvalError::Unsupported("a quantity of that size".to_owned()))
}
