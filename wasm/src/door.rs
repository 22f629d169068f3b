//! JSON text in, a decision, JSON text out: what both doors share (B-11).
//!
//! Invariants: no decision is made here, and nothing is remembered between two calls. Every text
//! gets an answer, `{"ok": …}` or `{"error": {"code", "message"}}`, and never a panic. The table
//! below is the only list of decisions: the doors, the TypeScript types and the vectors are
//! compared with it.
//!
//! `docs/adding-a-decision.md` says what a new line here needs elsewhere.

mod forms;
mod read;
mod sessions;
mod shape;
mod vocabulary;

#[cfg(test)]
mod types;

pub use read::{DoorError, MAX_INPUT_BYTES, read, well_formed};

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// One decision, as a door offers it.
#[derive(Debug, Clone, Copy)]
pub struct Decision {
    /// Its name in Rust and in the vectors.
    pub name: &'static str,
    /// Its name in JavaScript.
    pub js_name: &'static str,
    /// From JSON text to JSON text.
    pub answer: fn(&str) -> String,
}

/// Why there is no decision, as it crosses a door.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub struct DoorProblem {
    /// `too_large`, `not_json`, `wrong_shape`, `not_written` or `unknown_decision`.
    pub code: String,
    /// What happened, for people.
    pub message: String,
}

/// One line per decision: its names, what it takes, what it gives, and who decides.
macro_rules! decisions {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident $js_name:literal ($In:ty) -> $Out:ty = $decide:expr;
    )+) => {
        /// Every decision.
        pub const ALL: &[Decision] =
            &[$(Decision { name: stringify!($name), js_name: $js_name, answer: $name }),+];

        $(
            $(#[doc = $doc])+
            pub fn $name(text: &str) -> String {
                answer(stringify!($name), text, |value| decided::<$In, $Out>(value, $decide))
            }
        )+

        #[cfg(test)]
        fn describe(types: &mut types::Types) {
            $(types.decision::<$In, $Out>($js_name, &[$($doc),+]);)+
        }

        /// What a decision's input is, as it is read here and as serde's derive reads it.
        #[cfg(test)]
        fn read_twice(name: &str, value: &serde_json::Value) -> Option<[Option<String>; 2]> {
            match name {
                $(stringify!($name) => Some([
                    shape::read::<$In>(value.clone()).ok().map(|read| format!("{read:?}")),
                    serde_json::from_value::<$In>(value.clone())
                        .ok()
                        .map(|read| format!("{read:?}")),
                ]),)+
                _ => None,
            }
        }
    };
}

