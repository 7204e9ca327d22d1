//! One record to one row: a single pass over its bytes, straight into the columns.
//!
//! What is accepted here is a row, with the very values that `JsonDecoder` gives. Parsing stops at the
//! first fault, and [`super::explain`] notes it in the context.

use arrow_data::ArrayData;
use arrow_schema::Field;

use super::column::{Bytes, Column, Growth, Lists, Maps, Values, keys_of};
use super::keys::{Keys, Target};
use super::reason::{Code, Fault};
use super::scan::Engine;
use super::text::{Cursor, Text};
use super::{escapes, numbers, times};
use crate::base64;

/// The fields of the objects in one place of a schema.
pub struct Object {
    fields: Vec<Slot>,
    keys: Keys,
    len: usize,
}

struct Slot {
    column: Column,
    is_required: bool,
    seen: u64, // the number of the object that had it last
}

/// What parsing needs beside the columns.
#[derive(Default)]
pub struct Context {
    /// The record.
    pub text: Text,
    /// How many objects and lists of columns are open.
    pub depth: usize,
    /// The first fault of the record.
    pub fault: Fault,
    spare: Vec<u8>,
    objects: u64,
    /// The keys of the record's own object that are no fields: those that were learnt.
    pub unknown: Vec<usize>,
    /// Those that were not, by name.
    pub unknown_names: Vec<Box<[u8]>>,
}

impl Object {
    /// An object of these fields. Error: one has a type that no table has.
    pub fn new<'a>(fields: impl Iterator<Item = &'a Field> + Clone) -> Result<Self, String> {
        let keys = keys_of(fields.clone());
        let slot = |field: &Field| {
            let (column, is_required) = (Column::new(field)?, !field.is_nullable());
            Ok::<_, String>(Slot {
                column,
                is_required,
                seen: 0,
            })
        };
        Ok(Object {
            fields: fields.map(slot).collect::<Result<_, _>>()?,
            keys,
            len: 0,
        })
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Append an object of nulls: the place of one that is null itself.
    pub fn push_nulls(&mut self) {
        self.len += 1;
        for slot in &mut self.fields {
            slot.column.push_null();
        }
    }

    /// Keep the first `count` objects.
    pub fn truncate(&mut self, count: usize) {
        self.len = count;
        for slot in &mut self.fields {
            slot.column.truncate(count);
        }
    }

    /// Make room for `rows` more objects, if they are like those that there are.
    pub fn reserve(&mut self, rows: usize) {
        self.reserve_by(Growth {
            from: self.len,
            by: rows,
        });
    }

    /// As `reserve`, where the objects of a row are none, one, or many.
    pub fn reserve_by(&mut self, growth: Growth) {
        for slot in &mut self.fields {
            slot.column.reserve(growth);
        }
    }

    /// Take the columns as Arrow has them.
    pub fn take(&mut self) -> Vec<ArrayData> {
        self.len = 0;
        self.fields
            .iter_mut()
            .map(|slot| slot.column.take())
            .collect()
    }

    /// The name of a key that is no field.
    pub fn unknown_name(&self, learnt: usize) -> &[u8] {
        self.keys.name_of(learnt)
    }
}

/// Append a record as a row. False: it is none, the columns are as they were, and the context has its
/// fault.
#[inline(always)]
pub fn parse_record<E: Engine>(object: &mut Object, context: &mut Context, record: &[u8]) -> bool {
    context.unknown.clear();
    context.unknown_names.clear();
    let is_ascii = context.text.set::<E>(record);
    if !is_ascii && simdutf8::basic::from_utf8(context.text.bytes()).is_err() {
        context.fault.set(Some(Code::NotUtf8));
        return false;
    }
    let rows = object.len;
    let start = context.text.start().skip_space();
    if start.byte() == b'{'
        && let Some(end) = parse_object::<E>(object, context, start.skip(1), true)
    {
        let end = end.skip_space();
        if end.left() == 0 {
            return true;
        }
        context.refuse_text(end);
    }
    context.depth = 0;
    object.truncate(rows);
    false
}

