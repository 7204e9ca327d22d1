//! Dates and times in ISO 8601, as Arrow reads them.

const MICROS_PER_DAY: i64 = 86_400_000_000;
const FIRST_DAY: i64 = -719_162; // 0001-01-01
const LAST_DAY: i64 = 2_932_896; // 9999-12-31

/// The days since 1970 of a `2026-11-21`; none for any other text, and for other years than 1 to
/// 9999.
pub fn parse_date(text: &[u8]) -> Option<i32> {
    let days = read_date(text.try_into().ok()?)?;
    (FIRST_DAY..=LAST_DAY)
        .contains(&days)
        .then_some(days as i32)
}

/// The microseconds since 1970 of a `2026-11-21T08:00:00.123456Z`. The time may be left out, its
/// minutes and seconds too; digits behind the sixth are dropped. A zone is refused unless asked for.
pub fn parse_time(text: &[u8], may_have_zone: bool) -> Option<i64> {
    let (micros, has_zone) = read_time(text)?;
    let is_within = (FIRST_DAY * MICROS_PER_DAY..(LAST_DAY + 1) * MICROS_PER_DAY).contains(&micros);
    (is_within && (may_have_zone || !has_zone)).then_some(micros)
}

/// The microseconds since 1970, in UTC or in no zone, and whether a zone was given.
fn read_time(text: &[u8]) -> Option<(i64, bool)> {
    let (date, rest) = text.split_first_chunk::<10>()?;
    let micros = read_date(*date)? * MICROS_PER_DAY;
    let Some((separator, rest)) = rest.split_first() else {
        return Some((micros, false));
    };
    if !matches!(separator, b'T' | b' ') {
        return None;
    }
    let (of_day, zone) = read_clock(rest)?;
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
    let mut rest = &text[2..];
    for (unit, last) in [(60, 59), (1, 59)] {
        let Some(digits) = rest.strip_prefix(b":") else {
            return Some((seconds * 1_000_000, rest));
        };
        seconds += bounded(digits, last)? * unit;
        rest = &digits[2..];
    }
    let Some(fraction) = rest.strip_prefix(b".") else {
        return Some((seconds * 1_000_000, rest));
    };
    let count = fraction
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    if count == 0 {
        return None;
    }
    let digit = |place: usize| {
        if place < count {
            (fraction[place] - b'0') as i64
        } else {
            0
        }
    };
    let micros = (0..6).fold(0, |sum, place| 10 * sum + digit(place));
    Some((seconds * 1_000_000 + micros, &fraction[count..]))
}

/// The microseconds of a `Z`, `+01`, `+0130` or `+01:30`.
fn read_zone(text: &[u8]) -> Option<i64> {
    if text == b"Z" {
        return Some(0);
    }
    let (sign, rest) = text.split_first()?;
    let hours = bounded(rest, 23)?;
    let minutes = match rest.len() {
        2 => 0,
        4 => bounded(&rest[2..], 59)?,
        5 if rest[2] == b':' => bounded(&rest[3..], 59)?,
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

/// Whether a text is a date or a time, in any year. A zone is refused unless asked for.
pub fn is_time(text: &[u8], may_have_zone: bool) -> bool {
    read_time(text).is_some_and(|(_, has_zone)| may_have_zone || !has_zone)
}
