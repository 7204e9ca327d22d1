//! Fetches in flight: at most one per broker, and the checks of their answers.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::time::{Duration, Instant};

use super::assembly::{Answer, PartitionBatches};
use super::batch::{Aborted, Reach, Unread, reach};
use super::connection::{Connection, ConnectionError, Due, wait_for_any};
use super::idle::Connector;
use super::leaders::Leaders;
use super::protocol::{
    self, Bounds, FETCH, FETCH_BY_ID, FetchAnswer, Fetched, NO_ID, Wanted, code,
};
use super::ranges::Ranges;
use super::reading::{Failure, Problem};

const BROKER_WAITS_MS: i32 = 100; // for the first byte: the records exist, unless leaders move
const EMPTY_ANSWERS: u32 = 5; // in a row, of a partition that has the range: give up

/// A broker that leads ranges.
struct Link {
    connection: Connection,
    due: Option<(Due, Vec<usize>)>,
    not_before: Instant,
}

/// Connections to leaders, each with at most one fetch in flight.
#[derive(Default)]
pub(super) struct InFlight {
    links: BTreeMap<i32, Link>,
    /// Whether a fetch did not name the expected ids of its topics.
    pub(super) is_by_name: bool,
    pub(super) fetches: u64,
    pub(super) bytes: u64,
}

impl InFlight {
    /// Fetch the next batches of ranges from their leader, unless it is busy or throttles.
    pub(super) fn fetch(
        &mut self,
        node: i32,
        indices: &[usize],
        max_bytes: i32,
        ranges: &mut Ranges,
    ) -> Result<(), ConnectionError> {
        let is_ready = |link: &&mut Link| link.due.is_none() && link.not_before <= Instant::now();
        let Some(link) = self.links.get_mut(&node).filter(is_ready) else {
            return Ok(());
        };
        let mut wanted: Vec<(usize, Vec<Wanted>)> = Vec::new();
        for &at in indices {
            ranges.all[at].in_flight = true;
            let topic = ranges.all[at].topic;
            let partition = ranges.to_fetch(at, max_bytes);
            match wanted.iter_mut().find(|each| each.0 == topic) {
                Some(each) => each.1.push(partition),
                None => wanted.push((topic, vec![partition])),
            }
        }
        let are_expected = wanted.iter().all(|each| ranges.topics[each.0].is_expected);
        let named = wanted.into_iter().map(|(at, wanted)| {
            let topic = &ranges.topics[at];
            (topic.name.as_str(), topic.id.unwrap_or(NO_ID), wanted)
        });
        let topics: Vec<_> = named.collect();
        let have_ids = topics.iter().all(|each| each.1 != NO_ID);
        let version = protocol::fetch_version(link.connection.versions(), have_ids);
        self.is_by_name |= !are_expected || version < FETCH_BY_ID;
        let bounds = Bounds {
            max_bytes,
            max_wait_ms: BROKER_WAITS_MS,
        };
        let due = link.connection.send(FETCH, version, |out| {
            protocol::write_fetch(out, version, bounds, &topics);
        })?;
        link.due = Some((due, indices.to_vec()));
        Ok(())
    }

    /// Connect to a broker, unless there is a connection.
    pub(super) fn connect(
        &mut self,
        node: i32,
        leaders: &Leaders,
        connector: &Connector,
    ) -> Result<(), ConnectionError> {
        if let Entry::Vacant(place) = self.links.entry(node) {
            place.insert(Link {
                connection: connector.connect(leaders.address(node)?)?,
                due: None,
                not_before: Instant::now(),
            });
        }
        Ok(())
    }

    /// Close the connection to a broker; return the ranges of its fetch.
    pub(super) fn disconnect(&mut self, node: i32) -> Vec<usize> {
        let due = self.links.remove(&node).and_then(|link| link.due);
        due.map_or(Vec::new(), |(_, indices)| indices)
    }

    /// Close all connections, except those without a fetch in flight, which are returned.
    pub(super) fn disconnect_all(&mut self) -> impl Iterator<Item = Connection> + use<> {
        let links = std::mem::take(&mut self.links).into_values();
        let idle = links.filter(|link| link.due.is_none());
        idle.map(|link| link.connection)
    }

    pub(super) fn nodes(&self) -> Vec<i32> {
        self.links.keys().copied().collect()
    }

    fn due(&self) -> impl Iterator<Item = &Connection> {
        let due = self.links.values().filter(|link| link.due.is_some());
        due.map(|link| &link.connection)
    }

    /// Return how far the answers in flight have arrived, for people.
    pub(super) fn describe(&self) -> String {
        let texts = self.due().map(Connection::describe_due);
        texts.map(|text| format!("; {text}")).collect()
    }

    /// Wait until bytes arrive; return false where no fetch is in flight.
    pub(super) fn wait(&self, at_most: Duration) -> io::Result<bool> {
        let connections: Vec<_> = self.due().collect();
        let is_waiting = !connections.is_empty();
        if is_waiting {
            wait_for_any(connections, at_most)?;
        }
        Ok(is_waiting)
    }

    /// Reuse the buffer of an answer for the next one.
    pub(super) fn reuse(&mut self, node: i32, buffer: Vec<u8>) {
        if let Some(link) = self.links.get_mut(&node) {
            link.connection.reuse(buffer);
        }
    }

