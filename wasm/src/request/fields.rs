//! Reading a body field by field, keeping every problem.
//!
//! Invariant: a reader returns `None` only after it has added a problem, and `finish` gives nothing
//! back after one. So what stands for a `None` until then never leaves.

use crate::text;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What is wrong with a field, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub enum ProblemCode {
    /// The body is not a JSON object.
    NotAnObject,
    /// Missing, null, or nothing but white space.
    Required,
    /// Of another JSON type than the field's.
    WrongType,
    /// Not `[A-Za-z0-9._-]+`, or `.` or `..`.
    NotAName,
    /// More characters than the field may have.
    TooLong,
    /// None of the values that the field can have.
    NotOneOf,
    /// Not an http(s) URL.
    NotAUrl,
    /// Holds a control character.
    ControlCharacter,
    /// Makes sense in mode `live` alone.
    OnlyWithLive,
    /// Makes sense in mode `copy` alone.
    OnlyWithCopy,
    /// Makes sense on Flight alone.
    OnlyOnFlight,
}

/// One problem of one field, shown beside it in the form (S-5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub struct Problem {
    /// The field's name in JSON; empty where the body as a whole is wrong.
    pub field: String,
    /// What is wrong, for programs.
    pub code: ProblemCode,
    /// What is wrong, for people.
    pub message: String,
}

impl Problem {
    /// A problem whose code says everything.
    pub(super) fn new(field: &str, code: ProblemCode) -> Self {
        let what = match code {
            ProblemCode::NotAnObject => return Self::of_body(),
            ProblemCode::Required => "is required",
            ProblemCode::WrongType => "has the wrong type",
            ProblemCode::NotAName => {
                "may hold letters, digits, `.`, `_` and `-` alone, and be neither `.` nor `..`"
            }
            ProblemCode::TooLong => "is too long",
            ProblemCode::NotOneOf => "is none of the values it can have",
            ProblemCode::NotAUrl => {
                "must be a link that begins with `http://` or `https://` and a host, \
                 without a user or spaces"
            }
            ProblemCode::ControlCharacter => {
                "may hold no control characters but tabs and line breaks"
            }
            ProblemCode::OnlyWithLive => "goes with the mode `live` alone",
            ProblemCode::OnlyWithCopy => "goes with the mode `copy` alone",
            ProblemCode::OnlyOnFlight => "goes with the tier Flight alone",
        };
        Self::saying(field, code, what)
    }

    fn saying(field: &str, code: ProblemCode, what: &str) -> Self {
        Self {
            field: field.to_owned(),
            code,
            message: text::joined(&["`", field, "` ", what], ""),
        }
    }

