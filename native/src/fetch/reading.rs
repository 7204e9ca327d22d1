//! One reading of ranges: requests, answers, leaders that move, and what becomes of failures.
//!
//! Each connection has one fetch on its way while what came before is decoded. A range ends where a
//! batch has reached its end, and by nothing else: an answer without records proves nothing, since a
//! broker gives it for many reasons. What passes is asked again, from where batches were complete;
//! what does not is for another reader, which continues at exactly `rest`. Progress is an offset that
//! advances: neither bytes of an answer, nor a batch that was fetched before, nor a broker that throttles
//! prolong a reading.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops;
use std::time::{Duration, Instant};

use arrow_data::ArrayData;

use super::batch::{Aborted, Batch, Unread, Unusable, reach};
use super::codecs::Codecs;
use super::columns::Columns;
use super::connection::{Address, Broken, Connection, Due, Manners, wait_for_any};
use super::idle::IdleConnections;
use super::protocol::{
    self, Bounds, FETCH, FETCH_BY_ID, FetchAnswer, Fetched, METADATA, Metadata, NO_ID, Named,
    TopicId, Wanted, code,
};
use super::ranges::{Progress, Range, Topic, arrange};

const FIRST_PAUSE: Duration = Duration::from_millis(20); // before leaders are asked for again
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
const BROKER_WAITS_MS: i32 = 100; // for the first byte: the ranges are there, unless leaders move
const DAMAGES: u32 = 3; // so many in a row, without a record between, are for another reader
const EMPTY_ANSWERS: u32 = 5; // likewise, of a partition that has the range
const LEAST_FETCH: i32 = 64 << 10;

/// What bounds a reading.
#[derive(Debug, Clone)]
pub struct Limits {
    /// What one fetch returns, unless a single batch is larger. Two are held at most.
    pub fetch_bytes: i32,
    /// A batch of Arrow is handed out once it has so many records,
    pub records: usize,
    /// or so many bytes.
    pub bytes: usize,
    /// What a record may have, in bytes of key, value and headers.
    pub record_bytes: usize,
    /// What a batch of Kafka may become when it is decompressed, in bytes.
    pub unpacked_bytes: usize,
    /// How many records are read side by side.
    pub wave_records: i64,
    /// How long a reading goes on while no offset advances.
    pub patience: Duration,
}

/// What a step of a reading gives.
#[derive(Debug)]
pub enum Step {
    /// Records of one partition, as a structure.
    Records(ArrayData),
    /// Nothing yet.
    Waiting,
    /// All was delivered.
    Done,
}

/// Why a reading ends early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The partition has the offset no longer, or has another history: which range, from where, why.
    Gone(usize, i64, String),
    /// The topic was deleted and created again while it was read.
    Replaced(String),
    /// Offsets have more bytes than a limit allows, and so for any reader: which range, the first,
    /// the one after the last.
    TooLarge(usize, i64, i64),
    /// For another reader.
    GaveUp(String),
}

/// What came to pass, for who asks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Fetches that were answered.
    pub fetches: u64,
    /// Bytes of these answers.
    pub bytes: u64,
    /// How often leaders were asked for.
    pub leader_lookups: u64,
    /// Answers that were damaged.
    pub damaged: u64,
}

/// Records of a partition in an answer.
#[derive(Debug)]
struct Part {
    range: usize,
    bytes: ops::Range<usize>,
    aborted: Aborted,
}

/// An answer that is decoded, part by part.
#[derive(Debug)]
struct Answer {
    node: i32,
    bytes: Vec<u8>,
    parts: VecDeque<Part>,
}

/// A broker that leads ranges.
struct Link {
    connection: Connection,
    due: Option<(Due, Vec<usize>)>,
    not_before: Instant,
}

/// See the module.
pub struct Reading {
    manners: Manners,
    idle: IdleConnections,
    limits: Limits,
    bootstrap: Vec<Address>,
    topics: Vec<Topic>,
    ranges: Vec<Progress>,
    brokers: HashMap<i32, Address>,
    links: BTreeMap<i32, Link>,
    control: Option<Connection>, // for questions: no fetch holds up an answer
    turn: usize,                 // which broker is asked next
    ask_leaders: Option<Instant>,
    pause: Duration,
    answers: VecDeque<Answer>,
    columns: Option<(usize, Columns)>,
    codecs: Codecs,
    is_by_id: bool,
    advanced: Instant, // when an offset did, or records were handed out
    was_away: bool,    // records were handed out since the last step
    complaint: String,
    damages: u32,
    counts: Counts,
}

