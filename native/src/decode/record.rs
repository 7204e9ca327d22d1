//! One record to one row: a single pass over its bytes, straight into the columns.
//!
//! What is accepted here is a row, with the very values that `JsonDecoder` gives. What is refused
//! may still be one: why it was refused is not asked here, but by [`super::judge`].

use arrow_data::ArrayData;
use arrow_schema::Field;

use super::column::{Bytes, Column, Lists, Maps, Values, keys_of};
use super::keys::{Keys, Target};
use super::scan::Engine;
use super::text::{Cursor, Text};
use super::{base64, escapes, numbers, times};

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
    text: Text,
    spare: Vec<u8>,
    objects: u64,
    depth: usize,
    record: u64, // the number of the record's own object
    /// How many bytes of the record are in order, up to behind a value of its own object.
    pub done: usize,
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

    /// Take the columns as Arrow has them.
    pub fn take(&mut self) -> Vec<ArrayData> {
        self.len = 0;
        self.fields
            .iter_mut()
            .map(|slot| slot.column.take())
            .collect()
    }

    /// Say which fields the part of a record that is done has.
    pub fn copy_seen(&self, context: &Context, seen: &mut Vec<bool>) {
        seen.clear();
        seen.extend(self.fields.iter().map(|slot| slot.seen == context.record));
    }

    /// The name of a key that is no field.
    pub fn unknown_name(&self, learnt: usize) -> &[u8] {
        self.keys.name_of(learnt)
    }
}

/// Append a record as a row. False: it is none, and the columns are as they were.
#[inline(always)]
pub fn parse_record<E: Engine>(object: &mut Object, context: &mut Context, record: &[u8]) -> bool {
    context.unknown.clear();
    context.unknown_names.clear();
    context.done = 0;
    let is_ascii = context.text.set::<E>(record);
    if !is_ascii && simdutf8::basic::from_utf8(context.text.bytes()).is_err() {
        return false;
    }
    let rows = object.len;
    let start = context.text.start().skip_space();
    if start.byte() == b'{'
        && let Some(end) = parse_object::<E>(object, context, start.skip(1), true)
        && end.skip_space().left() == 0
    {
        return true;
    }
    context.depth = 0;
    object.truncate(rows);
    false
}

/// Whether a refused record is in order from a byte on, which is behind the value of a field. The
/// columns stay as they were. What is done of the record is in order, too.
#[inline(always)]
pub fn parse_rest<E: Engine>(
    object: &mut Object,
    context: &mut Context,
    from: usize,
    field: usize,
) -> bool {
    let rows = object.len;
    let number = context.record;
    object.fields[field].seen = number;
    let at = context.text.at(from).skip_space();
    let end = match at.byte() {
        b',' => {
            let line = object.keys.line_behind(field);
            parse_members::<E>(object, context, at.skip(1), (number, line), true)
        }
        b'}' => end_object(object, number, 0).map(|()| at.skip(1)),
        _ => None,
    };
    context.depth = 0;
    object.truncate(rows);
    end.is_some_and(|end| end.skip_space().left() == 0)
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
    if is_top {
        context.record = number;
    }
    if at.byte() == b'}' || at.skip_space().byte() == b'}' {
        end_object(object, number, 0)?;
        return Some(at.skip_space().skip(1));
    }
    parse_members::<E>(object, context, at, (number, 0), is_top)
}

/// The members of an object from a key on, and its end. `place`: the object's number, and the line
/// of its keys that is expected.
#[inline(always)]
fn parse_members<E: Engine>(
    object: &mut Object,
    context: &mut Context,
    mut at: Cursor,
    place: (u64, usize),
    is_top: bool,
) -> Option<Cursor> {
    let (number, mut line) = place;
    let mut found = 0;
    loop {
        let (target, value) = object.keys.find::<E>(at, &mut line, &mut context.spare)?;
        at = if value.byte() <= b' ' {
            value.skip_space()
        } else {
            value
        };
        if let Target::Field(field) = target {
            let slot = &mut object.fields[field];
            if slot.seen == number {
                return None;
            }
            found += 1;
            at = parse_value::<E>(&mut slot.column, slot.is_required, context, at)?;
            slot.seen = number;
        } else {
            if is_top {
                note_unknown(context, target);
            }
            // SAFETY: whoever runs this engine has looked for its instructions.
            at = unsafe { E::skip_inner(at, context.depth) }?;
        }
        if is_top {
            context.done = context.text.offset(at);
        }
        if at.byte() <= b' ' {
            at = at.skip_space();
        }
        match at.byte() {
            b',' => at = at.skip(1),
            b'}' => break,
            _ => return None,
        }
    }
    end_object(object, number, found)?;
    Some(at.skip(1))
}

/// Count an object, and put nulls where it has no value; none: one was required. `found`: how many
/// fields it has at least.
#[inline(always)]
fn end_object(object: &mut Object, number: u64, found: usize) -> Option<()> {
    object.len += 1;
    if found < object.fields.len() {
        for slot in &mut object.fields {
            if slot.seen != number {
                if slot.is_required {
                    return None;
                }
                slot.column.push_null();
            }
        }
    }
    Some(())
}

/// Keep a key of the record's own object that is no field.
#[inline(never)]
fn note_unknown(context: &mut Context, target: Target) {
    match target {
        Target::Learnt(known) => context.unknown.push(known),
        _ => context.unknown_names.push(context.spare.as_slice().into()),
    }
}

/// Append a value to its column.
#[inline(always)]
fn parse_value<E: Engine>(
    column: &mut Column,
    is_required: bool,
    context: &mut Context,
    at: Cursor,
) -> Option<Cursor> {
    if at.byte() == b'n' {
        if is_required || at.look::<4>() != *b"null" {
            return None;
        }
        column.push_null();
        return Some(at.skip(4));
    }
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
            at = parse_value::<E>(&mut lists.items, false, context, at)?.skip_space();
            match at.byte() {
                b',' => at = at.skip(1).skip_space(),
                b']' => {
                    at = at.skip(1);
                    break;
                }
                _ => return None,
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
            at = parse_text::<E>(&mut maps.keys, at)?.skip_space();
            if at.byte() != b':' {
                return None;
            }
            at = at.skip(1).skip_space();
            at = parse_value::<E>(&mut maps.items, false, context, at)?.skip_space();
            match at.byte() {
                b',' => at = at.skip(1).skip_space(),
                b'}' => {
                    at = at.skip(1);
                    break;
                }
                _ => return None,
            }
        }
    }
    context.depth -= 1;
    if has_twice(&maps.keys, first) {
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
