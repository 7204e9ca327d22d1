//! STRING and BINARY: what stands between quotes, what a backslash means there, and base64.

use crate::base64;
use crate::decode::buffers::Bytes;
use crate::decode::reason::{Code, Verdict};
use crate::decode::scan::{Engine, Routine, Scalar};
use crate::decode::text::Cursor;

/// Append the text at a cursor.
#[inline(always)]
pub fn parse_string<E: Engine>(values: &mut Bytes, at: Cursor) -> Option<Cursor> {
    if at.byte() != b'"' {
        return None;
    }
    let end = copy_text::<E>(at.skip(1), &mut values.items)?;
    values.end_value();
    Some(end)
}

/// Append the bytes that the text at a cursor stands for.
#[inline(always)]
pub fn parse_binary<E: Engine>(values: &mut Bytes, at: Cursor) -> Option<Cursor> {
    let (text, end) = plain_text::<E>(at)?;
    base64::decode(text, &mut values.items)?;
    values.end_value();
    Some(end)
}

/// A text without escapes, which is all that dates, times and base64 are worth here.
#[inline(always)]
pub fn plain_text<'a, E: Engine>(at: Cursor) -> Option<(&'a [u8], Cursor)> {
    if at.byte() != b'"' {
        return None;
    }
    let start = at.skip(1);
    let end = start.skip_plain::<E>();
    (end.byte() == b'"').then(|| (end.from(start), end.skip(1)))
}

/// Append a text, whose opening quote is behind, to `to`; the place behind its closing quote.
#[inline(always)]
pub fn copy_text<E: Engine>(start: Cursor, to: &mut Vec<u8>) -> Option<Cursor> {
    let end = start.copy_plain::<E>(to);
    if end.byte() == b'"' {
        return Some(end.skip(1));
    }
    CopyText::call::<E>(end, to, ())
}

/// As `copy_text`, with escapes.
pub struct CopyText;

impl Routine<Cursor, &mut Vec<u8>, ()> for CopyText {
    type Output = Option<Cursor>;

    #[inline(always)]
    fn run<E: Engine>(mut at: Cursor, to: &mut Vec<u8>, _: ()) -> Option<Cursor> {
        loop {
            at = at.copy_plain::<E>(to);
            match at.byte() {
                b'"' => return Some(at.skip(1)),
                b'\\' => {
                    let (letter, end) = read_escape(at)?;
                    to.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                    at = end;
                }
                _ => return None, // a control character, or the end
            }
        }
    }
}

/// The place behind a text, whose opening quote is behind.
#[inline(always)]
pub fn skip_text<E: Engine>(mut at: Cursor) -> Option<Cursor> {
    loop {
        at = at.skip_plain::<E>();
        match at.byte() {
            b'"' => return Some(at.skip(1)),
            b'\\' => at = read_escape(at)?.1,
            _ => return None,
        }
    }
}

/// As `skip_text`, for a text that may have halves of surrogate pairs.
pub fn skip_halves(mut at: Cursor) -> Option<Cursor> {
    loop {
        at = at.skip_plain::<Scalar>();
        match at.byte() {
            b'"' => return Some(at.skip(1)),
            b'\\' => at = read_unit(at).or_else(|| Some((0, read_escape(at)?.1)))?.1,
            _ => return None,
        }
    }
}

/// The character that an escape stands for, and the place behind it.
pub fn read_escape(at: Cursor) -> Option<(char, Cursor)> {
    let [_, letter] = at.look::<2>();
    let plain = match letter {
        b'"' | b'\\' | b'/' => letter as char,
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return read_unicode(at),
        _ => return None,
    };
    Some((plain, at.skip(2)))
}

fn read_unicode(at: Cursor) -> Option<(char, Cursor)> {
    let (high, end) = read_unit(at)?;
    if !(0xd800..0xdc00).contains(&high) {
        return Some((char::from_u32(high)?, end)); // none: the second half of a pair
    }
    let (low, end) = read_unit(end)?;
    if !(0xdc00..0xe000).contains(&low) {
        return None;
    }
    Some((
        char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))?,
        end,
    ))
}

/// The number of a `\uXXXX`.
fn read_unit(at: Cursor) -> Option<(u32, Cursor)> {
    let bytes = at.look::<6>();
    if bytes[..2] != *b"\\u" {
        return None;
    }
    let mut unit = 0;
    for byte in &bytes[2..] {
        unit = unit << 4 | (*byte as char).to_digit(16)?;
    }
    Some((unit, at.skip(6)))
}

/// Python's `b64decode` decides where padding stands in the wrong place.
pub fn judge_binary(text: &[u8]) -> Verdict {
    let is_data = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    match text.iter().find(|byte| !is_data(byte)) {
        Some(b'=') if text.is_ascii() => Verdict::Unsure,
        None if text.len().is_multiple_of(4) => Verdict::Unsure,
        _ => Verdict::Bad(Code::NotBase64),
    }
}