decisions! {
    /// Reads the body of `POST /sessions` and names every problem (S-5).
    parse_session_request "parseSessionRequest" (forms::RequestForm)
        -> forms::Parsed<crate::request::SessionRequest> = forms::parse_session_request;
    /// Reads the body of `POST …/approve`, with the waiver of the recycle (S-6).
    parse_approval "parseApproval" (forms::ApprovalForm)
        -> forms::Parsed<forms::ApprovalNotes> = forms::parse_approval;
    /// Reads the body of `POST …/deny`: an optional note.
    parse_denial "parseDenial" (forms::NoteForm)
        -> forms::Parsed<Option<String>> = forms::parse_denial;
    /// Reads the body of `POST …/review`: a note.
    parse_review "parseReview" (forms::NoteForm)
        -> forms::Parsed<String> = forms::parse_review;
    /// Decides the tier and says which rule decided (S-9).
    tier_for "tierFor" (crate::tier::TierFacts)
        -> crate::tier::TierDecision = |facts| crate::tier::tier_for(&facts);
    /// Says why the cluster's fence would refuse a session of this tier, if so (S-9a).
    fence_refusal "fenceRefusal" (forms::Fence)
        -> Option<String> = forms::fence_refusal;
    /// Checks a target against what the cluster says of it (S-14).
    check_target "checkTarget" (forms::TargetQuestion)
        -> forms::TargetAnswer = forms::check_target;
    /// Names the limit that one more session would be over, if any (S-14c).
    over_limit "overLimit" (forms::LimitQuestion)
        -> Option<crate::limits::LimitName> = forms::over_limit;
    /// Says what the caller can do in an app (S-12).
    capabilities "capabilities" (crate::session::Actor)
        -> crate::access::Capabilities = |actor| crate::access::Capabilities::of(&actor);
    /// Says why the caller cannot do this to a session, if so: the reason beside a button.
    action_refusal "actionRefusal" (sessions::ActionQuestion)
        -> Option<sessions::Refused> = sessions::action_refusal;
    /// Says why the caller may not read a sensitive session's recording, if so (S-7).
    sensitive_recording_refusal "sensitiveRecordingRefusal" (sessions::RecordingQuestion)
        -> Option<sessions::Refused> = sessions::sensitive_recording_refusal;
    /// Says where in the caller's queue a session belongs, if anywhere (S-8).
    place_in_queue "placeInQueue" (sessions::QueueQuestion)
        -> Option<sessions::QueuePlace> = sessions::place_in_queue;
    /// Says what the sweep does with an unfinished row (spec 05).
    sweep_action "sweepAction" (sessions::SweepQuestion)
        -> sessions::SweepAnswer = sessions::sweep_action;
    /// Says whether an ended row's recording is to be anchored (R-9).
    anchor_action "anchorAction" (sessions::RowQuestion)
        -> sessions::AnchorAnswer = sessions::anchor_action;
    /// Says whether somebody is to be reminded of a review (W-1).
    review_reminder_action "reviewReminderAction" (sessions::RowQuestion)
        -> sessions::ReminderAnswer = sessions::review_reminder_action;
    /// Gives the session as people see it at this time: over, if its deadline has passed.
    as_seen "asSeen" (sessions::RowQuestion)
        -> crate::session::Session = sessions::as_seen;
    /// Reads an end reason's text (S-4); null for a text that is none.
    read_end_reason "readEndReason" (sessions::EndReasonText)
        -> Option<sessions::EndReasonFacts> = sessions::read_end_reason;
}

/// The answer of the decision of this name, by its name in Rust.
pub fn decide(name: &str, text: &str) -> String {
    match ALL.iter().find(|decision| decision.name == name) {
        Some(decision) => (decision.answer)(text),
        None => problem(&DoorError::UnknownDecision),
    }
}

/// The decisions' names in JavaScript, as a JSON list.
pub fn names() -> String {
    let names: Vec<&str> = ALL.iter().map(|decision| decision.js_name).collect();
    serde_json::to_string(&names).unwrap_or_default()
}

/// This crate's version, by which a loader knows its own addon.
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// What a decision says to a value: JSON text, `None` if it could not be written.
type Decide = fn(serde_json::Value) -> Result<Option<String>, shape::Misfit>;

/// The one part that is made for each decision (B-11).
fn decided<In: shape::Shape, Out: Serialize>(
    value: serde_json::Value,
    decide: impl FnOnce(In) -> Out,
) -> Result<Option<String>, shape::Misfit> {
    let input = shape::read(value)?;
    Ok(serde_json::to_string(&decide(input)).ok())
}

fn answer(name: &'static str, text: &str, decide: Decide) -> String {
    match read(text).map(decide) {
        Ok(Ok(json)) => written("ok", json),
        Ok(Err(misfit)) => does_not_fit(name, &misfit),
        Err(error) => problem(&error),
    }
}

fn does_not_fit(decision: &'static str, misfit: &shape::Misfit) -> String {
    problem(&DoorError::WrongShape {
        decision,
        why: misfit.to_string(),
    })
}

fn problem(error: &DoorError) -> String {
    let problem = DoorProblem {
        code: error.code().to_owned(),
        message: error.to_string(),
    };
    written("error", serde_json::to_string(&problem).ok())
}

/// `{"ok": …}` or `{"error": …}` around JSON text.
fn written(kind: &str, json: Option<String>) -> String {
    match json {
        Some(json) => crate::text::joined(&["{\"", kind, "\":", &json, "}"], ""),
        None => NOT_WRITTEN.to_owned(),
    }
}

