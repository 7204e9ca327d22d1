//! Columns while they are filled: Arrow's buffers, one value after the other.
//!
//! A record that turns out to be bad is taken back by cutting every column to the rows before it.

use std::mem::take;

use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, TimeUnit};

use super::keys::Keys;
use super::record::Object;

/// A column of some type, with the values so far.
pub struct Column {
    /// The values.
    pub values: Values,
    /// Which of them are null.
    pub validity: Validity,
    /// Their type.
    pub data_type: DataType,
}

/// Values of one type. For a null there is a value too, which means nothing.
pub enum Values {
    /// BOOLEAN, a byte each
    Bool(Vec<u8>),
    /// TINYINT
    I8(Vec<i8>),
    /// SMALLINT
    I16(Vec<i16>),
    /// INT
    I32(Vec<i32>),
    /// BIGINT
    I64(Vec<i64>),
    /// FLOAT
    F32(Vec<f32>),
    /// DOUBLE
    F64(Vec<f64>),
    /// STRING
    Text(Bytes),
    /// BINARY, in JSON as base64
    Binary(Bytes),
    /// DATE, in days
    Date(Vec<i32>),
    /// TIMESTAMP, in microseconds in UTC
    Instant(Vec<i64>),
    /// TIMESTAMP_NTZ, in microseconds
    Local(Vec<i64>),
    /// DECIMAL: the number without its point
    Decimal(Decimals),
    /// ARRAY
    List(Lists),
    /// MAP
    Map(Maps),
    /// STRUCT
    Struct(Box<Object>),
}

/// Texts, or bytes: where each begins, and all of them.
#[derive(Debug, PartialEq)]
pub struct Bytes {
    /// One more than there are values.
    pub offsets: Vec<i32>,
    /// All of them, one after the other.
    pub data: Vec<u8>,
}

/// Decimals of one precision and scale.
pub struct Decimals {
    /// The numbers, times ten to the power of `scale`.
    pub numbers: Vec<i128>,
    /// How many digits fit.
    pub precision: u8,
    /// How many of them are behind the point.
    pub scale: u8,
}

/// Lists: where each begins, and the elements of all.
pub struct Lists {
    /// One more than there are lists.
    pub offsets: Vec<i32>,
    /// The elements.
    pub items: Box<Column>,
}

/// Maps: where each begins, and the entries of all.
pub struct Maps {
    /// One more than there are maps.
    pub offsets: Vec<i32>,
    /// The keys, of which none is null.
    pub keys: Bytes,
    /// A value for each key.
    pub items: Box<Column>,
}

/// Which values of a column are null; nothing is kept while none is.
#[derive(Default)]
pub struct Validity {
    flags: Option<Vec<u8>>,
}

impl Validity {
    /// Say that the next value is one.
    #[inline(always)]
    pub fn push_valid(&mut self) {
        if let Some(flags) = &mut self.flags {
            flags.push(1);
        }
    }

    /// Say that the next value, the `count`th from 0, is null.
    pub fn push_null(&mut self, count: usize) {
        self.flags.get_or_insert_with(|| vec![1; count]).push(0);
    }

    fn truncate(&mut self, count: usize) {
        if let Some(flags) = &mut self.flags {
            flags.truncate(count);
        }
    }

    fn take(&mut self, count: usize) -> Option<NullBuffer> {
        let flags = self.flags.take()?;
        assert_eq!(
            flags.len(),
            count,
            "a column has more or less flags than values"
        );
        let nulls = NullBuffer::new(pack(&flags));
        (nulls.null_count() > 0).then_some(nulls)
    }
}

fn pack(flags: &[u8]) -> BooleanBuffer {
    BooleanBuffer::collect_bool(flags.len(), |row| flags[row] != 0)
}

impl Default for Bytes {
    fn default() -> Self {
        Bytes {
            offsets: vec![0],
            data: Vec::new(),
        }
    }
}

impl Bytes {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// End the value that `data` ends with.
    #[inline(always)]
    pub fn end_value(&mut self) {
        // A block is bounded so that its bytes can be counted in 31 bits (`Decoder::decode`).
        self.offsets.push(self.data.len() as i32);
    }

    /// The values from one on.
    pub fn iter_from(&self, first: usize) -> impl Iterator<Item = &[u8]> {
        self.offsets[first..]
            .windows(2)
            .map(|edge| &self.data[edge[0] as usize..edge[1] as usize])
    }

    fn truncate(&mut self, count: usize) {
        self.offsets.truncate(count + 1);
        self.data.truncate(self.offsets[count] as usize);
    }

