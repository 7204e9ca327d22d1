//! Values that no column wants: looked at, as they must be JSON, and not built.

use super::escapes::read_escape;
use super::numbers;
use super::scan::Engine;
use super::text::Cursor;

/// A value that lies deeper is left to the other decoder. Python's own reader of JSON, which looks
/// at records with maps, has a limit too.
pub const DEPTH_MAX: usize = 128;

/// The place behind the value at a cursor.
#[inline(always)]
pub fn skip_inner<E: Engine>(at: Cursor, depth: usize) -> Option<Cursor> {
    match at.byte() {
        b'"' => skip_text::<E>(at.skip(1)),
        b'{' if depth < DEPTH_MAX => skip_object::<E>(at.skip(1).skip_space(), depth + 1),
        b'[' if depth < DEPTH_MAX => skip_array::<E>(at.skip(1).skip_space(), depth + 1),
        b't' if at.look::<4>() == *b"true" => Some(at.skip(4)),
        b'f' if at.look::<5>() == *b"false" => Some(at.skip(5)),
        b'n' if at.look::<4>() == *b"null" => Some(at.skip(4)),
        _ => numbers::skip_number(at),
    }
}

/// The place behind a text, whose opening quote is behind.
#[inline(always)]
pub fn skip_text<E: Engine>(mut at: Cursor) -> Option<Cursor> {
    loop {
        // SAFETY: whoever runs this engine has looked for its instructions.
        at = at.skip(unsafe { E::count_plain(at) });
        match at.byte() {
            b'"' => return Some(at.skip(1)),
            b'\\' => at = read_escape(at)?.1,
            _ => return None,
        }
    }
}

#[inline(always)]
fn skip_object<E: Engine>(mut at: Cursor, depth: usize) -> Option<Cursor> {
    if at.byte() == b'}' {
        return Some(at.skip(1));
    }
    loop {
        if at.byte() != b'"' {
            return None;
        }
        at = skip_text::<E>(at.skip(1))?.skip_space();
        if at.byte() != b':' {
            return None;
        }
        // SAFETY: whoever runs this engine has looked for its instructions.
        at = unsafe { E::skip_inner(at.skip(1).skip_space(), depth) }?.skip_space();
        match at.byte() {
            b',' => at = at.skip(1).skip_space(),
            b'}' => return Some(at.skip(1)),
            _ => return None,
        }
    }
}

#[inline(always)]
fn skip_array<E: Engine>(mut at: Cursor, depth: usize) -> Option<Cursor> {
    if at.byte() == b']' {
        return Some(at.skip(1));
    }
    loop {
        // SAFETY: whoever runs this engine has looked for its instructions.
        at = unsafe { E::skip_inner(at, depth) }?.skip_space();
        match at.byte() {
            b',' => at = at.skip(1).skip_space(),
            b']' => return Some(at.skip(1)),
            _ => return None,
        }
    }
}
