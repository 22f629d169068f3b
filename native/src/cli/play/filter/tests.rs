use super::*;

#[track_caller]
fn check(data: &str, shown: &str) {
    assert_eq!(Filter::default().pass(data), shown);
    // Cut anywhere, it is the same.
    let mut filter = Filter::default();
    let whole: String = data.chars().map(|c| filter.pass(&c.to_string())).collect();
    assert_eq!(whole, shown);
}

#[test]
fn what_draws_is_shown() {
    for data in [
        "plain あ\r\n\t\x08\x07",
        "\x1b[1;31mred\x1b[0m\x1b[38:2::1:2:3mx\x1b[2J\x1b[H",
        "\x1b[?1049h\x1b7\x1b8\x1bc\x1bD\x1bE\x1bH\x1bM\x1b=\x1b>",
        "\x1b(0\x1b)B\x0elqk\x0f",
        "\x1b[?1;25h\x1b[?7l\x1b[4h\x1b[2S\x1b[2T\x1b[s\x1b[u\x1b[1;24r",
    ] {
        check(data, data);
    }
}

#[test]
fn qx7_what_would_act_on_the_viewers_terminal_is_left_out() {
    for (data, shown) in [
        ("a\x1b]52;c;ZXZpbA==\x07b", "ab"),
        ("a\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\b", "alinkb"),
        ("a\x1b[21tb", "ab"),
        ("a\x1b[6nb\x1b[cc\x1bZd\x05e", "abcde"),
        ("a\x1bP+q544e\x1b\\b", "ab"),
        ("a\u{9d}52;c;eA==\u{9c}b", "ab"),
        ("a\x1b[>1ub\x1b[?uc\x1b[=1ud", "abcd"),
        // Reports and window operations of other spellings.
        (
            "a\x1b[?6nb\x1b[>cc\x1b[5id\x1b[!pe\x1b[2 qf\x1b[$rg",
            "abcdefg",
        ),
        // What tmux or screen would pass on.
        ("a\x1bPtmux;\x1b\x1b]52;c;eA==\x07\x1b\\b", "ab"),
    ] {
        check(data, shown);
    }
}

#[test]
fn after_escape_only_what_draws_passes() {
    for (data, shown) in [
        ("a\x1bnb\x1boc\x1b|d\x1b}e\x1b~f", "abcdef"),
        ("a\x1b Gb\x1b#8c\x1b%Gd\x1b-Ae", "abcde"),
        ("a\x1b(%5b", "ab"),
        // With a control character between, a terminal might go on with the sequence.
        ("a\x1b\x05b\x1b\x00c\x1b\x18d", "abcd"),
        ("a\x1b\rb\x1b(\nc", "abc"),
        ("a\x1b\u{9b}6nb\x1b\u{9d}52;c;eA==\x07c\x1b\u{85}d", "abcd"),
        ("a\x1bあb", "ab"),
    ] {
        check(data, shown);
    }
}

#[test]
fn a_control_sequence_passes_whole_or_not_at_all() {
    let long = format!("a\x1b[{}mb", "1;".repeat(40));
    for (data, shown) in [
        // Not dangerous without it, but nobody knows what a terminal makes of it.
        ("a\x1b[3\x051mb\x1b[3\n1mc\x1b[\u{85}1md", "abcd"),
        ("a\x1b[1\x18mb", "amb"),
        ("a\x1b[1\x1b[31mb", "a\x1b[31mb"),
        ("a\x1b[1\u{9d}52;c;eA==\x07b", "ab"),
        ("a\x1b[1あmb", "ab"),
        (long.as_str(), "ab"),
        ("a\x1b[1?hb\x1b[1<mc", "abc"),
    ] {
        check(data, shown);
    }
}

#[test]
fn of_the_modes_only_those_that_draw_pass() {
    for (data, shown) in [
        (
            "a\x1b[?1000h\x1b[?1006h\x1b[?1004h\x1b[?2004h\x1b[?9hb",
            "ab",
        ),
        ("a\x1b[?1049;1003;25hb", "a\x1b[?1049;25hb"),
        ("a\x1b[2h\x1b[12l\x1b[20hb\x1b[h", "ab"),
        ("a\x1b[?2Sb\x1b[>2Tc\x1b[1;2;3;4;5Td\x1b[?1;2re", "abcde"),
        ("a\x1b[>4;2mb\x1b[?4mc", "abc"),
    ] {
        check(data, shown);
    }
}

#[test]
fn a_string_that_is_broken_off_does_not_hide_the_rest() {
    check("a\x1b]0;title\x1b[1mb", "a\x1b[1mb");
    check("a\x1bPxx\x18b", "ab");
}

#[test]
fn the_terminal_is_left_as_it_was_found() {
    let mut filter = Filter::default();
    filter.pass("\x1b[?1049h\x1b[?25l\x1b[31m");
    let reset = filter.reset();
    for part in ["\x1b[?1049l", "\x1b[?25h", "\x1b[0m"] {
        assert!(reset.contains(part), "{reset:?} lacks {part:?}");
    }
    // Leaving a screen that was not entered would move the cursor.
    filter.pass("\x1b[?1049l");
    assert!(!filter.reset().contains("?1049l"));
}
