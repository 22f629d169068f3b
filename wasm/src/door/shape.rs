//! JSON values into the shapes that decisions take.
//!
//! Invariants: an object is read by its members' names and never by their order; a number is
//! JavaScript's, so `3.0` is `3`; a message says where and what kind of thing is wrong, and quotes
//! nothing of a value. Written for size too: what the browser loads holds no other reader, and
//! none of the texts of the parsers behind the fields.

use serde::de::value::StringDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Number, Value};
use std::fmt;

/// Where an input does not fit, and how.
#[derive(Debug)]
pub(super) struct Misfit {
    path: Vec<String>,
    what: &'static str,
}

/// The most characters of one step that a message shows: a label's name is anybody's text.
const STEP_MAX: usize = 63;

impl Misfit {
    fn new(what: &'static str) -> Self {
        Self {
            path: Vec::new(),
            what,
        }
    }

    /// Steps are added from the inside to the outside.
    fn within(mut self, step: &str) -> Self {
        self.path.push(step.chars().take(STEP_MAX).collect());
        self
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str("it ")?;
        } else {
            f.write_str("`")?;
            for (nth, step) in self.path.iter().rev().enumerate() {
                f.write_str(if nth == 0 { "" } else { "." })?;
                f.write_str(step)?;
            }
            f.write_str("` ")?;
        }
        f.write_str(self.what)
    }
}

impl std::error::Error for Misfit {}

impl de::Error for Misfit {
    /// The reason of a field's own parser is left out: it may quote the value.
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self::new("has a value that cannot be used")
    }

    fn invalid_type(_: de::Unexpected<'_>, _: &dyn de::Expected) -> Self {
        Self::new("has the wrong type")
    }

    fn invalid_value(_: de::Unexpected<'_>, _: &dyn de::Expected) -> Self {
        Self::new("has a value that cannot be used")
    }

    fn unknown_variant(_: &str, _: &'static [&'static str]) -> Self {
        Self::new("is none of the values that it can have")
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new("is missing").within(field)
    }
}

/// A value to be read into a shape.
pub(super) struct Given(pub(super) Value);

fn wrong_type<T>() -> Result<T, Misfit> {
    Err(Misfit::new("has the wrong type"))
}

impl<'de> Deserializer<'de> for Given {
    type Error = Misfit;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(value),
            Value::Number(value) => visit_number(&value, visitor),
            Value::String(value) => visitor.visit_string(value),
            Value::Array(items) => visitor.visit_seq(Items {
                items: items.into_iter(),
                nth: 0,
            }),
            Value::Object(members) => visitor.visit_map(Members::of(members)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            value => visitor.visit_some(Self(value)),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        self.deserialize_map(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        let Value::Object(members) = self.0 else {
            return wrong_type();
        };
        visitor.visit_map(Members::of(members))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        let Value::Array(items) = self.0 else {
            return wrong_type();
        };
        visitor.visit_seq(Items {
            items: items.into_iter(),
            nth: 0,
        })
    }

    /// The enums that are questions have no data: a text says which.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        let Value::String(name) = self.0 else {
            return wrong_type();
        };
        let name: StringDeserializer<Misfit> = name.into_deserializer();
        visitor.visit_enum(name)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        let Value::Bool(value) = self.0 else {
            return wrong_type();
        };
        visitor.visit_bool(value)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        let Value::String(value) = self.0 else {
            return wrong_type();
        };
        visitor.visit_string(value)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        self.deserialize_string(visitor)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        self.deserialize_i64(visitor)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        self.deserialize_i64(visitor)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        let Value::Number(value) = self.0 else {
            return wrong_type();
        };
        visit_number(&value, visitor)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i128 u8 u16 u128 f32 f64 char bytes byte_buf unit unit_struct tuple
        tuple_struct identifier ignored_any
    }
}

/// The whole numbers that a double holds without a gap.
const SAFE: f64 = 9_007_199_254_740_991.0;

