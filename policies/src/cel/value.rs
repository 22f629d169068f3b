//! The values of expressions.
//!
//! Invariant: a value is never changed, so that it may be shared; JSON's whole numbers are `int`,
//! as the API server's conversion makes them.

use super::activation::{Answer, Question};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

/// A map: keys in an order of their own, so that what is evaluated does not depend on chance.
pub type Map = BTreeMap<Key, Value>;

/// The deepest JSON that is taken.
const MAX_JSON_DEPTH: usize = 128;

/// A key of a map.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// `true`
    Bool(bool),
    /// A whole number; an unsigned one that fits is one of these, because they are equal.
    Int(i64),
    /// A whole number that is too large for `Int`.
    UInt(u64),
    /// A text.
    String(Arc<str>),
}

impl Key {
    /// The key that a text is.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::String(text.into())
    }

    /// The key that a value is, where it can be one.
    pub(super) fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(value) => Some(Self::Bool(*value)),
            Value::Int(value) => Some(Self::Int(*value)),
            Value::UInt(value) => Some(i64::try_from(*value).map_or(Self::UInt(*value), Self::Int)),
            Value::Double(value) => whole(*value).map(Self::Int),
            Value::String(text) => Some(Self::String(text.clone())),
            _ => None,
        }
    }

    /// How many bytes of text it is.
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::String(text) => text.len(),
            Self::Bool(_) | Self::Int(_) | Self::UInt(_) => 0,
        }
    }

    /// The key as a value.
    pub(super) fn value(&self) -> Value {
        match self {
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::UInt(value) => Value::UInt(*value),
            Self::String(text) => Value::String(text.clone()),
        }
    }
}

/// The whole number that a double is.
pub(super) fn whole(value: f64) -> Option<i64> {
    // 2^63 is the first that does not fit.
    let fits = value.fract() == 0.0
        && (-9.223_372_036_854_776e18..9.223_372_036_854_776e18).contains(&value);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the range is checked above"
    )]
    fits.then_some(value as i64)
}

/// A list or a map, and how deep it nests: one that nests too deep could not even be dropped
/// without a deep stack.
#[derive(Debug, Clone)]
pub struct Nested<T> {
    content: T,
    depth: u16,
}

impl<T> Deref for Nested<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.content
    }
}

impl<T> Nested<T> {
    fn around(content: T, inner: Option<u16>) -> Arc<Self> {
        let depth = inner.unwrap_or(0).saturating_add(1);
        Arc::new(Self { content, depth })
    }
}

/// A network: an address and how many of its bits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    pub(super) address: IpAddr,
    pub(super) prefix: u8,
}

/// A URL's parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    pub(super) text: String,
    pub(super) scheme: String,
    pub(super) host: String,
    pub(super) path: String,
    pub(super) query: Vec<(String, String)>,
}

/// What an expression can be.
#[derive(Debug, Clone)]
pub enum Value {
    /// `null`
    Null,
    /// `bool`
    Bool(bool),
    /// `int`
    Int(i64),
    /// `uint`
    UInt(u64),
    /// `double`
    Double(f64),
    /// `string`
    String(Arc<str>),
    /// `bytes`
    Bytes(Arc<[u8]>),
    /// `list`
    List(Arc<Nested<Vec<Value>>>),
    /// `map`
    Map(Arc<Nested<Map>>),
    /// `google.protobuf.Duration`, in nanoseconds
    Duration(i64),
    /// `google.protobuf.Timestamp`
    Timestamp(Timestamp),
    /// A type, by its name
    Type(&'static str),
    /// `optional_type`
    Optional(Option<Arc<Value>>),
    /// A quantity, in billionths
    Quantity(i128),
    /// A URL
    Url(Arc<Url>),
    /// An address
    Ip(IpAddr),
    /// A network
    Cidr(Cidr),
    /// A semantic version
    Version(Arc<semver::Version>),
    /// A format, by the name that Kubernetes has for it
    Format(&'static str),
    /// The authorizer, and what it will be asked
    Authorizer(Arc<Question>),
    /// What the authorizer answered
    Decision(Arc<Answer>),
}

impl Value {
    /// A text.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::String(text.into())
    }

    pub(super) fn list(elements: Vec<Self>) -> Self {
        let depth = elements.iter().map(Self::depth).max();
        Self::List(Nested::around(elements, depth))
    }

    pub(super) fn map(map: Map) -> Self {
        let depth = map.values().map(Self::depth).max();
        Self::Map(Nested::around(map, depth))
    }

    /// How many bytes of text it is itself, which is what reading it once costs.
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::String(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Url(url) => 2 * url.text.len(),
            Self::Version(version) => version.pre.len() + version.build.len(),
            Self::Authorizer(question) => question.weight(),
            Self::Decision(answer) => {
                answer.reason.len() + answer.error.as_ref().map_or(0, String::len)
            }
            _ => 0,
        }
    }

    /// How many lists, maps and optionals it is inside one another at its deepest.
    pub(super) fn depth(&self) -> u16 {
        let mut value = self;
        let mut around = 0_u16;
        while let Self::Optional(Some(inner)) = value {
            around = around.saturating_add(1);
            value = inner;
        }
        around.saturating_add(match value {
            Self::List(list) => list.depth,
            Self::Map(map) => map.depth,
            _ => 0,
        })
    }

    pub(super) fn some(value: Self) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    /// A JSON value as the API server hands it to an expression; nothing where it is too deep.
    #[must_use]
    pub fn from_json(json: &serde_json::Value) -> Option<Self> {
        from_json(json, MAX_JSON_DEPTH)
    }

    /// The value as JSON; what JSON has not becomes a text. It does not pay for what it makes.
    #[cfg(test)]
    pub(super) fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match self {
            Self::Null => Json::Null,
            Self::Bool(value) => Json::Bool(*value),
            Self::Int(value) => Json::from(*value),
            Self::UInt(value) => Json::from(*value),
            Self::Double(value) => Json::from(*value),
            Self::String(text) => Json::String(text.to_string()),
            Self::List(elements) => elements.iter().map(Self::to_json).collect(),
            Self::Map(map) => map
                .iter()
                .map(|(key, value)| (key.value().to_text(), value.to_json()))
                .collect::<serde_json::Map<_, _>>()
                .into(),
            other => Json::String(other.to_text()),
        }
    }

    #[cfg(test)]
    fn to_text(&self) -> String {
        super::functions::convert::text_of(self)
            .unwrap_or_else(|| format!("<{}>", self.type_name()))
    }

    /// The name of its type.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::UInt(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Type(_) => "type",
            Self::Optional(_) => "optional_type",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Url(_) => "kubernetes.URL",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Version(_) => "kubernetes.Semver",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Authorizer(_) => "kubernetes.authorization.Authorizer",
            Self::Decision(_) => "kubernetes.authorization.Decision",
        }
    }
}

fn from_json(json: &serde_json::Value, depth: usize) -> Option<Value> {
    use serde_json::Value as Json;
    let depth = depth.checked_sub(1)?;
    Some(match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match number.as_i64() {
            Some(value) => Value::Int(value),
            None => Value::Double(number.as_f64()?),
        },
        Json::String(text) => Value::text(text),
        Json::Array(elements) => Value::list(
            elements
                .iter()
                .map(|element| from_json(element, depth))
                .collect::<Option<_>>()?,
        ),
        Json::Object(fields) => Value::map(
            fields
                .iter()
                .map(|(key, value)| Some((Key::text(key), from_json(value, depth)?)))
                .collect::<Option<_>>()?,
        ),
    })
}
