//! What is wrong where parsing has stopped.
//!
//! Parsing goes from left to right, so the place where it stops is the first fault of the record: the
//! text is not JSON there, or the value does not fit its column. What is not certain here is left to
//! `JsonDecoder`, which may take the record.

use arrow_schema::DataType;

use super::kinds::{kind_at, kind_of, sql_name};
use super::numbers::{lex_number, skip_number, to_float};
use super::reason::Code;
use super::record::Context;
use super::scan::Scalar;
use super::skip::{DEPTH_MAX, skip_text};
use super::text::Cursor;
use super::times;

/// Why a text is not read to its end.
enum Stop {
    /// It is not JSON here.
    Broken(Cursor),
    /// It may be JSON, within limits that only `JsonDecoder` knows.
    Unsure,
}

type Step = Result<Cursor, Stop>;

enum Verdict {
    Bad(Code),
    Fits,
    Unsure,
}

/// The code of a record that is no object at all, by its first and its last byte.
pub fn find_outer_fault(record: &[u8]) -> Option<Code> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let first = record.iter().find(|byte| !is_space(byte));
    let last = record.iter().rfind(|byte| !is_space(byte));
    match (first, last) {
        (None, _) | (_, None) => Some(Code::Empty),
        (Some(b'{'), Some(b'}')) => None,
        _ => Some(Code::NotObject),
    }
}

impl Context {
    /// The text is not JSON at a cursor.
    #[cold]
    #[inline(never)]
    pub fn refuse_text(&mut self, at: Cursor) {
        let bytes = self.text.bytes();
        let start = bytes.iter().position(|byte| *byte == b'{').unwrap_or(0);
        let end = bytes.trim_ascii_end().len(); // space behind the record is not part of it
        self.fault.set_broken(self.text.offset(at).min(end) - start);
    }

    /// No key stands at a cursor, or no colon behind it.
    #[cold]
    #[inline(never)]
    pub fn refuse_key(&mut self, at: Cursor) {
        let quote = at.skip_space();
        let behind = match quote.byte() {
            b'"' => skip_text::<Scalar>(quote.skip(1)),
            _ => None,
        };
        self.refuse_text(behind.map_or(quote, Cursor::skip_space));
    }

    /// The value at a cursor, which no column wants, was not passed.
    #[cold]
    #[inline(never)]
    pub fn refuse_skipped(&mut self, at: Cursor) {
        match pass(at, self.depth) {
            Err(Stop::Broken(at)) | Ok(at) => self.refuse_text(at),
            Err(Stop::Unsure) => self.fault.set(None),
        }
    }

    /// The value at a cursor was not taken for a column of a type.
    #[cold]
    #[inline(never)]
    pub fn refuse_value(&mut self, wanted: &DataType, at: Cursor) {
        if self.fault.is_set() {
            return; // of a value inside it
        }
        let end = match lex(at) {
            Ok(end) => end,
            Err(Stop::Broken(at)) => return self.refuse_text(at),
            Err(Stop::Unsure) => return self.fault.set(None),
        };
        let token = end.from(at);
        let verdict = match kind_at(at.byte()) {
            Some(kind) if !kind_of(wanted).takes(kind) => Verdict::Bad(Code::WrongType),
            _ => judge(wanted, token),
        };
        let token: &[u8] = match token {
            b"{" => b"{...}",
            b"[" => b"[...]",
            _ => token,
        };
        match verdict {
            Verdict::Bad(code) => self.fault.set_value(code, &sql_name(wanted), token),
            Verdict::Fits => self.refuse_text(end),
            Verdict::Unsure => self.fault.set(None),
        }
    }
}

/// The place behind a scalar, or behind the bracket that opens a list or an object.
fn lex(at: Cursor) -> Step {
    let word = |word: &[u8]| match at.look::<5>().starts_with(word) {
        true => Ok(at.skip(word.len())),
        false => Err(Stop::Broken(at)),
    };
    match at.byte() {
        b'"' => skip_text::<Scalar>(at.skip(1)).ok_or(Stop::Broken(at)),
        b'{' | b'[' => Ok(at.skip(1)),
        b't' => word(b"true"),
        b'f' => word(b"false"),
        b'n' => word(b"null"),
        b'-' | b'0'..=b'9' => lex_number(at).map_or_else(
            || match at.look::<2>() {
                [_, b'I' | b'N'] => skip_number(at).ok_or(Stop::Unsure),
                _ => Err(Stop::Broken(at)),
            },
            Ok,
        ),
        b'I' | b'N' => skip_number(at).ok_or(Stop::Unsure),
        _ => Err(Stop::Broken(at)),
    }
}