fn visit_number<'de, V: Visitor<'de>>(number: &Number, visitor: V) -> Result<V::Value, Misfit> {
    if let Some(value) = number.as_u64() {
        return visitor.visit_u64(value);
    }
    if let Some(value) = number.as_i64() {
        return visitor.visit_i64(value);
    }
    match number.as_f64() {
        Some(value) if value.abs() <= SAFE && value % 1.0 == 0.0 =>
        {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "it is whole and within range"
            )]
            visitor.visit_i64(value as i64)
        }
        Some(value) => visitor.visit_f64(value),
        None => wrong_type(),
    }
}

struct Items {
    items: std::vec::IntoIter<Value>,
    nth: usize,
}

impl<'de> de::SeqAccess<'de> for Items {
    type Error = Misfit;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Misfit> {
        let Some(item) = self.items.next() else {
            return Ok(None);
        };
        let nth = self.nth;
        self.nth += 1;
        seed.deserialize(Given(item))
            .map(Some)
            .map_err(|e| e.within(&nth.to_string()))
    }
}

struct Members {
    members: serde_json::map::IntoIter,
    next: Option<(String, Value)>,
}

impl Members {
    fn of(members: Map<String, Value>) -> Self {
        Self {
            members: members.into_iter(),
            next: None,
        }
    }
}

impl<'de> de::MapAccess<'de> for Members {
    type Error = Misfit;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Misfit> {
        self.next = self.members.next();
        let Some((key, _)) = &self.next else {
            return Ok(None);
        };
        let key: StringDeserializer<Misfit> = key.clone().into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Misfit> {
        let Some((key, value)) = self.next.take() else {
            return wrong_type();
        };
        seed.deserialize(Given(value)).map_err(|e| e.within(&key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;
    use std::collections::BTreeMap;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "camelCase")]
    struct Sample {
        count: u32,
        kind: Option<Kind>,
        #[serde(default)]
        labels: BTreeMap<String, String>,
        any: Option<Value>,
        inner: Option<Box<Sample>>,
        list: Option<Vec<bool>>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "camelCase")]
    enum Kind {
        TheOne,
    }

    fn read(value: Value) -> Result<Sample, String> {
        Sample::deserialize(Given(value)).map_err(|misfit| misfit.to_string())
    }

    #[test]
    fn an_object_is_read_by_names() {
        let any = json!({ "a": [null, 1, -2, 0.5, "x", true] });
        let given = json!({ "any": any, "count": 3.0, "kind": "theOne", "labels": { "a": "b" } });
        let read = read(given).unwrap();
        assert_eq!((read.count, read.kind), (3, Some(Kind::TheOne)));
        assert_eq!((read.any, read.labels["a"].as_str()), (Some(any), "b"));
    }

    #[test]
    fn what_does_not_fit_is_told_by_its_place_and_never_quoted() {
        for (given, expected) in [
            (json!([1]), "it has the wrong type"),
            (json!({}), "`count` is missing"),
            (json!({ "count": "secret" }), "`count` has the wrong type"),
            (
                json!({ "count": -1 }),
                "`count` has a value that cannot be used",
            ),
            (json!({ "count": 0.5 }), "`count` has the wrong type"),
            (json!({ "count": 1, "kind": "secret" }), KIND),
            (
                json!({ "count": 1, "kind": { "theOne": null } }),
                "`kind` has the wrong type",
            ),
            (
                json!({ "count": 1, "labels": { "a": 1 } }),
                "`labels.a` has the wrong type",
            ),
            (
                json!({ "count": 1, "labels": [["a", "b"]] }),
                "`labels` has the wrong type",
            ),
            (
                json!({ "count": 1, "inner": { "count": 1, "inner": {} } }),
                "`inner.inner.count` is missing",
            ),
            (
                json!({ "count": 1, "list": [true, 0] }),
                "`list.1` has the wrong type",
            ),
        ] {
            assert_eq!(read(given).unwrap_err(), expected);
        }
    }
    const KIND: &str = "`kind` is none of the values that it can have";
}
