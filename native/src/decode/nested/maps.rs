//! MAP: runs of entries.

use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::{DataType, Field};

use super::element::{Element, parse_members};
use crate::decode::buffers::{Buffers, Bytes, Growth, Runs};
use crate::decode::context::Context;
use crate::decode::reason::Code;
use crate::decode::scalars::strings::parse_string;
use crate::decode::scan::Engine;
use crate::decode::text::Cursor;

/// The entries of all maps of one type.
pub struct Entries<C> {
    data_type: DataType,
    keys: Bytes, // none of them is null
    values: C,
}

impl<C: Element> Entries<C> {
    /// No entries, of the type of a field. Error: a type that no table has.
    pub fn new(entry: &Field) -> Result<Self, String> {
        let data_type = entry.data_type().clone();
        let values = match &data_type {
            DataType::Struct(pair) if pair.len() == 2 && pair[0].data_type() == &DataType::Utf8 => {
                C::new(&pair[1])?
            }
            other => return Err(format!("a map of {other}")),
        };
        Ok(Entries {
            data_type,
            keys: Bytes::default(),
            values,
        })
    }
}

/// Append the map at a cursor; none: there is none, or only in part.
#[inline(always)]
pub fn parse_map<E: Engine, C: Element>(
    maps: &mut Runs<Entries<C>>,
    context: &mut Context,
    at: Cursor,
) -> Option<Cursor> {
    let Entries { keys, values, .. } = &mut maps.items;
    let first = keys.len();
    let end = parse_members(
        b"{}",
        context,
        at,
        #[inline(always)]
        |context, at| {
            let colon = parse_string::<E>(keys, at).map(Cursor::skip_space);
            let Some(colon) = colon.filter(|colon| colon.byte() == b':') else {
                context.refuse_key(at);
                return None;
            };
            let end = values.parse::<E>(false, context, colon.skip(1).skip_space());
            if end.is_none() {
                context.fault.enter(b"value");
            }
            end
        },
    )?;
    if has_duplicate(&maps.items.keys, first) {
        context.fault.set(Some(Code::KeyTwice));
        return None;
    }
    maps.end_value();
    Some(end)
}

/// Whether a key is there twice from one on.
fn has_duplicate(keys: &Bytes, first: usize) -> bool {
    if keys.len() - first <= 8 {
        return keys
            .iter_from(first)
            .enumerate()
            .any(|(i, key)| keys.iter_from(first + i + 1).any(|other| other == key));
    }
    let mut sorted: Vec<&[u8]> = keys.iter_from(first).collect();
    sorted.sort_unstable();
    sorted.windows(2).any(|pair| pair[0] == pair[1])
}

impl<C: Element> Buffers for Entries<C> {
    fn len(&self) -> usize {
        self.values.len()
    }

    fn push_null(&mut self) {
        unreachable!("an entry is not null");
    }

    fn truncate(&mut self, count: usize) {
        self.keys.truncate(count);
        self.values.truncate(count);
    }

    fn make_room(&mut self, growth: Growth) {
        self.keys.make_room(growth);
        self.values.make_room(growth);
    }

    fn move_to(&mut self, array: ArrayDataBuilder) -> ArrayDataBuilder {
        let count = self.keys.len();
        let keys = self
            .keys
            .move_to(ArrayData::builder(DataType::Utf8).len(count));
        let entries = ArrayData::builder(self.data_type.clone()).len(count);
        // SAFETY: see `Column::move_to`; there are a key and a value for each entry.
        array.add_child_data(unsafe {
            let entries = entries.add_child_data(keys.build_unchecked());
            self.values.move_to(entries).build_unchecked()
        })
    }
}
