//! What lists, maps and objects hold: a column, as they use it.

use arrow_schema::Field;

use crate::decode::buffers::Buffers;
use crate::decode::context::Context;
use crate::decode::scan::Engine;
use crate::decode::text::Cursor;

/// A column of any type.
pub trait Element: Buffers + Sized {
    /// An empty column. Error: a type that no table has.
    fn new(field: &Field) -> Result<Self, String>;

    /// Append the value at a cursor. None: it does not fit, the context has the fault, and a part of
    /// it may have been appended.
    fn parse<E: Engine>(
        &mut self,
        is_required: bool,
        context: &mut Context,
        at: Cursor,
    ) -> Option<Cursor>;
}

/// Parse what stands between two brackets, with `member` for what stands between commas.
#[inline(always)]
pub fn parse_members(
    [open, close]: &[u8; 2],
    context: &mut Context,
    at: Cursor,
    mut member: impl FnMut(&mut Context, Cursor) -> Option<Cursor>,
) -> Option<Cursor> {
    if at.byte() != *open {
        return None;
    }
    context.depth += 1;
    let mut at = at.skip(1).skip_space();
    if at.byte() != *close {
        loop {
            at = member(context, at)?.skip_space();
            match at.byte() {
                b',' => at = at.skip(1).skip_space(),
                end if end == *close => break,
                _ => {
                    context.refuse_text(at);
                    return None;
                }
            }
        }
    }
    context.depth -= 1;
    Some(at.skip(1))
}
