//! Records as columns of Arrow: topic, partition, offset, timestamp, key, value, and headers on
//! request, as in `ashore.topics.read.record_columns`.

use std::sync::Arc;

use arrow_buffer::{Buffer, NullBuffer, NullBufferBuilder};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Field, Fields, TimeUnit};

use super::batch::Raw;
use super::buffers::BUFFERS;
use super::wire::Parsed;

/// The years 1 to 9999, in milliseconds: no table holds other times.
const TIMES_MS: std::ops::RangeInclusive<i64> = -62_135_596_800_000..=253_402_300_799_999;
const RESERVED: usize = 8192;

/// A builder of a column of bytes.
#[derive(Debug)]
struct Bytes {
    ends: Vec<i32>,
    content: Vec<u8>,
    valid: NullBufferBuilder,
    nulls: usize, // as long as there is nothing else, only they are counted: most have no keys
}

impl Bytes {
    fn new() -> Self {
        Bytes {
            ends: vec![0],
            content: Vec::new(),
            valid: NullBufferBuilder::new(RESERVED),
            nulls: 0,
        }
    }

    fn len(&self) -> usize {
        self.ends.len() - 1 + self.nulls
    }

    /// Append the nulls that were only counted.
    #[cold]
    fn enter_nulls(&mut self) {
        let nulls = std::mem::take(&mut self.nulls);
        self.valid.append_n_nulls(nulls);
        self.ends.resize(self.ends.len() + nulls, 0);
    }

    /// Requires: the whole content is less than 2^31 bytes; the size is checked between batches, and
    /// a batch is less than half of that.
    #[inline]
    fn push(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => {
                if self.nulls > 0 {
                    self.enter_nulls();
                }
                self.content.extend_from_slice(bytes);
                self.valid.append_non_null();
            }
            None if self.ends.len() == 1 => {
                self.nulls += 1;
                return;
            }
            None => self.valid.append_null(),
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // see Requires
        self.ends.push(self.content.len() as i32);
    }

    fn finish(mut self, kind: DataType) -> Result<ArrayData, ArrowError> {
        if self.nulls > 0 {
            self.enter_nulls();
        }
        let rows = self.len();
        let buffers = vec![Buffer::from_vec(self.ends), BUFFERS.lend(self.content)];
        array(kind, rows, self.valid.finish(), buffers, vec![])
    }
}

fn array(
    kind: DataType,
    rows: usize,
    nulls: Option<NullBuffer>,
    buffers: Vec<Buffer>,
    children: Vec<ArrayData>,
) -> Result<ArrayData, ArrowError> {
    ArrayData::builder(kind)
        .len(rows)
        .nulls(nulls)
        .buffers(buffers)
        .child_data(children)
        .build()
}

/// A builder of the column of headers.
#[derive(Debug)]
struct Headers {
    ends: Vec<i32>,
    valid: NullBufferBuilder,
    keys: Bytes,
    values: Bytes,
}

/// A builder of a record batch of Arrow, for records of one partition.
#[derive(Debug)]
pub(super) struct Columns {
    offsets: Vec<i64>,
    times_us: Vec<i64>,
    times_valid: NullBufferBuilder,
    keys: Bytes,
    values: Bytes,
    headers: Option<Headers>,
}

impl Columns {
    pub(super) fn new(has_headers: bool) -> Self {
        Columns {
            offsets: Vec::new(),
            times_us: Vec::new(),
            times_valid: NullBufferBuilder::new(RESERVED),
            keys: Bytes::new(),
            values: Bytes::new(),
            headers: has_headers.then(|| Headers {
                ends: vec![0],
                valid: NullBufferBuilder::new(RESERVED),
                keys: Bytes::new(),
                values: Bytes::new(),
            }),
        }
    }

    pub(super) fn rows(&self) -> usize {
        self.offsets.len()
    }

    /// Bytes of keys, values and headers.
    pub(super) fn size(&self) -> usize {
        let size = self.keys.content.len() + self.values.content.len();
        let headers = self.headers.as_ref();
        size + headers.map_or(0, |each| {
            each.keys.content.len() + each.values.content.len()
        })
    }

    /// Reserve space for more records of the same size: a buffer that doubles is copied, and each
    /// page of a new large one costs a page fault.
    ///
    /// `records`, `bytes`: the limits of the whole batch, which the last batch of Kafka may exceed.
    /// `left`: the most records that may follow.
    pub(super) fn reserve(&mut self, records: usize, bytes: usize, left: usize) {
        let (rows, size) = (self.rows(), self.size().max(1));
        let all = records.min(bytes.saturating_mul(rows) / size);
        let all = (all + all / 8).min(rows.saturating_add(left));
        let Some(more) = all.checked_sub(rows) else {
            return;
        };
        self.offsets.reserve_exact(more);
        self.times_us.reserve_exact(more);
        for column in [&mut self.keys, &mut self.values] {
            column
                .ends
                .reserve_exact((column.ends.len() - 1) * more / rows);
            let content = std::mem::take(&mut column.content);
            let more = content.len().saturating_mul(more) / rows;
            column.content = BUFFERS.grow(content, more, bytes + bytes / 8);
        }
    }

