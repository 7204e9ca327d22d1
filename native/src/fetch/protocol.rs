//! The requests of a reader and their answers: ApiVersions, Metadata, Fetch, and two for logins.
//!
//! Source: the schemas of Kafka's messages (`clients/src/main/resources/common/message`).

use std::collections::HashMap;
use std::ops::Range;

use super::wire::{Cursor, Parsed, Writer, malformed};

pub(super) const FETCH: i16 = 1;
pub(super) const METADATA: i16 = 3;
pub(super) const SASL_HANDSHAKE: i16 = 17;
pub(super) const API_VERSIONS: i16 = 18;
pub(super) const OFFSET_FOR_LEADER_EPOCH: i16 = 23;
pub(super) const SASL_AUTHENTICATE: i16 = 36;

/// The version of both requests of a login, which every broker with `SPOKEN` has. The answer has the
/// lifetime of the session, and neither has tagged fields.
pub(super) const LOGIN_VERSION: i16 = 1;

/// The version of requests for ends of leader epochs: from Kafka 2.3 on, no tagged fields.
pub(super) const EPOCH_ENDS_VERSION: i16 = 3;

/// The versions of this reader: from Kafka 2.4 on. From version 13 on, topics are named by id.
const SPOKEN: [(i16, i16, i16); 2] = [(FETCH, 11, 16), (METADATA, 9, 12)];
pub(super) const FETCH_BY_ID: i16 = 13;

/// The id of a topic; all zeros where brokers have none.
pub type TopicId = [u8; 16];
pub(super) const NO_ID: TopicId = [0; 16];

/// The error codes of Kafka that are handled.
pub(super) mod code {
    pub(in super::super) const OFFSET_OUT_OF_RANGE: i16 = 1;
    /// Errors that a new lookup of leaders may resolve.
    pub(in super::super) const RETRIABLE: [(i16, &str); 13] = [
        (3, "UNKNOWN_TOPIC_OR_PARTITION"),
        (5, "LEADER_NOT_AVAILABLE"),
        (6, "NOT_LEADER_OR_FOLLOWER"),
        (7, "REQUEST_TIMED_OUT"),
        (8, "BROKER_NOT_AVAILABLE"),
        (9, "REPLICA_NOT_AVAILABLE"),
        (13, "NETWORK_EXCEPTION"),
        (56, "KAFKA_STORAGE_ERROR"),
        (74, "FENCED_LEADER_EPOCH"),
        (75, "UNKNOWN_LEADER_EPOCH"),
        (78, "OFFSET_NOT_AVAILABLE"),
        (100, "UNKNOWN_TOPIC_ID"),
        (103, "INCONSISTENT_TOPIC_ID"),
    ];
}

/// The highest version of each request that the broker and this reader have in common.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Versions {
    pub(super) fetch: i16,
    pub(super) metadata: i16,
    /// Whether the broker has `OFFSET_FOR_LEADER_EPOCH` in `EPOCH_ENDS_VERSION`; readings work without.
    pub(super) has_epoch_ends: bool,
}

/// Whether a request, and the header of its answer, have tagged fields.
fn is_flexible(api: i16, version: i16) -> bool {
    match api {
        FETCH => version >= 12,
        METADATA => version >= 9,
        _ => false,
    }
}

/// Start a request: space for its size, and its header.
pub(super) fn begin(api: i16, version: i16, correlation: i32, client: &str) -> Writer {
    let mut out = Writer::default();
    out.i32(0).i16(api).i16(version).i32(correlation);
    out.string(false, client).no_tags(is_flexible(api, version));
    out
}

/// Return the bytes of a request, with its size filled in.
pub(super) fn finish(request: Writer) -> Vec<u8> {
    let mut bytes = request.0;
    let size = i32::try_from(bytes.len() - 4).unwrap_or(i32::MAX);
    bytes[..4].copy_from_slice(&size.to_be_bytes());
    bytes
}

/// Read the header of an answer and check that it answers `correlation`.
fn answer(bytes: &[u8], correlation: i32, is_flexible: bool) -> Parsed<Cursor<'_>> {
    let mut from = Cursor::new(bytes);
    if from.i32()? != correlation {
        return malformed("it answers another request");
    }
    from.skip_tags(is_flexible)?;
    Ok(from)
}