    /// Read what has arrived from a broker: an answer with records, if it is complete, and whether
    /// anything arrived.
    pub(super) fn receive(
        &mut self,
        node: i32,
        ranges: &mut Ranges,
        leaders: &mut Leaders,
    ) -> Result<(Option<Answer>, bool), Problem> {
        let Some(link) = self.links.get_mut(&node).filter(|each| each.due.is_some()) else {
            return Ok((None, false));
        };
        let (answer, has_come) = link.connection.receive()?;
        let Some((bytes, (due, indices))) =
            answer.and_then(|bytes| Some((bytes, link.due.take()?)))
        else {
            return Ok((None, has_come));
        };
        self.fetches += 1;
        self.bytes += bytes.len() as u64;
        for &at in &indices {
            ranges.all[at].in_flight = false;
        }
        let checked = link
            .read(due, &bytes, leaders)
            .and_then(|answer| check_answer(answer, &indices, &bytes, ranges, leaders));
        let partitions = checked.inspect_err(|_| ranges.release(&indices))?;
        if partitions.is_empty() {
            link.connection.reuse(bytes);
            return Ok((None, true));
        }
        for (each, reach) in &partitions {
            ranges.advance(each.range, *reach, self.fetches);
        }
        let partitions = partitions.into_iter().map(|each| each.0).collect();
        let answer = Answer {
            node,
            bytes,
            partitions,
        };
        Ok((Some(answer), true))
    }
}

impl Link {
    fn read(
        &mut self,
        due: Due,
        bytes: &[u8],
        leaders: &mut Leaders,
    ) -> Result<FetchAnswer, Problem> {
        let answer = protocol::read_fetch(bytes, due.correlation, due.version)
            .map_err(|error| self.connection.damaged(&error))?;
        if answer.throttle_ms > 0 {
            let pause = Duration::from_millis(answer.throttle_ms.unsigned_abs().into());
            self.not_before = Instant::now() + pause;
            let address = self.connection.address();
            leaders.last_problem = format!("{address} throttles for {pause:?}");
        }
        Ok(answer)
    }
}

/// Return the batches of each partition in an answer, and how far they reach. No range advances: an
/// answer is used as a whole or not at all.
pub(super) fn check_answer(
    answer: FetchAnswer,
    indices: &[usize],
    bytes: &[u8],
    ranges: &mut Ranges,
    leaders: &mut Leaders,
) -> Result<Vec<(PartitionBatches, Reach)>, Problem> {
    if answer.error != 0 {
        let text = format!("a fetch is refused with error {}", answer.error);
        return Err(Problem::Damaged(text));
    }
    let (mut found, mut left) = (Vec::new(), indices.to_vec());
    for fetched in answer.partitions {
        let Some(place) = left.iter().position(|&at| ranges.matches(at, &fetched)) else {
            let text = "an answer has what was not asked for".into();
            return Err(Problem::Damaged(text));
        };
        let at = left.remove(place);
        let is_first = Some(&at) == indices.first();
        if let Some(reach) = check_partition(&fetched, at, is_first, bytes, ranges, leaders)? {
            let batches = PartitionBatches {
                range: at,
                bytes: fetched.records,
                aborted: Aborted::new(fetched.aborted),
            };
            found.push((batches, reach));
        }
    }
    Ok(found)
}

/// Return how far the batches of a partition reach; None: there are none. `is_first`: it was first
/// in the request, so that it returns a batch if it has the range.
fn check_partition(
    fetched: &Fetched,
    at: usize,
    is_first: bool,
    bytes: &[u8],
    ranges: &mut Ranges,
    leaders: &mut Leaders,
) -> Result<Option<Reach>, Problem> {
    let place = ranges.describe(at);
    let range = &mut ranges.all[at];
    let gone = |text| Err(Problem::Fatal(Failure::Gone(at, range.fetched, text)));
    if fetched.error == code::OFFSET_OUT_OF_RANGE {
        return gone("Broker: Offset out of range".to_owned());
    }
    if fetched.error != 0 {
        let mut retriable = code::RETRIABLE.iter();
        let Some((_, name)) = retriable.find(|each| each.0 == fetched.error) else {
            let text = format!("the leader of {place} answers with error {}", fetched.error);
            return Err(Problem::Fatal(Failure::GaveUp(text)));
        };
        range.leader = None;
        leaders.retry(format!("{place}: {name}"));
        return Ok(None);
    }
    if let Some((epoch, end)) = fetched.diverging {
        return gone(format!(
            "its leader has another history: epoch {epoch} ends at offset {end} there"
        ));
    }
    let records = &bytes[fetched.records.clone()];
    if !records.is_empty() {
        return check_reach(records, range.fetched, &place).map(Some);
    }
    if fetched.stable_end < range.end {
        let end = fetched.stable_end;
        leaders.last_problem = format!("{place} is stable only up to offset {end}");
    } else if is_first {
        range.empty += 1;
        if range.empty >= EMPTY_ANSWERS {
            let text = format!("{place} has nothing at offset {}", range.fetched);
            return Err(Problem::Fatal(Failure::GaveUp(text)));
        }
    }
    Ok(None)
}

/// Return how far batches that were fetched from an offset reach.
fn check_reach(records: &[u8], offset: i64, place: &str) -> Result<Reach, Problem> {
    let found = reach(records, offset).map_err(|unread| match unread {
        Unread::Format(magic) => Problem::Fatal(Failure::GaveUp(format!(
            "{place} has message format {magic} at offset {offset}"
        ))),
        Unread::Damaged(text) => Problem::Damaged(format!("{place}: {text}")),
    })?;
    if found.bytes == 0 {
        let text = format!("{place}: a batch is not complete");
        return Err(Problem::Damaged(text));
    }
    if found.next <= offset {
        let text = format!("{place}: batches end before offset {offset}");
        return Err(Problem::Damaged(text));
    }
    Ok(found)
}
