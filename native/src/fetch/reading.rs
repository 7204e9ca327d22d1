//! One reading of ranges of partitions.
//!
//! Each connection has one fetch in flight while earlier answers are decoded. A range ends only where
//! a batch has reached its end: an answer without records proves nothing, since a broker returns one
//! for many reasons. After a retriable failure, fetching resumes at the last complete batch. What
//! cannot be read is left to another reader, which resumes at exactly `next_offsets`. Only an offset that
//! advances is progress: bytes of an answer, batches that were fetched before, and throttling
//! do not extend a reading.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use arrow_data::ArrayData;

use super::assembly::Assembly;
use super::connection::{Address, ConnectionError};
use super::idle::Connector;
use super::in_flight::InFlight;
use super::leaders::Leaders;
use super::protocol::TopicId;
use super::ranges::{LEAST_FETCH, Range, Ranges};

const LONGEST_WAIT: Duration = Duration::from_secs(1); // for bytes, before leaders are looked up
const PAUSE: Duration = Duration::from_millis(20); // where no fetch is in flight
const DAMAGED_ANSWERS: u32 = 3; // in a row, without records in between: give up

/// The limits of a reading.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of a fetch, unless a single batch is larger. At most two are in memory.
    pub fetch_bytes: i32,
    /// Records of an Arrow batch.
    pub records: usize,
    /// Bytes of an Arrow batch.
    pub bytes: usize,
    /// Bytes of a record: key, value and headers.
    pub record_bytes: usize,
    /// Bytes of a Kafka batch when it is decompressed.
    pub unpacked_bytes: usize,
    /// Records of a wave: of the ranges that are fetched side by side.
    pub wave_records: i64,
    /// How long a reading continues while no offset advances.
    pub patience: Duration,
}

/// The result of a step.
#[derive(Debug)]
pub enum Step {
    /// Records of one partition, as a structure.
    Records(ArrayData),
    /// No records yet.
    Waiting,
    /// All records were delivered.
    Done,
}

/// Why a reading ends early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The partition no longer has the offset, or has another history: index of the range, offset,
    /// reason.
    Gone(usize, i64, String),
    /// The topic was deleted and created again during the reading.
    Replaced(String),
    /// Offsets exceed a limit of bytes, for any reader: index of the range, the first offset, the
    /// one after the last.
    TooLarge(usize, i64, i64),
    /// Another reader has to continue.
    GaveUp(String),
}

/// A failure inside a reading.
#[derive(Debug)]
pub(super) enum Problem {
    /// Fetch again, after a lookup of leaders.
    Retriable(String),
    /// Bytes are damaged: fetch again, a few times.
    Damaged(String),
    /// End the reading.
    Fatal(Failure),
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Problem::Fatal(failure)
    }
}

impl From<ConnectionError> for Problem {
    fn from(error: ConnectionError) -> Self {
        match error {
            ConnectionError::Retriable(text) => Problem::Retriable(text),
            ConnectionError::Damaged(text) => Problem::Damaged(text),
            ConnectionError::Refused(text) => Problem::Fatal(Failure::GaveUp(text)),
        }
    }
}

/// Counters of a reading.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Answers to fetches.
    pub fetches: u64,
    /// Bytes of these answers.
    pub bytes: u64,
    /// Lookups of leaders.
    pub leader_lookups: u64,
    /// Damaged answers.
    pub damaged: u64,
}

/// A reading of ranges. See the module.
pub struct Reading {
    connector: Connector,
    limits: Limits,
    ranges: Ranges,
    leaders: Leaders,
    in_flight: InFlight,
    assembly: Assembly,
    advanced: Instant,   // when an offset last did, or records were delivered
    has_delivered: bool, // records, in the last step
    damaged_in_a_row: u32,
    damaged: u64,
}

impl Reading {
    /// Start a reading; no broker is asked before the first step. Requires: the ranges are of
    /// different partitions, which have them. `ids`: of topics, where they are known: a topic with
    /// another id was replaced, and is not read.
    #[must_use]
    pub fn new(
        bootstrap: Vec<Address>,
        ranges: &[Range],
        with_headers: &[String],
        ids: &HashMap<String, TopicId>,
        connector: Connector,
        limits: Limits,
    ) -> Self {
        let ranges = Ranges::arrange(ranges, with_headers, ids, limits.wave_records);
        let has_headers = ranges.topics.iter().any(|each| each.reads_headers);
        Reading {
            connector,
            leaders: Leaders::new(bootstrap),
            in_flight: InFlight::default(),
            assembly: Assembly::new(limits.unpacked_bytes, has_headers),
            limits,
            ranges,
            advanced: Instant::now(),
            has_delivered: false,
            damaged_in_a_row: 0,
            damaged: 0,
        }
    }

    /// Return the next offset of each range that was not delivered.
    #[must_use]
    pub fn next_offsets(&self) -> Vec<i64> {
        self.ranges.all.iter().map(|each| each.delivered).collect()
    }

    /// Whether each fetch named the ids that were given: then no record is of another topic of the
    /// same name, even if a broker learns late that it was created again.
    #[must_use]
    pub fn is_by_id(&self) -> bool {
        !self.in_flight.is_by_name
    }