/// Read the versions of a broker. Fails with a message if a request is not supported.
pub(super) fn read_versions(bytes: &[u8], correlation: i32) -> Parsed<Result<Versions, String>> {
    let mut from = answer(bytes, correlation, false)?;
    let error = from.i16()?;
    if error != 0 {
        return Ok(Err(format!(
            "the broker refuses ApiVersions with error {error}"
        )));
    }
    let mut offered = HashMap::new();
    for _ in 0..from.count(false)? {
        let (api, lowest, highest) = (from.i16()?, from.i16()?, from.i16()?);
        offered.insert(api, (lowest, highest));
    }
    let mut chosen = [0; SPOKEN.len()];
    for (place, (api, lowest, highest)) in chosen.iter_mut().zip(SPOKEN) {
        let (from, to) = offered.get(&api).copied().unwrap_or((0, -1));
        *place = highest.min(to);
        if *place < lowest.max(from) {
            return Ok(Err(format!(
                "the broker speaks versions {from} to {to} of request {api}, {lowest} to {highest} \
                 are needed"
            )));
        }
    }
    let [fetch, metadata] = chosen;
    let of_epochs = offered.get(&OFFSET_FOR_LEADER_EPOCH);
    Ok(Ok(Versions {
        fetch,
        metadata,
        has_epoch_ends: of_epochs
            .is_some_and(|&(from, to)| (from..=to).contains(&EPOCH_ENDS_VERSION)),
    }))
}

/// A partition of a topic, and a leader epoch of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpochOf {
    /// The topic's name.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The leader epoch.
    pub epoch: i32,
}

/// The end of a leader epoch, according to the partition's leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpochEnd {
    /// The partition, and the highest epoch up to the one asked for that it has; -1: it has none.
    pub of: EpochOf,
    /// Kafka's error code; 0: none.
    pub error: i16,
    /// The offset after the epoch's last; -1: there is no such epoch.
    pub end: i64,
}

/// Write the body of a request for the ends of leader epochs.
pub(super) fn write_epochs(out: &mut Writer, epochs: &[EpochOf]) {
    out.i32(-1); // replica_id: a consumer
    out.count(false, epochs.len());
    for each in epochs {
        out.string(false, &each.topic).count(false, 1);
        out.i32(each.partition).i32(-1).i32(each.epoch); // -1: under whichever leader
    }
}

/// Read the ends of leader epochs.
pub(super) fn read_epochs(bytes: &[u8], correlation: i32) -> Parsed<Vec<EpochEnd>> {
    let mut from = answer(bytes, correlation, false)?;
    from.i32()?; // throttle_time_ms
    let mut found = Vec::new();
    for _ in 0..from.count(false)? {
        let topic = from.string(false)?.unwrap_or_default();
        for _ in 0..from.count(false)? {
            let (error, partition, epoch) = (from.i16()?, from.i32()?, from.i32()?);
            let topic = topic.clone();
            let of = EpochOf {
                topic,
                partition,
                epoch,
            };
            let end = from.i64()?;
            found.push(EpochEnd { of, error, end });
        }
    }
    Ok(found)
}

/// Write the body of a request to log in by a mechanism.
pub(super) fn write_mechanism(out: &mut Writer, mechanism: &str) {
    out.string(false, mechanism);
}

/// Read whether a broker supports a mechanism. Fails with a message if not.
pub(super) fn read_mechanisms(bytes: &[u8], correlation: i32) -> Parsed<Result<(), String>> {
    let mut from = answer(bytes, correlation, false)?;
    let error = from.i16()?;
    let mut known = Vec::new();
    for _ in 0..from.count(false)? {
        known.push(from.string(false)?.unwrap_or_default());
    }
    Ok(match error {
        0 => Ok(()),
        _ => Err(format!(
            "the broker refuses the mechanism of the login with error {error}; it supports: {}",
            known.join(", ")
        )),
    })
}

/// Write the body of a request with a client's message of a login.
pub(super) fn write_login(out: &mut Writer, message: &[u8]) {
    out.count(false, message.len()).raw(message);
}

/// A broker's message of a login, and the remaining lifetime of the session; 0: unlimited.
pub(super) type LoginAnswer = (Vec<u8>, i64);

