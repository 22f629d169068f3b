//! Durations and timestamps.
//!
//! Invariant: a time zone with a name is that of the tz database which is built in; the API
//! server's may be older or newer by what a law has changed since.

use crate::cel::error::short;
use crate::cel::evaluate::Evaluated;
use crate::cel::{EvalError, Value};
use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};

/// Nanoseconds of the units that a duration's text may use.
const UNITS: &[(&str, i128)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

fn invalid(what: &str, text: &str) -> EvalError {
    EvalError::BadValue(format!(
        "type conversion error from 'string' to '{what}': {:?}",
        short(text)
    ))
}

pub(super) fn duration(value: &Value) -> Evaluated {
    match value {
        Value::Duration(_) => Ok(value.clone()),
        Value::Int(nanoseconds) => Ok(Value::Duration(*nanoseconds)),
        Value::String(text) => parse(text)
            .map(Value::Duration)
            .ok_or_else(|| invalid("google.protobuf.Duration", text)),
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// A duration as Go reads it: `1h30m`, `-1.5s`, `0`.
fn parse(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total: i128 = 0;
    if rest.is_empty() || rest.len() > 100 {
        return None;
    }
    while !rest.is_empty() {
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let end = after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let (_, size) = UNITS.iter().find(|(name, _)| *name == unit)?;
        total = total.checked_add(scaled(number, *size)?)?;
        rest = after;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

fn scaled(number: &str, size: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let whole: i128 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let mut total = whole.checked_mul(size)?;
    let mut part = size;
    for digit in fraction.bytes() {
        part /= 10;
        total += i128::from(digit - b'0') * part;
    }
    Some(total)
}

/// Seconds with as many digits as there are.
pub(super) fn text(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let all = nanoseconds.unsigned_abs();
    let (seconds, rest) = (all / 1_000_000_000, all % 1_000_000_000);
    if rest == 0 {
        return format!("{sign}{seconds}s");
    }
    let fraction = format!("{rest:09}");
    format!("{sign}{seconds}.{}s", fraction.trim_end_matches('0'))
}

pub(super) fn timestamp(value: &Value) -> Evaluated {
    match value {
        Value::Timestamp(_) => Ok(value.clone()),
        Value::Int(seconds) => Timestamp::from_second(*seconds)
            .map(Value::Timestamp)
            .map_err(|_| EvalError::Overflow("timestamp out of range")),
        Value::String(text) => Some(text)
            .filter(|text| is_rfc3339(text))
            .and_then(|text| text.parse().ok())
            .map(Value::Timestamp)
            .ok_or_else(|| invalid("google.protobuf.Timestamp", text)),
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// The one form that the API server takes; the library takes more.
fn is_rfc3339(text: &str) -> bool {
    let shape = |part: &str, pattern: &str| {
        part.len() == pattern.len()
            && part
                .bytes()
                .zip(pattern.bytes())
                .all(|(byte, wanted)| match wanted {
                    b'0' => byte.is_ascii_digit(),
                    sign => byte == sign,
                })
    };
    let Some((head, rest)) = text.split_at_checked(19) else {
        return false;
    };
    if !shape(head, "0000-00-00T00:00:00") || head.ends_with(":60") {
        return false;
    }
    let zone = match rest.strip_prefix('.') {
        None => rest,
        Some(fraction) => {
            let zone = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            let digits = fraction.len() - zone.len();
            if digits == 0 || digits > 9 {
                return false;
            }
            zone
        }
    };
    zone == "Z" || shape(zone, "+00:00") || shape(zone, "-00:00")
}

/// A time zone as cel-go reads it: a name, or hours and minutes with a sign or without.
pub(super) fn zone(text: &str) -> Result<TimeZone, EvalError> {
    let Some((hours, minutes)) = text.split_once(':') else {
        return named_zone(text);
    };
    let number = |text: &str| -> Result<i32, EvalError> {
        text.parse()
            .map_err(|_| invalid("a time zone's offset", text))
    };
    let (whole, rest) = (number(hours)?, number(minutes)?);
    // Far more than any zone has; the library ends before Go does.
    let far = |_| EvalError::Unsupported(format!("the time zone {:?}", short(text)));
    let seconds = whole.checked_mul(3600).zip(rest.checked_mul(60));
    let seconds = seconds.and_then(|(whole, rest)| match text.starts_with('-') {
        true => whole.checked_sub(rest),
        false => whole.checked_add(rest),
    });
    let offset = Offset::from_seconds(seconds.unwrap_or(i32::MAX)).map_err(far)?;
    Ok(TimeZone::fixed(offset))
}

fn named_zone(name: &str) -> Result<TimeZone, EvalError> {
    match name {
        "" | "UTC" => return Ok(TimeZone::UTC),
        // What the machine on which the API server runs says, or what some databases have.
        "Local" | "localtime" | "posixrules" => {
            return Err(EvalError::Unsupported(format!("the time zone {name:?}")));
        }
        _ if name.starts_with("posix/") || name.starts_with("right/") => {
            return Err(EvalError::Unsupported(format!(
                "the time zone {:?}",
                short(name)
            )));
        }
        _ => {}
    }
    // Go looks for a file of the very name, the database for one in any case.
    let found = TimeZoneDatabase::bundled().get(name).ok();
    let found = found.filter(|zone| zone.iana_name() == Some(name));
    found.ok_or_else(|| EvalError::BadValue(format!("unknown time zone {}", short(name))))
}

pub(super) fn of_timestamp(name: &str, at: Timestamp, zone: TimeZone) -> Evaluated {
    let at = at.to_zoned(zone);
    let value = match name {
        "getFullYear" => i64::from(at.year()),
        "getMonth" => i64::from(at.month()) - 1,
        "getDate" => i64::from(at.day()),
        "getDayOfMonth" => i64::from(at.day()) - 1,
        "getDayOfWeek" => i64::from(at.weekday().to_sunday_zero_offset()),
        "getDayOfYear" => i64::from(at.day_of_year()) - 1,
        "getHours" => i64::from(at.hour()),
        "getMinutes" => i64::from(at.minute()),
        "getSeconds" => i64::from(at.second()),
        "getMilliseconds" => i64::from(at.millisecond()),
        _ => return Err(EvalError::NoSuchOverload),
    };
    Ok(Value::Int(value))
}

pub(super) fn of_duration(name: &str, nanoseconds: i64) -> Evaluated {
    let value = match name {
        "getHours" => nanoseconds / 3_600_000_000_000,
        "getMinutes" => nanoseconds / 60_000_000_000,
        "getSeconds" => nanoseconds / 1_000_000_000,
        // Of the whole duration, like the others, whatever CEL's own specification says.
        "getMilliseconds" => nanoseconds / 1_000_000,
        _ => return Err(EvalError::NoSuchOverload),
    };
    Ok(Value::Int(value))
}
