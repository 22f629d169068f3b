//! Times as text, and the little arithmetic that decisions need.
//!
//! Invariants: a text is RFC 3339 with at most nine digits of a second's fraction (years beyond
//! four digits as ISO 8601 writes them, `-009999`), or it is refused; what is written is UTC, with
//! no more digits than the time needs. Wherever both can read a text, `jiff` reads it alike, and
//! it writes every time alike: tests compare. Own code because `jiff`'s reader and writer know
//! every format there is, and with the texts of their errors weigh more than all decisions (B-11).

use alloc::string::String;
use jiff::{SignedDuration, Timestamp};
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::Serializer;

const DAY: i64 = 86_400;
const NANOS: i32 = 1_000_000_000;
/// Days from 1 March of the year 0 to the epoch.
const EPOCH: i64 = 719_468;

/// Reads RFC 3339. A leap second is the second before it; `None` for what is no time.
pub fn read(text: &str) -> Option<Timestamp> {
    let mut rest = Rest(text.as_bytes());
    let year = rest.year()?;
    rest.one_of(b"-")?;
    let month = rest.number(2)?;
    rest.one_of(b"-")?;
    let day = rest.number(2)?;
    rest.one_of(b"Tt ")?;
    let hour = rest.number(2)?;
    rest.one_of(b":")?;
    let minute = rest.number(2)?;
    rest.one_of(b":")?;
    let second = rest.number(2)?;
    let nanos = rest.fraction()?;
    let offset = rest.offset()?;
    let valid = rest.0.is_empty()
        && (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !valid {
        return None;
    }
    let at = days(year, month, day) * DAY + hour * 3600 + minute * 60 + second.min(59) - offset;
    timestamp(at, nanos)
}

/// The text of a time: RFC 3339 in UTC.
pub fn text(at: Timestamp) -> String {
    let (second, nanos) = parts(at);
    let (year, month, day) = date(second.div_euclid(DAY));
    let of_day = second.rem_euclid(DAY);
    let (sign, digits) = if year < 0 { ("-", 6) } else { ("", 4) };
    let mut text = String::from(sign);
    for (before, number, digits) in [
        ("", year, digits),
        ("-", month, 2),
        ("-", day, 2),
        ("T", of_day / 3600, 2),
        (":", of_day / 60 % 60, 2),
        (":", of_day % 60, 2),
    ] {
        text.push_str(before);
        push_digits(&mut text, number, digits);
    }
    if nanos > 0 {
        text.push('.');
        push_digits(&mut text, nanos.into(), 9);
        text.truncate(text.trim_end_matches('0').len());
    }
    text.push('Z');
    text
}

/// So many digits of a number, without its sign.
fn push_digits(text: &mut String, number: i64, digits: u32) {
    for place in (0..digits).rev() {
        let digit = number.unsigned_abs() / 10_u64.pow(place) % 10;
        text.push(char::from(b'0' + digit as u8));
    }
}

/// `at` plus `by`; `None` beyond the ends of time.
pub(crate) fn plus(at: Timestamp, by: SignedDuration) -> Option<Timestamp> {
    let (second, nanos) = parts(at);
    // Both are less than a second, so the sum is less than two.
    let nanos = nanos + by.subsec_nanos();
    let carried = second.checked_add(by.as_secs())?;
    timestamp(
        carried.checked_add(i64::from(nanos.div_euclid(NANOS)))?,
        nanos.rem_euclid(NANOS),
    )
}

/// How long after `before` it is at `now`; negative if it is before.
pub(crate) fn since(before: Timestamp, now: Timestamp) -> SignedDuration {
    let ((from, from_nanos), (to, to_nanos)) = (parts(before), parts(now));
    SignedDuration::new(to - from, to_nanos - from_nanos)
}

/// Whole microseconds, cut off.
pub(crate) fn whole_micros(at: Timestamp) -> Timestamp {
    Timestamp::constant(at.as_second(), at.subsec_nanosecond() / 1000 * 1000)
}

/// Seconds, rounded down, and the nanoseconds since.
fn parts(at: Timestamp) -> (i64, i32) {
    let (second, nanos) = (at.as_second(), at.subsec_nanosecond());
    if nanos < 0 {
        (second - 1, nanos + NANOS)
    } else {
        (second, nanos)
    }
}

fn timestamp(second: i64, nanos: i32) -> Option<Timestamp> {
    // The constructor that says why not brings all of `jiff`'s errors along.
    let within = (Timestamp::MIN.as_second()..=Timestamp::MAX.as_second()).contains(&second);
    within.then(|| Timestamp::constant(second, nanos))
}

/// The first day of the year that begins in March, counted from 1 March of the year 0.
fn year_start(year: i64) -> i64 {
    365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400)
}

