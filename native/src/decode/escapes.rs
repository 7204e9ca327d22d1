//! Texts of JSON: what stands between quotes, and what a backslash means there.

use super::scan::Engine;
use super::text::{Cursor, PADDING};

/// Append a text, whose opening quote is behind, to `to`; the place behind its closing quote.
#[inline(always)]
pub fn copy_text<E: Engine>(start: Cursor, to: &mut Vec<u8>) -> Option<Cursor> {
    let end = copy_run::<E>(start, to);
    if end.byte() == b'"' {
        return Some(end.skip(1));
    }
    copy_rest::<E>(end, to)
}

/// Append what stands before a quote, a backslash or a control character.
#[inline(always)]
fn copy_run<E: Engine>(start: Cursor, to: &mut Vec<u8>) -> Cursor {
    let room = start.left() + PADDING;
    if to.capacity() - to.len() < room {
        to.reserve(room);
    }
    // SAFETY: there is room for what is left of the record and PADDING bytes. Whoever runs this
    // engine has looked for its instructions. `count` bytes were written.
    unsafe {
        let count = E::copy_plain(start, to.as_mut_ptr().add(to.len()));
        to.set_len(to.len() + count);
        start.skip(count)
    }
}

#[inline(never)]
fn copy_rest<E: Engine>(mut at: Cursor, to: &mut Vec<u8>) -> Option<Cursor> {
    loop {
        match at.byte() {
            b'"' => return Some(at.skip(1)),
            b'\\' => {
                let (letter, end) = read_escape(at)?;
                to.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                at = copy_run::<E>(end, to);
            }
            _ => return None, // a control character, or the end
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