    fn reserve(&mut self, growth: Growth) {
        growth.reserve(&mut self.offsets);
        growth.reserve(&mut self.data);
    }

    /// Take them as Arrow has them: where each begins, and all of them.
    pub fn take(&mut self) -> (Buffer, Buffer) {
        let offsets = std::mem::replace(&mut self.offsets, vec![0]);
        (
            Buffer::from_vec(offsets),
            Buffer::from_vec(take(&mut self.data)),
        )
    }
}

/// How many rows there are, and how many like them are expected.
#[derive(Clone, Copy)]
pub struct Growth {
    /// What is there; not 0.
    pub from: usize,
    /// What comes.
    pub by: usize,
}

impl Growth {
    /// Make room, and a bit more, as rows are not quite alike.
    fn reserve<T>(self, values: &mut Vec<T>) {
        let more = values.len().saturating_mul(self.by) / self.from;
        values.reserve_exact(more + more / 16);
    }
}

impl Column {
    /// An empty column. Error: a type that no table has.
    pub fn new(field: &Field) -> Result<Self, String> {
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
            DataType::Decimal128(precision, scale) => Values::Decimal(Decimals {
                numbers: Vec::new(),
                precision: *precision,
                scale: u8::try_from(*scale).map_err(|_| "a negative scale".to_owned())?,
            }),
            DataType::List(element) => Values::List(Lists {
                offsets: vec![0],
                items: Box::new(Column::new(element)?),
            }),
            DataType::Map(entry, _) => Values::Map(Maps {
                offsets: vec![0],
                keys: Bytes::default(),
                items: Box::new(Column::new(value_of(entry)?)?),
            }),
            DataType::Struct(fields) => {
                Values::Struct(Box::new(Object::new(fields.iter().map(AsRef::as_ref))?))
            }
            other => return Err(format!("a column of type {other}")),
        };
        Ok(Column {
            values,
            validity: Validity::default(),
            data_type: field.data_type().clone(),
        })
    }

    /// How many values there are, nulls included.
    pub fn len(&self) -> usize {
        match &self.values {
            Values::Bool(each) => each.len(),
            Values::I8(each) => each.len(),
            Values::I16(each) => each.len(),
            Values::I32(each) | Values::Date(each) => each.len(),
            Values::I64(each) | Values::Instant(each) | Values::Local(each) => each.len(),
            Values::F32(each) => each.len(),
            Values::F64(each) => each.len(),
            Values::Text(each) | Values::Binary(each) => each.len(),
            Values::Decimal(each) => each.numbers.len(),
            Values::List(each) => each.offsets.len() - 1,
            Values::Map(each) => each.offsets.len() - 1,
            Values::Struct(object) => object.len(),
        }
    }

    /// Append a null.
    pub fn push_null(&mut self) {
        self.validity.push_null(self.len());
        match &mut self.values {
            Values::Bool(each) => each.push(0),
            Values::I8(each) => each.push(0),
            Values::I16(each) => each.push(0),
            Values::I32(each) | Values::Date(each) => each.push(0),
            Values::I64(each) | Values::Instant(each) | Values::Local(each) => each.push(0),
            Values::F32(each) => each.push(0.0),
            Values::F64(each) => each.push(0.0),
            Values::Text(each) | Values::Binary(each) => each.end_value(),
            Values::Decimal(each) => each.numbers.push(0),
            Values::List(each) => each.offsets.push(each.items.len() as i32),
            Values::Map(each) => each.offsets.push(each.items.len() as i32),
            Values::Struct(object) => object.push_nulls(),
        }
    }

    /// Keep the first `count` values. There are as many, or more.
    pub fn truncate(&mut self, count: usize) {
        self.validity.truncate(count);
        match &mut self.values {
            Values::Bool(each) => each.truncate(count),
            Values::I8(each) => each.truncate(count),
            Values::I16(each) => each.truncate(count),
            Values::I32(each) | Values::Date(each) => each.truncate(count),
            Values::I64(each) | Values::Instant(each) | Values::Local(each) => each.truncate(count),
            Values::F32(each) => each.truncate(count),
            Values::F64(each) => each.truncate(count),
            Values::Text(each) | Values::Binary(each) => each.truncate(count),
            Values::Decimal(each) => each.numbers.truncate(count),
            Values::List(each) => {
                each.offsets.truncate(count + 1);
                each.items.truncate(each.offsets[count] as usize);
            }
            Values::Map(each) => {
                each.offsets.truncate(count + 1);
                each.keys.truncate(each.offsets[count] as usize);
                each.items.truncate(each.offsets[count] as usize);
            }
            Values::Struct(object) => object.truncate(count),
        }
    }

    /// Make room for more values, if they are like those that there are.
    pub fn reserve(&mut self, growth: Growth) {
        match &mut self.values {
            Values::Bool(each) => growth.reserve(each),
            Values::I8(each) => growth.reserve(each),
            Values::I16(each) => growth.reserve(each),
            Values::I32(each) | Values::Date(each) => growth.reserve(each),
            Values::I64(each) | Values::Instant(each) | Values::Local(each) => growth.reserve(each),
            Values::F32(each) => growth.reserve(each),
            Values::F64(each) => growth.reserve(each),
            Values::Text(each) | Values::Binary(each) => each.reserve(growth),
            Values::Decimal(each) => growth.reserve(&mut each.numbers),
            Values::List(each) => {
                growth.reserve(&mut each.offsets);
                each.items.reserve(growth);
            }
            Values::Map(each) => {
                growth.reserve(&mut each.offsets);
                each.keys.reserve(growth);
                each.items.reserve(growth);
            }
            Values::Struct(object) => object.reserve_by(growth),
        }
    }

    /// Take the values as an Arrow array. The column is empty afterwards.
    pub fn take(&mut self) -> ArrayData {
        let len = self.len();
        let mut builder = ArrayData::builder(self.data_type.clone())
            .len(len)
            .nulls(self.validity.take(len));
        builder = match &mut self.values {
            Values::Bool(each) => builder.add_buffer(pack(&take(each)).into_inner()),
            Values::I8(each) => builder.add_buffer(Buffer::from_vec(take(each))),
            Values::I16(each) => builder.add_buffer(Buffer::from_vec(take(each))),
            Values::I32(each) | Values::Date(each) => {
                builder.add_buffer(Buffer::from_vec(take(each)))
            }
            Values::I64(each) | Values::Instant(each) | Values::Local(each) => {
                builder.add_buffer(Buffer::from_vec(take(each)))
            }
            Values::F32(each) => builder.add_buffer(Buffer::from_vec(take(each))),
            Values::F64(each) => builder.add_buffer(Buffer::from_vec(take(each))),
            Values::Text(each) | Values::Binary(each) => {
                let (offsets, data) = each.take();
                builder.add_buffer(offsets).add_buffer(data)
            }
            Values::Decimal(each) => builder.add_buffer(Buffer::from_vec(take(&mut each.numbers))),
            Values::List(each) => {
                let offsets = std::mem::replace(&mut each.offsets, vec![0]);
                builder
                    .add_buffer(Buffer::from_vec(offsets))
                    .add_child_data(each.items.take())
            }
            Values::Map(each) => {
                let offsets = std::mem::replace(&mut each.offsets, vec![0]);
                let entries = take_entries(&self.data_type, each);
                builder
                    .add_buffer(Buffer::from_vec(offsets))
                    .add_child_data(entries)
            }
            Values::Struct(object) => builder.child_data(object.take()),
        };
        // SAFETY: every value has been appended to all buffers of its column or to none, lists end
        // where their elements do, and texts were checked to be UTF-8 with their record.
        unsafe { builder.build_unchecked() }
    }
}