    /// Return the counters so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            fetches: self.in_flight.fetches,
            bytes: self.in_flight.bytes,
            leader_lookups: self.leaders.lookups,
            damaged: self.damaged,
        }
    }

    /// Continue until there are records to deliver, or `at_most` has passed.
    ///
    /// # Errors
    /// See [`Failure`]; no step may follow one.
    pub fn step(&mut self, at_most: Duration) -> Result<Step, Failure> {
        let until = Instant::now() + at_most;
        if std::mem::take(&mut self.has_delivered) {
            self.advanced = Instant::now(); // the time of the caller does not count
        }
        loop {
            if let Some(records) = self.decode()? {
                return Ok(self.deliver(records));
            }
            let is_done = self.ranges.are_decoded();
            let has_come = is_done || self.advance(until)?;
            let is_late = !is_done && self.advanced.elapsed() > self.limits.patience;
            if !is_done && !is_late && (has_come || Instant::now() < until) {
                continue;
            }
            if let Some(records) = self.assembly.flush(&mut self.ranges)? {
                return Ok(self.deliver(records));
            }
            if is_late {
                return Err(Failure::GaveUp(self.describe_silence()));
            }
            if is_done {
                self.keep_connections();
                return Ok(Step::Done);
            }
            return Ok(Step::Waiting);
        }
    }

    fn deliver(&mut self, records: ArrayData) -> Step {
        self.damaged_in_a_row = 0;
        self.has_delivered = true;
        Step::Records(records)
    }

    /// Decode answers. After damage all that was not delivered is fetched again, by new connections.
    fn decode(&mut self) -> Result<Option<ArrayData>, Failure> {
        let (ranges, in_flight) = (&mut self.ranges, &mut self.in_flight);
        let decoded = self.assembly.decode(ranges, &self.limits, in_flight);
        decoded.or_else(|problem| {
            self.assembly.clear();
            drop(self.in_flight.disconnect_all());
            self.ranges.rewind();
            self.handle(problem).map(|()| None)
        })
    }

    /// Send the fetches that are possible, and receive answers until `until`; return whether any
    /// bytes arrived.
    fn advance(&mut self, until: Instant) -> Result<bool, Failure> {
        if self.leaders.is_lookup_due() {
            self.look_up_leaders()?;
        }
        self.fetch()?;
        let at_most = until.saturating_duration_since(Instant::now());
        match self.in_flight.wait(at_most.min(LONGEST_WAIT)) {
            Ok(true) => {}
            Ok(false) => {
                std::thread::sleep(at_most.min(PAUSE));
                return Ok(false);
            }
            Err(error) => return Err(Failure::GaveUp(format!("waiting for brokers: {error}"))),
        }
        let mut has_come = false;
        for node in self.in_flight.nodes() {
            has_come |= self.receive(node)?;
        }
        if has_come {
            self.fetch()?;
        }
        Ok(has_come)
    }

    /// Fetch from each leader.
    fn fetch(&mut self) -> Result<(), Failure> {
        let mut by_leader = self.ranges.by_leader();
        if by_leader.remove(&None).is_some() {
            self.leaders.look_up_soon();
        }
        let share = self.limits.fetch_bytes / i32::try_from(by_leader.len().max(1)).unwrap_or(1);
        let max_bytes = share.max(LEAST_FETCH);
        for (node, indices) in by_leader {
            let (Some(node), in_flight) = (node, &mut self.in_flight) else {
                continue;
            };
            let connected = in_flight.connect(node, &self.leaders, &self.connector);
            let sent = connected
                .and_then(|()| in_flight.fetch(node, &indices, max_bytes, &mut self.ranges));
            if let Err(error) = sent {
                self.ranges.release(&indices);
                self.disconnect(node, error.into())?;
            }
        }
        Ok(())
    }

    /// Receive from a broker; return whether any bytes arrived.
    fn receive(&mut self, node: i32) -> Result<bool, Failure> {
        let (ranges, leaders) = (&mut self.ranges, &mut self.leaders);
        match self.in_flight.receive(node, ranges, leaders) {
            Ok((None, has_come)) => Ok(has_come),
            Ok((Some(answer), _)) => {
                self.advanced = Instant::now();
                self.leaders.retries = 0;
                self.assembly.push(answer);
                Ok(true)
            }
            Err(problem) => self.disconnect(node, problem).map(|()| true),
        }
    }

    fn look_up_leaders(&mut self) -> Result<(), Failure> {
        let metadata = match self.leaders.look_up(&self.ranges, &self.connector) {
            Ok(metadata) => metadata,
            Err(error) => return self.handle(error.into()),
        };
        for node in self.leaders.store_brokers(metadata.brokers) {
            if self.in_flight.nodes().contains(&node) {
                let text = format!("broker {node} has another address");
                self.disconnect(node, Problem::Retriable(text))?;
            }
        }
        let topics = metadata.topics;
        self.leaders.store_leaders(topics, &mut self.ranges)
    }

    /// Close the connection to a broker after a problem, and look up leaders of its ranges.
    fn disconnect(&mut self, node: i32, problem: Problem) -> Result<(), Failure> {
        let indices = self.in_flight.disconnect(node);
        self.ranges.release(&indices);
        self.handle(problem)
    }

    fn handle(&mut self, problem: Problem) -> Result<(), Failure> {
        match problem {
            Problem::Retriable(text) => self.leaders.retry(text),
            Problem::Damaged(text) => {
                self.damaged += 1;
                self.damaged_in_a_row += 1;
                if self.damaged_in_a_row >= DAMAGED_ANSWERS {
                    return Err(Failure::GaveUp(text));
                }
                self.leaders.retry(text);
            }
            Problem::Fatal(failure) => return Err(failure),
        }
        Ok(())
    }

    fn describe_silence(&self) -> String {
        let mut text = format!("no record for {:?}", self.limits.patience);
        if !self.leaders.last_problem.is_empty() {
            text += &format!(": {}", self.leaders.last_problem);
        }
        text + &self.in_flight.describe()
    }

    /// Leave connections to the next reading.
    fn keep_connections(&mut self) {
        let control = self.leaders.control.take();
        let connections = self.in_flight.disconnect_all().chain(control);
        connections.for_each(|each| self.connector.idle.give(each));
    }
}
