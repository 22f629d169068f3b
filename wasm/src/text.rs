//! One definition of counting, trimming and naming, for the browser, Node and the sidecar (S-5).
//!
//! Invariant: nothing here depends on the host. Length is the number of Unicode scalar values
//! (not UTF-16 units, not bytes); white space is Unicode's property White_Space, which is neither
//! JavaScript's `trim` (that also takes U+FEFF and leaves U+0085) nor a regular expression's `\s`.
//! An unpaired surrogate reaches this crate as U+FFFD, one scalar value, whatever the host.

use alloc::string::String;

/// The most characters in a name (S-5).
pub const NAME_MAX: usize = 253;
/// The most characters in a container's name (S-5): a DNS label.
pub const CONTAINER_NAME_MAX: usize = 63;
/// The most characters in a reason or a note (S-5, S-6).
pub const REASON_MAX: usize = 2000;
/// The most characters in a ticket's URL (S-5).
pub const URL_MAX: usize = 500;

/// The length that people and limits mean: Unicode scalar values.
pub fn length(text: &str) -> usize {
    text.chars().count()
}

/// Whether the text is longer than `max` scalar values; looks at no more of it than it must.
pub fn longer_than(text: &str, max: usize) -> bool {
    // Not `chars().nth`, which is fast and large (B-11).
    let begins_a_character = |byte: &u8| byte & 0b1100_0000 != 0b1000_0000;
    text.bytes().filter(begins_a_character).nth(max).is_some()
}

/// The text without white space at its ends (White_Space, `char::is_whitespace`).
pub fn trimmed(text: &str) -> &str {
    text.trim_matches(char::is_whitespace)
}

/// Whether the text is a plain name of at most `max` characters: `^[A-Za-z0-9._-]+$`, and neither
/// `.` nor `..` (S-5), so that it can stand in a path, an object key or a query without quotes.
pub fn is_plain_name(text: &str, max: usize) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=max).contains(&text.len()) && text.bytes().all(plain) && !matches!(text, "." | "..")
}

/// Whether a reason or note holds a control character other than tab, line feed and carriage
/// return. Postgres cannot store U+0000, and the others could move an operator's terminal.
pub fn has_control(text: &str) -> bool {
    text.chars()
        .any(|c| c.is_control() && !matches!(c, '\t' | '\n' | '\r'))
}

/// Somebody else's words as one line that can be kept and shown: every run of white space and
/// control characters is one space, and what is longer than `max` scalar values ends in `…`.
pub fn one_line(text: &str, max: usize) -> String {
    let gap = |c: char| c.is_whitespace() || c.is_control();
    let mut line = String::new();
    let mut left = max;
    for word in text.split(gap).filter(|word| !word.is_empty()) {
        let space = if line.is_empty() { "" } else { " " };
        for c in space.chars().chain(word.chars()) {
            if left == 0 {
                line.pop();
                line.push('…');
                return line;
            }
            line.push(c);
            left -= 1;
        }
    }
    line
}

/// The parts, one after the other, with a text between each two. The standard library's `join`
/// weighs more than a decision does (B-11).
pub(crate) fn joined<T: AsRef<str>>(parts: &[T], between: &str) -> String {
    let mut made = String::new();
    for (nth, part) in parts.iter().enumerate() {
        made.push_str(if nth == 0 { "" } else { between });
        made.push_str(part.as_ref());
    }
    made
}

