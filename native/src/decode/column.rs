//! A column of any type: the values so far, and which decoder takes the next one.

use std::mem::take;

use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::{DataType, Field, TimeUnit};

use super::buffers::{Buffers, Bytes, Growth, Runs, Validity, pack};
use super::context::Context;
use super::nested::element::Element;
use super::nested::lists::parse_list;
use super::nested::maps::{Entries, parse_map};
use super::nested::objects::Object;
use super::reason::Code;
use super::scalars::decimals::parse_decimal;
use super::scalars::numbers::{parse_double, parse_float, parse_integer};
use super::scalars::strings::{parse_binary, parse_string};
use super::scalars::times::{parse_date, parse_time};
use super::scan::{Engine, Routine};
use super::text::Cursor;

/// Digits of the longest i64.
const I64_DIGITS: u8 = 19;

/// A column of some type, with the values so far.
pub struct Column {
    values: Values,
    validity: Validity,
    data_type: DataType,
}

/// Values of one type.
enum Values {
    Bool(Vec<u8>), // a byte each
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Text(Bytes),
    Binary(Bytes),     // base64 in JSON
    Date(Vec<i32>),    // days
    Instant(Vec<i64>), // TIMESTAMP: microseconds in UTC
    Local(Vec<i64>),   // TIMESTAMP_NTZ: microseconds
    Decimal {
        numbers: Vec<i128>, // times ten to the power of `scale`
        precision: u8,
        scale: u8,
    },
    List(Box<Runs<Column>>),
    Map(Box<Runs<Entries<Column>>>),
    Struct(Box<Object<Column>>),
}

/// An expression over the buffers of a column, whatever its type.
macro_rules! with_buffers {
    ($values:expr, $buffers:ident => $result:expr) => {
        match $values {
            Values::Bool($buffers) => $result,
            Values::I8($buffers) => $result,
            Values::I16($buffers) => $result,
            Values::I32($buffers) | Values::Date($buffers) => $result,
            Values::I64($buffers) | Values::Instant($buffers) | Values::Local($buffers) => $result,
            Values::F32($buffers) => $result,
            Values::F64($buffers) => $result,
            Values::Text($buffers) | Values::Binary($buffers) => $result,
            Values::Decimal {
                numbers: $buffers, ..
            } => $result,
            Values::List($buffers) => $result,
            Values::Map($buffers) => $result,
            Values::Struct($buffers) => $result,
        }
    };
}

impl Element for Column {
    fn new(field: &Field) -> Result<Self, String> {
        let values = match field.data_type() {
            DataType::Boolean => Values::Bool(Vec::new()),
            DataType::Int8 => Values::I8(Vec::new()),
            DataType::Int16 => Values::I16(Vec::new()),
            DataType::Int32 => Values::I32(Vec::new()),
            DataType::Int64 => Values::I64(Vec::new()),
            DataType::Float32 => Values::F32(Vec::new()),
            DataType::Float64 => Values::F64(Vec::new()),
            DataType::Utf8 => Values::Text(Bytes::default()),
            DataType::Binary => Values::Binary(Bytes::default()),
            DataType::Date32 => Values::Date(Vec::new()),
            DataType::Timestamp(TimeUnit::Microsecond, None) => Values::Local(Vec::new()),
            DataType::Timestamp(TimeUnit::Microsecond, Some(zone)) if &**zone == "UTC" => {
                Values::Instant(Vec::new())
            }
            DataType::Decimal128(precision, scale) => Values::Decimal {
                numbers: Vec::new(),
                precision: *precision,
                scale: u8::try_from(*scale).map_err(|_| "a negative scale".to_owned())?,
            },
            DataType::List(element) => Values::List(Box::new(Runs::new(Column::new(element)?))),
            DataType::Map(entry, _) => Values::Map(Box::new(Runs::new(Entries::new(entry)?))),
            DataType::Struct(fields) => Values::Struct(Box::new(Object::new(fields)?)),
            other => return Err(format!("a column of type {other}")),
        };
        Ok(Column {
            values,
            validity: Validity::default(),
            data_type: field.data_type().clone(),
        })
    }

    #[inline(always)]
    fn parse<E: Engine>(
        &mut self,
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
            self.push_null();
            return Some(at.skip(4));
        }
        let mut end = self.parse_frequent::<E>(context, at);
        if end.is_none() && context.takes_whole {
            end = self.parse_whole(at);
        }
        if end.is_none() {
            context.refuse_value(&self.data_type, at);
        }
        end
    }
}

impl Buffers for Column {
    fn len(&self) -> usize {
        with_buffers!(&self.values, each => each.len())
    }