impl Reading {
    /// Begin a reading; nothing is asked before the first step. Requires: the ranges are of
    /// partitions that differ, and the partitions have them. `ids`: the ids of topics, where they
    /// are known: a topic of another id is replaced, and nothing is read of it.
    #[must_use]
    pub fn new(
        bootstrap: Vec<Address>,
        ranges: &[Range],
        with_headers: &[String],
        ids: &HashMap<String, TopicId>,
        manners: Manners,
        idle: IdleConnections,
        limits: Limits,
    ) -> Self {
        let (topics, ranges) = arrange(ranges, with_headers, ids, limits.wave_records);
        let now = Instant::now();
        let codecs = Codecs::new(limits.unpacked_bytes);
        Reading {
            manners,
            idle,
            limits,
            bootstrap,
            topics,
            ranges,
            brokers: HashMap::new(),
            links: BTreeMap::new(),
            control: None,
            turn: 0,
            ask_leaders: Some(now),
            pause: FIRST_PAUSE,
            answers: VecDeque::new(),
            columns: None,
            codecs,
            is_by_id: true,
            advanced: now,
            was_away: false,
            complaint: String::new(),
            damages: 0,
            counts: Counts::default(),
        }
    }

    /// For each range the offset after which nothing was delivered.
    #[must_use]
    pub fn rest(&self) -> Vec<i64> {
        self.ranges.iter().map(|each| each.delivered).collect()
    }

    /// Whether each fetch named the ids that were given: no record is of another topic that has
    /// the name, however late a broker hears that it was created again.
    #[must_use]
    pub fn is_by_id(&self) -> bool {
        self.is_by_id
    }

    /// What came to pass so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Go on until there are records to hand out, or `at_most` has passed.
    ///
    /// # Errors
    /// See [`Failure`]; no step may follow one.
    pub fn step(&mut self, at_most: Duration) -> Result<Step, Failure> {
        let until = Instant::now() + at_most;
        if std::mem::take(&mut self.was_away) {
            self.advanced = Instant::now(); // what the caller took is no silence
        }
        loop {
            if let Some(records) = self.decode()? {
                return Ok(Step::Records(records));
            }
            if self.ranges.iter().all(|each| each.decoded >= each.end) {
                if let Some(records) = self.flush()? {
                    return Ok(Step::Records(records));
                }
                self.keep_connections();
                return Ok(Step::Done);
            }
            let has_come = self.advance(until)?;
            let is_late = self.advanced.elapsed() > self.limits.patience;
            if is_late || (!has_come && Instant::now() >= until) {
                if let Some(records) = self.flush()? {
                    return Ok(Step::Records(records));
                }
                if is_late {
                    return Err(Failure::GaveUp(self.describe_silence()));
                }
                return Ok(Step::Waiting);
            }
        }
    }

    fn describe_silence(&self) -> String {
        let mut text = format!("no record for {:?}", self.limits.patience);
        if !self.complaint.is_empty() {
            text += &format!(": {}", self.complaint);
        }
        for link in self.links.values().filter(|link| link.due.is_some()) {
            text += &format!("; {}", link.connection.describe_due());
        }
        text
    }

    fn connect(&self, address: &Address) -> Result<Connection, Broken> {
        match self.idle.take(address) {
            Some(connection) => Ok(connection),
            None => Connection::open(address, &self.manners),
        }
    }

    /// Leave connections to the next reading.
    fn keep_connections(&mut self) {
        let links = std::mem::take(&mut self.links).into_values();
        let at_rest = links.filter(|link| link.due.is_none());
        let connections = at_rest.map(|link| link.connection);
        for connection in connections.chain(self.control.take()) {
            self.idle.give(connection);
        }
    }

    // --- records ---------------------------------------------------------------------------------

