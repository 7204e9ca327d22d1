//! One record to one row: a single pass over its bytes, straight into the columns.
//!
//! What is accepted here is a row, with the very values that `JsonDecoder` gives. Parsing stops at the
//! first fault, which is then in the context.

use super::buffers::Buffers;
use super::column::Column;
use super::context::Context;
use super::nested::objects::Object;
use super::reason::Code;
use super::scan::{Engine, Routine};

/// Append a record as a row. False: it is none, the columns are as they were, and the context has its
/// fault.
pub struct ParseRecord;

impl Routine<&mut Object<Column>, &mut Context, &[u8]> for ParseRecord {
    type Output = bool;

    #[inline(always)]
    fn run<E: Engine>(rows: &mut Object<Column>, context: &mut Context, record: &[u8]) -> bool {
        context.unknown.clear();
        context.unknown_names.clear();
        let is_ascii = context.text.set::<E>(record);
        if !is_ascii && simdutf8::basic::from_utf8(context.text.bytes()).is_err() {
            context.fault.set(Some(Code::NotUtf8));
            return false;
        }
        let count = rows.len();
        let start = context.text.start().skip_space();
        if start.byte() == b'{'
            && let Some(end) = rows.parse::<E>(context, start.skip(1), true)
        {
            let end = end.skip_space();
            if end.left() == 0 {
                return true;
            }
            context.refuse_text(end);
        }
        context.depth = 0;
        rows.truncate(count);
        false
    }
}
