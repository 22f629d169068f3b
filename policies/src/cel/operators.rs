//! The operators on values.
//!
//! Invariant: values of different types are unequal, never an error, except that numbers compare
//! as numbers, and that Kubernetes' own types on the left of `==` compare with nothing but
//! themselves and null; everything else on types that do not fit is `no such overload`.

use super::ast::Binary;
use super::value::whole;
use super::{Budget, EvalError, Key, Value};
use jiff::SignedDuration;
use std::cmp::Ordering;

const INT_OVERFLOW: EvalError = EvalError::Overflow("integer overflow");
const UINT_OVERFLOW: EvalError = EvalError::Overflow("unsigned integer overflow");
const DURATION_OVERFLOW: EvalError = EvalError::Overflow("duration out of range");
const TIMESTAMP_OVERFLOW: EvalError = EvalError::Overflow("timestamp out of range");

type Outcome = Result<Value, EvalError>;

pub(super) fn not(value: &Value) -> Outcome {
    match value {
        Value::Bool(value) => Ok(Value::Bool(!value)),
        _ => Err(EvalError::NoSuchOverload),
    }
}

pub(super) fn negate(value: &Value) -> Outcome {
    match value {
        Value::Int(value) => value.checked_neg().map(Value::Int).ok_or(INT_OVERFLOW),
        Value::Double(value) => Ok(Value::Double(-value)),
        Value::Duration(value) => value
            .checked_neg()
            .map(Value::Duration)
            .ok_or(DURATION_OVERFLOW),
        _ => Err(EvalError::NoSuchOverload),
    }
}

pub(super) fn binary(
    operator: Binary,
    left: &Value,
    right: &Value,
    budget: &mut Budget,
) -> Outcome {
    let ordered =
        |holds: fn(Ordering) -> bool, budget: &mut Budget| match compare(left, right, budget)? {
            Some(order) => Ok(Value::Bool(holds(order))),
            None => Err(EvalError::BadValue(
                "NaN values cannot be ordered".to_owned(),
            )),
        };
    match operator {
        Binary::Equal if is_strange(left, right) && !matches!(right, Value::Null) => {
            Err(EvalError::NoSuchOverload)
        }
        Binary::Equal => equal(left, right, budget).map(Value::Bool),
        Binary::NotEqual => equal(left, right, budget).map(|same| Value::Bool(!same)),
        Binary::Less => ordered(Ordering::is_lt, budget),
        Binary::LessOrEqual => ordered(Ordering::is_le, budget),
        Binary::Greater => ordered(Ordering::is_gt, budget),
        Binary::GreaterOrEqual => ordered(Ordering::is_ge, budget),
        Binary::Add => add(left, right, budget),
        Binary::Subtract => subtract(left, right),
        Binary::Multiply => multiply(left, right),
        Binary::Divide => divide(left, right),
        Binary::Modulo => modulo(left, right),
        Binary::In => contains(left, right, budget).map(Value::Bool),
        // These two are the evaluator's: they do not evaluate both sides.
        Binary::And | Binary::Or => Err(EvalError::Failed),
    }
}

/// Whether one of Kubernetes' own types stands on the left of what it knows nothing of: an error of
/// `==`, while `!=` holds. The authorizer's know not even themselves.
fn is_strange(left: &Value, right: &Value) -> bool {
    match left {
        Value::Quantity(_)
        | Value::Version(_)
        | Value::Format(_)
        | Value::Url(_)
        | Value::Ip(_)
        | Value::Cidr(_) => std::mem::discriminant(left) != std::mem::discriminant(right),
        Value::Authorizer(_) | Value::Decision(_) => true,
        _ => false,
    }
}

/// Whether what stands within two lists, maps or optionals is equal. Where it is strange the API
/// server's answer is an accident of its library.
fn equal_inside(left: &Value, right: &Value, budget: &mut Budget) -> Result<bool, EvalError> {
    if is_strange(left, right) {
        let (left, right) = (left.type_name(), right.type_name());
        let what = format!("comparing `{left}` with `{right}` inside of another value");
        return Err(EvalError::Unsupported(what));
    }
    equal(left, right, budget)
}