/// Append the object whose `{` is behind.
#[inline(always)]
fn parse_object<E: Engine>(
    object: &mut Object,
    context: &mut Context,
    at: Cursor,
    is_top: bool,
) -> Option<Cursor> {
    context.objects += 1;
    let number = context.objects;
    let mut at = at.skip_space();
    if at.byte() == b'}' {
        return end_object(object, context, number, 0).then(|| at.skip(1));
    }
    let (mut line, mut found) = (0, 0);
    loop {
        let Some((target, value)) = object.keys.find::<E>(at, &mut line, &mut context.spare) else {
            context.refuse_key(at);
            return None;
        };
        at = if value.byte() <= b' ' {
            value.skip_space()
        } else {
            value
        };
        if let Target::Field(field) = target {
            let slot = &mut object.fields[field];
            let end = if slot.seen == number {
                context.fault.set(Some(Code::FieldTwice));
                None
            } else {
                parse_value::<E>(&mut slot.column, slot.is_required, context, at)
            };
            let Some(end) = end else {
                context.fault.enter(object.keys.field_name(field));
                return None;
            };
            at = end;
            found += 1;
            slot.seen = number;
        } else {
            if is_top {
                note_unknown(context, target);
            }
            // SAFETY: whoever runs this engine has looked for its instructions.
            let Some(end) = (unsafe { E::skip_inner(at, context.depth) }) else {
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
    end_object(object, context, number, found).then(|| at.skip(1))
}

/// Count an object, and put nulls where it has no value. `found`: how many fields it has at least.
/// False: a field that needs a value has none.
#[inline(always)]
fn end_object(object: &mut Object, context: &mut Context, number: u64, found: usize) -> bool {
    object.len += 1;
    if found < object.fields.len() {
        for (field, slot) in object.fields.iter_mut().enumerate() {
            if slot.seen == number {
                continue;
            }
            if slot.is_required {
                context.fault.set(Some(Code::Null));
                context.fault.enter(object.keys.field_name(field));
                return false;
            }
            slot.column.push_null();
        }
    }
    true
}

/// Keep a key of the record's own object that is no field.
#[inline(never)]
fn note_unknown(context: &mut Context, target: Target) {
    match target {
        Target::Learnt(known) => context.unknown.push(known),
        _ => context.unknown_names.push(context.spare.as_slice().into()),
    }
}

/// Append a value to its column; none: it does not fit, and the context has the fault.
#[inline(always)]
fn parse_value<E: Engine>(
    column: &mut Column,
    is_required: bool,
    context: &mut Context,
    at: Cursor,
) -> Option<Cursor> {
    if at.byte() == b'n' {
        if at.look::<4>() != *b"null" {
            context.refuse_text(at);
            return None;
        }
        if is_required {
            context.fault.set(Some(Code::Null));
            return None;
        }
        column.push_null();
        return Some(at.skip(4));
    }
    let end = push_value::<E>(column, context, at);
    if end.is_none() {
        context.refuse_value(&column.data_type, at);
    }
    end
}

/// Append a value that is not null to its column; none: it is not there, or only in part.
#[inline(always)]
fn push_value<E: Engine>(column: &mut Column, context: &mut Context, at: Cursor) -> Option<Cursor> {
    let end = match &mut column.values {
        Values::I64(values) => {
            let (value, end) = numbers::parse_integer(at)?;
            values.push(value);
            end
        }
        Values::Text(values) => parse_text::<E>(values, at)?,
        Values::F64(values) => {
            let (value, end) = numbers::parse_double(at)?;
            values.push(value);
            end
        }
        Values::Bool(values) => {
            let (value, size) = match at.look::<5>() {
                [b't', b'r', b'u', b'e', _] => (1, 4),
                [b'f', b'a', b'l', b's', b'e'] => (0, 5),
                _ => return None,
            };
            values.push(value);
            at.skip(size)
        }
        Values::I32(values) => parse_small(values, at)?,
        Values::I16(values) => parse_small(values, at)?,
        Values::I8(values) => parse_small(values, at)?,
        // SAFETY: whoever runs this engine has looked for its instructions.
        _ => return unsafe { E::parse_inner(column, context, at) },
    };
    column.validity.push_valid();
    Some(end)
}

#[inline(always)]
fn parse_small<T: TryFrom<i64>>(values: &mut Vec<T>, at: Cursor) -> Option<Cursor> {
    let (value, end) = numbers::parse_integer(at)?;
    values.push(T::try_from(value).ok()?);
    Some(end)
}

#[inline(always)]
fn parse_text<E: Engine>(values: &mut Bytes, at: Cursor) -> Option<Cursor> {
    if at.byte() != b'"' {
        return None;
    }
    let end = escapes::copy_text::<E>(at.skip(1), &mut values.data)?;
    values.end_value();
    Some(end)
}

/// Append a value of a type that is not worth a place in each loop, or that holds others.
#[inline(always)]
pub fn parse_inner<E: Engine>(
    column: &mut Column,
    context: &mut Context,
    at: Cursor,
) -> Option<Cursor> {
    let end = match &mut column.values {
        Values::F32(values) => {
            let (value, end) = numbers::parse_double(at)?;
            values.push(numbers::to_float(value)?);
            end
        }
        Values::Decimal(values) => {
            let (number, end) = numbers::parse_decimal(at, values.precision, values.scale)?;
            values.numbers.push(number);
            end
        }
        Values::Date(values) => {
            let (text, end) = plain_text::<E>(at)?;
            values.push(times::parse_date(text)?);
            end
        }
        Values::Instant(values) => {
            let (text, end) = plain_text::<E>(at)?;
            values.push(times::parse_time(text, true)?);
            end
        }
        Values::Local(values) => {
            let (text, end) = plain_text::<E>(at)?;
            values.push(times::parse_time(text, false)?);
            end
        }
        Values::Binary(values) => {
            let (text, end) = plain_text::<E>(at)?;
            base64::decode(text, &mut values.data)?;
            values.end_value();
            end
        }
        Values::List(lists) => parse_list::<E>(lists, context, at)?,
        Values::Map(maps) => parse_map::<E>(maps, context, at)?,
        Values::Struct(object) => {
            if at.byte() != b'{' {
                return None;
            }
            context.depth += 1;
            let end = parse_object::<E>(object, context, at.skip(1), false)?;
            context.depth -= 1;
            end
        }
        _ => unreachable!("parse_value takes the others"),
    };
    column.validity.push_valid();
    Some(end)
}

/// A text without escapes, which is all that dates, times and base64 are worth here.
#[inline(always)]
fn plain_text<'a, E: Engine>(at: Cursor) -> Option<(&'a [u8], Cursor)> {
    if at.byte() != b'"' {
        return None;
    }
    let start = at.skip(1);
    // SAFETY: whoever runs this engine has looked for its instructions.
    let end = start.skip(unsafe { E::count_plain(start) });
    (end.byte() == b'"').then(|| (end.from(start), end.skip(1)))
}

#[inline(always)]
fn parse_list<E: Engine>(lists: &mut Lists, context: &mut Context, at: Cursor) -> Option<Cursor> {
    if at.byte() != b'[' {
        return None;
    }
    context.depth += 1;
    let mut at = at.skip(1).skip_space();
    if at.byte() == b']' {
        at = at.skip(1);
    } else {
        loop {
            let Some(end) = parse_value::<E>(&mut lists.items, false, context, at) else {
                context.fault.enter(b"element");
                return None;
            };
            at = end.skip_space();
            match at.byte() {
                b',' => at = at.skip(1).skip_space(),
                b']' => {
                    at = at.skip(1);
                    break;
                }
                _ => {
                    context.refuse_text(at);
                    return None;
                }
            }
        }
    }
    context.depth -= 1;
    lists.offsets.push(lists.items.len() as i32);
    Some(at)
}

#[inline(always)]
fn parse_map<E: Engine>(maps: &mut Maps, context: &mut Context, at: Cursor) -> Option<Cursor> {
    if at.byte() != b'{' {
        return None;
    }
    context.depth += 1;
    let first = maps.keys.len();
    let mut at = at.skip(1).skip_space();
    if at.byte() == b'}' {
        at = at.skip(1);
    } else {
        loop {
            let colon = parse_text::<E>(&mut maps.keys, at).map(Cursor::skip_space);
            let Some(colon) = colon.filter(|colon| colon.byte() == b':') else {
                context.refuse_key(at);
                return None;
            };
            at = colon.skip(1).skip_space();
            let Some(end) = parse_value::<E>(&mut maps.items, false, context, at) else {
                context.fault.enter(b"value");
                return None;
            };
            at = end.skip_space();
            match at.byte() {
                b',' => at = at.skip(1).skip_space(),
                b'}' => {
                    at = at.skip(1);
                    break;
                }
                _ => {
                    context.refuse_text(at);
                    return None;
                }
            }
        }
    }
    context.depth -= 1;
    if has_twice(&maps.keys, first) {
        context.fault.set(Some(Code::KeyTwice));
        return None;
    }
    maps.offsets.push(maps.items.len() as i32);
    Some(at)
}

/// Whether a key is there twice from one on.
fn has_twice(keys: &Bytes, first: usize) -> bool {
    let count = keys.len() - first;
    if count <= 8 {
        return keys
            .iter_from(first)
            .enumerate()
            .any(|(i, key)| keys.iter_from(first + i + 1).any(|other| other == key));
    }
    let mut sorted: Vec<&[u8]> = keys.iter_from(first).collect();
    sorted.sort_unstable();
    sorted.windows(2).any(|pair| pair[0] == pair[1])
}
