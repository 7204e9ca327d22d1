//! DECIMAL, as a number or as a text: exact, or refused.

use super::numbers::{read_digits, skip_exponent, skip_sign};
use crate::decode::reason::{Code, Verdict};
use crate::decode::text::Cursor;

/// How many digits of a DECIMAL are read here; more are left to the other decoder.
const DIGITS_MAX: usize = 38;
const DECIMAL_EXPONENT_MAX: i32 = 30;

/// A DECIMAL, as a number or as a text, times ten to the power of `scale`.
#[inline(always)]
pub fn parse_decimal(start: Cursor, precision: u8, scale: u8) -> Option<(i128, Cursor)> {
    let is_text = start.byte() == b'"';
    let (is_negative, first) = skip_sign(if is_text { start.skip(1) } else { start });
    let (number, count, mut at) = read_wide(first, 0);
    let (mut number, mut behind) = (number, 0);
    if count == 0 || (!is_text && count > 1 && first.byte() == b'0') {
        return None;
    }
    if at.byte() == b'.' {
        (number, behind, at) = read_wide(at.skip(1), number);
        if behind == 0 {
            return None;
        }
    }
    if count + behind > DIGITS_MAX {
        return None;
    }
    let mut shift = scale as i32 - behind as i32;
    if matches!(at.byte(), b'e' | b'E') {
        let (exponent, end) = skip_exponent(at)?;
        if exponent.abs() > DECIMAL_EXPONENT_MAX {
            return None;
        }
        (shift, at) = (shift + exponent, end);
    }
    if is_text {
        if at.byte() != b'"' {
            return None;
        }
        at = at.skip(1);
    }
    let number = shift_decimal(number, shift)?;
    if number >= 10u128.pow(precision as u32) {
        return None;
    }
    let number = number as i128; // below 10 to the power of 38
    Some((if is_negative { -number } else { number }, at))
}

/// As `read_digits`; wrong with more than 38.
#[inline(always)]
fn read_wide(start: Cursor, before: u128) -> (u128, usize, Cursor) {
    let (low, count, end) = read_digits(start, 0);
    if count <= 19 {
        return (
            before
                .wrapping_mul(10u128.pow(count as u32))
                .wrapping_add(low as u128),
            count,
            end,
        );
    }
    let mut number = before;
    for digit in end.from(start) {
        number = number.wrapping_mul(10).wrapping_add((digit - b'0') as u128);
    }
    (number, count, end)
}

/// A number times a power of ten; none where that is not whole, or too large for any DECIMAL.
fn shift_decimal(number: u128, shift: i32) -> Option<u128> {
    if number == 0 {
        return Some(0);
    }
    let tens = 10u128.checked_pow(shift.unsigned_abs())?;
    if shift >= 0 {
        return number.checked_mul(tens);
    }
    number.is_multiple_of(tens).then_some(number / tens)
}

/// Digits on either side of the point that `JsonDecoder` reads of a DECIMAL.
const DECIMAL_SIDE_MAX: usize = 38;

pub fn judge_decimal(token: &[u8], precision: usize, scale: usize) -> Verdict {
    let Some((whole, behind)) = split_decimal(token) else {
        let may_be_number = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
        let has_exponent = token.iter().any(|byte| byte | 0x20 == b'e');
        if has_exponent && token.iter().all(may_be_number) {
            return Verdict::Unsure;
        }
        return Verdict::Bad(Code::NotDecimal);
    };
    if whole.len() > DECIMAL_SIDE_MAX || behind.len() > DECIMAL_SIDE_MAX {
        return Verdict::Unsure;
    }
    let is_not_zero = |digit: &u8| *digit != b'0';
    if behind.iter().skip(scale).any(is_not_zero) {
        return Verdict::Bad(Code::DecimalDigits);
    }
    let zeros = whole.iter().position(is_not_zero).unwrap_or(whole.len());
    if whole.len() - zeros > precision - scale {
        return Verdict::Bad(Code::NumberRange);
    }
    match token {
        b"0" | b"-0" => Verdict::Fits, // a digit behind a zero
        _ => Verdict::Unsure,
    }
}

/// The digits on both sides of the point, of a number without exponent as Arrow reads a DECIMAL;
/// none where it is no number.
fn split_decimal(token: &[u8]) -> Option<(&[u8], &[u8])> {
    let unsigned = token.strip_prefix(b"+").or(token.strip_prefix(b"-"));
    let digits = unsigned.unwrap_or(token);
    let point = digits.iter().position(|byte| !byte.is_ascii_digit());
    let (whole, fraction) = digits.split_at(point.unwrap_or(digits.len()));
    let behind = match fraction {
        [] => fraction,
        [b'.', behind @ ..] => behind,
        _ => return None,
    };
    let is_number = behind.iter().all(u8::is_ascii_digit) && whole.len() + behind.len() > 0;
    is_number.then_some((whole, behind))
}
