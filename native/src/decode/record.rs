//! One record to one row: a single pass over its bytes, straight into the columns.
//!
//! What is accepted here is a row, with the very values that `JsonDecoder` gives. A value that does
//! not fit is passed over, and [`super::faults`] says why; where the text itself is not in order, or
//! a value is of another kind, parsing stops, and [`super::judge`] says why. Beside a MAP it goes on
//! behind a value of another kind, as what is wrong with the rest may come first. What is refused may
//! still be a row.

use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, Fields};

use super::column::{Bytes, Column, Growth, Lists, Maps, Values, keys_of};
use super::faults::Faults;
use super::keys::{Keys, Target};
use super::kinds::{holds_map, kind_at, kind_of};
use super::reason::Common;
use super::scan::Engine;
use super::text::{Cursor, Text};
use super::{escapes, numbers, times};
use crate::base64;

const NOT_UTF8: &str = "not UTF-8";

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
    /// What is wrong with values of the record.
    pub faults: Faults,
    /// The field of the record's own object whose value is not in order, and where it begins.
    pub stuck: Option<(usize, usize)>,
    /// How many bytes of the record are in order, up to behind a value of its own object.
    pub done: usize,
    /// Why it is no row, where that is known for certain.
    pub told: Option<Common>,
    has_map: bool, // `JsonDecoder` reads such a record to its end before it looks at columns
    /// The keys of the record's own object that are no fields: those that were learnt.
    pub unknown: Vec<usize>,
    /// Those that were not, by name.
    pub unknown_names: Vec<Box<[u8]>>,
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// It is a row.
    Row,
    /// Its text is in order, and values do not fit: the faults say which.
    Unfit,
    /// It is not in order: see `Context::told`, or, where parsing stopped, `stuck` and `done`.
    Stopped,
}

impl Context {
    /// For records of these columns.
    pub fn new(fields: &Fields) -> Self {
        Context {
            faults: Faults::new(fields),
            has_map: fields.iter().any(|field| holds_map(field.data_type())),
            ..Context::default()
        }
    }

    /// The number of the record's own object, see `Object::has_seen`.
    pub fn record(&self) -> u64 {
        self.record
    }

    /// Forget what is known of the record: it is to be judged from its first byte on.
    fn forget(&mut self) {
        self.told = None;
        self.stuck = None;
        self.done = 0;
        self.faults.clear();
    }
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

    /// Whether the part that is done of the record whose own object has this number has a field.
    pub fn has_seen(&self, field: usize, record: u64) -> bool {
        self.fields[field].seen == record
    }

    /// The name of a key that is no field.
    pub fn unknown_name(&self, learnt: usize) -> &[u8] {
        self.keys.name_of(learnt)
    }
}

/// Append a record as a row. If it is none, the columns are as they were.
#[inline(always)]
pub fn parse_record<E: Engine>(
    object: &mut Object,
    context: &mut Context,
    record: &[u8],
) -> Parsed {
    context.unknown.clear();
    context.unknown_names.clear();
    context.done = 0;
    context.stuck = None;
    context.told = None;
    let is_ascii = context.text.set::<E>(record);
    if !is_ascii && simdutf8::basic::from_utf8(context.text.bytes()).is_err() {
        context.told = Some(Common::Fixed(NOT_UTF8));
        return Parsed::Stopped;
    }
    let rows = object.len;
    let start = context.text.start().skip_space();
    let parsed = if start.byte() == b'{'
        && let Some(end) = parse_object::<E>(object, context, start.skip(1), true)
        && end.skip_space().left() == 0
    {
        if context.told.is_some() {
            Parsed::Stopped
        } else if context.faults.is_any() {
            Parsed::Unfit
        } else {
            return Parsed::Row;
        }
    } else {
        context.depth = 0;
        if context.has_map && context.told.is_some() {
            context.forget(); // something behind what was told comes first
        }
        Parsed::Stopped
    };
    object.truncate(rows);
    parsed
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
        end_object(object, context, number, 0);
        return Some(at.skip_space().skip(1));
    }
    parse_members::<E>(object, context, number, at, 0, is_top)
}

/// The members of an object from a key on, and its end. `line`: of the script of its keys.
#[inline(always)]
fn parse_members<E: Engine>(
    object: &mut Object,
    context: &mut Context,
    number: u64,
    mut at: Cursor,
    mut line: usize,
    is_top: bool,
) -> Option<Cursor> {
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
                if is_top {
                    // SAFETY: whoever runs this engine has looked for its instructions.
                    return unsafe { E::pass_told(object, context, field, line, at) };
                }
                return None;
            }
            found += 1;
            if is_top {
                context.faults.column = field;
            }
            let Some(end) = parse_value::<E>(&mut slot.column, slot.is_required, context, at)
            else {
                if is_top {
                    // SAFETY: whoever runs this engine has looked for its instructions.
                    return unsafe { E::pass_told(object, context, field, line, at) };
                }
                return None;
            };
            at = end;
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
    end_object(object, context, number, found);
    Some(at.skip(1))
}

