use super::*;
use crate::text::{REASON_MAX, URL_MAX, is_plain_name};
use proptest::prelude::*;
use serde_json::json;

fn body() -> Value {
    json!({
        "app": "shop", "env": "staging", "cluster": "dev", "namespace": "shop-staging",
        "pod": "web-1", "container": "web", "mode": "live", "durationMinutes": 30,
        "reason": "orders hang",
    })
}

fn with(changes: Value) -> Value {
    let mut body = body();
    for (field, value) in changes.as_object().unwrap() {
        body[field] = value.clone();
    }
    body
}

fn problems(body: &Value) -> Vec<(String, ProblemCode)> {
    match parse_session_request(body, None) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.into_iter().map(|p| (p.field, p.code)).collect(),
    }
}

#[track_caller]
fn refused(changes: Value, field: &str, code: ProblemCode) {
    assert_eq!(
        problems(&with(changes.clone())),
        [(field.to_owned(), code)],
        "{changes}"
    );
}

#[track_caller]
fn taken(changes: Value) -> SessionRequest {
    match parse_session_request(&with(changes.clone()), None) {
        Ok(request) => request,
        Err(problems) => panic!("{changes}: {problems:?}"),
    }
}

#[test]
fn flags_that_are_left_out_are_false() {
    let request = taken(json!({}));
    let flags = [
        request.process_access,
        request.volume_access,
        request.recycle_last_pod,
        request.hold_app,
        request.glass_broken,
    ];
    assert_eq!(flags, [false; 5]);
    assert_eq!(request.ticket_url, None);
    assert_eq!((request.mode, request.duration_minutes), (Mode::Live, 30));
}

#[test]
fn unknown_fields_are_ignored_and_null_is_left_out() {
    let nulls = json!({
        "ticketUrl": null, "processAccess": null, "holdApp": null, "requester": "user:default/eve",
        "tier": "Ground", "constructor": {}, "__proto__": 1,
    });
    assert_eq!(taken(nulls), taken(json!({})));
}

#[test]
fn a_body_that_is_no_object_is_one_problem() {
    for body in [json!(null), json!([]), json!("x"), json!(1), json!(true)] {
        assert_eq!(
            problems(&body),
            [(String::new(), ProblemCode::NotAnObject)],
            "{body}"
        );
    }
}

#[test]
fn every_problem_is_reported_in_the_order_of_the_fields() {
    let fields: Vec<String> = problems(&json!({}))
        .into_iter()
        .map(|(field, _)| field)
        .collect();
    let required = [
        "app",
        "env",
        "cluster",
        "namespace",
        "pod",
        "container",
        "mode",
        "durationMinutes",
        "reason",
    ];
    assert_eq!(fields, required);
    let bad = json!({
        "app": "..", "container": 7, "mode": "copy", "durationMinutes": 20, "reason": "\t",
        "ticketUrl": "x", "processAccess": true, "holdApp": "yes",
    });
    use ProblemCode::*;
    let expected = [
        ("app", NotAName),
        ("container", WrongType),
        ("durationMinutes", NotOneOf),
        ("reason", Required),
        ("ticketUrl", NotAUrl),
        ("holdApp", WrongType),
        ("processAccess", OnlyWithLive),
    ];
    let expected = expected.map(|(field, code)| (field.to_owned(), code));
    assert_eq!(problems(&with(bad)), expected);
}

#[test]
fn names_are_plain_and_bounded() {
    for field in ["app", "env", "cluster", "namespace", "pod", "container"] {
        let max = if field == "container" { 63 } else { 253 };
        taken(json!({field: "a".repeat(max)}));
        refused(
            json!({field: "a".repeat(max + 1)}),
            field,
            ProblemCode::TooLong,
        );
        refused(json!({field: ""}), field, ProblemCode::Required);
        refused(json!({field: null}), field, ProblemCode::Required);
        refused(json!({field: ["a"]}), field, ProblemCode::WrongType);
        for name in [".", "..", "a/b", " a", "a\n", "ä", "a\0", "../../etc"] {
            refused(json!({field: name}), field, ProblemCode::NotAName);
        }
    }
}

