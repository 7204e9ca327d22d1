//! STRUCT, and the record itself: a column for each field, found by its key.

use arrow_data::ArrayDataBuilder;
use arrow_schema::Fields;

use super::element::Element;
use crate::decode::buffers::{Buffers, Growth};
use crate::decode::context::Context;
use crate::decode::keys::{Keys, Target};
use crate::decode::reason::Code;
use crate::decode::scan::{Engine, Routine};
use crate::decode::skip::SkipValue;
use crate::decode::text::Cursor;

/// The objects in one place of a schema.
pub struct Object<C> {
    fields: Vec<Slot<C>>,
    keys: Keys,
    len: usize,
}

struct Slot<C> {
    column: C,
    is_required: bool,
    seen: u64, // the number of the object that had it last
}

impl<C: Element> Object<C> {
    /// No objects, of these fields. Error: one has a type that no table has.
    pub fn new(fields: &Fields) -> Result<Self, String> {
        let mut slots = Vec::new();
        for field in fields {
            slots.push(Slot {
                column: C::new(field)?,
                is_required: !field.is_nullable(),
                seen: 0,
            });
        }
        let names = fields.iter().map(|field| field.name().as_bytes().into());
        Ok(Object {
            fields: slots,
            keys: Keys::new(names.collect()),
            len: 0,
        })
    }

    /// The name of a key that is no field.
    pub fn unknown_name(&self, learnt: usize) -> &[u8] {
        self.keys.name_of(learnt)
    }

    /// Append the object whose `{` is behind.
    #[inline(always)]
    pub fn parse<E: Engine>(
        &mut self,
        context: &mut Context,
        at: Cursor,
        is_top: bool,
    ) -> Option<Cursor> {
        context.objects += 1;
        let number = context.objects;
        let mut at = at.skip_space();
        if at.byte() == b'}' {
            return self.end(context, number, 0).then(|| at.skip(1));
        }
        let (mut line, mut found) = (0, 0);
        loop {
            let Some((target, value)) = self.keys.find::<E>(at, &mut line, &mut context.key) else {
                context.refuse_key(at);
                return None;
            };
            at = if value.byte() <= b' ' {
                value.skip_space()
            } else {
                value
            };
            if let Target::Field(field) = target {
                let slot = &mut self.fields[field];
                let end = if slot.seen == number {
                    context.fault.set(Some(Code::FieldTwice));
                    None
                } else {
                    slot.column.parse::<E>(slot.is_required, context, at)
                };
                let Some(end) = end else {
                    context.fault.enter(self.keys.field_name(field));
                    return None;
                };
                at = end;
                found += 1;
                slot.seen = number;
            } else {
                if is_top {
                    context.note_unknown(target);
                }
                let Some(end) = SkipValue::call::<E>(at, context.depth, ()) else {
                    context.refuse_skipped(at);
                    return None;
                };
                at = end;
            }
            if at.byte() <= b' ' {
                at = at.skip_space();
            }
            match at.byte() {
                b',' => at = at.skip(1),
                b'}' => break,
                _ => {
                    context.refuse_text(at);
                    return None;
                }
            }
        }
        self.end(context, number, found).then(|| at.skip(1))
    }

    /// Count an object, and put nulls where it has no value. `found`: how many fields it has at least.
    /// False: a field that needs a value has none.
    #[inline(always)]
    fn end(&mut self, context: &mut Context, number: u64, found: usize) -> bool {
        self.len += 1;
        if found < self.fields.len() {
            for (field, slot) in self.fields.iter_mut().enumerate() {
                if slot.seen == number {
                    continue;
                }
                if slot.is_required {
                    context.fault.set(Some(Code::Null));
                    context.fault.enter(self.keys.field_name(field));
                    return false;
                }
                slot.column.push_null();
            }
        }
        true
    }
}

impl<C: Element> Buffers for Object<C> {
    fn len(&self) -> usize {
        self.len
    }

    fn push_null(&mut self) {
        self.len += 1;
        for slot in &mut self.fields {
            slot.column.push_null();
        }
    }

    fn truncate(&mut self, count: usize) {
        self.len = count;
        for slot in &mut self.fields {
            slot.column.truncate(count);
        }
    }

    fn make_room(&mut self, growth: Growth) {
        for slot in &mut self.fields {
            slot.column.make_room(growth);
        }
    }

    fn move_to(&mut self, array: ArrayDataBuilder) -> ArrayDataBuilder {
        self.len = 0;
        let columns = self.fields.iter_mut().map(|slot| &mut slot.column);
        columns.fold(array, |array, column| column.move_to(array))
    }
}