    /// Decode what has come, until a batch of Arrow is full, or is another partition's.
    fn decode(&mut self) -> Result<Option<ArrayData>, Failure> {
        while let Some(answer) = self.answers.front_mut() {
            let Some(part) = answer.parts.front_mut() else {
                if let Some(done) = self.answers.pop_front()
                    && let Some(link) = self.links.get_mut(&done.node)
                {
                    link.connection.reuse(done.bytes);
                }
                continue;
            };
            let is_full = self.columns.as_ref().is_some_and(|(range, columns)| {
                columns.rows() > 0
                    && (*range != part.range
                        || columns.rows() >= self.limits.records
                        || columns.size() >= self.limits.bytes)
            });
            if is_full {
                return self.flush();
            }
            let range = &mut self.ranges[part.range];
            let first = match Batch::first(&answer.bytes[part.bytes.clone()]) {
                Ok(Some((batch, size))) if range.decoded < range.end => (batch, size),
                _ => {
                    answer.parts.pop_front();
                    continue;
                }
            };
            let topic = &self.topics[range.topic];
            let has_headers = self.topics.iter().any(|each| each.reads_headers);
            let columns = match &mut self.columns {
                Some((at, columns)) if *at == part.range => columns,
                other => &mut other.insert((part.range, Columns::new(has_headers))).1,
            };
            let is_first = columns.rows() == 0;
            let wanted = range.decoded..range.end;
            let record_bytes = self.limits.record_bytes;
            let decoded = part
                .aborted
                .committed(&first.0, &mut self.codecs, |record| {
                    if !wanted.contains(&record.offset) {
                        return Ok(());
                    }
                    if record.size() > record_bytes {
                        return Err(Unusable::TooLarge(record.offset..record.offset + 1));
                    }
                    Ok(columns.push(&record, topic.reads_headers)?)
                });
            match decoded {
                Ok(()) => {}
                Err(Unusable::TooLarge(offsets)) => {
                    return Err(Failure::TooLarge(part.range, offsets.start, offsets.end));
                }
                Err(Unusable::Damaged(error)) => {
                    let text = format!("{}/{}: {error}", topic.name, range.partition);
                    self.start_again(text)?;
                    return Ok(None);
                }
            }
            part.bytes.start += first.1;
            range.decoded = range.decoded.max(first.0.next_offset());
            if columns.rows() == 0 {
                range.delivered = range.decoded;
            } else if is_first {
                let left = usize::try_from(range.end - range.decoded).unwrap_or(0);
                columns.reserve(self.limits.records, self.limits.bytes, left);
            }
        }
        Ok(None)
    }

    /// Hand out what was decoded, if anything.
    fn flush(&mut self) -> Result<Option<ArrayData>, Failure> {
        let Some((at, columns)) = self.columns.take_if(|(_, columns)| columns.rows() > 0) else {
            return Ok(None);
        };
        let range = &mut self.ranges[at];
        let column = &mut self.topics[range.topic].column;
        let batch = columns
            .finish(column, range.partition)
            .map_err(|error| Failure::GaveUp(format!("records do not fit in columns: {error}")))?;
        range.delivered = range.decoded;
        self.damages = 0;
        self.was_away = true;
        Ok(Some(batch))
    }

    /// After damage: drop what was not delivered, and all connections, and fetch it again.
    fn start_again(&mut self, text: String) -> Result<(), Failure> {
        self.answers.clear();
        self.columns = None;
        self.links.clear();
        self.ranges.iter_mut().for_each(Progress::rewind);
        self.note_damage(text)
    }

    fn note_damage(&mut self, text: String) -> Result<(), Failure> {
        self.counts.damaged += 1;
        self.damages += 1;
        if self.damages >= DAMAGES {
            return Err(Failure::GaveUp(text));
        }
        self.ask_again(text);
        Ok(())
    }

    // --- requests and answers --------------------------------------------------------------------