#[test]
fn a_mode_is_copy_or_live_exactly() {
    taken(json!({"mode": "copy"}));
    for mode in ["Live", "live ", "exec"] {
        refused(json!({"mode": mode}), "mode", ProblemCode::NotOneOf);
    }
    refused(json!({"mode": 1}), "mode", ProblemCode::WrongType);
}

#[test]
fn a_number_is_one_number_however_it_is_written() {
    for text in ["15", "15.0", "1.5e1", "150e-1", "15.000000000000000001"] {
        let duration: Value = serde_json::from_str(text).unwrap();
        assert_eq!(
            taken(json!({"durationMinutes": duration})).duration_minutes,
            15,
            "{text}"
        );
    }
    for text in [
        "0",
        "-15",
        "15.5",
        "45",
        "61",
        "1e300",
        "4294967311",
        "18446744073709551615",
    ] {
        let duration: Value = serde_json::from_str(text).unwrap();
        refused(
            json!({"durationMinutes": duration}),
            "durationMinutes",
            ProblemCode::NotOneOf,
        );
    }
    for duration in [json!("15"), json!(true), json!([15])] {
        refused(
            json!({"durationMinutes": duration}),
            "durationMinutes",
            ProblemCode::WrongType,
        );
    }
}

#[test]
fn a_reason_is_trimmed_and_counted_in_scalar_values() {
    assert_eq!(
        taken(json!({"reason": "\u{3000} a\nb \u{85}"})).reason,
        "a\nb"
    );
    taken(json!({"reason": format!(" {} ", "😀".repeat(REASON_MAX))}));
    refused(
        json!({"reason": "é".repeat(REASON_MAX + 1)}),
        "reason",
        ProblemCode::TooLong,
    );
    for blank in ["", " ", "\u{85}\u{2028}\t\r\n"] {
        refused(json!({"reason": blank}), "reason", ProblemCode::Required);
    }
    for control in ["a\0b", "a\u{1b}[2Jb", "a\u{7f}b", "a\u{9b}b"] {
        refused(
            json!({"reason": control}),
            "reason",
            ProblemCode::ControlCharacter,
        );
    }
}

#[test]
fn a_ticket_is_optional_and_an_http_url() {
    let url = "https://tickets.example.com/OPS-1";
    assert_eq!(
        taken(json!({"ticketUrl": format!(" {url} ")}))
            .ticket_url
            .as_deref(),
        Some(url)
    );
    assert_eq!(taken(json!({"ticketUrl": "  "})).ticket_url, None);
    let long = |n: usize| format!("https://example.com/{}", "a".repeat(n - 20));
    taken(json!({"ticketUrl": long(URL_MAX)}));
    refused(
        json!({"ticketUrl": long(URL_MAX + 1)}),
        "ticketUrl",
        ProblemCode::TooLong,
    );
    refused(
        json!({"ticketUrl": "javascript:alert(1)"}),
        "ticketUrl",
        ProblemCode::NotAUrl,
    );
    refused(
        json!({"ticketUrl": {}}),
        "ticketUrl",
        ProblemCode::WrongType,
    );
}

#[test]
fn flags_are_booleans_and_nothing_like_them() {
    for field in [
        "processAccess",
        "volumeAccess",
        "recycleLastPod",
        "holdApp",
        "glassBroken",
    ] {
        for value in [json!("true"), json!(1), json!(0), json!([])] {
            refused(json!({field: value}), field, ProblemCode::WrongType);
        }
    }
}

#[test]
fn some_flags_go_with_one_mode_alone_on_every_tier() {
    use ProblemCode::{OnlyWithCopy, OnlyWithLive};
    refused(
        json!({"mode": "copy", "processAccess": true}),
        "processAccess",
        OnlyWithLive,
    );
    refused(
        json!({"mode": "copy", "recycleLastPod": true}),
        "recycleLastPod",
        OnlyWithLive,
    );
    refused(json!({"holdApp": true}), "holdApp", OnlyWithCopy);
    taken(json!({"mode": "copy", "holdApp": true, "volumeAccess": true}));
    taken(json!({"processAccess": true, "recycleLastPod": true, "volumeAccess": true}));
    let copy = with(json!({"mode": "copy", "recycleLastPod": true}));
    let on_flight = parse_session_request(&copy, Some(Tier::Flight)).unwrap_err();
    assert_eq!(on_flight, parse_session_request(&copy, None).unwrap_err());
}