/// Days before a month of that year: March is month 0, and five months have 153 days.
fn month_start(month: i64) -> i64 {
    (153 * month + 2) / 5
}

fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month < 3);
    year_start(year) + month_start((month + 9) % 12) + day - 1 - EPOCH
}

fn date(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH;
    // 400 years have 146,097 days: never more than a year too early or too late.
    let mut year = (days * 400).div_euclid(146_097);
    if year_start(year) > days {
        year -= 1;
    } else if year_start(year + 1) <= days {
        year += 1;
    }
    let of_year = days - year_start(year);
    let from_march = (5 * of_year + 2) / 153;
    let month = (from_march + 2) % 12 + 1;
    let day = of_year - month_start(from_march) + 1;
    (year + i64::from(month < 3), month, day)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// What is left to read.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn one_of(&mut self, wanted: &[u8]) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        wanted.contains(first).then(|| {
            self.0 = rest;
            *first
        })
    }

    /// Exactly so many digits.
    fn number(&mut self, digits: usize) -> Option<i64> {
        let mut number = 0;
        for _ in 0..digits {
            number = number * 10 + i64::from(self.one_of(b"0123456789")? - b'0');
        }
        Some(number)
    }

    fn year(&mut self) -> Option<i64> {
        match self.one_of(b"+-") {
            None => self.number(4),
            Some(b'+') => self.number(6),
            // There is no year -0.
            Some(_) => self.number(6).filter(|year| *year > 0).map(|year| -year),
        }
    }

    /// Nanoseconds; 0 where there is no fraction.
    fn fraction(&mut self) -> Option<i32> {
        if self.one_of(b".").is_none() {
            return Some(0);
        }
        let mut nanos = i32::from(self.one_of(b"0123456789")? - b'0');
        for _ in 1..9 {
            let digit = self.one_of(b"0123456789").unwrap_or(b'0');
            nanos = nanos * 10 + i32::from(digit - b'0');
        }
        Some(nanos)
    }

    /// Seconds east of UTC.
    fn offset(&mut self) -> Option<i64> {
        let sign = match self.one_of(b"Zz+-")? {
            b'+' => 1,
            b'-' => -1,
            _ => return Some(0),
        };
        let hours = self.number(2)?;
        self.one_of(b":")?;
        let minutes = self.number(2)?;
        (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
    }
}

/// For `#[serde(with = "crate::time")]`.
pub(crate) fn serialize<S: Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&text(*at))
}

/// For `#[serde(with = "crate::time")]`.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
    let text = String::deserialize(from)?;
    read(&text).ok_or_else(|| D::Error::custom("it is no time as RFC 3339 writes it"))
}

/// The same for a time that may be unset; with `default`, for one that may be missing too.
pub(crate) mod option {
    use super::{Deserialize, Deserializer, Error, Serializer, Timestamp, read, text};
    use alloc::string::String;

