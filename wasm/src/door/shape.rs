//! JSON values into the shapes that decisions take.
//!
//! Invariants: an object is read by its members' names and never by their order; a number is
//! JavaScript's, so `3.0` is `3`; a message says where and what kind of thing is wrong, and quotes
//! nothing of a value. Written for size: a member that does not fit is noted and read as a blank,
//! and nothing made of blanks leaves [`read`], so a shape is one straight line of calls. Serde's
//! derive, with its way out after every member, weighs five times as much; a test compares.

use crate::tier::Labels;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use serde::de::value::StringDeserializer;
use serde::de::{self, DeserializeOwned, IntoDeserializer};
use serde_json::{Map, Number, Value};

/// Where an input does not fit, and how.
#[derive(Debug)]
pub(super) struct Misfit {
    path: Vec<String>,
    what: &'static str,
}

/// The most characters of one step that a message shows: a label's name is anybody's text.
const STEP_MAX: usize = 63;

const MISSING: &str = "is missing";
const WRONG_TYPE: &str = "has the wrong type";
const UNUSABLE: &str = "has a value that cannot be used";
const NO_SUCH_WORD: &str = "is none of the values that it can have";

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str("it ")?;
        } else {
            f.write_str("`")?;
            for (nth, step) in self.path.iter().enumerate() {
                f.write_str(if nth == 0 { "" } else { "." })?;
                f.write_str(step)?;
            }
            f.write_str("` ")?;
        }
        f.write_str(self.what)
    }
}

/// What can be read from a value.
pub(super) trait Shape: Sized {
    /// Reads it; where it does not fit, or is missing, that is noted and a blank stands for it.
    fn of(given: Option<Value>, at: &mut Place) -> Self;
}

/// Reads a whole input.
///
/// # Errors
/// The first place where it does not fit, in the order of the shape's fields.
pub(super) fn read<T: Shape>(value: Value) -> Result<T, Misfit> {
    let mut at = Place::default();
    let made = T::of(Some(value), &mut at);
    match at.misfit {
        Some(misfit) => Err(misfit),
        None => Ok(made),
    }
}

/// Where in an input the reader is, and what did not fit.
#[derive(Default)]
pub(super) struct Place {
    path: Vec<String>,
    misfit: Option<Misfit>,
}

impl Place {
    fn misfits(&mut self, what: &'static str) {
        if self.misfit.is_none() {
            let path = self.path.clone();
            self.misfit = Some(Misfit { path, what });
        }
    }

    fn wrong_type(&mut self, given: Option<&Value>) {
        self.misfits(if given.is_some() { WRONG_TYPE } else { MISSING });
    }

    fn enter(&mut self, step: &str) {
        self.path.push(step.chars().take(STEP_MAX).collect());
    }

    fn leave(&mut self) {
        self.path.pop();
    }

    /// The members of an object; none where it is no object.
    pub(super) fn members(&mut self, given: Option<Value>) -> Map<String, Value> {
        match given {
            Some(Value::Object(members)) => members,
            other => {
                self.wrong_type(other.as_ref());
                Map::new()
            }
        }
    }

    fn enter_member(
        &mut self,
        members: &mut Map<String, Value>,
        field: &'static str,
    ) -> Option<Value> {
        let name = camel(field);
        // Taken and not removed: rebalancing a tree weighs more than all of this file.
        let given = members.get_mut(&name).map(Value::take);
        self.enter(&name);
        given
    }

    /// Reads the member for a field of this name in Rust.
    pub(super) fn member<T: Shape>(
        &mut self,
        members: &mut Map<String, Value>,
        field: &'static str,
    ) -> T {
        let given = self.enter_member(members, field);
        let made = T::of(given, self);
        self.leave();
        made
    }

    /// The same for a member that may be missing.
    pub(super) fn member_or<T: Shape>(
        &mut self,
        members: &mut Map<String, Value>,
        field: &'static str,
        default: T,
    ) -> T {
        let given = self.enter_member(members, field);
        let made = match given {
            Some(_) => T::of(given, self),
            None => default,
        };
        self.leave();
        made
    }

    fn text(&mut self, given: Option<Value>) -> Option<String> {
        match given {
            Some(Value::String(text)) => Some(text),
            other => {
                self.wrong_type(other.as_ref());
                None
            }
        }
    }

    /// Reads a text into what it says; `parse` gives `None` for a text that says nothing.
    pub(super) fn parsed<T>(
        &mut self,
        given: Option<Value>,
        parse: fn(&str) -> Option<T>,
    ) -> Option<T> {
        let text = self.text(given)?;
        let made = parse(&text);
        if made.is_none() {
            self.misfits(UNUSABLE);
        }
        made
    }

