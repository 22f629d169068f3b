//! JSON text in, a decision, JSON text out: what both doors share (B-11).
//!
//! Invariants: no decision is made here, and nothing is remembered between two calls. Every text
//! gets an answer, `{"ok": …}` or `{"error": {"code", "message"}}`, and never a panic. The table
//! below is the only list of decisions: the doors, the TypeScript types and the vectors are
//! compared with it.
//!
//! What is asked about a session that exists is behind the feature `sessions`: reading and writing
//! times is most of a module's weight, and a form does not need it.
//!
//! `docs/adding-a-decision.md` says what a new line here needs elsewhere.

mod forms;
mod read;
#[cfg(feature = "sessions")]
mod sessions;
mod shape;

#[cfg(test)]
mod types;

pub use read::{DoorError, MAX_INPUT_BYTES, read, well_formed};

use serde::de::DeserializeOwned;
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
    ($($group:ident $(if $feature:literal)? { $(
        $(#[doc = $doc:literal])+
        $name:ident $js_name:literal ($In:ty) -> $Out:ty = $decide:expr;
    )+ })+) => {
        $(
            $(#[cfg(feature = $feature)])?
            mod $group {
                use super::*;

                pub(super) const ALL: &[Decision] =
                    &[$(Decision { name: stringify!($name), js_name: $js_name, answer: $name }),+];

                $(
                    $(#[doc = $doc])+
                    pub fn $name(text: &str) -> String {
                        answer::<$In, $Out>(stringify!($name), text, $decide)
                    }
                )+

                #[cfg(test)]
                pub(super) fn describe(types: &mut types::Types) {
                    $(types.decision::<$In, $Out>($js_name, &[$($doc),+]);)+
                }
            }
            $(#[cfg(feature = $feature)])?
            pub use $group::{$($name),+};
        )+
    };
}

decisions! {
    of_forms {
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
    }
    of_sessions if "sessions" {
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
}

/// Every decision of this build.
pub fn all() -> impl Iterator<Item = &'static Decision> {
    #[cfg(feature = "sessions")]
    let sessions = of_sessions::ALL;
    #[cfg(not(feature = "sessions"))]
    let sessions: &[Decision] = &[];
    of_forms::ALL.iter().chain(sessions)
}

/// The answer of the decision of this name, by its name in Rust.
pub fn decide(name: &str, text: &str) -> String {
    match all().find(|decision| decision.name == name) {
        Some(decision) => (decision.answer)(text),
        None => written::<()>(Err(DoorError::UnknownDecision)),
    }
}

/// The decisions' names in JavaScript, as a JSON list.
pub fn names() -> String {
    let names: Vec<&str> = all().map(|decision| decision.js_name).collect();
    serde_json::to_string(&names).unwrap_or_default()
}

/// This crate's version, by which a loader knows its own addon.
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

fn answer<In: DeserializeOwned, Out: Serialize>(
    name: &'static str,
    text: &str,
    decide: impl FnOnce(In) -> Out,
) -> String {
    let input = read(text).and_then(|value| {
        In::deserialize(shape::Given(value)).map_err(|why| DoorError::WrongShape {
            decision: name,
            why: why.to_string(),
        })
    });
    written(input.map(decide))
}

/// How an answer is written.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Answer<T> {
    Ok(T),
    Error(DoorProblem),
}

fn written<T: Serialize>(result: Result<T, DoorError>) -> String {
    let answer = match result {
        Ok(value) => Answer::Ok(value),
        Err(error) => Answer::Error(DoorProblem {
            code: error.code().to_owned(),
            message: error.to_string(),
        }),
    };
    serde_json::to_string(&answer).unwrap_or_else(|_| NOT_WRITTEN.to_owned())
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
        for decision in all() {
            let mut parts = decision.name.split('_');
            let mut camel = parts.next().unwrap().to_owned();
            for part in parts {
                camel += &part[..1].to_uppercase();
                camel += &part[1..];
            }
            assert_eq!(decision.js_name, camel);
        }
        let unique: BTreeSet<&str> = all().map(|decision| decision.name).collect();
        assert_eq!(unique.len(), all().count());
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
        for decision in all() {
            for shape in shapes {
                let answer = answer_of(decision.name, shape);
                let fields = answer.as_object().unwrap();
                assert_eq!(fields.len(), 1, "{} {shape}: {answer}", decision.name);
                assert!(answer.get("ok").is_some() || answer["error"]["message"].is_string());
            }
        }
    }

    #[test]
    fn a_message_quotes_no_more_than_a_little_of_a_large_input() {
        let large = json!({ "cluster": { "x".repeat(10_000): 1 }, "declared": "y".repeat(10_000) });
        let message = answer_of("tier_for", &large.to_string())["error"]["message"].to_string();
        assert!(message.len() < 400, "{message}");
    }
}