    /// Send what can be asked, and take what has come by `until`; tell whether anything has.
    fn advance(&mut self, until: Instant) -> Result<bool, Failure> {
        if self.ask_leaders.is_some_and(|at| at <= Instant::now()) {
            self.find_leaders()?;
        }
        self.request()?;
        let due = self.links.values().filter(|each| each.due.is_some());
        let connections: Vec<_> = due.map(|each| &each.connection).collect();
        let at_most = until.saturating_duration_since(Instant::now());
        if connections.is_empty() {
            std::thread::sleep(at_most.min(FIRST_PAUSE));
            return Ok(false);
        }
        if let Err(error) = wait_for_any(connections, at_most.min(LONGEST_PAUSE)) {
            return Err(Failure::GaveUp(format!("waiting for brokers: {error}")));
        }
        let nodes: Vec<i32> = self.links.keys().copied().collect();
        let mut has_come = false;
        for node in nodes {
            has_come |= self.receive(node)?;
        }
        if has_come {
            self.request()?;
        }
        Ok(has_come)
    }

    fn receive(&mut self, node: i32) -> Result<bool, Failure> {
        let Some(link) = self.links.get_mut(&node).filter(|each| each.due.is_some()) else {
            return Ok(false);
        };
        match link.connection.receive() {
            Ok((None, has_come)) => Ok(has_come),
            Ok((Some(bytes), _)) => {
                self.accept(node, bytes)?;
                Ok(true)
            }
            Err(broken) => {
                self.lose(node, broken)?;
                Ok(true)
            }
        }
    }

    /// Ask each leader for what is next in the first wave that is not fetched.
    fn request(&mut self) -> Result<(), Failure> {
        let open = self.ranges.iter().filter(|each| !each.is_fetched());
        let Some(wave) = open.map(|each| each.wave).min() else {
            return Ok(());
        };
        let mut by_node: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
        for (at, range) in self.ranges.iter().enumerate() {
            let is_next = range.wave == wave && !range.is_fetched() && !range.in_flight;
            match range.leader {
                _ if !is_next => {}
                Some(node) => by_node.entry(node).or_default().push(at),
                None if self.ask_leaders.is_none() => self.ask_leaders = Some(Instant::now()),
                None => {}
            }
        }
        let share = self.limits.fetch_bytes / i32::try_from(by_node.len().max(1)).unwrap_or(1);
        for (node, mut asked) in by_node {
            asked.sort_by_key(|&at| self.ranges[at].served);
            self.fetch(node, asked, share.max(LEAST_FETCH))?;
        }
        Ok(())
    }

    fn fetch(&mut self, node: i32, asked: Vec<usize>, max_bytes: i32) -> Result<(), Failure> {
        if let Err(broken) = self.link(node) {
            asked.iter().for_each(|&at| self.ranges[at].leader = None);
            return self.lose(node, broken);
        }
        let Some(link) = self.links.get_mut(&node) else {
            return Ok(());
        };
        if link.due.is_some() || link.not_before > Instant::now() {
            return Ok(());
        }
        let mut topics: Vec<(usize, Vec<Wanted>)> = Vec::new();
        for &at in &asked {
            let range = &mut self.ranges[at];
            range.in_flight = true;
            let wanted = Wanted {
                partition: range.partition,
                offset: range.fetched,
                leader_epoch: range.leader_epoch,
                last_epoch: range.last_epoch,
                max_bytes: bytes_for(range, &self.topics[range.topic], max_bytes),
            };
            match topics.iter_mut().find(|each| each.0 == range.topic) {
                Some(each) => each.1.push(wanted),
                None => topics.push((range.topic, vec![wanted])),
            }
        }
        let of = |topic: usize| self.topics[topic].id.unwrap_or(NO_ID);
        let have_ids = topics.iter().all(|&(topic, _)| of(topic) != NO_ID);
        let version = protocol::fetch_version(link.connection.versions(), have_ids);
        let are_expected = topics.iter().all(|each| self.topics[each.0].is_expected);
        self.is_by_id &= are_expected && version >= FETCH_BY_ID;
        let topics: Vec<_> = topics
            .into_iter()
            .map(|(topic, wanted)| (self.topics[topic].name.as_str(), of(topic), wanted))
            .collect();
        let bounds = Bounds {
            max_bytes,
            max_wait_ms: BROKER_WAITS_MS,
        };
        let sent = link.connection.send(FETCH, version, |out| {
            protocol::write_fetch(out, version, bounds, &topics);
        });
        match sent {
            Ok(due) => {
                link.due = Some((due, asked));
                Ok(())
            }
            Err(broken) => {
                asked
                    .iter()
                    .for_each(|&at| self.ranges[at].in_flight = false);
                asked.iter().for_each(|&at| self.ranges[at].leader = None);
                self.lose(node, broken)
            }
        }
    }

