//! DATE and TIMESTAMP: ISO 8601, as Arrow reads it.

use super::strings::plain_text;
use crate::decode::reason::{Code, Verdict};
use crate::decode::scan::Engine;
use crate::decode::text::Cursor;

const MICROS_PER_DAY: i64 = 86_400_000_000;
const FIRST_DAY: i64 = -719_162; // 0001-01-01
const LAST_DAY: i64 = 2_932_896; // 9999-12-31

/// The days since 1970 of a `2026-11-21`; none for any other text, and for other years than 1 to
/// 9999.
#[inline(always)]
pub fn parse_date<E: Engine>(at: Cursor) -> Option<(i32, Cursor)> {
    let (text, end) = plain_text::<E>(at)?;
    let days = read_date(text.try_into().ok()?)?;
    (FIRST_DAY..=LAST_DAY)
        .contains(&days)
        .then_some((days as i32, end))
}

/// The microseconds since 1970 of a `2026-11-21T08:00:00.123456Z`. The time may be left out, its
/// minutes and seconds too; digits behind the sixth are dropped. A zone is refused in a TIMESTAMP_NTZ.
#[inline(always)]
pub fn parse_time<E: Engine>(at: Cursor, may_have_zone: bool) -> Option<(i64, Cursor)> {
    let (text, end) = plain_text::<E>(at)?;
    let micros = to_micros(text, may_have_zone)?;
    Some((micros, end))
}

fn to_micros(text: &[u8], may_have_zone: bool) -> Option<i64> {
    let (micros, has_zone) = read_time(text)?;
    let is_within = (FIRST_DAY * MICROS_PER_DAY..(LAST_DAY + 1) * MICROS_PER_DAY).contains(&micros);
    (is_within && (may_have_zone || !has_zone)).then_some(micros)
}

/// The microseconds since 1970, in UTC or in no zone, and whether the text has a zone.
fn read_time(text: &[u8]) -> Option<(i64, bool)> {
    let (date, clock) = text.split_first_chunk::<10>()?;
    let micros = read_date(*date)? * MICROS_PER_DAY;
    let Some((separator, clock)) = clock.split_first() else {
        return Some((micros, false));
    };
    if !matches!(separator, b'T' | b' ') {
        return None;
    }
    let (of_day, zone) = read_clock(clock)?;
    let shift = if zone.is_empty() { 0 } else { read_zone(zone)? };
    Some((micros + of_day - shift, !zone.is_empty()))
}

fn read_date(text: [u8; 10]) -> Option<i64> {
    if text[4] != b'-' || text[7] != b'-' {
        return None;
    }
    let year = 100 * two(&text)? + two(&text[2..])?;
    let (month, day) = (two(&text[5..])?, two(&text[8..])?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        2 => 28 + is_leap as i64,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    (1..=last)
        .contains(&day)
        .then(|| count_days(year, month, day))
}

/// Days since 1970-01-01. The year begins in March here, so that the leap day is its last.
fn count_days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The microseconds of a `08:00:00.5`, and what stands behind it.
fn read_clock(text: &[u8]) -> Option<(i64, &[u8])> {
    let mut seconds = bounded(text, 23)? * 3_600;
    let mut after = &text[2..];
    for (unit, last) in [(60, 59), (1, 59)] {
        let Some(digits) = after.strip_prefix(b":") else {
            return Some((seconds * 1_000_000, after));
        };
        seconds += bounded(digits, last)? * unit;
        after = &digits[2..];
    }
    let Some(fraction) = after.strip_prefix(b".") else {
        return Some((seconds * 1_000_000, after));
    };
    let end = fraction.iter().position(|byte| !byte.is_ascii_digit());
    let (digits, zone) = fraction.split_at(end.unwrap_or(fraction.len()));
    if digits.is_empty() {
        return None;
    }
    let digit = |place| digits.get(place).map_or(0, |byte| (byte - b'0') as i64);
    let micros = (0..6).fold(0, |sum, place| 10 * sum + digit(place));
    Some((seconds * 1_000_000 + micros, zone))
}

/// The microseconds of a `Z`, `+01`, `+0130` or `+01:30`.
fn read_zone(text: &[u8]) -> Option<i64> {
    if text == b"Z" {
        return Some(0);
    }
    let (sign, digits) = text.split_first()?;
    let hours = bounded(digits, 23)?;
    let minutes = match digits.len() {
        2 => 0,
        4 => bounded(&digits[2..], 59)?,
        5 if digits[2] == b':' => bounded(&digits[3..], 59)?,
        _ => return None,
    };
    let micros = (hours * 60 + minutes) * 60_000_000;
    match sign {
        b'+' => Some(micros),
        b'-' => Some(-micros),
        _ => None,
    }
}

fn bounded(text: &[u8], last: i64) -> Option<i64> {
    two(text).filter(|number| *number <= last)
}

/// The number that the first two characters write.
fn two(text: &[u8]) -> Option<i64> {
    let [tens, ones] = text
        .first_chunk::<2>()?
        .map(|byte| byte.wrapping_sub(b'0') as i64);
    (tens <= 9 && ones <= 9).then_some(10 * tens + ones)
}

/// Judge a text that was not taken as a DATE.
pub fn judge_date(text: &[u8]) -> Verdict {
    match text.len() {
        10 => judge_time(text, false),
        _ => Verdict::Bad(Code::NotTime),
    }
}

/// Judge a text that was not taken as a TIMESTAMP, which may have a zone, or a TIMESTAMP_NTZ.
pub fn judge_time(text: &[u8], may_have_zone: bool) -> Verdict {
    Verdict::Bad(match read_time(text) {
        Some((_, has_zone)) if may_have_zone || !has_zone => Code::TimeRange,
        _ => Code::NotTime,
    })
}