/// Read a broker's message of a login. Fails with a message if the login is refused.
pub(super) fn read_login(bytes: &[u8], correlation: i32) -> Parsed<Result<LoginAnswer, String>> {
    let mut from = answer(bytes, correlation, false)?;
    let error = from.i16()?;
    let text = from.string(false)?.unwrap_or_default();
    let message = from.bytes(false)?.to_vec();
    let lifetime_ms = from.i64()?;
    Ok(match error {
        0 => Ok((message, lifetime_ms)),
        _ => Err(format!(
            "the broker refuses the login: {text} (error {error})"
        )),
    })
}

/// A broker in metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Broker {
    pub(super) node: i32,
    pub(super) host: String,
    pub(super) port: u16,
}

/// A partition in metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Led {
    pub(super) partition: i32,
    pub(super) error: i16,
    pub(super) leader: i32,
    pub(super) leader_epoch: i32,
}

/// A topic in metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Topic {
    pub(super) name: String,
    pub(super) id: TopicId,
    pub(super) error: i16,
    pub(super) partitions: Vec<Led>,
}

/// Brokers, and the leaders of partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Metadata {
    pub(super) brokers: Vec<Broker>,
    pub(super) topics: Vec<Topic>,
}

/// Write the body of a request for metadata of topics.
pub(super) fn write_metadata<'a>(
    out: &mut Writer,
    version: i16,
    topics: impl ExactSizeIterator<Item = &'a str>,
) {
    out.count(true, topics.len());
    for name in topics {
        if version >= 10 {
            out.raw(&NO_ID);
        }
        out.string(true, name).no_tags(true);
    }
    out.i8(0); // allow_auto_topic_creation
    if version <= 10 {
        out.i8(0); // include_cluster_authorized_operations
    }
    out.i8(0).no_tags(true);
}

/// Read metadata.
pub(super) fn read_metadata(bytes: &[u8], correlation: i32, version: i16) -> Parsed<Metadata> {
    let mut from = answer(bytes, correlation, true)?;
    from.i32()?; // throttle_time_ms
    let mut brokers = Vec::new();
    for _ in 0..from.count(true)? {
        let node = from.i32()?;
        let host = from.string(true)?.unwrap_or_default();
        let Ok(port) = u16::try_from(from.i32()?) else {
            return malformed("a port is no port");
        };
        from.string(true)?; // rack
        from.skip_tags(true)?;
        brokers.push(Broker { node, host, port });
    }
    from.string(true)?; // cluster_id
    from.i32()?; // controller_id
    let mut topics = Vec::new();
    for _ in 0..from.count(true)? {
        topics.push(read_topic(&mut from, version)?);
    }
    Ok(Metadata { brokers, topics })
}

fn read_topic(from: &mut Cursor<'_>, version: i16) -> Parsed<Topic> {
    let error = from.i16()?;
    let name = from.string(true)?.unwrap_or_default();
    let id = if version >= 10 { from.uuid()? } else { NO_ID };
    from.i8()?; // is_internal
    let mut partitions = Vec::new();
    for _ in 0..from.count(true)? {
        let error = from.i16()?;
        let (partition, leader, leader_epoch) = (from.i32()?, from.i32()?, from.i32()?);
        for _replicas in 0..3 {
            for _ in 0..from.count(true)? {
                from.i32()?;
            }
        }
        from.skip_tags(true)?;
        partitions.push(Led {
            partition,
            error,
            leader,
            leader_epoch,
        });
    }
    from.i32()?; // topic_authorized_operations
    from.skip_tags(true)?;
    Ok(Topic {
        name,
        id,
        error,
        partitions,
    })
}

/// A partition in a fetch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) partition: i32,
    pub(super) offset: i64,
    pub(super) leader_epoch: i32,
    /// Of the last batch that was fetched; -1: none.
    pub(super) last_epoch: i32,
    pub(super) max_bytes: i32,
}

/// The limits of a fetch: bytes, and the broker's wait for the first byte.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) max_bytes: i32,
    pub(super) max_wait_ms: i32,
}

/// Return the version of a fetch: without ids of its topics it names them.
pub(super) fn fetch_version(spoken: Versions, have_ids: bool) -> i16 {
    if have_ids {
        spoken.fetch
    } else {
        spoken.fetch.min(FETCH_BY_ID - 1)
    }
}

