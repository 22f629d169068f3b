//! The browser's door, and Node's where no addon fits. The only file that names wasm-bindgen.
//!
//! Invariant: every function is one line; if it needs a second, that belongs in `door`.

use crate::door;
use alloc::borrow::ToOwned;
use alloc::string::String;
use core::panic::PanicInfo;
use dlmalloc::GlobalDlmalloc;
use wasm_bindgen::prelude::wasm_bindgen;

#[global_allocator]
static ALLOCATOR: GlobalDlmalloc = GlobalDlmalloc;

/// A panic is a trap. It says nothing, so that no text of one is in the module.
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}

/// Reads the body of `POST /sessions` and names every problem (S-5).
#[wasm_bindgen(js_name = parseSessionRequest)]
pub fn parse_session_request(input: &str) -> String {
    door::parse_session_request(input)
}

/// Reads the body of `POST …/approve`, with the waiver of the recycle (S-6).
#[wasm_bindgen(js_name = parseApproval)]
pub fn parse_approval(input: &str) -> String {
    door::parse_approval(input)
}

/// Reads the body of `POST …/deny`: an optional note.
#[wasm_bindgen(js_name = parseDenial)]
pub fn parse_denial(input: &str) -> String {
    door::parse_denial(input)
}

/// Reads the body of `POST …/review`: a note.
#[wasm_bindgen(js_name = parseReview)]
pub fn parse_review(input: &str) -> String {
    door::parse_review(input)
}

/// Decides the tier and says which rule decided (S-9).
#[wasm_bindgen(js_name = tierFor)]
pub fn tier_for(input: &str) -> String {
    door::tier_for(input)
}

/// Says why the cluster's fence would refuse a session of this tier, if so (S-9a).
#[wasm_bindgen(js_name = fenceRefusal)]
pub fn fence_refusal(input: &str) -> String {
    door::fence_refusal(input)
}

/// Checks a target against what the cluster says of it (S-14).
#[wasm_bindgen(js_name = checkTarget)]
pub fn check_target(input: &str) -> String {
    door::check_target(input)
}

/// Names the limit that one more session would be over, if any (S-14c).
#[wasm_bindgen(js_name = overLimit)]
pub fn over_limit(input: &str) -> String {
    door::over_limit(input)
}

/// Says what the caller can do in an app (S-12).
#[wasm_bindgen(js_name = capabilities)]
pub fn capabilities(input: &str) -> String {
    door::capabilities(input)
}

/// Says why the caller cannot do this to a session, if so: the reason beside a button.
#[wasm_bindgen(js_name = actionRefusal)]
pub fn action_refusal(input: &str) -> String {
    door::action_refusal(input)
}

/// Says why the caller may not read a sensitive session's recording, if so (S-7).
#[wasm_bindgen(js_name = sensitiveRecordingRefusal)]
pub fn sensitive_recording_refusal(input: &str) -> String {
    door::sensitive_recording_refusal(input)
}

/// Says where in the caller's queue a session belongs, if anywhere (S-8).
#[wasm_bindgen(js_name = placeInQueue)]
pub fn place_in_queue(input: &str) -> String {
    door::place_in_queue(input)
}

/// Says what the sweep does with an unfinished row (spec 05).
#[wasm_bindgen(js_name = sweepAction)]
pub fn sweep_action(input: &str) -> String {
    door::sweep_action(input)
}

/// Says whether an ended row's recording is to be anchored.
#[wasm_bindgen(js_name = anchorAction)]
pub fn anchor_action(input: &str) -> String {
    door::anchor_action(input)
}

/// Says whether somebody is to be reminded of a review (W-1).
#[wasm_bindgen(js_name = reviewReminderAction)]
pub fn review_reminder_action(input: &str) -> String {
    door::review_reminder_action(input)
}

/// Gives the session as people see it at this time: over, if its deadline has passed.
#[wasm_bindgen(js_name = asSeen)]
pub fn as_seen(input: &str) -> String {
    door::as_seen(input)
}

/// Reads an end reason's text (S-4); null for a text that is none.
#[wasm_bindgen(js_name = readEndReason)]
pub fn read_end_reason(input: &str) -> String {
    door::read_end_reason(input)
}

/// The decisions' names, as a JSON list.
#[wasm_bindgen(js_name = decisionNames)]
pub fn decision_names() -> String {
    door::names()
}

/// The longest text that a decision reads.
#[wasm_bindgen(js_name = maxInputBytes)]
pub fn max_input_bytes() -> u32 {
    door::MAX_INPUT_BYTES as u32
}

/// The version of the decisions.
#[wasm_bindgen(js_name = version)]
pub fn version() -> String {
    door::version().to_owned()
}
