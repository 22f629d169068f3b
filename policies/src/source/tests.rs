//! What the reader gives for each style of text, and that nothing hostile gets through.

use super::*;
use std::fmt::Write;

fn one(text: &str) -> Node {
    let mut documents = read("f.yaml", text.as_bytes()).unwrap();
    assert_eq!(documents.len(), 1, "{text}");
    documents.remove(0)
}

fn refused(bytes: &[u8]) -> SourceError {
    read("f.yaml", bytes).unwrap_err()
}

#[test]
fn every_character_of_a_text_knows_its_place_in_each_style() {
    let text = concat!(
        "literal: |\n  héllo\n    x @\n",
        "folded: >-\n  one\n  two @\n\n  three\n",
        "double: \"q\\\"uo\\\n  t\\u00e9\\n @x\"\n",
        "single: 'it''s\n   folded @'\n",
        "plain: over\n   two @ lines\n",
        "'key': one @ line\n",
    );
    let lines: Vec<&str> = text.lines().collect();
    let mut seen = 0;
    for (key, node) in one(text).entries() {
        let value = node.text().unwrap();
        let offset = value.value.chars().position(|c| c == '@').unwrap();
        let place = value.place(offset);
        let line = lines[place.line as usize - 1];
        let found = line.chars().nth(place.column as usize - 1);
        assert_eq!(found, Some('@'), "{}: {place} in {line:?}", key.value);
        seen += 1;
    }
    assert_eq!(seen, 6);
}

#[test]
fn the_first_character_of_a_text_is_where_the_text_begins_not_its_quote_or_bar() {
    for (text, line, column) in [
        ("a: |\n  x", 2, 3),
        ("a: >\n\n   x", 3, 4),
        ("a: 'x'", 1, 5),
        ("a: \"x\"", 1, 5),
        ("a: x", 1, 4),
        ("{\"a\": \"x\"}", 1, 8),
    ] {
        let document = one(text);
        let value = document.get("a").unwrap().text().unwrap();
        assert_eq!(
            value.place(value.value.find('x').unwrap()),
            Position { line, column },
            "{text}"
        );
    }
}

#[test]
fn a_line_and_column_of_the_text_become_those_of_the_file() {
    let document = one("a:\n  b: |\n    one\n    two three\n");
    let value = document.at_path(&["a", "b"]).unwrap().text().unwrap();
    assert_eq!(value.place_of(2, 5), Position { line: 4, column: 9 });
}

#[test]
fn values_are_what_kubectl_would_make_of_them() {
    let document = one("[1, -2, 1.5, true, yes, 'yes', ~, x, 1.30.0, 0x1f, !!str 7]");
    let kinds: Vec<_> = document.items().iter().map(Node::to_json).collect();
    let expected = serde_json::json!([
        1, -2, 1.5, true, true, "yes", null, "x", "1.30.0", "0x1f", "7"
    ]);
    assert_eq!(serde_json::Value::from(kinds), expected);
}

#[test]
fn documents_are_told_apart_and_the_empty_ones_left_out() {
    let documents = read("f", b"---\n# only this\n---\na: 1\n---\n---\nb: 2\n...\n").unwrap();
    let lines: Vec<u32> = documents.iter().map(|document| document.at.line).collect();
    assert_eq!(lines, [4, 7]);
}

#[test]
fn aliases_and_merged_defaults_are_followed() {
    let document = one("d: &d {a: 1, b: 2}\ne:\n  <<: *d\n  b: 3\nf: *d\n");
    let expected = serde_json::json!({"d": {"a": 1, "b": 2}, "e": {"b": 3, "a": 1},
        "f": {"a": 1, "b": 2}});
    assert_eq!(document.to_json(), expected);
}

#[test]
fn what_cannot_be_read_is_said_with_its_place() {
    for (bytes, message) in [
        (
            &b"a: 1\na: 2\n"[..],
            "f.yaml:2:1: the key `a` stands here for the second time",
        ),
        (b"a: \xff\n", "f.yaml:1:4: not UTF-8"),
        (b"a: [1\n", "f.yaml:1:4: not YAML"),
        (b"a: {{ .Values.x }}\n", "f.yaml:1:"),
        (b"a: *b\n", "f.yaml:1:4: not YAML"),
        (
            b"a: &a [*a]\n",
            "f.yaml:1:8: not YAML: an alias within the value",
        ),
        (b"\0\x01", "f.yaml:1:"),
    ] {
        let error = refused(bytes).to_string();
        assert!(error.starts_with(message), "{error}\nwanted {message}");
    }
}

