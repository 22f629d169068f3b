//! The functions, by how they are called.
//!
//! Invariant: what the catalogue lets through and no arm here takes is `no such overload`: the
//! function exists, and not for values of these types.

pub(super) mod authorizer;
pub(super) mod convert;
mod format;
mod formats;
mod lists;
mod net;
mod quantity;
mod strings;
mod time;
mod url;
mod versions;

pub(super) use lists::sorted_by;

use super::evaluate::{Evaluated, Evaluator};
use super::{EvalError, Value, regex};
use jiff::tz::TimeZone;
use std::collections::HashMap;
use std::sync::Arc;

/// What compiling a pattern costs, in steps, where it is not written out.
const PATTERN_STEPS: u64 = 5_000;
/// How many patterns an evaluation keeps.
const MAX_PATTERNS: usize = 64;

/// The patterns that an evaluation has compiled.
#[derive(Default)]
pub(super) struct Patterns(HashMap<String, ::regex::Regex>);

impl Evaluator<'_> {
    /// A pattern, compiled at most once in an evaluation.
    fn pattern(&mut self, pattern: &str) -> Result<::regex::Regex, EvalError> {
        if let Some(known) = self.patterns.0.get(pattern) {
            return Ok(known.clone());
        }
        self.budget.charge(PATTERN_STEPS)?;
        let compiled = regex::compile(pattern)?;
        if self.patterns.0.len() >= MAX_PATTERNS {
            self.patterns.0.clear();
        }
        self.patterns.0.insert(pattern.to_owned(), compiled.clone());
        Ok(compiled)
    }
}

