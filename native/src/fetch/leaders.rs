//! Leaders of partitions: when to look them up, which broker to ask, and what its metadata says.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::connection::{Address, Connection, ConnectionError};
use super::idle::Connector;
use super::protocol::{self, METADATA, Metadata, NO_ID, code};
use super::ranges::Ranges;
use super::reading::Failure;

const FIRST_PAUSE: Duration = Duration::from_millis(20); // before the next lookup
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The brokers of a cluster, and the next lookup of leaders.
#[derive(Default)]
pub(super) struct Leaders {
    bootstrap: Vec<Address>,
    brokers: HashMap<i32, Address>,
    pub(super) control: Option<Connection>, // for metadata: no fetch delays an answer
    turn: usize,                            // which broker is asked next
    next_lookup: Option<Instant>,
    pub(super) retries: u32, // since records arrived
    pub(super) lookups: u64,
    pub(super) last_problem: String, // for messages
}

impl Leaders {
    pub(super) fn new(bootstrap: Vec<Address>) -> Self {
        Leaders {
            bootstrap,
            next_lookup: Some(Instant::now()),
            ..Leaders::default()
        }
    }

    pub(super) fn is_lookup_due(&self) -> bool {
        self.next_lookup.is_some_and(|at| at <= Instant::now())
    }

    /// Look leaders up at once, unless a lookup is scheduled.
    pub(super) fn look_up_soon(&mut self) {
        self.next_lookup.get_or_insert_with(Instant::now);
    }

    /// Look leaders up after a pause, which doubles until records arrive.
    pub(super) fn retry(&mut self, problem: String) {
        self.last_problem = problem;
        let pause = (FIRST_PAUSE * (1 << self.retries.min(10))).min(LONGEST_PAUSE);
        self.next_lookup.get_or_insert(Instant::now() + pause);
        self.retries += 1;
    }

    pub(super) fn address(&self, node: i32) -> Result<&Address, ConnectionError> {
        let address = self.brokers.get(&node);
        address.ok_or_else(|| ConnectionError::Retriable(format!("broker {node} has no address")))
    }

    /// Ask a broker for the metadata of the topics. After an error the next lookup asks another one.
    pub(super) fn look_up(
        &mut self,
        ranges: &Ranges,
        connector: &Connector,
    ) -> Result<Metadata, ConnectionError> {
        self.next_lookup = None;
        self.lookups += 1;
        let found = self.ask(ranges, connector);
        self.turn += usize::from(found.is_err());
        found
    }

    fn ask(&mut self, ranges: &Ranges, connector: &Connector) -> Result<Metadata, ConnectionError> {
        let mut connection = match self.control.take() {
            Some(connection) => connection,
            None => connector.connect(self.broker_to_ask()?)?,
        };
        let version = connection.versions().metadata;
        let names = ranges.topics.iter().map(|each| each.name.as_str());
        let due = connection.send(METADATA, version, |out| {
            protocol::write_metadata(out, version, names);
        })?;
        let answer = connection.wait_for_answer()?;
        let metadata = protocol::read_metadata(&answer, due.correlation, version)
            .map_err(|error| connection.damaged(&error))?;
        self.control = Some(connection);
        Ok(metadata)
    }

    fn broker_to_ask(&self) -> Result<&Address, ConnectionError> {
        let mut known: Vec<_> = self.bootstrap.iter().chain(self.brokers.values()).collect();
        known.dedup();
        let address = known.get(self.turn % known.len().max(1)).copied();
        address
            .ok_or_else(|| ConnectionError::Retriable("no bootstrap server is configured".into()))
    }

    /// Store the addresses of brokers; return the brokers whose address is new.
    pub(super) fn store_brokers(&mut self, found: Vec<protocol::Broker>) -> Vec<i32> {
        let mut changed = Vec::new();
        for protocol::Broker { node, host, port } in found {
            let address = Address { host, port };
            if self.brokers.insert(node, address.clone()) != Some(address) {
                changed.push(node);
            }
        }
        changed
    }

    /// Store the leader of each range. Without a leader for each, another broker is asked later.
    pub(super) fn store_leaders(
        &mut self,
        found: Vec<protocol::Topic>,
        ranges: &mut Ranges,
    ) -> Result<(), Failure> {
        let mut problem = "a partition has no leader".to_owned();
        for topic in found {
            let Some(at) = ranges
                .topics
                .iter()
                .position(|each| each.name == topic.name)
            else {
                continue;
            };
            let of_topic = ranges.all.iter_mut().filter(|each| each.topic == at);
            if topic.error != 0 {
                let (name, error) = (&topic.name, topic.error);
                problem = format!("a broker answers with error {error} for topic {name}");
                if !code::RETRIABLE.iter().any(|each| each.0 == error) {
                    return Err(Failure::GaveUp(problem));
                }
                of_topic.for_each(|range| range.leader = None);
                continue;
            }
            match &mut ranges.topics[at].id {
                _ if topic.id == NO_ID => {} // an old broker, without topic ids
                Some(known) if *known != topic.id => {
                    let text = format!("topic {} was deleted and created again", topic.name);
                    return Err(Failure::Replaced(text));
                }
                known => *known = Some(topic.id),
            }
            for range in of_topic {
                let mut leds = topic.partitions.iter();
                let led = leds.find(|led| led.partition == range.partition);
                // An older epoch than the known one comes from a broker that lags.
                range.leader = led
                    .filter(|led| led.leader >= 0 && led.leader_epoch >= range.leader_epoch)
                    .map(|led| {
                        range.leader_epoch = led.leader_epoch;
                        led.leader
                    });
            }
        }
        let mut unfetched = ranges.all.iter().filter(|each| !each.is_fetched());
        if unfetched.any(|each| each.leader.is_none()) {
            self.turn += 1;
            self.control = None; // another broker may have newer metadata
            self.retry(problem);
        }
        Ok(())
    }
}