    pub(crate) fn serialize<S: Serializer>(
        at: &Option<Timestamp>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match at {
            Some(at) => to.serialize_some(&text(*at)),
            None => to.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        let no_time = || D::Error::custom("it is no time as RFC 3339 writes it");
        match Option::<String>::deserialize(from)? {
            Some(text) => read(&text).map(Some).ok_or_else(no_time),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_rfc_3339_is_refused() {
        for text in [
            "",
            "2026-03-01",
            "2026-03-01T10:00:00",
            "2026-03-01T10:00Z",
            "2026-03-01T10:00:00.Z",
            "2026-03-01T10:00:00,5Z",
            "2026-03-01T10:00:00.1234567890Z",
            "2026-03-01T10:00:00Z ",
            " 2026-03-01T10:00:00Z",
            "2026-03-01T10:00:00Z[UTC]",
            "2026-03-01T10:00:00+01",
            "2026-03-01T10:00:00+0100",
            "2026-03-01T10:00:00+24:00",
            "2026-03-01T10:00:00+00:60",
            "2026-00-01T10:00:00Z",
            "2026-13-01T10:00:00Z",
            "2026-02-29T10:00:00Z",
            "2026-03-00T10:00:00Z",
            "2026-04-31T10:00:00Z",
            "2026-03-01T24:00:00Z",
            "2026-03-01T10:60:00Z",
            "2026-03-01T10:00:61Z",
            "20260301T100000Z",
            "-000000-03-01T10:00:00Z",
            "9999-12-31T23:59:59Z",
            "+010000-01-01T00:00:00Z",
            "2026-03-01T10:00:0٣Z",
        ] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_ends_of_time_and_leap_days_are_read_back() {
        for (at, expected) in [
            (Timestamp::MIN, "-009999-01-02T01:59:59Z"),
            (Timestamp::MAX, "9999-12-30T22:00:00.999999999Z"),
            (Timestamp::UNIX_EPOCH, "1970-01-01T00:00:00Z"),
            (
                read("2000-02-29T23:59:60-01:30").unwrap(),
                "2000-03-01T01:29:59Z",
            ),
            (
                read("1969-12-31t23:59:59.5z").unwrap(),
                "1969-12-31T23:59:59.5Z",
            ),
            (
                read("+002026-03-01 10:00:00Z").unwrap(),
                "2026-03-01T10:00:00Z",
            ),
        ] {
            assert_eq!(text(at), expected);
            assert_eq!(read(expected), Some(at));
        }
        for end in [Timestamp::MIN, Timestamp::MAX] {
            for nanos in [-1, 0, 1] {
                let by = SignedDuration::from_nanos(nanos);
                assert_eq!(plus(end, by), end.checked_add(by).ok(), "{end} {nanos}");
            }
        }
        assert_eq!(plus(Timestamp::MIN, SignedDuration::MIN), None);
    }

    fn any_time() -> impl Strategy<Value = Timestamp> {
        let (first, last) = (Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
        let near = -5_000_000_000i64..5_000_000_000;
        (prop_oneof![first..last, near], 0..NANOS)
            .prop_map(|(second, nanos)| Timestamp::new(second, nanos).unwrap())
    }

    proptest! {
        #[test]
        fn a_time_is_written_as_jiff_writes_it(at in any_time()) {
            prop_assert_eq!(text(at), at.to_string());
            prop_assert_eq!(read(&text(at)), Some(at));
        }

        #[test]
        fn what_is_read_is_what_jiff_reads(
            given in "(-00|[+]00)?[0-9]{4}-[01][0-9]-[0-3][0-9]\
                      [Tt ][0-2][0-9]:[0-6][0-9]:[0-6][0-9]\
                      (\\.[0-9]{1,10})?([zZ]|[+-][01][0-9]:[0-6][0-9])"
        ) {
            prop_assert_eq!(read(&given), given.parse::<Timestamp>().ok(), "{}", given);
        }

        #[test]
        fn arithmetic_is_jiffs(a in any_time(), b in any_time(), by in any::<i64>()) {
            let by = SignedDuration::from_nanos(by);
            prop_assert_eq!(plus(a, by), a.checked_add(by).ok());
            prop_assert_eq!(since(a, b), b.duration_since(a));
            let micros = Timestamp::from_microsecond(a.as_microsecond()).unwrap();
            prop_assert_eq!(whole_micros(a), micros);
        }

        #[test]
        fn no_text_panics(given in "[-+0-9TZ:. ]{0,40}|.{0,20}") {
            let _ = read(&given);
        }
    }
}