    /// Connect to a broker, unless that was done.
    fn link(&mut self, node: i32) -> Result<(), Broken> {
        if self.links.contains_key(&node) {
            return Ok(());
        }
        let Some(address) = self.brokers.get(&node) else {
            return Err(Broken::Passing(format!("broker {node} has no address")));
        };
        let connection = self.connect(address)?;
        let not_before = Instant::now();
        self.links.insert(
            node,
            Link {
                connection,
                due: None,
                not_before,
            },
        );
        Ok(())
    }

    /// Take the answer to a fetch.
    fn accept(&mut self, node: i32, bytes: Vec<u8>) -> Result<(), Failure> {
        let Some(link) = self.links.get_mut(&node) else {
            return Ok(());
        };
        let Some((due, asked)) = link.due.take() else {
            return Ok(());
        };
        self.counts.fetches += 1;
        self.counts.bytes += bytes.len() as u64;
        for &at in &asked {
            self.ranges[at].in_flight = false;
        }
        let read = protocol::read_fetch(&bytes, due.correlation, due.version);
        let read = match read.map_err(|error| link.connection.damaged(&error)) {
            Ok(read) => read,
            Err(broken) => return self.lose_asked(node, broken, &asked),
        };
        if read.throttle_ms > 0 {
            let pause = Duration::from_millis(read.throttle_ms.unsigned_abs().into());
            link.not_before = Instant::now() + pause;
            self.complaint = format!("{} throttles for {pause:?}", link.connection.address());
        }
        match self.sort(read, &asked, &bytes) {
            Ok(parts) if parts.is_empty() => {
                if let Some(link) = self.links.get_mut(&node) {
                    link.connection.reuse(bytes);
                }
                Ok(())
            }
            Ok(parts) => {
                self.advanced = Instant::now();
                self.pause = FIRST_PAUSE;
                self.answers.push_back(Answer { node, bytes, parts });
                Ok(())
            }
            Err(Sorting::Failed(failure)) => Err(failure),
            Err(Sorting::Damaged(text)) => self.lose_asked(node, Broken::Damaged(text), &asked),
        }
    }

    /// Return what of an answer is to be decoded; note how far it reaches, and who does not lead.
    fn sort(
        &mut self,
        answer: FetchAnswer,
        asked: &[usize],
        bytes: &[u8],
    ) -> Result<VecDeque<Part>, Sorting> {
        if answer.error != 0 {
            let text = format!("a fetch is refused with error {}", answer.error);
            return Err(Sorting::Damaged(text));
        }
        let (mut parts, mut left) = (VecDeque::new(), asked.to_vec());
        let first = asked.first().copied();
        for fetched in answer.partitions {
            let Some(place) = left.iter().position(|&at| self.is_of(&fetched, at)) else {
                return Err(Sorting::Damaged(
                    "an answer has what was not asked for".into(),
                ));
            };
            let at = left.remove(place);
            match fetched.error {
                0 => {}
                code::OFFSET_OUT_OF_RANGE => {
                    let text = "Broker: Offset out of range".to_owned();
                    return Err(self.gone(at, text));
                }
                error => {
                    self.note_error(at, error)?;
                    continue;
                }
            }
            if let Some((epoch, end)) = fetched.diverging {
                let text = format!(
                    "its leader has another history: epoch {epoch} ends at offset {end} there"
                );
                return Err(self.gone(at, text));
            }
            let records = &bytes[fetched.records.clone()];
            if records.is_empty() {
                self.note_empty(at, fetched.stable_end, Some(at) == first)?;
                continue;
            }
            self.note_reach(at, records)?;
            parts.push_back(Part {
                range: at,
                bytes: fetched.records,
                aborted: Aborted::new(fetched.aborted),
            });
        }
        Ok(parts)
    }