    fn of_body() -> Self {
        Self {
            field: String::new(),
            code: ProblemCode::NotAnObject,
            message: "the body must be a JSON object".to_owned(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// A reason or a note: trimmed, not empty, at most 2000 characters, without control characters
/// but tabs and line breaks (S-5, S-6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note(String);

impl Note {
    /// Stands for a note that nobody has written yet, or not so that it can be read.
    pub(crate) fn unwritten() -> Self {
        Self("-".to_owned())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text, owned.
    pub fn into_string(self) -> String {
        self.0
    }
}

/// A text and what it stands for.
pub(super) struct Choice<T> {
    pub(super) text: &'static str,
    pub(super) value: T,
}

/// A body being read.
pub(super) struct Fields<'a> {
    body: &'a Map<String, Value>,
    problems: Vec<Problem>,
}

impl<'a> Fields<'a> {
    pub(super) fn of(body: &'a Value) -> Result<Self, Vec<Problem>> {
        match body.as_object() {
            Some(body) => Ok(Self {
                body,
                problems: Vec::new(),
            }),
            None => Err(vec![Problem::of_body()]),
        }
    }

    pub(super) fn push(&mut self, problem: Option<Problem>) {
        self.problems.extend(problem);
    }

    pub(super) fn refuse_if(&mut self, wrong: bool, field: &str, code: ProblemCode) {
        self.push(wrong.then(|| Problem::new(field, code)));
    }

    /// The value, unless something was wrong anywhere.
    pub(super) fn finish<T>(self, value: T) -> Result<T, Vec<Problem>> {
        if self.problems.is_empty() {
            Ok(value)
        } else {
            Err(self.problems)
        }
    }

    fn wrong<T>(&mut self, field: &str, code: ProblemCode) -> Option<T> {
        self.push(Some(Problem::new(field, code)));
        None
    }

    fn wrong_type<T>(&mut self, field: &str, must: &str) -> Option<T> {
        self.push(Some(Problem::saying(field, ProblemCode::WrongType, must)));
        None
    }

    fn too_long<T>(&mut self, field: &str, max: usize) -> Option<T> {
        let what = format!("may have {max} characters at most");
        self.push(Some(Problem::saying(field, ProblemCode::TooLong, &what)));
        None
    }

    /// `null` is the same as nothing.
    fn given(&self, field: &str) -> Option<&'a Value> {
        self.body.get(field).filter(|value| !value.is_null())
    }

    /// Outer `None`: a problem. Inner `None`: not given.
    fn text(&mut self, field: &str) -> Option<Option<&'a str>> {
        match self.given(field) {
            None => Some(None),
            Some(value) => match value.as_str() {
                Some(text) => Some(Some(text)),
                None => self.wrong_type(field, "must be a text"),
            },
        }
    }

    fn required_text(&mut self, field: &str) -> Option<&'a str> {
        match self.text(field)? {
            Some(text) if !text.is_empty() => Some(text),
            Some(_) | None => self.wrong(field, ProblemCode::Required),
        }
    }

    /// A plain name of at most `max` characters. Names are taken as they are, never trimmed.
    pub(super) fn name(&mut self, field: &str, max: usize) -> Option<String> {
        let text = self.required_text(field)?;
        if text::longer_than(text, max) {
            return self.too_long(field, max);
        }
        if !text::is_plain_name(text, max) {
            return self.wrong(field, ProblemCode::NotAName);
        }
        Some(text.to_owned())
    }

    /// One of a few texts, exactly.
    pub(super) fn choice<T: Copy>(&mut self, field: &str, choices: &[Choice<T>]) -> Option<T> {
        let text = self.required_text(field)?;
        if let Some(choice) = choices.iter().find(|choice| choice.text == text) {
            return Some(choice.value);
        }
        let texts: Vec<String> = choices.iter().map(|c| format!("`{}`", c.text)).collect();
        self.not_one_of(field, &texts)
    }

    /// One of a few whole numbers.
    pub(super) fn one_of_numbers(&mut self, field: &str, numbers: &[u32]) -> Option<u32> {
        let Some(value) = self.given(field) else {
            return self.wrong(field, ProblemCode::Required);
        };
        if !value.is_number() {
            return self.wrong_type(field, "must be a number");
        }
        // Compared as JavaScript compares: an integer and a float of one value are one number.
        let given = value.as_f64();
        if let Some(number) = numbers.iter().find(|n| given == Some(f64::from(**n))) {
            return Some(*number);
        }
        let texts: Vec<String> = numbers.iter().map(u32::to_string).collect();
        self.not_one_of(field, &texts)
    }

    fn not_one_of<T>(&mut self, field: &str, texts: &[String]) -> Option<T> {
        let what = match texts {
            [all @ .., last] if !all.is_empty() => {
                format!("must be {} or {last}", text::joined(all, ", "))
            }
            _ => format!("must be {}", text::joined(texts, "")),
        };
        self.push(Some(Problem::saying(field, ProblemCode::NotOneOf, &what)));
        None
    }

    /// A boolean; not given is false.
    pub(super) fn flag(&mut self, field: &str) -> Option<bool> {
        match self.given(field) {
            None => Some(false),
            Some(value) => match value.as_bool() {
                Some(flag) => Some(flag),
                None => self.wrong_type(field, "must be true or false"),
            },
        }
    }

    /// A note that may be left out; nothing but white space is left out.
    pub(super) fn note(&mut self, field: &str) -> Option<Option<Note>> {
        let text = text::trimmed(self.text(field)?.unwrap_or_default());
        if text.is_empty() {
            return Some(None);
        }
        if text::longer_than(text, text::REASON_MAX) {
            return self.too_long(field, text::REASON_MAX);
        }
        if text::has_control(text) {
            return self.wrong(field, ProblemCode::ControlCharacter);
        }
        Some(Some(Note(text.to_owned())))
    }

    /// A note that must be there.
    pub(super) fn required_note(&mut self, field: &str) -> Option<Note> {
        match self.note(field)? {
            Some(note) => Some(note),
            None => self.wrong(field, ProblemCode::Required),
        }
    }

    /// An http(s) URL that may be left out; white space around it is not part of it.
    pub(super) fn url(&mut self, field: &str) -> Option<Option<String>> {
        let text = text::trimmed(self.text(field)?.unwrap_or_default());
        if text.is_empty() {
            return Some(None);
        }
        if text::longer_than(text, text::URL_MAX) {
            return self.too_long(field, text::URL_MAX);
        }
        if !text::is_http_url(text) {
            return self.wrong(field, ProblemCode::NotAUrl);
        }
        Some(Some(text.to_owned()))
    }
}
