//! The ranges of a reading: their progress, and which are fetched side by side.

use std::collections::{BTreeMap, HashMap};

use super::batch::Reach;
use super::columns::TopicColumn;
use super::protocol::{Fetched, Named, TopicId, Wanted};

pub(super) const LEAST_FETCH: i32 = 64 << 10;

/// A range of a partition: committed records from `start` to before `end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// The topic's name.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The first offset.
    pub start: i64,
    /// The offset after the last.
    pub end: i64,
}

/// A topic of a reading.
#[derive(Debug)]
pub(super) struct Topic {
    pub(super) name: String,
    pub(super) id: Option<TopicId>, // None: not known yet
    pub(super) is_expected: bool,   // the caller named `id`
    pub(super) column: TopicColumn,
    pub(super) reads_headers: bool,
    pub(super) bytes_per_offset: Option<f64>, // of the last answer; None: there was none
}

/// How far a range is read. `start <= delivered <= decoded <= fetched`.
#[derive(Debug)]
pub(super) struct Progress {
    pub(super) topic: usize,
    pub(super) partition: i32,
    pub(super) end: i64,
    /// The next offset to fetch.
    pub(super) fetched: i64,
    /// The next offset whose batch is to be decoded.
    pub(super) decoded: i64,
    /// The next offset that the caller does not have.
    pub(super) delivered: i64,
    /// Ranges of one wave are fetched side by side, waves one after another.
    pub(super) wave: usize,
    pub(super) leader: Option<i32>,
    pub(super) leader_epoch: i32, // the highest that is known; -1: none
    pub(super) last_epoch: i32,   // of the last batch before `fetched`; -1: none was fetched
    pub(super) in_flight: bool,
    /// The number of the last answer with records: the range that waits longest is first in a fetch.
    pub(super) served: u64,
    /// Answers in a row without the records that should be there.
    pub(super) empty: u32,
}

impl Progress {
    pub(super) fn is_fetched(&self) -> bool {
        self.fetched >= self.end
    }
}

/// The ranges of a reading, each identified by its index, and their topics.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    pub(super) topics: Vec<Topic>,
    pub(super) all: Vec<Progress>,
}

impl Ranges {
    /// Arrange ranges, in their order. Small ones are read side by side, as a fetch each would cost
    /// more than their records; a wave has at most `wave_records`, so that records of a partition
    /// arrive in few batches.
    pub(super) fn arrange(
        ranges: &[Range],
        with_headers: &[String],
        ids: &HashMap<String, TopicId>,
        wave_records: i64,
    ) -> Self {
        let mut found = Ranges::default();
        let (mut wave, mut records) = (0, 0_i64);
        for range in ranges {
            let size = range.end.saturating_sub(range.start).max(0);
            if records > 0 && records.saturating_add(size) > wave_records {
                (wave, records) = (wave + 1, 0);
            }
            records = records.saturating_add(size);
            let mut topics = found.topics.iter();
            let topic = topics.position(|each| each.name == range.topic);
            found.all.push(Progress {
                topic: topic.unwrap_or(found.topics.len()),
                partition: range.partition,
                end: range.end,
                fetched: range.start,
                decoded: range.start,
                delivered: range.start,
                wave,
                leader: None,
                leader_epoch: -1,
                last_epoch: -1,
                in_flight: false,
                served: 0,
                empty: 0,
            });
            if topic.is_none() {
                found.topics.push(Topic {
                    name: range.topic.clone(),
                    id: ids.get(&range.topic).copied(),
                    is_expected: ids.contains_key(&range.topic),
                    column: TopicColumn::new(range.topic.clone()),
                    reads_headers: with_headers.contains(&range.topic),
                    bytes_per_offset: None,
                });
            }
        }
        found
    }

    pub(super) fn are_decoded(&self) -> bool {
        self.all.iter().all(|each| each.decoded >= each.end)
    }

    /// Return a range's topic and partition, for people.
    pub(super) fn describe(&self, at: usize) -> String {
        let range = &self.all[at];
        format!("{}/{}", self.topics[range.topic].name, range.partition)
    }

    /// Return the ranges of the first unfinished wave that can be fetched now, by leader.
    pub(super) fn by_leader(&self) -> BTreeMap<Option<i32>, Vec<usize>> {
        let mut found: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        let unfetched = self.all.iter().filter(|each| !each.is_fetched());
        let wave = unfetched.map(|each| each.wave).min();
        for (at, range) in self.all.iter().enumerate() {
            if Some(range.wave) == wave && !range.is_fetched() && !range.in_flight {
                found.entry(range.leader).or_default().push(at);
            }
        }
        for ranges in found.values_mut() {
            ranges.sort_by_key(|&at| self.all[at].served);
        }
        found
    }

    /// Return the request for the next batches of a range: not many more bytes than are left.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // an estimate, bounded
    pub(super) fn to_fetch(&self, at: usize, max_bytes: i32) -> Wanted {
        let range = &self.all[at];
        let bytes = |mean: f64| {
            let left = (range.end - range.fetched) as f64 * mean * 1.2;
            let left = left.min(f64::from(max_bytes)) as i32;
            left.clamp(LEAST_FETCH.min(max_bytes), max_bytes)
        };
        Wanted {
            partition: range.partition,
            offset: range.fetched,
            leader_epoch: range.leader_epoch,
            last_epoch: range.last_epoch,
            max_bytes: self.topics[range.topic]
                .bytes_per_offset
                .map_or(max_bytes, bytes),
        }
    }

    /// Whether an answer's partition is that of a range.
    pub(super) fn matches(&self, at: usize, fetched: &Fetched) -> bool {
        let range = &self.all[at];
        let topic = &self.topics[range.topic];
        range.partition == fetched.partition
            && match &fetched.topic {
                Named::Name(name) => topic.name == *name,
                Named::Id(id) => topic.id == Some(*id),
            }
    }

    /// Store that the batches of an answer arrived, the one of this number.
    pub(super) fn advance(&mut self, at: usize, reach: Reach, answer: u64) {
        let range = &mut self.all[at];
        #[allow(clippy::cast_precision_loss)] // an estimate
        let mean = reach.bytes as f64 / (reach.next - range.fetched) as f64;
        self.topics[range.topic].bytes_per_offset = Some(mean);
        range.fetched = reach.next;
        range.last_epoch = reach.leader_epoch;
        range.served = answer;
        range.empty = 0;
    }

    /// After a failed fetch: ranges are not in flight, and their leader is unknown.
    pub(super) fn release(&mut self, indices: &[usize]) {
        for &at in indices {
            self.all[at].in_flight = false;
            self.all[at].leader = None;
        }
    }

    /// Return to what was delivered.
    pub(super) fn rewind(&mut self) {
        for range in &mut self.all {
            range.fetched = range.delivered;
            range.decoded = range.delivered;
            range.last_epoch = -1;
            range.in_flight = false;
            range.leader = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(topic: &str, partition: i32, size: i64) -> Range {
        Range {
            topic: topic.into(),
            partition,
            start: 0,
            end: size,
        }
    }

    #[test]
    fn small_ranges_share_a_wave_and_large_ones_have_their_own() {
        let sizes = [10, 20, 100, 5, 1_000, 0, 3];
        let ranges: Vec<_> = (0..)
            .zip(sizes)
            .map(|(at, size)| range("t", at, size))
            .collect();
        let found = Ranges::arrange(&ranges, &[], &HashMap::new(), 100);
        let waves: Vec<_> = found.all.iter().map(|each| each.wave).collect();
        assert_eq!((found.topics.len(), waves), (1, vec![0, 0, 1, 2, 3, 4, 4]));
    }
}
