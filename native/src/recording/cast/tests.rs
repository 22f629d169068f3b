use super::*;
use crate::recording::{read_event, read_header};
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);

fn header() -> Header {
    Header {
        cols: 132,
        rows: 43,
        timestamp: 1_800_000_000,
        title: "payments/production: user:default/alice on api-0".to_owned(),
        term: "xterm-256color".to_owned(),
        shell: Some("/bin/sh".to_owned()),
    }
}

fn output_lines(parts: &[&[u8]]) -> String {
    let mut encoder = CastEncoder::new();
    let mut lines = Vec::new();
    for part in parts {
        encoder.output(SECOND, part, &mut lines);
    }
    encoder.finish(SECOND, &mut lines);
    String::from_utf8(lines).unwrap()
}

/// The text that a player shows, and the bytes that the stream was.
fn text_and_bytes(lines: &str, code: &str) -> (String, Vec<u8>) {
    let mut text = String::new();
    let mut bytes = Vec::new();
    let mut before = None;
    for line in lines.lines() {
        let event = read_event(line.as_bytes()).expect("every line is an event");
        if event.code == code {
            text.push_str(&event.data);
            bytes.extend(
                event
                    .bytes(before.as_ref())
                    .expect("the two lines belong together"),
            );
        }
        before = Some(event);
    }
    (text, bytes)
}

#[track_caller]
fn check(parts: &[&[u8]], expected: &str) {
    assert_eq!(output_lines(parts), expected);
}

#[test]
fn qr16_a_whole_recording_is_as_it_was_agreed() {
    let mut encoder = CastEncoder::new();
    let mut lines = header().line();
    let at = |micros| Duration::from_micros(micros);
    encoder.marker(at(0), "attached", &mut lines);
    encoder.resize(at(1_500), 132, 43, &mut lines);
    encoder.output(at(2_000_000), b"\x1b[1m$ \x1b[0m", &mut lines);
    encoder.input(at(3_000_001), b"echo \"\xe3\x81", &mut lines);
    encoder.output(at(3_000_002), b"echo \"", &mut lines);
    encoder.input(at(3_100_000), b"\x82\"\r", &mut lines);
    encoder.output(
        at(61_000_000),
        b"\xff\xfe caf\xe9 \\\x7f\r\n\t\x00",
        &mut lines,
    );
    encoder.marker(at(62_000_000), "ended: ended by user", &mut lines);
    encoder.finish(at(62_000_000), &mut lines);
    let golden = include_str!("golden.cast");
    assert_eq!(String::from_utf8(lines).unwrap(), golden);
}

#[test]
fn qr34_the_header_holds_no_command_and_no_environment_value() {
    let line: serde_json::Value = serde_json::from_slice(&header().line()).unwrap();
    let keys: Vec<_> = line.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        ["env", "height", "timestamp", "title", "version", "width"]
    );
    assert_eq!(
        line["env"],
        serde_json::json!({ "SHELL": "/bin/sh", "TERM": "xterm-256color" })
    );
}