/// Write the body of a fetch of committed records, outside of any session.
pub(super) fn write_fetch(
    out: &mut Writer,
    version: i16,
    bounds: Bounds,
    topics: &[(&str, TopicId, Vec<Wanted>)],
) {
    let flexible = is_flexible(FETCH, version);
    if version <= 14 {
        out.i32(-1); // replica_id
    }
    out.i32(bounds.max_wait_ms).i32(1).i32(bounds.max_bytes);
    out.i8(1).i32(0).i32(-1); // isolation_level: committed; session_id, session_epoch
    out.count(flexible, topics.len());
    for (name, id, partitions) in topics {
        if version >= FETCH_BY_ID {
            out.raw(id);
        } else {
            out.string(flexible, name);
        }
        out.count(flexible, partitions.len());
        for each in partitions {
            out.i32(each.partition)
                .i32(each.leader_epoch)
                .i64(each.offset);
            if version >= 12 {
                out.i32(each.last_epoch);
            }
            out.i64(-1).i32(each.max_bytes).no_tags(flexible);
        }
        out.no_tags(flexible);
    }
    out.count(flexible, 0); // forgotten_topics_data
    out.string(flexible, "").no_tags(flexible); // rack_id
}

/// The topic of an answer, by name or id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Named {
    Name(String),
    Id(TopicId),
}

/// A partition in the answer to a fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fetched {
    pub(super) topic: Named,
    pub(super) partition: i32,
    pub(super) error: i16,
    pub(super) stable_end: i64,
    /// The producer and first offset of each aborted transaction, by first offset.
    pub(super) aborted: Vec<(i64, i64)>,
    /// Where the partition's history diverges from what was read: the last common epoch, and its end.
    pub(super) diverging: Option<(i32, i64)>,
    /// The position of the records in the answer.
    pub(super) records: Range<usize>,
}

/// The answer to a fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FetchAnswer {
    pub(super) throttle_ms: i32,
    pub(super) error: i16,
    pub(super) partitions: Vec<Fetched>,
}

/// Read the answer to a fetch, without its records.
pub(super) fn read_fetch(bytes: &[u8], correlation: i32, version: i16) -> Parsed<FetchAnswer> {
    let flexible = is_flexible(FETCH, version);
    let mut from = answer(bytes, correlation, flexible)?;
    let (throttle_ms, error) = (from.i32()?, from.i16()?);
    from.i32()?; // session_id
    let mut partitions = Vec::new();
    for _ in 0..from.count(flexible)? {
        let topic = if version >= FETCH_BY_ID {
            Named::Id(from.uuid()?)
        } else {
            Named::Name(from.string(flexible)?.unwrap_or_default())
        };
        for _ in 0..from.count(flexible)? {
            partitions.push(read_fetched(&mut from, topic.clone(), flexible)?);
        }
        from.skip_tags(flexible)?;
    }
    from.skip_tags(flexible)?;
    if from.left() > 0 {
        return malformed("something follows it");
    }
    Ok(FetchAnswer {
        throttle_ms,
        error,
        partitions,
    })
}

fn read_fetched(from: &mut Cursor<'_>, topic: Named, flexible: bool) -> Parsed<Fetched> {
    let (partition, error) = (from.i32()?, from.i16()?);
    let (_high_watermark, stable_end, _log_start) = (from.i64()?, from.i64()?, from.i64()?);
    let mut aborted = Vec::new();
    for _ in 0..from.count(flexible)? {
        aborted.push((from.i64()?, from.i64()?));
        from.skip_tags(flexible)?;
    }
    aborted.sort_by_key(|&(_, first_offset)| first_offset);
    from.i32()?; // preferred_read_replica: none, as no rack was sent
    let records = from.bytes(flexible)?;
    let records = from.at() - records.len()..from.at();
    let mut diverging = None;
    from.tags(flexible, |tag, field| {
        if tag == 0 {
            let (epoch, end) = (field.i32()?, field.i64()?);
            diverging = (epoch >= 0 || end >= 0).then_some((epoch, end));
        }
        Ok(())
    })?;
    Ok(Fetched {
        topic,
        partition,
        error,
        stable_end,
        aborted,
        diverging,
        records,
    })
}
