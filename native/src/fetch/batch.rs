//! Record batches of message format 2, and which of them are committed.
//!
//! A batch is used only if its CRC is correct, and its records only if they fill it exactly, in
//! order, within its offsets. Older formats are detected and left to another reader.

use std::collections::HashSet;
use std::ops::Range;

use super::codecs::{Codecs, Unpacked};
use super::wire::{Cursor, Malformed, Parsed, malformed};

const PREFIX_BYTES: usize = 12; // base offset and length; the length counts what follows
const HEADER_BYTES: usize = 61;
const MAGIC_AT: usize = 16;
pub(super) const CRC_AT: usize = 17;
pub(super) const CRC_FROM: usize = 21;
const CODEC: i16 = 7;
const LOG_APPEND_TIME: i16 = 8;
const TRANSACTIONAL: i16 = 0x10;
const CONTROL: i16 = 0x20;
const ABORT: i16 = 0; // the type in the key of a control record
const NO_PRODUCER: i64 = -1;

/// Why a batch is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unread {
    /// It has another message format, for another reader.
    Format(i8),
    /// It is damaged.
    Damaged(String),
}

impl From<super::wire::Malformed> for Unread {
    fn from(error: super::wire::Malformed) -> Self {
        Unread::Damaged(error.0)
    }
}

/// Why the records of a batch are not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unusable {
    /// They are damaged.
    Damaged(Malformed),
    /// These offsets exceed a limit of bytes: of a record, or of the whole batch.
    TooLarge(Range<i64>),
}

impl From<Malformed> for Unusable {
    fn from(error: Malformed) -> Self {
        Unusable::Damaged(error)
    }
}

/// A batch as its header describes it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Batch<'a> {
    bytes: &'a [u8],
    pub(super) base_offset: i64,
    pub(super) leader_epoch: i32,
    attributes: i16,
    last_delta: i32,
    base_ms: i64,
    max_ms: i64,
    producer: i64,
    count: i32,
}

impl<'a> Batch<'a> {
    /// Take the first batch of `bytes`, and return it with its size; None: it is not complete.
    pub(super) fn first(bytes: &'a [u8]) -> Result<Option<(Self, usize)>, Unread> {
        if bytes.len() <= MAGIC_AT {
            return Ok(None);
        }
        let magic = bytes[MAGIC_AT].cast_signed();
        if magic != 2 {
            return Err(Unread::Format(magic));
        }
        let mut from = Cursor::new(bytes);
        let (base_offset, length) = (from.i64()?, from.i32()?);
        let size = usize::try_from(length).unwrap_or(0) + PREFIX_BYTES;
        if size < HEADER_BYTES {
            return Err(Unread::Damaged("a batch is shorter than its header".into()));
        }
        if size > bytes.len() {
            return Ok(None);
        }
        let leader_epoch = from.i32()?;
        from.take(CRC_FROM - MAGIC_AT)?;
        let (attributes, last_delta) = (from.i16()?, from.i32()?);
        let (base_ms, max_ms, producer) = (from.i64()?, from.i64()?, from.i64()?);
        from.take(6)?; // the producer's epoch, and the number of its first record
        let batch = Batch {
            bytes: &bytes[..size],
            base_offset,
            leader_epoch,
            attributes,
            last_delta,
            base_ms,
            max_ms,
            producer,
            count: from.i32()?,
        };
        let is_possible = base_offset >= 0
            && last_delta >= 0
            && base_offset.checked_add(i64::from(last_delta) + 1).is_some();
        if !is_possible {
            return Err(Unread::Damaged("a batch has impossible offsets".into()));
        }
        Ok(Some((batch, size)))
    }

    /// The offset after the last of the batch, whether or not that has a record.
    pub(super) fn next_offset(&self) -> i64 {
        self.base_offset + i64::from(self.last_delta) + 1
    }

    fn has(&self, attribute: i16) -> bool {
        self.attributes & attribute != 0
    }

    /// Compare the CRC, which covers every byte that affects records.
    pub(super) fn check(&self) -> Parsed<()> {
        let wanted = Cursor::new(&self.bytes[CRC_AT..]).u32()?;
        if crc32c::crc32c(&self.bytes[CRC_FROM..]) != wanted {
            return malformed(&format!(
                "the CRC of the batch at offset {} is wrong",
                self.base_offset
            ));
        }
        Ok(())
    }

    /// Pass each record to `take`, in order. Requires: the CRC was compared.
    fn each<'b>(
        &'b self,
        codecs: &'b mut Codecs,
        mut take: impl FnMut(Raw<'_>) -> Result<(), Unusable>,
    ) -> Result<(), Unusable> {
        let packed = &self.bytes[HEADER_BYTES..];
        let records = codecs.unpack(self.attributes & CODEC, packed);
        let mut from = Cursor::new(records.map_err(|error| match error {
            Unpacked::Damaged(error) => Unusable::Damaged(error),
            Unpacked::TooLarge => Unusable::TooLarge(self.base_offset..self.next_offset()),
        })?);
        let mut next = self.base_offset;
        for _ in 0..self.count {
            let Some(body) = from.nullable()? else {
                return Ok(malformed("a record has no size")?);
            };
            let record = self.read(body)?;
            if record.offset < next || record.offset >= self.next_offset() {
                return Ok(malformed("a record is out of its batch, or out of order")?);
            }
            next = record.offset + 1;
            take(record)?;
        }
        if from.left() > 0 || self.count < 0 {
            return Ok(malformed(
                "a batch does not hold the records that it counts",
            )?);
        }
        Ok(())
    }

