//! Values outside the schema: checked, as they must be JSON, and not kept.

use super::scalars::numbers::skip_number;
use super::scalars::strings::skip_text;
use super::scan::{Engine, Routine};
use super::text::Cursor;

/// A value that lies deeper is left to the other decoder. Python's own reader of JSON, which looks
/// at records with maps, has a limit too.
pub const DEPTH_MAX: usize = 128;

/// The place behind the value at a cursor.
pub struct SkipValue;

impl Routine<Cursor, usize, ()> for SkipValue {
    type Output = Option<Cursor>;

    #[inline(always)]
    fn run<E: Engine>(at: Cursor, depth: usize, _: ()) -> Option<Cursor> {
        match at.byte() {
            b'"' => skip_text::<E>(at.skip(1)),
            b'{' if depth < DEPTH_MAX => skip_object::<E>(at.skip(1).skip_space(), depth + 1),
            b'[' if depth < DEPTH_MAX => skip_array::<E>(at.skip(1).skip_space(), depth + 1),
            b't' if at.look::<4>() == *b"true" => Some(at.skip(4)),
            b'f' if at.look::<5>() == *b"false" => Some(at.skip(5)),
            b'n' if at.look::<4>() == *b"null" => Some(at.skip(4)),
            _ => skip_number(at),
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
        at = SkipValue::call::<E>(at.skip(1).skip_space(), depth, ())?.skip_space();
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
        at = SkipValue::call::<E>(at, depth, ())?.skip_space();
        match at.byte() {
            b',' => at = at.skip(1).skip_space(),
            b']' => return Some(at.skip(1)),
            _ => return None,
        }
    }
}
