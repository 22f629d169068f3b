//! Node's door to the decisions, a native addon.
//!
//! Invariant: every function is one line; if it needs a second, that belongs in `decisions::door`.
//! A panic becomes a JavaScript error: Backstage must survive what the decisions should not do.

use decisions::door;
use napi_derive::napi;

/// Reads the body of `POST /sessions` and names every problem (S-5).
#[napi(catch_unwind)]
pub fn parse_session_request(input: String) -> String {
    door::parse_session_request(&input)
}

/// Reads the body of `POST …/approve`, with the waiver of the recycle (S-6).
#[napi(catch_unwind)]
pub fn parse_approval(input: String) -> String {
    door::parse_approval(&input)
}

/// Reads the body of `POST …/deny`: an optional note.
#[napi(catch_unwind)]
pub fn parse_denial(input: String) -> String {
    door::parse_denial(&input)
}

/// Reads the body of `POST …/review`: a note.
#[napi(catch_unwind)]
pub fn parse_review(input: String) -> String {
    door::parse_review(&input)
}

/// Decides the tier and says which rule decided (S-9).
#[napi(catch_unwind)]
pub fn tier_for(input: String) -> String {
    door::tier_for(&input)
}

/// Says why the cluster's fence would refuse a session of this tier, if so (S-9a).
#[napi(catch_unwind)]
pub fn fence_refusal(input: String) -> String {
    door::fence_refusal(&input)
}

/// Checks a target against what the cluster says of it (S-14).
#[napi(catch_unwind)]
pub fn check_target(input: String) -> String {
    door::check_target(&input)
}

/// Names the limit that one more session would be over, if any (S-14c).
#[napi(catch_unwind)]
pub fn over_limit(input: String) -> String {
    door::over_limit(&input)
}

/// Says what the caller can do in an app (S-12).
#[napi(catch_unwind)]
pub fn capabilities(input: String) -> String {
    door::capabilities(&input)
}

/// Says why the caller cannot do this to a session, if so: the reason beside a button.
#[napi(catch_unwind)]
pub fn action_refusal(input: String) -> String {
    door::action_refusal(&input)
}

/// Says why the caller may not read a sensitive session's recording, if so (S-7).
#[napi(catch_unwind)]
pub fn sensitive_recording_refusal(input: String) -> String {
    door::sensitive_recording_refusal(&input)
}

/// Says where in the caller's queue a session belongs, if anywhere (S-8).
#[napi(catch_unwind)]
pub fn place_in_queue(input: String) -> String {
    door::place_in_queue(&input)
}

/// Says what the sweep does with an unfinished row (spec 05).
#[napi(catch_unwind)]
pub fn sweep_action(input: String) -> String {
    door::sweep_action(&input)
}

/// Says whether an ended row's recording is to be anchored.
#[napi(catch_unwind)]
pub fn anchor_action(input: String) -> String {
    door::anchor_action(&input)
}

/// Says whether somebody is to be reminded of a review (W-1).
#[napi(catch_unwind)]
pub fn review_reminder_action(input: String) -> String {
    door::review_reminder_action(&input)
}

/// Gives the session as people see it at this time: over, if its deadline has passed.
#[napi(catch_unwind)]
pub fn as_seen(input: String) -> String {
    door::as_seen(&input)
}

/// Reads an end reason's text (S-4); null for a text that is none.
#[napi(catch_unwind)]
pub fn read_end_reason(input: String) -> String {
    door::read_end_reason(&input)
}

/// The decisions' names, as a JSON list.
#[napi(catch_unwind)]
pub fn decision_names() -> String {
    door::names()
}

/// The longest text that a decision reads.
#[napi(catch_unwind)]
pub fn max_input_bytes() -> u32 {
    door::MAX_INPUT_BYTES as u32
}

/// The version of the decisions.
#[napi(catch_unwind)]
pub fn version() -> String {
    door::version().to_owned()
}