/// Tell what is wrong with the value at the cursor, which no field of the record's own object may
/// have. Parsing stops, as this comes first; only beside a MAP it may go on behind the value.
#[inline(always)]
pub fn pass_told<E: Engine>(
    object: &mut Object,
    context: &mut Context,
    field: usize,
    line: usize,
    at: Cursor,
) -> Option<Cursor> {
    let told = told_of(&object.fields[field], context, field, at)?;
    if context.has_map {
        return pass_beside_map::<E>(object, context, field, told, line, at);
    }
    // A key that is there twice comes before what is wrong with its value.
    // SAFETY: whoever runs this engine has looked for its instructions.
    let is_certain =
        matches!(told, Common::Twice(_)) || unsafe { E::skip_inner(at, context.depth) }.is_some();
    context.told = is_certain.then_some(told);
    None
}

/// What no field of the record's own object may have, and this one has, as far as the first byte of
/// its value shows.
#[inline(always)]
fn told_of(slot: &Slot, context: &mut Context, field: usize, at: Cursor) -> Option<Common> {
    if slot.seen == context.record {
        return Some(Common::Twice(field));
    }
    context.stuck = Some((field, context.text.offset(at)));
    let kind = kind_at(at.byte())?;
    let is_other = !kind_of(&slot.column.data_type).takes(kind);
    is_other.then_some(Common::Kind(field, kind))
}

/// Go on behind a value that is told of, once: the rest may have something that comes before it.
#[inline(always)]
fn pass_beside_map<E: Engine>(
    object: &mut Object,
    context: &mut Context,
    field: usize,
    told: Common,
    line: usize,
    at: Cursor,
) -> Option<Cursor> {
    let slot = &mut object.fields[field];
    if context.told.is_some() || holds_map(&slot.column.data_type) {
        return None;
    }
    // SAFETY: whoever runs this engine has looked for its instructions.
    let end = unsafe { E::skip_inner(at, context.depth) }?;
    context.told = Some(told);
    slot.seen = context.record;
    let at = end.skip_space();
    match at.byte() {
        b',' => parse_members::<E>(object, context, context.record, at.skip(1), line, true),
        b'}' => Some(at.skip(1)),
        _ => None,
    }
}

/// Count an object, and put nulls where it has no value. `found`: how many fields it has at least.
#[inline(always)]
fn end_object(object: &mut Object, context: &mut Context, number: u64, found: usize) {
    object.len += 1;
    if found < object.fields.len() {
        for slot in &mut object.fields {
            if slot.seen != number {
                if slot.is_required {
                    context.faults.note_null();
                    slot.column.push_misfit();
                } else {
                    slot.column.push_null();
                }
            }
        }
    }
}

/// Keep a key of the record's own object that is no field.
#[inline(never)]
fn note_unknown(context: &mut Context, target: Target) {
    match target {
        Target::Learnt(known) => context.unknown.push(known),
        _ => context.unknown_names.push(context.spare.as_slice().into()),
    }
}

/// Append a value to its column. One that does not fit has something in its place.
#[inline(always)]
fn parse_value<E: Engine>(
    column: &mut Column,
    is_required: bool,
    context: &mut Context,
    at: Cursor,
) -> Option<Cursor> {
    if at.byte() == b'n' {
        if at.look::<4>() != *b"null" {
            return None;
        }
        if is_required {
            context.faults.note_null();
            column.push_misfit();
        } else {
            column.push_null();
        }
        return Some(at.skip(4));
    }
    match push_value::<E>(column, context, at) {
        None => pass_misfit::<E>(column, context, at),
        end => end,
    }
}

/// Note what is wrong with a value that is not null, and put something in its place; none: it is
/// not in order, or not of the kind of its column.
#[cold]
#[inline(never)]
fn pass_misfit<E: Engine>(
    column: &mut Column,
    context: &mut Context,
    at: Cursor,
) -> Option<Cursor> {
    let is_text = at.byte() == b'"';
    let is_its_kind = match &column.data_type {
        DataType::Date32 | DataType::Timestamp(..) | DataType::Binary => is_text,
        DataType::Decimal128(..) => is_text || is_number(at),
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => is_number(at),
        DataType::Float32 => is_number(at),
        _ => false, // every text is one, of a DOUBLE the parser of `JsonDecoder` has its own limits
    };
    if !is_its_kind {
        return None;
    }
    let end = if is_text {
        // SAFETY: whoever runs this engine has looked for its instructions.
        let end = unsafe { E::skip_inner(at, context.depth) }?;
        let token = end.from(at);
        let text = &token[1..token.len() - 1];
        let is_plain = !text.contains(&b'\\');
        context.faults.note_text(&column.data_type, text, is_plain);
        end
    } else {
        let end = numbers::skip_number(at)?;
        context.faults.note_number(&column.data_type, end.from(at));
        end
    };
    column.push_misfit();
    Some(end)
}

fn is_number(at: Cursor) -> bool {
    matches!(at.byte(), b'-' | b'0'..=b'9' | b'N' | b'I')
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