/// Of the processor's time, which other work on the machine does not lengthen; a debug build.
const SOON: f64 = 10.0;

fn processor_seconds() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

#[test]
fn nothing_hostile_takes_long_or_crashes() {
    let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for i in 1..12 {
        let alias = format!("*a{}", i - 1);
        writeln!(laughs, "a{i}: &a{i} [{}]", [alias.as_str(); 9].join(", ")).unwrap();
    }
    let n = 100_000;
    let long = "x".repeat(200_000);
    let texts: Vec<String> = vec![
        laughs,
        format!("a: &a {long}\nb: [{}]", vec!["*a"; 2_000].join(", ")),
        "[".repeat(n),
        "{a: ".repeat(n),
        "- ".repeat(n),
        "? ".repeat(n),
        "&a ".repeat(n),
        "!a ".repeat(n),
        "a: 1\n".repeat(n),
        "---\n".repeat(n),
        "---\na\n".repeat(n),
        "#\n".repeat(n),
        "%A b\n".repeat(n),
        "'".repeat(n),
        "\"\\\n".repeat(n),
        format!("a: |+\n  x\n{}", "  \n".repeat(n)),
        format!("a: \"{}\"", "\n \n".repeat(n)),
        format!("a: >+\n  x\n{}", "\n".repeat(n)),
        "a".repeat(limits::BYTES + 1),
        "a: b\u{0}".repeat(10),
        "\u{feff}".repeat(n),
        "<<: [".repeat(50),
        (0..n).fold(String::new(), |mut text, i| {
            let _ = writeln!(text, "k{i}: 1");
            text
        }),
    ];
    for text in texts {
        let begun = processor_seconds();
        let outcome = read("f", text.as_bytes()).map(|documents| documents.len());
        let shown: String = text.chars().take(20).collect();
        let took = processor_seconds() - begun;
        assert!(took < SOON, "{shown:?} took {took} s: {outcome:?}");
    }
}

#[test]
fn each_bound_refuses_what_is_over_it() {
    for (text, what) in [
        (
            "- ".repeat(limits::DEPTH + 1) + "x",
            "mappings and lists within each other",
        ),
        ("---\na\n".repeat(limits::DOCUMENTS + 1), "documents"),
        (format!("[{}]", "1,".repeat(limits::NODES + 1)), "values"),
        (
            format!(
                "a: &a {}\nb: [{}]",
                "x".repeat(1_000),
                vec!["*a"; 2_000].join(",")
            ),
            "bytes repeated by aliases",
        ),
    ] {
        let error = refused(text.as_bytes()).to_string();
        assert!(error.contains(what), "{error}");
    }
    assert!(read("f", ("- ".repeat(limits::DEPTH) + "x").as_bytes()).is_ok());
}

proptest::proptest! {
    #[test]
    fn any_bytes_give_an_answer(bytes in proptest::collection::vec(0u8..128, 0..200)) {
        let _ = read("f", &bytes);
    }

    #[test]
    fn any_text_stands_where_its_places_say(
        words in "[a-z]{1,6}( [a-z]{1,6}){0,8}",
        width in 1usize..20,
    ) {
        let mut folded = String::from("a: >-\n");
        for line in words.split(' ').collect::<Vec<_>>().chunks(width) {
            folded.push_str("   ");
            folded.push_str(&line.join(" "));
            folded.push('\n');
        }
        let document = one(&folded);
        let value = document.get("a").unwrap().text().unwrap();
        let lines: Vec<Vec<char>> = folded.lines().map(|line| line.chars().collect()).collect();
        for (offset, wanted) in value.value.chars().enumerate().filter(|(_, c)| *c != ' ') {
            let place = value.place(offset);
            let found = lines[place.line as usize - 1][place.column as usize - 1];
            proptest::prop_assert_eq!(found, wanted);
        }
    }
}
