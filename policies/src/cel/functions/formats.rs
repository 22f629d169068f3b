//! The formats that Kubernetes has names for: `format.dns1123Label().validate(text)`.
//!
//! Invariant: whether a text is of a format is as the API server decides it; what is said of one
//! that is not is in the words of Kubernetes 1.36, which differ a little from release to release.

use crate::cel::error::short;
use crate::cel::evaluate::Evaluated;
use crate::cel::{Budget, EvalError, Value};
use regex::Regex;
use std::sync::LazyLock;

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const LABEL_1035: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const UUID: &str = "(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}";
const BASE64: &str = "(?:[A-Za-z0-9+/]{4})*\
                      (?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})";
const CLOCK: &str = "([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))";

/// The names, as `format.named` takes them.
const NAMES: [&str; 13] = [
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

/// The format of a name, if there is one.
pub(super) fn named(name: &str) -> Option<Value> {
    let known = NAMES.iter().find(|known| **known == name)?;
    Some(Value::Format(known))
}

/// `optional.none()` where the text is of the format, else what is wrong with it.
pub(super) fn validate(format: &str, text: &str, budget: &mut Budget) -> Evaluated {
    budget.charge(cost(format, text))?;
    let wrong = wrong(format, text)?;
    if wrong.is_empty() {
        return Ok(Value::Optional(None));
    }
    let wrong = wrong.iter().map(|words| Value::text(words)).collect();
    Ok(Value::some(Value::list(wrong)))
}

/// What the API server takes it to cost, of the length of a pattern: some are shorter.
fn cost(format: &str, text: &str) -> u64 {
    let pattern = match format {
        "uri" => 1103,
        "uuid" | "byte" | "date" | "datetime" => 84,
        _ => 60,
    };
    let text = (text.len() as u64 + 1).div_ceil(10);
    text.saturating_mul(u64::div_ceil(pattern, 4))
}

fn wrong(format: &str, text: &str) -> Result<Vec<String>, EvalError> {
    let told = |holds: bool, words: &str| match holds {
        true => Vec::new(),
        false => vec![words.to_owned()],
    };
    Ok(match format {
        "dns1123Label" => label(text),
        "dns1123Subdomain" => subdomain(text, "characters"),
        "dns1035Label" => label_1035(text),
        "dns1123LabelPrefix" => label(&masked(text)),
        "dns1123SubdomainPrefix" => subdomain(&masked(text), "characters"),
        "dns1035LabelPrefix" => label_1035(&masked(text)),
        "qualifiedName" => qualified_name(text),
        "labelValue" => label_value(text),
        "uuid" => told(is(UUID, text), "does not match the UUID format"),
        "byte" => told(is(BASE64, text), "invalid base64"),
        "date" => told(is_date(text), "invalid date"),
        "datetime" => told(is_date_time(text), "invalid datetime"),
        "uri" => uri(text)?,
        _ => return Err(EvalError::NoSuchOverload),
    })
}

/// Whether all of the text is of the pattern.
fn is(pattern: &'static str, text: &str) -> bool {
    type Compiled = LazyLock<Vec<(&'static str, Regex)>>;
    static PATTERNS: Compiled = LazyLock::new(|| {
        let all = [
            LABEL,
            SUBDOMAIN,
            LABEL_1035,
            KEY,
            LABEL_VALUE,
            UUID,
            BASE64,
            CLOCK,
        ];
        let compiled =
            all.map(|pattern| Regex::new(&format!("^(?:{pattern})$")).map(|it| (pattern, it)));
        compiled.into_iter().flatten().collect()
    });
    let found = PATTERNS.iter().find(|(known, _)| *known == pattern);
    found.is_some_and(|(_, pattern)| pattern.is_match(text))
}

/// Kubernetes has two words for the unit; both mean bytes.
fn too_long(text: &str, most: usize, unit: &str) -> Option<String> {
    (text.len() > most).then(|| format!("must be no more than {most} {unit}"))
}

/// What Kubernetes says of a text that its pattern does not take.
fn not_of(pattern: &str, what: &str, examples: &str) -> String {
    format!("{what} (e.g. {examples}, regex used for validation is '{pattern}')")
}

/// What is generated comes after a prefix, so a dash at its end is none at the end.
fn masked(text: &str) -> String {
    match text.strip_suffix('-') {
        // Kubernetes puts an `a` in place of the dash and of the byte before it.
        Some(rest) if !rest.is_empty() => {
            let mut kept = rest.as_bytes()[..rest.len() - 1].to_vec();
            kept.push(b'a');
            String::from_utf8_lossy(&kept).into_owned()
        }
        Some(_) | None => text.to_owned(),
    }
}

fn label(text: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_long(text, 63, "characters").into_iter().collect();
    if !is(LABEL, text) {
        wrong.push(match is(SUBDOMAIN, text) {
            true => "must not contain dots".to_owned(),
            false => not_of(
                LABEL,
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or \
                 '-', and must start and end with an alphanumeric character",
                "'my-name',  or '123-abc'",
            ),
        });
    }
    wrong
}

fn subdomain(text: &str, unit: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_long(text, 253, unit).into_iter().collect();
    if !is(SUBDOMAIN, text) {
        wrong.push(not_of(
            SUBDOMAIN,
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
             '-' or '.', and must start and end with an alphanumeric character",
            "'example.com'",
        ));
    }
    wrong
}

fn label_1035(text: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_long(text, 63, "characters").into_iter().collect();
    if !is(LABEL_1035, text) {
        wrong.push(not_of(
            LABEL_1035,
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start \
             with an alphabetic character, and end with an alphanumeric character",
            "'my-name',  or 'abc-123'",
        ));
    }
    wrong
}

fn qualified_name(text: &str) -> Vec<String> {
    let of_key = || {
        not_of(
            KEY,
            "must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
             with an alphanumeric character",
            "'MyName',  or 'my.name',  or '123-abc'",
        )
    };
    let parts: Vec<&str> = text.split('/').collect();
    let (prefix, name) = match parts[..] {
        [name] => (None, name),
        [prefix, name] => (Some(prefix), name),
        _ => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')",
                of_key()
            )];
        }
    };
    let mut wrong = match prefix {
        Some("") => vec!["prefix part must be non-empty".to_owned()],
        Some(prefix) => {
            let all = subdomain(prefix, "bytes").into_iter();
            all.map(|words| format!("prefix part {words}")).collect()
        }
        None => Vec::new(),
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    }
    wrong.extend(too_long(name, 63, "bytes").map(|words| format!("name part {words}")));
    if !is(KEY, name) {
        wrong.push(format!("name part {}", of_key()));
    }
    wrong
}