/// Whether two values are equal.
pub(super) fn equal(left: &Value, right: &Value, budget: &mut Budget) -> Result<bool, EvalError> {
    budget.charge(2)?;
    Ok(match (left, right) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::String(a), Value::String(b)) => {
            budget.bytes(a.len().min(b.len()))?;
            a == b
        }
        (Value::Bytes(a), Value::Bytes(b)) => {
            budget.bytes(a.len().min(b.len()))?;
            a == b
        }
        (Value::List(a), Value::List(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (a, b) in a.iter().zip(b.iter()) {
                if !equal_inside(a, b, budget)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Map(a), Value::Map(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (key, a) in a.iter() {
                budget.bytes(key.weight())?;
                match b.get(key) {
                    Some(b) if equal_inside(a, b, budget)? => {}
                    Some(_) | None => return Ok(false),
                }
            }
            true
        }
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
        (Value::Type(a), Value::Type(b)) => a == b,
        (Value::Optional(None), Value::Optional(None)) => true,
        (Value::Optional(Some(a)), Value::Optional(Some(b))) => equal_inside(a, b, budget)?,
        (Value::Quantity(a), Value::Quantity(b)) => a == b,
        (Value::Url(a), Value::Url(b)) => {
            budget.bytes(a.text.len().min(b.text.len()))?;
            a.text == b.text
        }
        (Value::Ip(a), Value::Ip(b)) => a == b,
        (Value::Cidr(a), Value::Cidr(b)) => a == b,
        (Value::Version(a), Value::Version(b)) => {
            budget.bytes(a.pre.len().min(b.pre.len()))?;
            a.cmp_precedence(b).is_eq()
        }
        (Value::Format(a), Value::Format(b)) => a == b,
        _ => numbers(left, right).flatten() == Some(Ordering::Equal),
    })
}

/// The order of two values; nothing where one is NaN.
pub(super) fn compare(
    left: &Value,
    right: &Value,
    budget: &mut Budget,
) -> Result<Option<Ordering>, EvalError> {
    if let (Value::String(_), Value::String(_)) | (Value::Bytes(_), Value::Bytes(_)) = (left, right)
    {
        budget.bytes(left.weight().min(right.weight()))?;
    }
    order(left, right).ok_or(EvalError::NoSuchOverload)
}

/// The same, of values whose text is paid for; nothing where they have no order.
pub(super) fn order(left: &Value, right: &Value) -> Option<Option<Ordering>> {
    match (left, right) {
        (Value::Bool(a), Value::Bool(b)) => Some(Some(a.cmp(b))),
        (Value::String(a), Value::String(b)) => Some(Some(a.cmp(b))),
        (Value::Bytes(a), Value::Bytes(b)) => Some(Some(a.cmp(b))),
        (Value::Duration(a), Value::Duration(b)) => Some(Some(a.cmp(b))),
        (Value::Timestamp(a), Value::Timestamp(b)) => Some(Some(a.cmp(b))),
        _ => numbers(left, right),
    }
}

/// The order of two numbers, if they are; inside, nothing where one is NaN.
fn numbers(left: &Value, right: &Value) -> Option<Option<Ordering>> {
    let integer = |value: &Value| match value {
        Value::Int(value) => Some(i128::from(*value)),
        Value::UInt(value) => Some(i128::from(*value)),
        _ => None,
    };
    match (left, right) {
        (Value::Double(a), Value::Double(b)) => Some(a.partial_cmp(b)),
        (Value::Double(a), b) => integer(b).map(|b| with_double(b, *a).map(Ordering::reverse)),
        (a, Value::Double(b)) => integer(a).map(|a| with_double(a, *b)),
        (a, b) => Some(Some(integer(a)?.cmp(&integer(b)?))),
    }
}

/// The order of a whole number and a double, without rounding the first.
fn with_double(integer: i128, double: f64) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    // Past these there is no whole number of 64 bits.
    if double >= 1.9e19 {
        return Some(Ordering::Less);
    }
    if double <= -1.0e19 {
        return Some(Ordering::Greater);
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the range is checked above"
    )]
    let floor = double.floor() as i128;
    let order = integer.cmp(&floor);
    let above = double.fract() != 0.0;
    Some(if order.is_eq() && above {
        Ordering::Less
    } else {
        order
    })
}