/// The field of a map's values, from that of its entries.
fn value_of(entry: &Field) -> Result<&Field, String> {
    match entry.data_type() {
        DataType::Struct(pair) if pair.len() == 2 && pair[0].data_type() == &DataType::Utf8 => {
            Ok(&pair[1])
        }
        other => Err(format!("a map of {other}")),
    }
}

fn take_entries(map: &DataType, maps: &mut Maps) -> ArrayData {
    let DataType::Map(entry, _) = map else {
        unreachable!("a map has the type of one")
    };
    let count = maps.keys.len();
    let (offsets, data) = maps.keys.take();
    let keys = ArrayData::builder(DataType::Utf8)
        .len(count)
        .add_buffer(offsets)
        .add_buffer(data);
    // SAFETY: see `Column::take`.
    let keys = unsafe { keys.build_unchecked() };
    let builder = ArrayData::builder(entry.data_type().clone()).len(count);
    // SAFETY: see `Column::take`: a key and a value for each entry.
    unsafe {
        builder
            .add_child_data(keys)
            .add_child_data(maps.items.take())
            .build_unchecked()
    }
}

/// How an object's keys are found: made for its fields.
pub(super) fn keys_of<'a>(fields: impl Iterator<Item = &'a Field>) -> Keys {
    Keys::new(fields.map(|field| field.name().as_bytes().into()).collect())
}