    /// Reads an enum without data: a text says which.
    pub(super) fn word<T: DeserializeOwned>(&mut self, given: Option<Value>) -> Option<T> {
        let text: StringDeserializer<NoSuchWord> = self.text(given)?.into_deserializer();
        let made = T::deserialize(text).ok();
        if made.is_none() {
            self.misfits(NO_SUCH_WORD);
        }
        made
    }

    /// Reads a whole number from `min` to `max`.
    fn whole(&mut self, given: Option<Value>, min: i64, max: i64) -> i64 {
        let Some(Value::Number(number)) = given else {
            self.wrong_type(given.as_ref());
            return min;
        };
        match whole(&number) {
            Some(Ok(value)) if (min..=max).contains(&value) => value,
            Some(_) => {
                self.misfits(UNUSABLE);
                min
            }
            None => {
                self.misfits(WRONG_TYPE);
                min
            }
        }
    }
}

/// `groundClusters` for `ground_clusters`.
fn camel(field: &str) -> String {
    let mut name = String::with_capacity(field.len());
    let mut upper = false;
    for c in field.chars() {
        if c == '_' {
            upper = true;
        } else {
            name.push(if upper { c.to_ascii_uppercase() } else { c });
            upper = false;
        }
    }
    name
}

/// The whole numbers that a double holds without a gap.
const SAFE: f64 = 9_007_199_254_740_991.0;

/// A whole number; `None` for one that is not whole, an error for one that is too large.
fn whole(number: &Number) -> Option<Result<i64, ()>> {
    if let Some(value) = number.as_i64() {
        return Some(Ok(value));
    }
    if number.is_u64() {
        return Some(Err(()));
    }
    let value = number.as_f64()?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it is whole and within range"
    )]
    (value.abs() <= SAFE && value % 1.0 == 0.0).then_some(Ok(value as i64))
}

/// The error of a derived reader that is asked for a word. It says nothing: the text is anybody's.
#[derive(Debug)]
struct NoSuchWord;

impl fmt::Display for NoSuchWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NO_SUCH_WORD)
    }
}

impl core::error::Error for NoSuchWord {}

impl de::Error for NoSuchWord {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }

    fn unknown_variant(_: &str, _: &'static [&'static str]) -> Self {
        Self
    }

    fn invalid_type(_: de::Unexpected<'_>, _: &dyn de::Expected) -> Self {
        Self
    }
}

impl Shape for Value {
    fn of(given: Option<Value>, at: &mut Place) -> Self {
        given.unwrap_or_else(|| {
            at.misfits(MISSING);
            Value::Null
        })
    }
}

impl Shape for String {
    fn of(given: Option<Value>, at: &mut Place) -> Self {
        at.text(given).unwrap_or_default()
    }
}

impl Shape for bool {
    fn of(given: Option<Value>, at: &mut Place) -> Self {
        match given {
            Some(Value::Bool(value)) => value,
            other => {
                at.wrong_type(other.as_ref());
                false
            }
        }
    }
}

impl Shape for u32 {
    fn of(given: Option<Value>, at: &mut Place) -> Self {
        Self::try_from(at.whole(given, 0, Self::MAX.into())).unwrap_or_default()
    }
}

impl Shape for u64 {
    fn of(given: Option<Value>, at: &mut Place) -> Self {
        match given.as_ref().and_then(Value::as_u64) {
            Some(value) => value,
            None => at.whole(given, 0, i64::MAX).unsigned_abs(),
        }
    }
}

impl Shape for i64 {
    fn of(given: Option<Value>, at: &mut Place) -> Self {
        at.whole(given, Self::MIN, Self::MAX)
    }
}

impl<T: Shape> Shape for Option<T> {
    fn of(given: Option<Value>, at: &mut Place) -> Self {
        match given {
            None | Some(Value::Null) => None,
            given => Some(T::of(given, at)),
        }
    }
}

impl<T: Shape> Shape for Vec<T> {
    fn of(given: Option<Value>, at: &mut Place) -> Self {
        let Some(Value::Array(items)) = given else {
            at.wrong_type(given.as_ref());
            return Self::new();
        };
        let mut made = Self::with_capacity(items.len());
        for item in items {
            at.enter(&made.len().to_string());
            made.push(T::of(Some(item), at));
            at.leave();
        }
        made
    }
}

impl Shape for Labels {
    fn of(given: Option<Value>, at: &mut Place) -> Self {
        let members = at.members(given).into_iter();
        let made = members.map(|(name, member)| {
            at.enter(&name);
            let text = String::of(Some(member), at);
            at.leave();
            (name, text)
        });
        made.collect()
    }
}