/// Every answer has texts for keys and only finite numbers, so this is never needed; a door still
/// has to say something.
const NOT_WRITTEN: &str =
    r#"{"error":{"code":"not_written","message":"the answer could not be written"}}"#;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::collections::BTreeSet;

    fn answer_of(name: &str, text: &str) -> Value {
        serde_json::from_str(&decide(name, text)).unwrap()
    }

    #[test]
    fn a_name_in_javascript_is_the_rust_name_in_camel_case() {
        for decision in ALL {
            let mut parts = decision.name.split('_');
            let mut camel = parts.next().unwrap().to_owned();
            for part in parts {
                camel += &part[..1].to_uppercase();
                camel += &part[1..];
            }
            assert_eq!(decision.js_name, camel);
        }
        let unique: BTreeSet<&str> = ALL.iter().map(|decision| decision.name).collect();
        assert_eq!(unique.len(), ALL.len());
    }

    #[test]
    fn an_unknown_decision_is_an_answer() {
        assert_eq!(
            answer_of("drop_tables", "{}")["error"]["code"],
            "unknown_decision"
        );
    }

    #[test]
    fn no_decision_panics_for_any_shape_and_each_says_what_is_wrong() {
        let shapes = [
            "",
            "null",
            "0",
            "-0",
            "1e308",
            "\"\"",
            "[]",
            "{}",
            "[[]]",
            r#"{"session":null}"#,
            r#"{"__proto__":{},"constructor":1}"#,
            "\u{feff}{}",
            "{",
            "nul",
            "1e400",
        ];
        for decision in ALL {
            for shape in shapes {
                let answer = answer_of(decision.name, shape);
                let fields = answer.as_object().unwrap();
                assert_eq!(fields.len(), 1, "{} {shape}: {answer}", decision.name);
                assert!(answer.get("ok").is_some() || answer["error"]["message"].is_string());
            }
        }
    }

    /// Every way to spoil a value in one place that both readers take for the same.
    fn spoiled(value: &Value) -> Vec<Value> {
        let mut all: Vec<Value> = ["null", "true", "1", "\"x\"", "{}"]
            .iter()
            .map(|text| serde_json::from_str(text).unwrap())
            .collect();
        if let Value::Object(members) = value {
            for (name, member) in members {
                let mut without = members.clone();
                without.remove(name);
                all.push(without.into());
                for other in spoiled(member) {
                    let mut with = members.clone();
                    with.insert(name.clone(), other);
                    all.push(with.into());
                }
            }
        }
        all
    }

    #[test]
    fn an_input_is_read_as_serde_would_read_it() {
        for decision in ALL {
            let path = format!(
                "{}/../tests/vectors/{}.json",
                env!("CARGO_MANIFEST_DIR"),
                decision.name
            );
            let file: Value =
                serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
            let mut fits = 0;
            for row in file["cases"].as_array().unwrap() {
                let Some(mut input) = row.get("input").cloned() else {
                    continue;
                };
                for (name, base) in file["base"].as_object().into_iter().flatten() {
                    if let Some(given) = input.get_mut(name).and_then(Value::as_object_mut) {
                        for (key, member) in base.as_object().unwrap() {
                            given.entry(key).or_insert_with(|| member.clone());
                        }
                    }
                }
                for value in spoiled(&input).into_iter().chain([input]) {
                    let [here, serde] = read_twice(decision.name, &value).unwrap();
                    assert_eq!(here, serde, "{}: {value}", decision.name);
                    fits += usize::from(here.is_some());
                }
            }
            assert!(fits > 0, "{}", decision.name);
        }
    }

    #[test]
    fn a_message_quotes_no_more_than_a_little_of_a_large_input() {
        let large = json!({ "cluster": { "x".repeat(10_000): 1 }, "declared": "y".repeat(10_000) });
        let message = answer_of("tier_for", &large.to_string())["error"]["message"].to_string();
        assert!(message.len() < 400, "{message}");
    }
}