    /// Append a record. `reads_headers`: false leaves them null.
    #[inline]
    pub(super) fn push(&mut self, record: &Raw<'_>, reads_headers: bool) -> Parsed<()> {
        self.offsets.push(record.offset);
        if TIMES_MS.contains(&record.time_ms) {
            self.times_us.push(record.time_ms * 1000);
            self.times_valid.append_non_null();
        } else {
            self.times_us.push(0);
            self.times_valid.append_null();
        }
        self.keys.push(record.key);
        self.values.push(record.value);
        match &mut self.headers {
            Some(headers) => headers.push(record, reads_headers),
            None => Ok(()),
        }
    }

    /// Return the appended records as a structure.
    pub(super) fn finish(
        self,
        topic: &mut TopicColumn,
        partition: i32,
    ) -> Result<ArrayData, ArrowError> {
        let (rows, mut times_valid) = (self.offsets.len(), self.times_valid);
        let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let numbers = |kind, buffer, nulls| array(kind, rows, nulls, vec![buffer], vec![]);
        let mut columns = vec![
            topic.first(rows)?,
            numbers(
                DataType::Int32,
                Buffer::from_vec(vec![partition; rows]),
                None,
            )?,
            numbers(DataType::Int64, Buffer::from_vec(self.offsets), None)?,
            numbers(time, Buffer::from_vec(self.times_us), times_valid.finish())?,
            self.keys.finish(DataType::Binary)?,
            self.values.finish(DataType::Binary)?,
        ];
        if let Some(headers) = self.headers {
            columns.push(headers.finish()?);
        }
        let names = [
            "topic",
            "partition",
            "offset",
            "timestamp",
            "key",
            "value",
            "headers",
        ];
        let fields: Fields = names
            .iter()
            .zip(&columns)
            .map(|(name, column)| Field::new(*name, column.data_type().clone(), true))
            .collect();
        array(DataType::Struct(fields), rows, None, vec![], columns)
    }
}

impl Headers {
    fn push(&mut self, record: &Raw<'_>, reads_headers: bool) -> Parsed<()> {
        let mut count = 0;
        if reads_headers {
            let Headers { keys, values, .. } = self;
            count = record.each_header(|key, value| {
                // What is not UTF-8 is replaced, as Java's client does it.
                keys.push(Some(String::from_utf8_lossy(key).as_bytes()));
                values.push(value);
                Ok(())
            })?;
        }
        self.valid.append(count > 0);
        #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]
        // as of `Bytes::push`
        self.ends.push(self.keys.len() as i32);
        Ok(())
    }

    fn finish(mut self) -> Result<ArrayData, ArrowError> {
        let (rows, pairs) = (self.ends.len() - 1, self.keys.len());
        let (keys, values) = (
            self.keys.finish(DataType::Utf8)?,
            self.values.finish(DataType::Binary)?,
        );
        let fields: Fields = vec![
            Field::new("key", DataType::Utf8, true),
            Field::new("value", DataType::Binary, true),
        ]
        .into();
        let pair = DataType::Struct(fields);
        let element = Field::new("element", pair.clone(), true);
        let pairs = array(pair, pairs, None, vec![], vec![keys, values])?;
        let list = DataType::List(Arc::new(element));
        let buffers = vec![Buffer::from_vec(self.ends)];
        array(list, rows, self.valid.finish(), buffers, vec![pairs])
    }
}

/// A column with a topic's name in each row, which batches share.
#[derive(Debug)]
pub(super) struct TopicColumn {
    name: String,
    filled: Option<ArrayData>,
}

impl TopicColumn {
    pub(super) fn new(name: String) -> Self {
        TopicColumn { name, filled: None }
    }

    /// Return a column of `rows` rows. Requires: the names together are less than 2^31 bytes; a name
    /// of Kafka has 249 at most, and a batch of a few million records is full before.
    fn first(&mut self, rows: usize) -> Result<ArrayData, ArrowError> {
        if let Some(filled) = self.filled.as_ref().filter(|filled| filled.len() >= rows) {
            return Ok(filled.slice(0, rows));
        }
        let room = rows.next_power_of_two();
        let size = self.name.len();
        let mut ends = Vec::with_capacity(room + 1);
        for row in 0..=room {
            let end = i32::try_from(row * size);
            ends.push(end.map_err(|_| ArrowError::InvalidArgumentError("too many rows".into()))?);
        }
        let buffers = vec![
            Buffer::from_vec(ends),
            Buffer::from_vec(self.name.as_bytes().repeat(room)),
        ];
        let filled = array(DataType::Utf8, room, None, buffers, vec![])?;
        self.filled = Some(filled.clone());
        Ok(filled.slice(0, rows))
    }
}
