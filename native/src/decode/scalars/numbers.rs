//! Integers, FLOAT and DOUBLE, and the numbers of JSON: exact, or refused.

use crate::decode::reason::{Code, Verdict};
use crate::decode::text::Cursor;

const TENS: [u64; 20] = {
    let mut tens = [1u64; 20];
    let mut i = 1;
    while i < 20 {
        tens[i] = tens[i - 1].wrapping_mul(10);
        i += 1;
    }
    tens
};

/// Powers of ten that a double holds exactly.
const EXACT: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// A number with more characters, or a larger exponent, is left to the other decoder, whose parser
/// has limits of its own there.
const LENGTH_MAX: usize = 300;
const EXPONENT_MAX: u64 = 280;

/// Digits at a cursor, added behind those of `before`; how many, and the place behind them. With
/// more than 19 digits in all the number is wrong.
#[inline(always)]
pub fn read_digits(start: Cursor, before: u64) -> (u64, usize, Cursor) {
    let (mut number, mut at) = (before, start);
    loop {
        let digits = at.word() ^ 0x3030_3030_3030_3030;
        let others = (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & 0x8080_8080_8080_8080;
        if others == 0 {
            number = number
                .wrapping_mul(100_000_000)
                .wrapping_add(join_digits(digits));
            at = at.skip(8);
            continue;
        }
        let count = others.trailing_zeros() as usize / 8;
        if count > 0 {
            let digits = join_digits(digits << (64 - 8 * count));
            number = number.wrapping_mul(TENS[count]).wrapping_add(digits);
            at = at.skip(count);
        }
        return (number, at.since(start), at);
    }
}

/// Eight digits, the first in the lowest byte, as the number that they write.
#[inline(always)]
fn join_digits(digits: u64) -> u64 {
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let high = (pairs & 0x0000_00ff_0000_00ff).wrapping_mul(0x000f_4240_0000_0064);
    let low = ((pairs >> 16) & 0x0000_00ff_0000_00ff).wrapping_mul(0x0000_2710_0000_0001);
    high.wrapping_add(low) >> 32
}

#[inline(always)]
pub fn skip_sign(at: Cursor) -> (bool, Cursor) {
    if at.byte() == b'-' {
        (true, at.skip(1))
    } else {
        (false, at)
    }
}

/// A whole number, without point and exponent, of at most 64 bits.
#[inline(always)]
pub fn parse_integer<T: TryFrom<i64>>(start: Cursor) -> Option<(T, Cursor)> {
    let (is_negative, first) = skip_sign(start);
    let (number, count, end) = read_digits(first, 0);
    let is_leading = count > 1 && first.byte() == b'0';
    if count == 0 || count > 19 || is_leading || number > i64::MAX as u64 + is_negative as u64 {
        return None;
    }
    if matches!(end.byte(), b'.' | b'e' | b'E') {
        return None;
    }
    let number = number as i64;
    let signed = if is_negative {
        number.wrapping_neg()
    } else {
        number
    };
    Some((T::try_from(signed).ok()?, end))
}

/// A number to the nearest double, or a bare NaN, Infinity, -Infinity. Overflow is refused.
#[inline(always)]
pub fn parse_double(start: Cursor) -> Option<(f64, Cursor)> {
    let (is_negative, first) = skip_sign(start);
    let (mut number, count, mut at) = read_digits(first, 0);
    if count == 0 {
        return parse_word(start);
    }
    if count > 1 && first.byte() == b'0' {
        return None;
    }
    let mut behind = 0;
    if at.byte() == b'.' {
        (number, behind, at) = read_digits(at.skip(1), number);
        if behind == 0 {
            return None;
        }
    }
    let is_short = count + behind <= 19 && number <= 1 << 53 && behind < EXACT.len();
    if is_short && !matches!(at.byte(), b'e' | b'E') {
        let value = number as f64 / EXACT[behind]; // both are exact: rounded once
        return Some((if is_negative { -value } else { value }, at));
    }
    parse_long(start)
}

/// Any number, by the algorithm that Arrow uses too.
#[inline(never)]
fn parse_long(start: Cursor) -> Option<(f64, Cursor)> {
    let end = skip_number(start)?;
    let value: f64 = fast_float2::parse(end.from(start)).ok()?;
    value.is_finite().then_some((value, end))
}

const WORDS: [(&[u8], f64); 3] = [
    (b"NaN", f64::NAN),
    (b"Infinity", f64::INFINITY),
    (b"-Infinity", f64::NEG_INFINITY),
];

#[inline(never)]
fn parse_word(start: Cursor) -> Option<(f64, Cursor)> {
    let bytes = start.look::<9>();
    let (word, value) = WORDS.iter().find(|(word, _)| bytes.starts_with(word))?;
    Some((*value, start.skip(word.len())))
}

/// As `parse_double`, to a FLOAT.
#[inline(always)]
pub fn parse_float(start: Cursor) -> Option<(f32, Cursor)> {
    let (value, end) = parse_double(start)?;
    Some((to_float(value)?, end))
}

/// A double as a FLOAT; none where it becomes infinite.
fn to_float(value: f64) -> Option<f32> {
    let narrow = value as f32;
    (narrow.is_finite() || !value.is_finite()).then_some(narrow)
}

/// The place behind a number as JSON writes it, or a bare word as above.
#[inline(always)]
pub fn skip_number(start: Cursor) -> Option<Cursor> {
    let (_, first) = skip_sign(start);
    let (_, count, mut at) = read_digits(first, 0);
    if count == 0 {
        return parse_word(start).map(|(_, end)| end);
    }
    if count > 1 && first.byte() == b'0' {
        return None;
    }
    if at.byte() == b'.' {
        let (_, behind, end) = read_digits(at.skip(1), 0);
        if behind == 0 {
            return None;
        }
        at = end;
    }
    if matches!(at.byte(), b'e' | b'E') {
        at = skip_exponent(at)?.1;
    }
    (at.since(start) <= LENGTH_MAX).then_some(at)
}

/// The place behind a number of JSON of any size: the longest that begins here.
pub fn lex_number(start: Cursor) -> Option<Cursor> {
    let digits = |mut at: Cursor| {
        while at.byte().is_ascii_digit() {
            at = at.skip(1);
        }
        at
    };
    let some_digits = |at: Cursor| at.byte().is_ascii_digit().then(|| digits(at));
    let (_, first) = skip_sign(start);
    let mut at = match first.byte() {
        b'0' => first.skip(1),
        _ => some_digits(first)?,
    };
    if at.byte() == b'.' {
        at = some_digits(at.skip(1))?;
    }
    if matches!(at.byte(), b'e' | b'E') {
        at = at.skip(1);
        at = some_digits(at.skip(matches!(at.byte(), b'-' | b'+') as usize))?;
    }
    Some(at)
}

/// An exponent that is not too large, from its letter on, and the place behind it.
#[inline(never)]
pub fn skip_exponent(at: Cursor) -> Option<(i32, Cursor)> {
    let sign = at.skip(1);
    let is_negative = sign.byte() == b'-';
    let first = sign.skip(matches!(sign.byte(), b'-' | b'+') as usize);
    let (exponent, count, end) = read_digits(first, 0);
    if count == 0 || count > 9 || exponent > EXPONENT_MAX {
        return None;
    }
    let exponent = exponent as i32;
    Some((if is_negative { -exponent } else { exponent }, end))
}

/// Judge a number that was not taken as an integer.
pub fn judge_integer<T: std::str::FromStr>(token: &[u8]) -> Verdict {
    let is_digit = |byte: &u8| byte.is_ascii_digit() || *byte == b'-';
    if !token.iter().all(is_digit) {
        return Verdict::Bad(Code::NotInteger);
    }
    let text = std::str::from_utf8(token);
    match text.is_ok_and(|text| text.parse::<T>().is_ok()) {
        true => Verdict::Fits, // a digit behind a zero
        false => Verdict::Bad(Code::NumberRange),
    }
}

/// Judge a number that was not taken as a FLOAT or DOUBLE.
pub fn judge_double(is_float: bool, token: &[u8]) -> Verdict {
    match fast_float2::parse::<f64, _>(token) {
        Ok(value) if value.is_infinite() || is_float && to_float(value).is_none() => {
            Verdict::Bad(Code::NumberRange)
        }
        _ => Verdict::Unsure,
    }
}