/// An object, field by field; with `= …` where one may be missing.
macro_rules! shape {
    ($Type:ty { $($field:ident $(= $default:expr)?),+ $(,)? }) => {
        impl $crate::door::shape::Shape for $Type {
            fn of(
                given: Option<serde_json::Value>,
                at: &mut $crate::door::shape::Place,
            ) -> Self {
                let mut members = at.members(given);
                Self { $($field: shape!(@ at, members, $field $(, $default)?)),+ }
            }
        }
    };
    (@ $at:ident, $members:ident, $field:ident) => {
        $at.member(&mut $members, stringify!($field))
    };
    (@ $at:ident, $members:ident, $field:ident, $default:expr) => {
        $at.member_or(&mut $members, stringify!($field), $default)
    };
}
pub(super) use shape;

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Debug, PartialEq)]
    struct Sample {
        the_count: u32,
        kind: Option<Kind>,
        labels: Labels,
        any: Option<Value>,
        inner: Option<Box<Sample>>,
        list: Option<Vec<bool>>,
    }

    shape!(Sample { the_count, kind, labels = Labels::from_iter([]), any, inner, list });

    impl Shape for Box<Sample> {
        fn of(given: Option<Value>, at: &mut Place) -> Self {
            Self::new(Sample::of(given, at))
        }
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "camelCase")]
    enum Kind {
        TheOne,
    }

    impl Shape for Kind {
        fn of(given: Option<Value>, at: &mut Place) -> Self {
            at.word(given).unwrap_or(Self::TheOne)
        }
    }

    fn read_sample(value: Value) -> Result<Sample, String> {
        read(value).map_err(|misfit| misfit.to_string())
    }

    #[test]
    fn an_object_is_read_by_names() {
        let any = json!({ "a": [null, 1, -2, 0.5, "x", true] });
        let given =
            json!({ "any": any, "theCount": 3.0, "kind": "theOne", "labels": { "a": "b" } });
        let read = read_sample(given).unwrap();
        assert_eq!((read.the_count, read.kind), (3, Some(Kind::TheOne)));
        assert_eq!((read.any, read.labels.get("a")), (Some(any), Some("b")));
    }

    #[test]
    fn a_whole_number_is_read_within_its_type() {
        for (given, u32s, u64s, i64s) in [
            (json!(0), true, true, true),
            (json!(-0.0), true, true, true),
            (json!(4_294_967_295_u32), true, true, true),
            (json!(4_294_967_296_u64), false, true, true),
            (json!(i64::MAX), false, true, true),
            (json!(u64::MAX), false, true, false),
            (json!(-1), false, false, true),
            (json!(i64::MIN), false, false, true),
            (json!(1e15), false, true, true),
            (json!(1e300), false, false, false),
            (json!(0.5), false, false, false),
        ] {
            assert_eq!(read::<u32>(given.clone()).is_ok(), u32s, "{given}");
            assert_eq!(read::<u64>(given.clone()).is_ok(), u64s, "{given}");
            assert_eq!(read::<i64>(given.clone()).is_ok(), i64s, "{given}");
        }
        assert_eq!(read::<u64>(json!(u64::MAX)).unwrap(), u64::MAX);
        assert_eq!(read::<i64>(json!(-3.0)).unwrap(), -3);
    }

    #[test]
    fn what_does_not_fit_is_told_by_its_place_and_never_quoted() {
        let wrong = |members: Value| {
            let mut given = json!({ "theCount": 1 });
            for (name, member) in members.as_object().unwrap() {
                given[name] = member.clone();
            }
            given
        };
        for (given, expected) in [
            (json!([1]), "it has the wrong type"),
            (json!({}), "`theCount` is missing"),
            (
                wrong(json!({ "theCount": "secret" })),
                "`theCount` has the wrong type",
            ),
            (
                wrong(json!({ "theCount": -1 })),
                "`theCount` has a value that cannot be used",
            ),
            (
                wrong(json!({ "theCount": 0.5 })),
                "`theCount` has the wrong type",
            ),
            (wrong(json!({ "kind": "secret" })), KIND),
            (
                wrong(json!({ "kind": { "theOne": null } })),
                "`kind` has the wrong type",
            ),
            (
                wrong(json!({ "labels": { "a": 1 } })),
                "`labels.a` has the wrong type",
            ),
            (
                wrong(json!({ "labels": null })),
                "`labels` has the wrong type",
            ),
            (
                wrong(json!({ "labels": [["a", "b"]] })),
                "`labels` has the wrong type",
            ),
            (
                wrong(json!({ "inner": { "theCount": 1, "inner": {} } })),
                "`inner.inner.theCount` is missing",
            ),
            (
                wrong(json!({ "list": [true, 0] })),
                "`list.1` has the wrong type",
            ),
            (
                wrong(json!({ "kind": 1, "list": 1 })),
                "`kind` has the wrong type",
            ),
        ] {
            assert_eq!(read_sample(given).unwrap_err(), expected);
        }
    }
    const KIND: &str = "`kind` is none of the values that it can have";
}
