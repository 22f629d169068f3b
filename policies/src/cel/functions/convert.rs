//! From one type to another.

use crate::cel::error::short;
use crate::cel::evaluate::Evaluated;
use crate::cel::value::whole;
use crate::cel::{Budget, EvalError, Value};

const RANGE: EvalError = EvalError::Overflow("integer overflow");
const UNSIGNED_RANGE: EvalError = EvalError::Overflow("unsigned integer overflow");

fn bad(what: &str, text: &str) -> EvalError {
    EvalError::BadValue(format!(
        "type conversion error from 'string' to '{what}': {:?}",
        short(text)
    ))
}

pub(super) fn int(value: &Value) -> Evaluated {
    let number = match value {
        Value::Int(value) => *value,
        Value::UInt(value) => i64::try_from(*value).map_err(|_| RANGE)?,
        Value::Double(value) => whole(value.trunc()).ok_or(RANGE)?,
        Value::String(text) => text.parse().map_err(|_| bad("int", text))?,
        Value::Timestamp(at) => at.as_second(),
        Value::Duration(nanoseconds) => *nanoseconds,
        _ => return Err(EvalError::NoSuchOverload),
    };
    Ok(Value::Int(number))
}

pub(super) fn uint(value: &Value) -> Evaluated {
    let number = match value {
        Value::UInt(value) => *value,
        Value::Int(value) => u64::try_from(*value).map_err(|_| UNSIGNED_RANGE)?,
        Value::Double(value) if (0.0..1.844_674_407_370_955_2e19).contains(value) => {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the range is checked above"
            )]
            let number = *value as u64;
            number
        }
        Value::Double(_) => return Err(UNSIGNED_RANGE),
        Value::String(text) => text.parse().map_err(|_| bad("uint", text))?,
        _ => return Err(EvalError::NoSuchOverload),
    };
    Ok(Value::UInt(number))
}

pub(super) fn double(value: &Value) -> Evaluated {
    #[expect(clippy::cast_precision_loss, reason = "so the API server rounds")]
    let number = match value {
        Value::Double(value) => *value,
        Value::Int(value) => *value as f64,
        Value::UInt(value) => *value as f64,
        Value::String(text) => text.parse().map_err(|_| bad("double", text))?,
        _ => return Err(EvalError::NoSuchOverload),
    };
    Ok(Value::Double(number))
}

pub(super) fn bool(value: &Value) -> Evaluated {
    match value {
        Value::Bool(value) => Ok(Value::Bool(*value)),
        Value::String(text) => match text.as_ref() {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
            other => Err(bad("bool", other)),
        },
        _ => Err(EvalError::NoSuchOverload),
    }
}

pub(super) fn bytes(value: &Value) -> Evaluated {
    match value {
        Value::Bytes(_) => Ok(value.clone()),
        Value::String(text) => Ok(Value::Bytes(text.as_bytes().into())),
        _ => Err(EvalError::NoSuchOverload),
    }
}

pub(super) fn string(value: &Value, budget: &mut Budget) -> Evaluated {
    let text = match value {
        Value::String(_) => return Ok(value.clone()),
        Value::Bytes(bytes) => {
            budget.bytes(bytes.len())?;
            std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| {
                EvalError::BadValue("invalid UTF-8 in bytes, cannot convert to string".to_owned())
            })?
        }
        Value::Bool(_)
        | Value::Int(_)
        | Value::UInt(_)
        | Value::Double(_)
        | Value::Timestamp(_)
        | Value::Duration(_)
        | Value::Ip(_)
        | Value::Cidr(_) => text_of(value).ok_or(EvalError::NoSuchOverload)?,
        _ => return Err(EvalError::NoSuchOverload),
    };
    Ok(Value::text(&text))
}

/// A scalar as text.
pub(in crate::cel) fn text_of(value: &Value) -> Option<String> {
    Some(match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::UInt(value) => value.to_string(),
        Value::Double(value) => general(*value),
        Value::String(text) => text.to_string(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Timestamp(at) => at.to_string(),
        Value::Duration(nanoseconds) => super::time::text(*nanoseconds),
        Value::Type(name) => (*name).to_owned(),
        Value::Ip(address) => address.to_string(),
        Value::Cidr(network) => format!("{}/{}", network.address, network.prefix),
        Value::Url(url) => url.text.clone(),
        Value::Quantity(_)
        | Value::List(_)
        | Value::Map(_)
        | Value::Optional(_)
        | Value::Version(_)
        | Value::Format(_)
        | Value::Authorizer(_)
        | Value::Decision(_) => return None,
    })
}

/// A double as Go's `%g` writes it.
pub(super) fn general(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..21).contains(&exponent) || value == 0.0 {
        return value.to_string();
    }
    exponential(mantissa, exponent)
}

/// Go writes at least two digits of an exponent, and its sign.
pub(super) fn exponential(mantissa: &str, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}