#[test]
fn the_tier_drops_flags_and_refuses_none() {
    let body = with(json!({"recycleLastPod": true, "glassBroken": true}));
    let flags = |tier| {
        let request = parse_session_request(&body, tier).unwrap();
        (request.recycle_last_pod, request.glass_broken)
    };
    assert_eq!(flags(None), (true, true));
    assert_eq!(flags(Some(Tier::Flight)), (false, true));
    assert_eq!(flags(Some(Tier::Ground)), (true, false));
}

#[test]
fn qa25_breaking_the_glass_without_a_reason_is_refused() {
    refused(
        json!({"glassBroken": true, "reason": " "}),
        "reason",
        ProblemCode::Required,
    );
    assert!(taken(json!({"glassBroken": true})).glass_broken);
}

#[test]
fn a_message_names_its_field_and_says_what_it_can_be() {
    let bad = with(json!({"mode": "exec", "durationMinutes": 20, "app": "a".repeat(254)}));
    let problems = parse_session_request(&bad, None).unwrap_err();
    let messages: Vec<&str> = problems.iter().map(|p| p.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "`app` may have 253 characters at most",
            "`mode` must be `copy` or `live`",
            "`durationMinutes` must be 15, 30 or 60",
        ]
    );
    assert_eq!(
        json!(problems[1]),
        json!({
            "field": "mode", "code": "not-one-of", "message": "`mode` must be `copy` or `live`",
        })
    );
}

#[test]
fn an_approval_says_nothing_a_note_or_why_the_pod_is_kept() {
    let parse = |body: Value| parse_approval(&body, Mode::Live, Tier::Flight);
    assert_eq!(parse(json!(null)), Ok(Approval::default()));
    assert_eq!(parse(json!({})), Ok(Approval::default()));
    let full = json!({"note": " ok ", "keepPod": true, "keepPodReason": " evidence "});
    let approval = parse(full).unwrap();
    assert_eq!(approval.note.as_ref().map(Note::as_str), Some("ok"));
    assert_eq!(
        approval.keep_pod_reason.as_ref().map(Note::as_str),
        Some("evidence")
    );
    let unasked = parse(json!({"keepPodReason": "evidence"})).unwrap();
    assert_eq!(unasked.keep_pod_reason, None);
    assert!(parse(json!([])).is_err());
}

#[test]
fn a_pod_is_kept_on_live_flight_alone_and_with_a_reason() {
    let codes = |body: Value, mode, tier| -> Vec<(String, ProblemCode)> {
        let problems = parse_approval(&body, mode, tier).err().unwrap_or_default();
        problems.into_iter().map(|p| (p.field, p.code)).collect()
    };
    let keep = json!({"keepPod": true, "keepPodReason": "evidence"});
    let problem = |field: &str, code| vec![(field.to_owned(), code)];
    assert_eq!(
        codes(keep.clone(), Mode::Copy, Tier::Flight),
        problem("keepPod", ProblemCode::OnlyWithLive)
    );
    assert_eq!(
        codes(keep.clone(), Mode::Live, Tier::Ground),
        problem("keepPod", ProblemCode::OnlyOnFlight)
    );
    assert_eq!(codes(keep, Mode::Live, Tier::Flight), []);
    for reason in [json!(null), json!(""), json!(" \n")] {
        assert_eq!(
            codes(
                json!({"keepPod": true, "keepPodReason": reason}),
                Mode::Live,
                Tier::Flight
            ),
            problem("keepPodReason", ProblemCode::Required)
        );
    }
    let long = "a".repeat(REASON_MAX + 1);
    let both = json!({"note": long, "keepPod": true, "keepPodReason": long});
    assert_eq!(
        codes(both, Mode::Live, Tier::Flight),
        [
            ("note", ProblemCode::TooLong),
            ("keepPodReason", ProblemCode::TooLong)
        ]
        .map(|(field, code)| (field.to_owned(), code))
    );
    assert_eq!(
        codes(json!({"keepPod": "yes"}), Mode::Live, Tier::Flight),
        problem("keepPod", ProblemCode::WrongType)
    );
}