    fn is_of(&self, fetched: &Fetched, at: usize) -> bool {
        let range = &self.ranges[at];
        let topic = &self.topics[range.topic];
        range.partition == fetched.partition
            && match &fetched.topic {
                Named::Name(name) => topic.name == *name,
                Named::Id(id) => topic.id == Some(*id),
            }
    }

    fn gone(&self, at: usize, text: String) -> Sorting {
        Sorting::Failed(Failure::Gone(at, self.ranges[at].fetched, text))
    }

    fn note_error(&mut self, at: usize, error: i16) -> Result<(), Sorting> {
        let range = &mut self.ranges[at];
        let place = format!("{}/{}", self.topics[range.topic].name, range.partition);
        let Some((_, name)) = code::PASSING.iter().find(|each| each.0 == error) else {
            let text = format!("the leader of {place} answers with error {error}");
            return Err(Sorting::Failed(Failure::GaveUp(text)));
        };
        range.leader = None;
        self.ask_again(format!("{place}: {name}"));
        Ok(())
    }

    /// A partition that was asked for first and has the range has a batch to give.
    fn note_empty(&mut self, at: usize, stable_end: i64, is_first: bool) -> Result<(), Sorting> {
        let range = &mut self.ranges[at];
        let place = format!("{}/{}", self.topics[range.topic].name, range.partition);
        if stable_end < range.end {
            self.complaint = format!("{place} is stable only up to offset {stable_end}");
        } else if is_first {
            range.empty += 1;
            if range.empty >= EMPTY_ANSWERS {
                let text = format!("{place} has nothing at offset {}", range.fetched);
                return Err(Sorting::Failed(Failure::GaveUp(text)));
            }
        }
        Ok(())
    }

    fn note_reach(&mut self, at: usize, records: &[u8]) -> Result<(), Sorting> {
        let range = &mut self.ranges[at];
        let topic = &mut self.topics[range.topic];
        let place = format!("{}/{}", topic.name, range.partition);
        let found = reach(records, range.fetched).map_err(|unread| match unread {
            Unread::Format(magic) => Sorting::Failed(Failure::GaveUp(format!(
                "{place} has message format {magic} at offset {}",
                range.fetched
            ))),
            Unread::Damaged(text) => Sorting::Damaged(format!("{place}: {text}")),
        })?;
        if found.bytes == 0 {
            return Err(Sorting::Damaged(format!(
                "{place}: a batch is not complete"
            )));
        }
        if found.next <= range.fetched {
            let text = format!("{place}: batches end before offset {}", range.fetched);
            return Err(Sorting::Damaged(text));
        }
        #[allow(clippy::cast_precision_loss)] // an estimate
        let mean = found.bytes as f64 / (found.next - range.fetched) as f64;
        topic.bytes_per_offset = Some(mean);
        range.fetched = found.next;
        range.last_epoch = found.leader_epoch;
        range.served = self.counts.fetches;
        range.empty = 0;
        Ok(())
    }

    // --- leaders ---------------------------------------------------------------------------------