    #[inline]
    fn read<'b>(&self, body: &'b [u8]) -> Parsed<Raw<'b>> {
        let mut from = Cursor::new(body);
        from.take(1)?; // attributes: none are in use
        let (ms, delta) = (from.varint()?, from.varint()?);
        let (key, value) = (from.nullable()?, from.nullable()?);
        Ok(Raw {
            offset: self.base_offset.wrapping_add(delta),
            time_ms: if self.has(LOG_APPEND_TIME) {
                self.max_ms
            } else {
                self.base_ms.wrapping_add(ms)
            },
            key,
            value,
            headers: &body[from.at()..],
        })
    }
}

/// One record, in the bytes of its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Raw<'a> {
    pub(super) offset: i64,
    pub(super) time_ms: i64,
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
    headers: &'a [u8],
}

impl<'a> Raw<'a> {
    /// Bytes of key, value and headers.
    #[inline]
    pub(super) fn size(&self) -> usize {
        self.key.map_or(0, <[u8]>::len) + self.value.map_or(0, <[u8]>::len) + self.headers.len()
    }

    /// Pass each header to `take`, and return the number of headers.
    pub(super) fn each_header(
        &self,
        mut take: impl FnMut(&'a [u8], Option<&'a [u8]>) -> Parsed<()>,
    ) -> Parsed<usize> {
        let mut from = Cursor::new(self.headers);
        let Ok(count) = usize::try_from(from.varint()?) else {
            return malformed("a record has fewer headers than none");
        };
        for _ in 0..count {
            let Some(key) = from.nullable()? else {
                return malformed("a header has no key");
            };
            take(key, from.nullable()?)?;
        }
        if from.left() > 0 {
            return malformed("something follows the headers of a record");
        }
        Ok(count)
    }
}

/// The producers whose transactions are aborted, while the batches of an answer are read.
#[derive(Debug)]
pub(super) struct Aborted {
    ahead: std::iter::Peekable<std::vec::IntoIter<(i64, i64)>>,
    producers: HashSet<i64>,
}

impl Aborted {
    /// `transactions`: producer and first offset of each, in order of the latter.
    pub(super) fn new(transactions: Vec<(i64, i64)>) -> Self {
        Aborted {
            ahead: transactions.into_iter().peekable(),
            producers: HashSet::new(),
        }
    }

    /// Pass the committed records of the next batch to `take`, after its CRC is compared.
    pub(super) fn committed(
        &mut self,
        batch: &Batch<'_>,
        codecs: &mut Codecs,
        take: impl FnMut(Raw<'_>) -> Result<(), Unusable>,
    ) -> Result<(), Unusable> {
        batch.check()?;
        let end = batch.next_offset();
        while let Some((producer, _)) = self.ahead.next_if(|&(_, first)| first < end) {
            self.producers.insert(producer);
        }
        if batch.has(CONTROL) {
            return self.pass_marker(batch, codecs);
        }
        let is_dropped = batch.has(TRANSACTIONAL)
            && batch.producer != NO_PRODUCER
            && self.producers.contains(&batch.producer);
        if is_dropped {
            return Ok(());
        }
        batch.each(codecs, take)
    }

    /// An abort marker ends its transaction: the producer's next records belong to another one.
    fn pass_marker(&mut self, batch: &Batch<'_>, codecs: &mut Codecs) -> Result<(), Unusable> {
        let mut is_abort = false;
        batch.each(codecs, |marker| {
            let mut key = Cursor::new(marker.key.unwrap_or_default());
            key.i16()?; // its version
            is_abort |= key.i16()? == ABORT;
            Ok(())
        })?;
        if is_abort {
            self.producers.remove(&batch.producer);
        }
        Ok(())
    }
}

/// How far the batches of a partition reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reach {
    /// The offset to fetch next.
    pub(super) next: i64,
    /// Of the last batch.
    pub(super) leader_epoch: i32,
    /// Of the complete batches.
    pub(super) bytes: usize,
}

/// Return how far the complete batches of an answer reach, from their headers alone.
///
/// Batches are in order; `position` is the offset that was fetched.
pub(super) fn reach(bytes: &[u8], position: i64) -> Result<Reach, Unread> {
    let mut found = Reach {
        next: position,
        leader_epoch: -1,
        bytes: 0,
    };
    let mut least = 0;
    while let Some((batch, size)) = Batch::first(&bytes[found.bytes..])? {
        if batch.base_offset < least {
            return Err(Unread::Damaged("batches are out of order".into()));
        }
        least = batch.next_offset();
        found = Reach {
            next: least.max(position),
            leader_epoch: batch.leader_epoch,
            bytes: found.bytes + size,
        };
    }
    Ok(found)
}