fn add(left: &Value, right: &Value, budget: &mut Budget) -> Outcome {
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => a.checked_add(*b).map(Value::Int).ok_or(INT_OVERFLOW),
        (Value::UInt(a), Value::UInt(b)) => a.checked_add(*b).map(Value::UInt).ok_or(UINT_OVERFLOW),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a + b)),
        (Value::String(a), Value::String(b)) => {
            budget.bytes(a.len() + b.len())?;
            Ok(Value::String([a.as_ref(), b.as_ref()].concat().into()))
        }
        (Value::Bytes(a), Value::Bytes(b)) => {
            budget.bytes(a.len() + b.len())?;
            Ok(Value::Bytes([a.as_ref(), b.as_ref()].concat().into()))
        }
        (Value::List(a), Value::List(b)) => {
            budget.elements(a.len() + b.len())?;
            Ok(Value::list(a.iter().chain(b.iter()).cloned().collect()))
        }
        (Value::Duration(a), Value::Duration(b)) => a
            .checked_add(*b)
            .map(Value::Duration)
            .ok_or(DURATION_OVERFLOW),
        (Value::Timestamp(at), Value::Duration(by))
        | (Value::Duration(by), Value::Timestamp(at)) => at
            .checked_add(SignedDuration::from_nanos(*by))
            .map(Value::Timestamp)
            .map_err(|_| TIMESTAMP_OVERFLOW),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn subtract(left: &Value, right: &Value) -> Outcome {
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => a.checked_sub(*b).map(Value::Int).ok_or(INT_OVERFLOW),
        (Value::UInt(a), Value::UInt(b)) => a.checked_sub(*b).map(Value::UInt).ok_or(UINT_OVERFLOW),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a - b)),
        (Value::Duration(a), Value::Duration(b)) => a
            .checked_sub(*b)
            .map(Value::Duration)
            .ok_or(DURATION_OVERFLOW),
        (Value::Timestamp(at), Value::Duration(by)) => at
            .checked_sub(SignedDuration::from_nanos(*by))
            .map(Value::Timestamp)
            .map_err(|_| TIMESTAMP_OVERFLOW),
        (Value::Timestamp(a), Value::Timestamp(b)) => {
            i64::try_from(a.as_nanosecond() - b.as_nanosecond())
                .map(Value::Duration)
                .map_err(|_| DURATION_OVERFLOW)
        }
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn multiply(left: &Value, right: &Value) -> Outcome {
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => a.checked_mul(*b).map(Value::Int).ok_or(INT_OVERFLOW),
        (Value::UInt(a), Value::UInt(b)) => a.checked_mul(*b).map(Value::UInt).ok_or(UINT_OVERFLOW),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a * b)),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn divide(left: &Value, right: &Value) -> Outcome {
    match (left, right) {
        (Value::Int(_), Value::Int(0)) | (Value::UInt(_), Value::UInt(0)) => {
            Err(EvalError::DivisionByZero)
        }
        (Value::Int(a), Value::Int(b)) => a.checked_div(*b).map(Value::Int).ok_or(INT_OVERFLOW),
        (Value::UInt(a), Value::UInt(b)) => a.checked_div(*b).map(Value::UInt).ok_or(UINT_OVERFLOW),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a / b)),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn modulo(left: &Value, right: &Value) -> Outcome {
    match (left, right) {
        (Value::Int(_), Value::Int(0)) | (Value::UInt(_), Value::UInt(0)) => {
            Err(EvalError::ModulusByZero)
        }
        (Value::Int(a), Value::Int(b)) => a.checked_rem(*b).map(Value::Int).ok_or(INT_OVERFLOW),
        (Value::UInt(a), Value::UInt(b)) => a.checked_rem(*b).map(Value::UInt).ok_or(UINT_OVERFLOW),
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// `value in container`
pub(super) fn contains(
    value: &Value,
    container: &Value,
    budget: &mut Budget,
) -> Result<bool, EvalError> {
    budget.bytes(value.weight())?;
    match container {
        Value::List(elements) => holds(elements, value, budget),
        Value::Map(map) => match (value, Key::of(value)) {
            (_, Some(key)) => Ok(map.contains_key(&key)),
            (Value::Double(value), None) => Ok(whole(*value).is_some()),
            (_, None) => Err(EvalError::BadValue(format!(
                "unsupported key type: {}",
                value.type_name()
            ))),
        },
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// Whether a list has an element. As in the API server's library the value stands on the left.
pub(super) fn holds(
    elements: &[Value],
    value: &Value,
    budget: &mut Budget,
) -> Result<bool, EvalError> {
    for element in elements.iter() {
        if equal(value, element, budget)? {
            return Ok(true);
        }
    }
    Ok(false)
}