    /// Ask for leaders after a pause, which grows until records come.
    fn ask_again(&mut self, complaint: String) {
        self.complaint = complaint;
        self.ask_leaders.get_or_insert(Instant::now() + self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    fn lose_asked(&mut self, node: i32, broken: Broken, asked: &[usize]) -> Result<(), Failure> {
        for &at in asked {
            self.ranges[at].leader = None;
        }
        self.lose(node, broken)
    }

    /// Drop a connection, and look who leads what it was asked for.
    fn lose(&mut self, node: i32, broken: Broken) -> Result<(), Failure> {
        let due = self.links.remove(&node).and_then(|link| link.due);
        for at in due.map_or(Vec::new(), |(_, asked)| asked) {
            self.ranges[at].in_flight = false;
            self.ranges[at].leader = None;
        }
        match broken {
            Broken::Passing(text) => self.ask_again(text),
            Broken::Damaged(text) => self.note_damage(text)?,
            Broken::Refused(text) => return Err(Failure::GaveUp(text)),
        }
        Ok(())
    }

    fn find_leaders(&mut self) -> Result<(), Failure> {
        self.ask_leaders = None;
        self.counts.leader_lookups += 1;
        match self.ask_metadata() {
            Ok(metadata) => self.take_leaders(metadata),
            Err(broken) => {
                self.control = None;
                self.turn += 1;
                match broken {
                    Broken::Passing(text) => self.ask_again(text),
                    Broken::Damaged(text) => self.note_damage(text)?,
                    Broken::Refused(text) => return Err(Failure::GaveUp(text)),
                }
                Ok(())
            }
        }
    }

    fn ask_metadata(&mut self) -> Result<Metadata, Broken> {
        let mut connection = match self.control.take() {
            Some(connection) => connection,
            None => self.connect(&self.broker_to_ask()?)?,
        };
        let version = connection.versions().metadata;
        let names = self.topics.iter().map(|each| each.name.as_str());
        let due = connection.send(METADATA, version, |out| {
            protocol::write_metadata(out, version, names);
        })?;
        let answer = connection.wait_for_answer()?;
        let metadata = protocol::read_metadata(&answer, due.correlation, version)
            .map_err(|error| connection.damaged(&error))?;
        self.control = Some(connection);
        Ok(metadata)
    }

    fn broker_to_ask(&self) -> Result<Address, Broken> {
        let mut known: Vec<_> = self.bootstrap.iter().chain(self.brokers.values()).collect();
        known.dedup();
        match known.get(self.turn % known.len().max(1)) {
            Some(address) => Ok((*address).clone()),
            None => Err(Broken::Passing("no broker is named".into())),
        }
    }

    fn take_leaders(&mut self, metadata: Metadata) -> Result<(), Failure> {
        for each in metadata.brokers {
            let address = Address {
                host: each.host,
                port: each.port,
            };
            if self.brokers.insert(each.node, address.clone()) != Some(address)
                && self.links.contains_key(&each.node)
            {
                let text = format!("broker {} has another address", each.node);
                self.lose(each.node, Broken::Passing(text))?;
            }
        }
        let mut complaint = "a partition has no leader".to_owned();
        for topic in metadata.topics {
            let Some(at) = self.topics.iter().position(|each| each.name == topic.name) else {
                continue;
            };
            if topic.error != 0 {
                complaint = self.take_topic_error(at, topic.error)?;
                continue;
            }
            match &mut self.topics[at].id {
                _ if topic.id == NO_ID => {} // an old broker: it tells none
                Some(known) if *known != topic.id => {
                    let text = format!("topic {} was deleted and created again", topic.name);
                    return Err(Failure::Replaced(text));
                }
                known => *known = Some(topic.id),
            }
            for range in self.ranges.iter_mut().filter(|each| each.topic == at) {
                let led = topic
                    .partitions
                    .iter()
                    .find(|led| led.partition == range.partition);
                // What is older than what was heard of is of a broker that lags.
                range.leader = led
                    .filter(|led| led.leader >= 0 && led.leader_epoch >= range.leader_epoch)
                    .map(|led| {
                        range.leader_epoch = led.leader_epoch;
                        led.leader
                    });
            }
        }
        if self
            .ranges
            .iter()
            .any(|each| !each.is_fetched() && each.leader.is_none())
        {
            self.turn += 1;
            self.control = None; // another broker may know more
            self.ask_again(complaint);
        }
        Ok(())
    }

    fn take_topic_error(&mut self, at: usize, error: i16) -> Result<String, Failure> {
        let name = &self.topics[at].name;
        let text = format!("a broker answers with error {error} for topic {name}");
        if !code::PASSING.iter().any(|each| each.0 == error) {
            return Err(Failure::GaveUp(text));
        }
        for range in self.ranges.iter_mut().filter(|each| each.topic == at) {
            range.leader = None;
        }
        Ok(text)
    }
}

/// Why an answer is not used.
enum Sorting {
    Failed(Failure),
    Damaged(String),
}

/// What to fetch of a range at most: not much more than is left of it, as far as can be told.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // an estimate, and bounded
fn bytes_for(range: &Progress, topic: &Topic, max_bytes: i32) -> i32 {
    let Some(mean) = topic.bytes_per_offset else {
        return max_bytes;
    };
    let left = (range.end - range.fetched) as f64 * mean * 1.2;
    (left.min(f64::from(max_bytes)) as i32).clamp(LEAST_FETCH.min(max_bytes), max_bytes)
}
