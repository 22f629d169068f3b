//! `'…'.format([…])`.

use super::convert;
use crate::cel::evaluate::Evaluated;
use crate::cel::{Budget, EvalError, Value};
use std::fmt::Write;

/// The most digits after the point that are asked for.
const MAX_PRECISION: usize = 100;

pub(super) fn format(pattern: &str, arguments: &[Value], budget: &mut Budget) -> Evaluated {
    let mut out = String::new();
    let mut rest = pattern.chars();
    let mut arguments = arguments.iter();
    while let Some(character) = rest.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        let mut sign = rest.next();
        if sign == Some('%') {
            out.push('%');
            continue;
        }
        let mut precision = None;
        if sign == Some('.') {
            let digits: String = rest.clone().take_while(char::is_ascii_digit).collect();
            rest.nth(digits.len().saturating_sub(1));
            precision = digits
                .parse()
                .ok()
                .filter(|wanted| *wanted <= MAX_PRECISION);
            if precision.is_none() {
                return Err(failed("invalid precision"));
            }
            sign = rest.next();
        }
        let sign = sign.ok_or_else(|| failed("unexpected end of format string"))?;
        let Some(value) = arguments.next() else {
            return Err(failed("index out of range"));
        };
        let before = out.len();
        clause(&mut out, sign, precision, value, budget)?;
        budget.bytes(8 + out.len() - before)?;
    }
    Ok(Value::text(&out))
}

fn failed(what: &str) -> EvalError {
    EvalError::BadValue(format!("could not parse formatting clause: {what}"))
}

fn clause(
    out: &mut String,
    sign: char,
    precision: Option<usize>,
    value: &Value,
    budget: &mut Budget,
) -> Result<(), EvalError> {
    let wrong = || {
        failed(&format!(
            "no such conversion of {} by %{sign}",
            value.type_name()
        ))
    };
    match (sign, value) {
        ('s', value) => text(out, value, budget)?,
        ('d', Value::Int(value)) => push(out, format_args!("{value}")),
        ('d', Value::UInt(value)) => push(out, format_args!("{value}")),
        ('f', Value::Double(value)) if value.is_finite() => {
            push(out, format_args!("{value:.*}", precision.unwrap_or(6)));
        }
        ('e', Value::Double(value)) if value.is_finite() => {
            let scientific = format!("{value:.*e}", precision.unwrap_or(6));
            let (mantissa, exponent) = scientific.split_once('e').ok_or_else(wrong)?;
            let exponent = exponent.parse().map_err(|_| wrong())?;
            out.push_str(&convert::exponential(mantissa, exponent));
        }
        ('b', Value::Bool(value)) => push(out, format_args!("{}", u8::from(*value))),
        ('b', Value::Int(value)) => signed(out, *value, |n| format!("{n:b}")),
        ('b', Value::UInt(value)) => push(out, format_args!("{value:b}")),
        ('o', Value::Int(value)) => signed(out, *value, |n| format!("{n:o}")),
        ('o', Value::UInt(value)) => push(out, format_args!("{value:o}")),
        ('x', Value::Int(value)) => signed(out, *value, |n| format!("{n:x}")),
        ('X', Value::Int(value)) => signed(out, *value, |n| format!("{n:X}")),
        ('x', Value::UInt(value)) => push(out, format_args!("{value:x}")),
        ('X', Value::UInt(value)) => push(out, format_args!("{value:X}")),
        ('x' | 'X', Value::String(value)) => hex(out, value.as_bytes(), sign),
        ('x' | 'X', Value::Bytes(value)) => hex(out, value, sign),
        _ => return Err(wrong()),
    }
    Ok(())
}

fn push(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = out.write_fmt(arguments);
}

fn signed(out: &mut String, value: i64, digits: impl Fn(u64) -> String) {
    if value < 0 {
        out.push('-');
    }
    out.push_str(&digits(value.unsigned_abs()));
}

fn hex(out: &mut String, bytes: &[u8], sign: char) {
    for byte in bytes {
        match sign {
            'X' => push(out, format_args!("{byte:02X}")),
            _ => push(out, format_args!("{byte:02x}")),
        }
    }
}

/// What `%s` writes.
fn text(out: &mut String, value: &Value, budget: &mut Budget) -> Result<(), EvalError> {
    budget.charge(1)?;
    match value {
        Value::List(elements) => {
            out.push('[');
            for (at, element) in elements.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                text(out, element, budget)?;
            }
            out.push(']');
        }
        Value::Map(map) => {
            out.push('{');
            for (at, (key, value)) in map.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                text(out, &key.value(), budget)?;
                out.push_str(": ");
                text(out, value, budget)?;
            }
            out.push('}');
        }
        scalar => {
            let written = convert::text_of(scalar)
                .ok_or_else(|| failed(&format!("no text of {}", scalar.type_name())))?;
            budget.bytes(written.len())?;
            out.push_str(&written);
        }
    }
    Ok(())
}