fn label_value(text: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_long(text, 63, "bytes").into_iter().collect();
    if !is(LABEL_VALUE, text) {
        wrong.push(not_of(
            LABEL_VALUE,
            "a valid label must be an empty string or consist of alphanumeric characters, '-', \
             '_' or '.', and must start and end with an alphanumeric character",
            "'MyValue',  or 'my_value',  or '12345'",
        ));
    }
    wrong
}

/// `2006-01-02`
fn is_date(text: &str) -> bool {
    let digits = |at: usize, byte: u8| match at {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    text.len() == 10
        && text.bytes().enumerate().all(|(at, byte)| digits(at, byte))
        && text.parse::<jiff::civil::Date>().is_ok()
}

/// As there: what follows a second `t` is not looked at, and hours, minutes and seconds are
/// compared as texts. A letter's small form is one letter.
fn is_date_time(text: &str) -> bool {
    let small = |c: char| c.to_lowercase().next().unwrap_or(c);
    let lower: String = text.chars().map(small).collect();
    let mut parts = lower.split('t');
    let (Some(date), Some(clock)) = (parts.next(), parts.next()) else {
        return false;
    };
    let within = |from: usize, most: &str| clock.get(from..from + 2).is_some_and(|it| it <= most);
    text.len() >= 4
        && is_date(date)
        && is(CLOCK, clock)
        && within(0, "23")
        && within(3, "59")
        && within(6, "59")
}

/// What Go says of an address that is none, as far as that is certain.
fn uri(text: &str) -> Result<Vec<String>, EvalError> {
    let mut free = Budget::policy();
    if text.is_empty() {
        return Ok(vec!["parse \"\": empty url".to_owned()]);
    }
    if text == "*" || super::url::parse(text, &mut free).is_ok() {
        return Ok(Vec::new());
    }
    // Neither a scheme nor a path: and nothing that Go would write otherwise in its quotes.
    let plain = |byte: u8| (byte == b' ' || byte.is_ascii_graphic()) && !b":\"\\".contains(&byte);
    match !text.starts_with('/') && text.bytes().all(plain) {
        true => Ok(vec![format!("parse \"{text}\": invalid URI for request")]),
        false => Err(EvalError::Unsupported(format!(
            "what is wrong with the URI {:?}",
            short(text)
        ))),
    }
}