/// The place behind a value.
fn pass(at: Cursor, depth: usize) -> Step {
    match at.byte() {
        b'{' | b'[' if depth >= DEPTH_MAX => Err(Stop::Unsure),
        b'{' => pass_members(at.skip(1).skip_space(), b'}', depth + 1),
        b'[' => pass_members(at.skip(1).skip_space(), b']', depth + 1),
        b'-' | b'0'..=b'9' => {
            let end = lex(at)?;
            let is_within = matches!(end.from(at), b"0" | b"-0") || skip_number(at).is_some();
            is_within.then_some(end).ok_or(Stop::Unsure)
        }
        _ => lex(at),
    }
}

fn pass_members(mut at: Cursor, last: u8, depth: usize) -> Step {
    if at.byte() == last {
        return Ok(at.skip(1));
    }
    loop {
        if last == b'}' {
            if at.byte() != b'"' {
                return Err(Stop::Broken(at));
            }
            at = lex(at)?.skip_space();
            if at.byte() != b':' {
                return Err(Stop::Broken(at));
            }
            at = at.skip(1).skip_space();
        }
        at = pass(at, depth)?.skip_space();
        match at.byte() {
            b',' => at = at.skip(1).skip_space(),
            end if end == last => return Ok(at.skip(1)),
            _ => return Err(Stop::Broken(at)),
        }
    }
}

/// Judge a number or a text that was not taken, of a kind that its column has.
fn judge(wanted: &DataType, token: &[u8]) -> Verdict {
    let is_text = token.starts_with(b"\"");
    let text = if is_text {
        &token[1..token.len() - 1]
    } else {
        token
    };
    if text.contains(&b'\\') {
        return Verdict::Unsure;
    }
    match wanted {
        DataType::Int8 => judge_integer::<i8>(token),
        DataType::Int16 => judge_integer::<i16>(token),
        DataType::Int32 => judge_integer::<i32>(token),
        DataType::Int64 => judge_integer::<i64>(token),
        DataType::Float32 | DataType::Float64 => {
            let is_float = *wanted == DataType::Float32;
            match fast_float2::parse::<f64, _>(token) {
                Ok(value) if value.is_infinite() || is_float && to_float(value).is_none() => {
                    Verdict::Bad(Code::NumberRange)
                }
                _ => Verdict::Unsure,
            }
        }
        DataType::Decimal128(precision, scale) => {
            judge_decimal(text, *precision as usize, *scale as usize)
        }
        DataType::Date32 => judge_time(text.len() == 10 && times::is_time(text, false)),
        DataType::Timestamp(_, zone) => judge_time(times::is_time(text, zone.is_some())),
        DataType::Binary => judge_base64(text),
        _ => Verdict::Unsure,
    }
}

fn judge_integer<T: std::str::FromStr>(token: &[u8]) -> Verdict {
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

fn judge_time(is_time: bool) -> Verdict {
    Verdict::Bad(if is_time {
        Code::TimeRange
    } else {
        Code::NotTime
    })
}

/// Digits on either side of the point that `JsonDecoder` reads of a DECIMAL.
const DECIMAL_SIDE_MAX: usize = 38;

fn judge_decimal(token: &[u8], precision: usize, scale: usize) -> Verdict {
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
    let (whole, rest) = digits.split_at(point.unwrap_or(digits.len()));
    let behind = match rest {
        [] => rest,
        [b'.', behind @ ..] => behind,
        _ => return None,
    };
    let is_number = behind.iter().all(u8::is_ascii_digit) && whole.len() + behind.len() > 0;
    is_number.then_some((whole, behind))
}

/// Python's `b64decode` decides where padding stands in the wrong place.
fn judge_base64(text: &[u8]) -> Verdict {
    let is_data = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    match text.iter().find(|byte| !is_data(byte)) {
        Some(b'=') if text.is_ascii() => Verdict::Unsure,
        None if text.len().is_multiple_of(4) => Verdict::Unsure,
        _ => Verdict::Bad(Code::NotBase64),
    }
}