/// `f(x)`
pub(super) fn global(name: &str, values: &[Value], on: &mut Evaluator<'_>) -> Evaluated {
    match (name, values) {
        ("size", [value]) => size(value),
        ("type", [value]) => Ok(Value::Type(value.type_name())),
        ("dyn", [value]) => Ok(value.clone()),
        ("int", [value]) => convert::int(value),
        ("uint", [value]) => convert::uint(value),
        ("double", [value]) => convert::double(value),
        ("string", [value]) => convert::string(value, on.budget),
        ("bytes", [value]) => convert::bytes(value),
        ("bool", [value]) => convert::bool(value),
        ("duration", [value]) => time::duration(value),
        ("timestamp", [value]) => time::timestamp(value),
        ("matches", [Value::String(text), Value::String(pattern)]) => {
            strings::matches(text, pattern, on)
        }
        ("sign", [Value::Quantity(quantity)]) => Ok(quantity::sign(*quantity)),
        ("quantity", [Value::String(text)]) => quantity::parse(text).map(Value::Quantity),
        ("isQuantity", [Value::String(text)]) => Ok(Value::Bool(quantity::parse(text).is_ok())),
        ("url", [Value::String(text)]) => url::parse(text, on.budget),
        ("isURL", [Value::String(text)]) => is_one(url::parse(text, on.budget)),
        ("ip", [Value::String(text)]) => net::ip(text).map(Value::Ip),
        ("isIP", [Value::String(text)]) => Ok(Value::Bool(net::ip(text).is_ok())),
        ("cidr", [Value::String(text)]) => net::cidr(text).map(Value::Cidr),
        ("semver", [Value::String(text), rest @ ..]) => {
            versions::parse(text, normalizes(rest)?, on.budget)
        }
        ("isSemver", [Value::String(text), rest @ ..]) => {
            is_one(versions::parse(text, normalizes(rest)?, on.budget))
        }
        ("isCIDR", [Value::String(text)]) => Ok(Value::Bool(net::cidr(text).is_ok())),
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// Whether it could be read.
fn is_one(read: Evaluated) -> Evaluated {
    match read {
        Err(error) if error.is_final() => Err(error),
        other => Ok(Value::Bool(other.is_ok())),
    }
}

fn normalizes(rest: &[Value]) -> Result<bool, EvalError> {
    match rest {
        [] => Ok(false),
        [Value::Bool(normalize)] => Ok(*normalize),
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// `x.f(y)`: the target is the first of the values.
pub(super) fn member(name: &str, values: &[Value], on: &mut Evaluator<'_>) -> Evaluated {
    match values {
        [value] if name == "size" => size(value),
        [Value::Optional(content), rest @ ..] => optional(name, content.as_deref(), rest),
        // Up to 1.36 it gives back what is no optional; from 1.37 on that is an error.
        [value, _] if name == "orValue" && on.version.minor() < 37 => Ok(value.clone()),
        [Value::String(text), rest @ ..] => strings::member(name, text, rest, on),
        [Value::List(elements), rest @ ..] => lists::member(name, elements, rest, on.budget),
        [Value::Timestamp(at)] => time::of_timestamp(name, *at, TimeZone::UTC),
        [Value::Timestamp(at), Value::String(zone)] => {
            time::of_timestamp(name, *at, time::zone(zone)?)
        }
        [Value::Duration(nanoseconds)] => time::of_duration(name, *nanoseconds),
        [Value::Quantity(quantity), rest @ ..] => quantity::member(name, *quantity, rest),
        [Value::Url(url)] => url::member(name, url),
        [Value::Ip(address)] => net::of_ip(name, *address),
        [Value::Cidr(network), rest @ ..] => net::of_cidr(name, network, rest),
        [Value::Version(version), rest @ ..] => {
            on.budget.bytes(version.pre.len())?;
            versions::member(name, version, rest)
        }
        [Value::Format(format), Value::String(text)] if name == "validate" => {
            formats::validate(format, text, on.budget)
        }
        [Value::Authorizer(question), rest @ ..] => {
            authorizer::ask(name, question, rest, on.activation, on.budget)
        }
        [Value::Decision(answer)] => authorizer::of_answer(name, answer),
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// `space.f(x)`
pub(super) fn of_space(
    space: &str,
    name: &str,
    values: &[Value],
    on: &mut Evaluator<'_>,
) -> Evaluated {
    match (space, name, values) {
        ("sets", _, [Value::List(a), Value::List(b)]) => lists::sets(name, a, b, on.budget),
        ("optional", "none", []) => Ok(Value::Optional(None)),
        ("optional", "of", [value]) => Ok(Value::some(value.clone())),
        ("optional", "ofNonZeroValue", [value]) => Ok(if is_zero(value) {
            Value::Optional(None)
        } else {
            Value::some(value.clone())
        }),
        ("optional", "unwrap", [Value::List(elements)]) => lists::unwrapped(elements, on.budget),
        ("lists", "range", [Value::Int(end)]) => lists::range(*end, on.budget),
        ("format", "named", [Value::String(name)]) => {
            Ok(Value::Optional(formats::named(name).map(Arc::new)))
        }
        ("format", name, []) => formats::named(name).ok_or(EvalError::NoSuchOverload),
        ("strings", "quote", [Value::String(text)]) => strings::quote(text, on.budget),
        ("ip", "isCanonical", [Value::String(text)]) => {
            net::ip(text).map(|address| Value::Bool(address.to_string() == **text))
        }
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn size(value: &Value) -> Evaluated {
    let size = match value {
        Value::String(text) => text.chars().count(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(elements) => elements.len(),
        Value::Map(map) => map.len(),
        _ => return Err(EvalError::NoSuchOverload),
    };
    Ok(int(size))
}

fn int(value: usize) -> Value {
    Value::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

fn optional(name: &str, content: Option<&Value>, rest: &[Value]) -> Evaluated {
    match (name, content, rest) {
        ("hasValue", content, []) => Ok(Value::Bool(content.is_some())),
        ("value", Some(value), []) => Ok(value.clone()),
        ("value", None, []) => Err(EvalError::BadValue(
            "optional.none() dereference".to_owned(),
        )),
        ("orValue", content, [other]) => Ok(content.unwrap_or(other).clone()),
        ("or", Some(value), [Value::Optional(_)]) => Ok(Value::some(value.clone())),
        ("or", None, [other @ Value::Optional(_)]) => Ok(other.clone()),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Int(value) => *value == 0,
        Value::UInt(value) => *value == 0,
        Value::Double(value) => *value == 0.0,
        Value::String(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::List(elements) => elements.is_empty(),
        Value::Map(map) => map.is_empty(),
        Value::Duration(value) => *value == 0,
        _ => false,
    }
}
