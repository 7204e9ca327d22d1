//! The ranges of a reading: how far each is, and which are fetched side by side.

use std::collections::HashMap;

use super::columns::TopicColumn;
use super::protocol::TopicId;

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
    pub(super) id: Option<TopicId>, // None: not asked yet
    pub(super) is_expected: bool,   // `id` was told by who wants the records
    pub(super) column: TopicColumn,
    pub(super) reads_headers: bool,
    pub(super) bytes_per_offset: Option<f64>, // as fetched; None: nothing was
}

/// How far a range is. `start <= delivered <= decoded <= fetched`.
#[derive(Debug)]
pub(super) struct Progress {
    pub(super) topic: usize,
    pub(super) partition: i32,
    pub(super) end: i64,
    /// The next offset to fetch.
    pub(super) fetched: i64,
    /// The next offset whose batch is to be decoded.
    pub(super) decoded: i64,
    /// The next offset that the reader of this reading has not got.
    pub(super) delivered: i64,
    /// Ranges of one wave are fetched side by side, waves one after another.
    pub(super) wave: usize,
    pub(super) leader: Option<i32>,
    pub(super) leader_epoch: i32, // the highest that was heard of; -1: none
    pub(super) last_epoch: i32,   // of the last batch before `fetched`; -1: none was fetched
    pub(super) in_flight: bool,
    /// When records came last, by the number of the answer: who waits longest is asked for first.
    pub(super) served: u64,
    /// How often there was nothing where there should be something.
    pub(super) empty: u32,
}

impl Progress {
    pub(super) fn is_fetched(&self) -> bool {
        self.fetched >= self.end
    }

    /// Go back to what was delivered.
    pub(super) fn rewind(&mut self) {
        self.fetched = self.delivered;
        self.decoded = self.delivered;
        self.last_epoch = -1;
        self.in_flight = false;
        self.leader = None;
    }
}

/// Arrange ranges, in their order. Small ones are read side by side, as a fetch each would cost more
/// than their records; a wave is no more than `wave_records`, so that records of a partition come in
/// few stretches.
pub(super) fn arrange(
    ranges: &[Range],
    with_headers: &[String],
    ids: &HashMap<String, TopicId>,
    wave_records: i64,
) -> (Vec<Topic>, Vec<Progress>) {
    let (mut topics, mut found): (Vec<Topic>, Vec<Progress>) = (Vec::new(), Vec::new());
    let (mut wave, mut records) = (0, 0_i64);
    for range in ranges {
        let size = range.end.saturating_sub(range.start).max(0);
        if records > 0 && records.saturating_add(size) > wave_records {
            (wave, records) = (wave + 1, 0);
        }
        records = records.saturating_add(size);
        let topic = topics.iter().position(|each| each.name == range.topic);
        found.push(Progress {
            topic: topic.unwrap_or(topics.len()),
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
            topics.push(Topic {
                name: range.topic.clone(),
                id: ids.get(&range.topic).copied(),
                is_expected: ids.contains_key(&range.topic),
                column: TopicColumn::new(range.topic.clone()),
                reads_headers: with_headers.contains(&range.topic),
                bytes_per_offset: None,
            });
        }
    }
    (topics, found)
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
        let (topics, found) = arrange(&ranges, &[], &HashMap::new(), 100);
        let waves: Vec<_> = found.iter().map(|each| each.wave).collect();
        assert_eq!((topics.len(), waves), (1, vec![0, 0, 1, 2, 3, 4, 4]));
    }
}