/// Whether the text is an absolute http(s) URL that is safe to keep and to show as a link.
///
/// Stricter than a browser: `http://` or `https://` in any case, a host of letters, digits, `-`,
/// `.` and `_` (or an IPv6 address in brackets), at most a port after it, no user or password, and
/// after that printable ASCII without `` " < > \ ` ``, and of all other characters letters and
/// digits alone: none that people cannot see or that moves what they see.
/// Says nothing of length.
pub fn is_http_url(text: &str) -> bool {
    let after = |scheme: &str| {
        let (given, rest) = text.split_at_checked(scheme.len())?;
        given.eq_ignore_ascii_case(scheme).then_some(rest)
    };
    let Some(rest) = after("http://").or_else(|| after("https://")) else {
        return false;
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at_checked(end).unwrap_or((rest, ""));
    is_authority(authority) && tail.chars().all(in_url_tail)
}

fn in_url_tail(c: char) -> bool {
    if c.is_ascii() {
        c.is_ascii_graphic() && !matches!(c, '"' | '<' | '>' | '\\' | '`')
    } else {
        c.is_alphanumeric()
    }
}

// Lists of one character, because looking for a bare one is a fast search of its own (B-11).
fn is_authority(text: &str) -> bool {
    if let Some(rest) = text.strip_prefix('[') {
        let Some((address, port)) = rest.split_once([']']) else {
            return false;
        };
        let in_address = |b: u8| b.is_ascii_hexdigit() || matches!(b, b':' | b'.');
        return address.bytes().any(|b| b == b':')
            && address.bytes().all(in_address)
            && is_port(port);
    }
    let host_end = text.find([':']).unwrap_or(text.len());
    let (host, port) = text.split_at_checked(host_end).unwrap_or((text, ""));
    let in_host = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    let named = host.bytes().any(|b| b.is_ascii_alphanumeric());
    named && !host.starts_with('.') && host.bytes().all(in_host) && is_port(port)
}

/// Nothing, or a colon and a port from 1 to 65535.
fn is_port(text: &str) -> bool {
    let Some(digits) = text.strip_prefix(':') else {
        return text.is_empty();
    };
    let numeric = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    numeric && digits.parse::<u16>().is_ok_and(|port| port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_counts_scalar_values_and_not_utf_16_units() {
        for (text, expected) in [("", 0), ("abc", 3), ("é", 1), ("e\u{301}", 2), ("😀😀", 2)] {
            assert_eq!(length(text), expected, "{text:?}");
            assert!(!longer_than(text, expected), "{text:?}");
            assert_eq!(
                expected > 0,
                longer_than(text, expected.saturating_sub(1)),
                "{text:?}"
            );
        }
        assert_eq!(
            length("\u{fffd}"),
            1,
            "what a lone surrogate becomes counts as one"
        );
    }

    #[test]
    fn trimming_takes_white_space_and_nothing_else() {
        for space in [
            '\t', '\n', '\u{b}', '\r', ' ', '\u{85}', '\u{a0}', '\u{2028}', '\u{3000}',
        ] {
            assert_eq!(trimmed(&format!("{space}a b{space}")), "a b", "{space:?}");
        }
        for kept in ['\u{feff}', '\u{200b}', '\u{2060}', '\0'] {
            let text = format!("{kept}a{kept}");
            assert_eq!(trimmed(&text), text, "{kept:?}");
        }
    }

    #[test]
    fn other_peoples_words_become_one_bounded_line() {
        assert_eq!(one_line(" a\r\n\0b\u{1b}[2J\tc ", 99), "a b [2J c");
        assert_eq!(one_line("", 5), "");
        assert_eq!(one_line("12345", 5), "12345");
        assert_eq!(one_line("12345 ", 5), "12345");
        assert_eq!(one_line("123456", 5), "1234…");
        assert_eq!(one_line("1234 6", 5), "1234…");
    }

    #[test]
    fn a_plain_name_can_stand_in_a_path() {
        for name in ["a", "A.b_c-9", "...", ".hidden", "-", "a..b"] {
            assert!(is_plain_name(name, NAME_MAX), "{name:?}");
        }
        for name in [
            "", ".", "..", "a/b", "a b", "a\n", "é", "a\0", "../x", "a%2f", "аpp",
        ] {
            assert!(!is_plain_name(name, NAME_MAX), "{name:?}");
        }
        assert!(is_plain_name("abc", 3) && !is_plain_name("abcd", 3));
    }

    #[test]
    fn a_ticket_is_an_http_url_with_a_host_and_no_password() {
        for url in [
            "https://tickets.example.com/browse/OPS-1",
            "HTTP://example.com",
            "http://localhost:8080/x?y=1#z",
            "https://[2001:db8::1]:8443/a",
            "https://jira_2.example/ä",
            "https://example.com?q={a|b}",
        ] {
            assert!(is_http_url(url), "{url:?}");
        }
        for url in [
            "",
            "example.com/OPS-1",
            "javascript://example.com/%0aalert(1)",
            "ftp://example.com",
            "https://",
            "https:///path",
            "https://:443",
            "https://..",
            "https://.example.com",
            "https:example.com",
            "https://user@example.com",
            "https://user:secret@example.com",
            "https://example.com:0",
            "https://example.com:65536",
            "https://example.com:",
            "https://example.com:+1",
            "https://exa mple.com",
            "https://example.com/a b",
            "https://example.com/a\nb",
            "https://example.com/\"onclick=",
            "https://example.com\\@evil.example",
            "https://example.com/\u{202e}",
            "https://example.com/\u{a0}",
            "https://example.com/\u{85}",
            "https://example.com/\u{ad}",
            "https://example.com/\u{200b}",
            "https://example.com/\u{feff}",
            "https://example.com/\u{fe0f}",
            "https://example.com/\u{fffd}",
            "https://example.com/\u{e000}",
            "https://example.com/\u{e0041}",
            "https://example.com/e\u{301}",
            "https://example.com/\u{1f600}",
            "http:/example.com",
            "https//example.com",
            "http\u{e9}://example.com",
            "https://[::1",
            "https://[]",
            "https://[::1]x",
            " https://example.com",
        ] {
            assert!(!is_http_url(url), "{url:?}");
        }
    }
}
