//! What is wrong where parsing has stopped.
//!
//! Parsing goes from left to right, so the place where it stops is the first fault of the record: the
//! text is not JSON there, or the value does not fit its column. What is not certain here is left to
//! `JsonDecoder`, which may take the record.

use arrow_schema::DataType;

use super::kinds::{kind_at, kind_of};
use super::reason::{Code, Verdict};
use super::scalars::decimals::judge_decimal;
use super::scalars::numbers::{judge_double, judge_integer, lex_number, skip_number};
use super::scalars::strings::{judge_binary, skip_halves, skip_text};
use super::scalars::times::{judge_date, judge_time};
use super::scan::Scalar;
use super::skip::DEPTH_MAX;
use super::text::Cursor;

/// Why a text is not read to its end.
pub enum Stop {
    /// It is not JSON here.
    Broken(Cursor),
    /// It may be JSON, within limits that only `JsonDecoder` knows.
    Unsure,
}

type Step = Result<Cursor, Stop>;

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

/// The place behind a scalar, or behind the bracket that opens a list or an object.
pub fn lex(at: Cursor) -> Step {
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
pub fn pass(at: Cursor, depth: usize) -> Step {
    match at.byte() {
        b'{' | b'[' if depth >= DEPTH_MAX => Err(Stop::Unsure),
        b'{' => pass_members(at.skip(1).skip_space(), b'}', depth + 1),
        b'[' => pass_members(at.skip(1).skip_space(), b']', depth + 1),
        b'"' => pass_text(at),
        b'-' | b'0'..=b'9' => {
            let end = lex(at)?;
            let is_within = matches!(end.from(at), b"0" | b"-0") || skip_number(at).is_some();
            is_within.then_some(end).ok_or(Stop::Unsure)
        }
        _ => lex(at),
    }
}

/// The place behind a text. `JsonDecoder` ignores halves of surrogate pairs here.
fn pass_text(at: Cursor) -> Step {
    lex(at).map_err(|stop| match skip_halves(at.skip(1)) {
        Some(_) => Stop::Unsure,
        None => stop,
    })
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
            at = pass_text(at)?.skip_space();
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

/// Judge a token that was not taken for a column of a type.
pub fn judge(data_type: &DataType, token: &[u8]) -> Verdict {
    if kind_at(token[0]).is_some_and(|kind| !kind_of(data_type).takes(kind)) {
        return Verdict::Bad(Code::WrongType);
    }
    let text = match token {
        [b'"', text @ .., b'"'] => text,
        _ => token,
    };
    if text.contains(&b'\\') {
        return Verdict::Unsure;
    }
    match data_type {
        DataType::Int8 => judge_integer::<i8>(token),
        DataType::Int16 => judge_integer::<i16>(token),
        DataType::Int32 => judge_integer::<i32>(token),
        DataType::Int64 => judge_integer::<i64>(token),
        DataType::Float32 => judge_double(true, token),
        DataType::Float64 => judge_double(false, token),
        DataType::Decimal128(precision, scale) => {
            judge_decimal(text, *precision as usize, *scale as usize)
        }
        DataType::Date32 => judge_date(text),
        DataType::Timestamp(_, zone) => judge_time(text, zone.is_some()),
        DataType::Binary => judge_binary(text),
        _ => Verdict::Unsure,
    }
}