#[test]
fn a_review_needs_its_note_and_a_denial_does_not() {
    assert_eq!(parse_denial(&json!(null)), Ok(None));
    assert_eq!(parse_denial(&json!({"note": " "})), Ok(None));
    assert_eq!(
        parse_denial(&json!({"note": "no"}))
            .unwrap()
            .unwrap()
            .as_str(),
        "no"
    );
    assert!(parse_denial(&json!({"note": 1})).is_err());
    assert_eq!(
        parse_review(&json!({"note": " fine "})).unwrap().as_str(),
        "fine"
    );
    for body in [json!({}), json!({"note": ""}), json!({"note": "\u{2003}"})] {
        let problems = parse_review(&body).unwrap_err();
        assert_eq!(problems[0].code, ProblemCode::Required, "{body}");
    }
    assert_eq!(
        parse_review(&json!(null)).unwrap_err()[0].code,
        ProblemCode::NotAnObject
    );
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        prop::sample::select(vec!["live", "copy", "a", ".", "https://a.b", " ", "\0"])
            .prop_map(Value::from),
        prop::sample::select(vec![15, 30, 60]).prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// The valid body with some fields replaced by anything.
fn any_body() -> impl Strategy<Value = Value> {
    const FIELDS: [&str; 15] = [
        "app",
        "env",
        "cluster",
        "namespace",
        "pod",
        "container",
        "mode",
        "durationMinutes",
        "reason",
        "ticketUrl",
        "processAccess",
        "volumeAccess",
        "recycleLastPod",
        "holdApp",
        "glassBroken",
    ];
    let change = (prop::sample::select(FIELDS.to_vec()), any_json());
    prop::collection::vec(change, 0..6).prop_map(|changes| {
        let mut body = body();
        for (field, value) in changes {
            body[field] = value;
        }
        body
    })
}

proptest! {
    #[test]
    fn any_json_is_judged_and_always_the_same(body in prop_oneof![any_json(), any_body()]) {
        let judged = parse_session_request(&body, None);
        prop_assert_eq!(&judged, &parse_session_request(&body, None));
        // What crossed a host as text is judged as before.
        let crossed: Value = serde_json::from_str(&body.to_string()).unwrap();
        prop_assert_eq!(&judged, &parse_session_request(&crossed, None));
        for tier in [Tier::Ground, Tier::Flight] {
            let on_tier = parse_session_request(&body, Some(tier));
            prop_assert_eq!(on_tier, judged.clone().map(|request| request.for_tier(tier)));
        }
        let problems = judged.err();
        prop_assert!(problems.is_none_or(|problems| !problems.is_empty()));
    }

    #[test]
    fn what_is_accepted_keeps_every_rule(body in any_body()) {
        if let Ok(request) = parse_session_request(&body, None) {
            let names = [
                &request.app, &request.env, &request.cluster, &request.namespace, &request.pod,
                &request.container,
            ];
            for name in names {
                prop_assert!(is_plain_name(name, 253));
            }
            prop_assert!(is_plain_name(&request.container, 63));
            prop_assert!(DURATIONS_MINUTES.contains(&request.duration_minutes));
            prop_assert!((1..=REASON_MAX).contains(&request.reason.chars().count()));
            prop_assert_eq!(request.reason.trim(), &request.reason);
            let copy = request.mode == Mode::Copy;
            prop_assert!(!(copy && (request.process_access || request.recycle_last_pod)));
            prop_assert!(copy || !request.hold_app);
        }
    }

    #[test]
    fn a_name_is_accepted_exactly_if_the_rule_says_so(name in "[a-zA-Z0-9._/ é-]{0,4}") {
        let accepted = parse_session_request(&with(json!({"app": name})), None).is_ok();
        let matches = !name.is_empty()
            && name.chars().all(|c| matches!(c, 'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '_' | '-'))
            && name != "." && name != "..";
        prop_assert_eq!(accepted, matches);
    }

    #[test]
    fn approvals_denials_and_reviews_never_panic(body in any_json()) {
        for (mode, tier) in [(Mode::Live, Tier::Flight), (Mode::Copy, Tier::Ground)] {
            let _judged = parse_approval(&body, mode, tier);
        }
        let _judged = (parse_denial(&body), parse_review(&body));
    }
}
