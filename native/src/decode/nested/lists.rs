//! ARRAY: runs of elements.

use super::element::{Element, parse_members};
use crate::decode::buffers::Runs;
use crate::decode::context::Context;
use crate::decode::scan::Engine;
use crate::decode::text::Cursor;

/// Append the list at a cursor; none: there is none, or only in part.
#[inline(always)]
pub fn parse_list<E: Engine, C: Element>(
    lists: &mut Runs<C>,
    context: &mut Context,
    at: Cursor,
) -> Option<Cursor> {
    let end = parse_members(
        b"[]",
        context,
        at,
        #[inline(always)]
        |context, at| {
            let end = lists.items.parse::<E>(false, context, at);
            if end.is_none() {
                context.fault.enter(b"element");
            }
            end
        },
    )?;
    lists.end_value();
    Some(end)
}