#[test]
fn qt1_the_header_says_the_size_and_is_read_back() {
    let line = header().line();
    assert!(line.starts_with(br#"{"version":2,"width":132,"height":43,"timestamp":1800000000,"#));
    assert_eq!(read_header(&line), Some(header()));
}

#[test]
fn qr31_a_character_cut_after_its_first_byte_stays_whole() {
    check(&[b"\xe3", b"\x81\x82"], "[1.000000, \"o\", \"\u{3042}\"]\n");
}

#[test]
fn qr32_a_character_split_over_two_reads_stays_whole() {
    let expected = "[1.000000, \"o\", \"a\"]\n[1.000000, \"o\", \"\u{1f600}b\"]\n";
    check(&[b"a\xf0\x9f", b"\x98", b"\x80b"], expected);
}

#[test]
fn an_invalid_byte_is_replaced_once_and_kept_beside() {
    let expected = "[1.000000, \"b\", \"o ff\"]\n[1.000000, \"o\", \"a\u{fffd}b\"]\n";
    check(&[b"a\xffb"], expected);
}

#[test]
fn a_real_replacement_character_beside_an_invalid_byte_is_told_apart() {
    let expected = "[1.000000, \"b\", \"o efbfbd c3\"]\n[1.000000, \"o\", \"\u{fffd}\u{fffd}x\"]\n";
    check(
        &["\u{fffd}".as_bytes(), b""],
        "[1.000000, \"o\", \"\u{fffd}\"]\n",
    );
    check(&[b"\xef\xbf\xbd\xc3x"], expected);
}

#[test]
fn a_character_that_is_never_completed_is_flushed_at_the_end() {
    check(
        &[b"\xe3\x81"],
        "[1.000000, \"b\", \"o e381\"]\n[1.000000, \"o\", \"\u{fffd}\"]\n",
    );
}

#[test]
fn input_does_not_complete_the_characters_of_the_output() {
    let mut encoder = CastEncoder::new();
    let mut lines = Vec::new();
    encoder.output(SECOND, b"\xc3", &mut lines);
    encoder.input(SECOND, b"\xa9", &mut lines);
    encoder.output(SECOND, b"\xa9", &mut lines);
    let lines = String::from_utf8(lines).unwrap();
    assert_eq!(
        text_and_bytes(&lines, "o"),
        ("\u{e9}".to_owned(), b"\xc3\xa9".to_vec())
    );
    assert_eq!(
        text_and_bytes(&lines, "i"),
        ("\u{fffd}".to_owned(), b"\xa9".to_vec())
    );
}

#[test]
fn times_never_go_back() {
    let mut encoder = CastEncoder::resumed(5_000_000);
    let mut lines = Vec::new();
    encoder.marker(SECOND, "gap", &mut lines);
    encoder.marker(Duration::from_micros(5_000_001), "on", &mut lines);
    encoder.marker(SECOND, "off", &mut lines);
    let lines = String::from_utf8(lines).unwrap();
    let times: Vec<_> = lines
        .lines()
        .map(|line| read_event(line.as_bytes()).unwrap().micros)
        .collect();
    assert_eq!(times, [5_000_000, 5_000_001, 5_000_001]);
}

#[test]
fn nothing_is_written_for_nothing() {
    check(&[b"", b""], "");
}

/// Bytes with many multi-byte characters, broken ones, and what JSON escapes.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => "[ -~]{0,40}".prop_map(String::into_bytes),
        3 => ".{0,6}".prop_map(String::into_bytes),
        2 => prop::collection::vec(any::<u8>(), 0..6),
        1 => Just("\u{fffd}".as_bytes().to_vec()),
        1 => prop::collection::vec(0u8..32, 0..4),
        1 => prop::sample::select(vec![0xc3, 0xe3, 0xed, 0xf0, 0xf4]).prop_map(|byte| vec![byte]),
    ];
    prop::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
}

proptest! {
    /// qR32 in full: the text does not depend on the cuts, and is what everybody else makes of
    /// the same bytes; the bytes come back.
    #[test]
    fn a_stream_cut_anywhere_gives_the_same_text_and_its_bytes_back(
        bytes in stream(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let parts: Vec<_> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        let (text, restored) = text_and_bytes(&output_lines(&parts), "o");
        prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
        prop_assert_eq!(restored, bytes);
    }

    /// The escaping is JSON's: a reader gets the same text.
    #[test]
    fn any_marker_is_read_back(text in "\\PC{0,80}|[\\x00-\\x7f]{0,80}") {
        let mut lines = Vec::new();
        CastEncoder::new().marker(SECOND, &text, &mut lines);
        let event = read_event(lines.trim_ascii_end()).unwrap();
        prop_assert_eq!(event.data, text);
        prop_assert_eq!(lines.iter().filter(|byte| **byte < 0x20).count(), 1, "only the newline");
    }
}
