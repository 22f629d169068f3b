//! URLs: absolute ones (`scheme://host/path?query`) and absolute paths.
//!
//! Invariant: characters whose escaping would have to be decided are refused as not supported,
//! so that no part is ever read differently from the API server.

use crate::cel::error::short;
use crate::cel::evaluate::Evaluated;
use crate::cel::value::Url;
use crate::cel::{Budget, EvalError, Key, Value};
use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::sync::Arc;

fn invalid(text: &str) -> EvalError {
    EvalError::BadValue(format!(
        "URL parse error during conversion from string: {:?}",
        short(text)
    ))
}

pub(super) fn parse(text: &str, budget: &mut Budget) -> Evaluated {
    budget.bytes(4 * text.len())?;
    let odd = text
        .bytes()
        .any(|byte| !byte.is_ascii_graphic() || b"%<>\"{}|\\^`@#;+".contains(&byte));
    if odd {
        return Err(EvalError::Unsupported(format!("the URL {:?}", short(text))));
    }
    let (scheme, rest) = if text.starts_with('/') {
        ("", text)
    } else {
        let (scheme, rest) = text.split_once(':').ok_or_else(|| invalid(text))?;
        let letters = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
        if !letters || rest.is_empty() {
            return Err(invalid(text));
        }
        if !rest.starts_with('/') {
            return Err(EvalError::Unsupported(format!("the URL {:?}", short(text))));
        }
        (scheme, rest)
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (host, path) = match rest.strip_prefix("//") {
        Some(rest) if !scheme.is_empty() => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        Some(_) | None => ("", rest),
    };
    if host.starts_with('[') && !host.contains(']') {
        return Err(invalid(text));
    }
    if depends_on_release(host) {
        return Err(EvalError::Unsupported(format!("the URL {:?}", short(text))));
    }
    let (_, port) = split(host);
    if !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid(text));
    }
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let query = pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    Ok(Value::Url(Arc::new(Url {
        text: text.to_owned(),
        scheme: scheme.to_ascii_lowercase(),
        host: host.to_owned(),
        path: path.to_owned(),
        query,
    })))
}

/// What is no address in brackets, a bracket elsewhere, and a second port: newer releases of Go
/// refuse what older took.
fn depends_on_release(host: &str) -> bool {
    let (name, _) = split(host);
    let inner = name.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    match inner {
        Some(inner) => inner.parse::<Ipv6Addr>().is_err(),
        None => name.contains(['[', ']', ':']),
    }
}

/// A host's name and port.
fn split(host: &str) -> (&str, &str) {
    match host.rfind(':') {
        Some(at) if !host[at..].contains(']') => (&host[..at], &host[at + 1..]),
        Some(_) | None => (host, ""),
    }
}

pub(super) fn member(name: &str, url: &Url) -> Evaluated {
    let (host, port) = split(&url.host);
    Ok(match name {
        "getScheme" => Value::text(&url.scheme),
        "getHost" => Value::text(&url.host),
        "getHostname" => Value::text(host.trim_start_matches('[').trim_end_matches(']')),
        "getPort" => Value::text(port),
        "getEscapedPath" => Value::text(&url.path),
        "getQuery" => query(url),
        _ => return Err(EvalError::NoSuchOverload),
    })
}

fn query(url: &Url) -> Value {
    let mut lists: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for (key, value) in &url.query {
        lists.entry(key).or_default().push(Value::text(value));
    }
    let entries = lists.into_iter();
    Value::map(
        entries
            .map(|(key, values)| (Key::text(key), Value::list(values)))
            .collect(),
    )
}
