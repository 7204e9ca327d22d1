//! Record batches of Kafka in answers, which become record batches of Arrow.

use std::collections::VecDeque;
use std::ops::Range;

use arrow_data::ArrayData;

use super::batch::{Aborted, Batch, Unusable};
use super::codecs::Codecs;
use super::columns::Columns;
use super::in_flight::InFlight;
use super::ranges::Ranges;
use super::reading::{Failure, Limits, Problem};

/// The record batches of a partition in an answer.
#[derive(Debug)]
pub(super) struct PartitionBatches {
    pub(super) range: usize,
    pub(super) bytes: Range<usize>,
    pub(super) aborted: Aborted,
}

/// An answer that is decoded, partition by partition.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) node: i32,
    pub(super) bytes: Vec<u8>,
    pub(super) partitions: VecDeque<PartitionBatches>,
}

/// Answers that wait to be decoded, and the Arrow columns that are being filled.
pub(super) struct Assembly {
    answers: VecDeque<Answer>,
    columns: Option<(usize, Columns)>,
    codecs: Codecs,
    has_headers: bool,
}

impl Assembly {
    pub(super) fn new(unpacked_bytes: usize, has_headers: bool) -> Self {
        Assembly {
            answers: VecDeque::new(),
            columns: None,
            codecs: Codecs::new(unpacked_bytes),
            has_headers,
        }
    }

    pub(super) fn push(&mut self, answer: Answer) {
        self.answers.push_back(answer);
    }

    /// Drop everything that was not delivered.
    pub(super) fn clear(&mut self) {
        self.answers.clear();
        self.columns = None;
    }

    /// Decode answers until an Arrow batch is full, or the next records are of another partition.
    pub(super) fn decode(
        &mut self,
        ranges: &mut Ranges,
        limits: &Limits,
        in_flight: &mut InFlight,
    ) -> Result<Option<ArrayData>, Problem> {
        while let Some(answer) = self.answers.front_mut() {
            let Some(next) = answer.partitions.front_mut() else {
                if let Some(done) = self.answers.pop_front() {
                    in_flight.reuse(done.node, done.bytes);
                }
                continue;
            };
            let is_full = self.columns.as_ref().is_some_and(|(range, columns)| {
                columns.rows() > 0
                    && (*range != next.range
                        || columns.rows() >= limits.records
                        || columns.size() >= limits.bytes)
            });
            if is_full {
                return Ok(self.flush(ranges)?);
            }
            let range = &mut ranges.all[next.range];
            let (batch, size) = match Batch::first(&answer.bytes[next.bytes.clone()]) {
                Ok(Some(first)) if range.decoded < range.end => first,
                _ => {
                    answer.partitions.pop_front();
                    continue;
                }
            };
            let topic = &ranges.topics[range.topic];
            let columns = match &mut self.columns {
                Some((at, columns)) if *at == next.range => columns,
                other => &mut other.insert((next.range, Columns::new(self.has_headers))).1,
            };
            let is_first = columns.rows() == 0;
            let wanted = range.decoded..range.end;
            let decoded = next.aborted.committed(&batch, &mut self.codecs, |record| {
                if !wanted.contains(&record.offset) {
                    return Ok(());
                }
                if record.size() > limits.record_bytes {
                    return Err(Unusable::TooLarge(record.offset..record.offset + 1));
                }
                Ok(columns.push(&record, topic.reads_headers)?)
            });
            decoded.map_err(|unusable| match unusable {
                Unusable::TooLarge(offsets) => {
                    Problem::Fatal(Failure::TooLarge(next.range, offsets.start, offsets.end))
                }
                Unusable::Damaged(error) => {
                    Problem::Damaged(format!("{}/{}: {error}", topic.name, range.partition))
                }
            })?;
            next.bytes.start += size;
            range.decoded = range.decoded.max(batch.next_offset());
            if columns.rows() == 0 {
                range.delivered = range.decoded;
            } else if is_first {
                let left = usize::try_from(range.end - range.decoded).unwrap_or(0);
                columns.reserve(limits.records, limits.bytes, left);
            }
        }
        Ok(None)
    }

    /// Return the records that are decoded, if there are any.
    pub(super) fn flush(&mut self, ranges: &mut Ranges) -> Result<Option<ArrayData>, Failure> {
        let Some((at, columns)) = self.columns.take_if(|(_, columns)| columns.rows() > 0) else {
            return Ok(None);
        };
        let range = &mut ranges.all[at];
        let column = &mut ranges.topics[range.topic].column;
        let batch = columns
            .finish(column, range.partition)
            .map_err(|error| Failure::GaveUp(format!("records do not fit in columns: {error}")))?;
        range.delivered = range.decoded;
        Ok(Some(batch))
    }
}