    fn push_null(&mut self) {
        self.validity.push_null(self.len());
        with_buffers!(&mut self.values, each => each.push_null());
    }

    fn truncate(&mut self, count: usize) {
        self.validity.truncate(count);
        with_buffers!(&mut self.values, each => each.truncate(count));
    }

    fn make_room(&mut self, growth: Growth) {
        with_buffers!(&mut self.values, each => each.make_room(growth));
    }

    fn move_to(&mut self, parent: ArrayDataBuilder) -> ArrayDataBuilder {
        let len = self.len();
        let array = ArrayData::builder(self.data_type.clone())
            .len(len)
            .nulls(self.validity.take(len));
        let array = match &mut self.values {
            Values::Bool(flags) => array.add_buffer(pack(&take(flags)).into_inner()),
            others => with_buffers!(others, each => each.move_to(array)),
        };
        // SAFETY: every value has been appended to all buffers of its column or to none, lists end
        // where their elements do, and texts were checked to be UTF-8 with their record.
        parent.add_child_data(unsafe { array.build_unchecked() })
    }
}

impl Column {
    /// Append a value that is not null; none: it is not there, or only in part.
    #[inline(always)]
    fn parse_frequent<E: Engine>(&mut self, context: &mut Context, at: Cursor) -> Option<Cursor> {
        let end = match &mut self.values {
            Values::I64(values) => push(values, parse_integer(at))?,
            Values::Text(values) => parse_string::<E>(values, at)?,
            Values::F64(values) => push(values, parse_double(at))?,
            Values::Bool(values) => push(values, parse_boolean(at))?,
            Values::I32(values) => push(values, parse_integer(at))?,
            Values::I16(values) => push(values, parse_integer(at))?,
            Values::I8(values) => push(values, parse_integer(at))?,
            _ => return ParseOther::call::<E>(self, context, at),
        };
        self.validity.push_valid();
        Some(end)
    }
}

impl Column {
    /// Append a whole number that is written with a point or an exponent, to a column of integers.
    #[inline(never)]
    fn parse_whole(&mut self, at: Cursor) -> Option<Cursor> {
        if at.byte() == b'"' {
            return None;
        }
        let (number, end) = parse_decimal(at, I64_DIGITS, 0)?;
        match &mut self.values {
            Values::I64(values) => values.push(number.try_into().ok()?),
            Values::I32(values) => values.push(number.try_into().ok()?),
            Values::I16(values) => values.push(number.try_into().ok()?),
            Values::I8(values) => values.push(number.try_into().ok()?),
            _ => return None,
        }
        self.validity.push_valid();
        Some(end)
    }
}

#[inline(always)]
fn push<T>(values: &mut Vec<T>, parsed: Option<(T, Cursor)>) -> Option<Cursor> {
    let (value, end) = parsed?;
    values.push(value);
    Some(end)
}

#[inline(always)]
fn parse_boolean(at: Cursor) -> Option<(u8, Cursor)> {
    match at.look::<5>() {
        [b't', b'r', b'u', b'e', _] => Some((1, at.skip(4))),
        [b'f', b'a', b'l', b's', b'e'] => Some((0, at.skip(5))),
        _ => None,
    }
}

/// Append a value of a type that is not worth a place in each loop, or that holds others.
struct ParseOther;

impl Routine<&mut Column, &mut Context, Cursor> for ParseOther {
    type Output = Option<Cursor>;

    #[inline(always)]
    fn run<E: Engine>(column: &mut Column, context: &mut Context, at: Cursor) -> Option<Cursor> {
        let end = match &mut column.values {
            Values::F32(values) => push(values, parse_float(at))?,
            Values::Decimal {
                numbers,
                precision,
                scale,
            } => push(numbers, parse_decimal(at, *precision, *scale))?,
            Values::Date(values) => push(values, parse_date::<E>(at))?,
            Values::Instant(values) => push(values, parse_time::<E>(at, true))?,
            Values::Local(values) => push(values, parse_time::<E>(at, false))?,
            Values::Binary(values) => parse_binary::<E>(values, at)?,
            Values::List(lists) => parse_list::<E, _>(lists, context, at)?,
            Values::Map(maps) => parse_map::<E, _>(maps, context, at)?,
            Values::Struct(object) => {
                if at.byte() != b'{' {
                    return None;
                }
                context.depth += 1;
                let end = object.parse::<E>(context, at.skip(1), false)?;
                context.depth -= 1;
                end
            }
            _ => unreachable!("`parse_frequent` takes the others"),
        };
        column.validity.push_valid();
        Some(end)
    }
}
