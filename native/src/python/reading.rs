//! The Python classes of `fetch`.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::prelude::*;

use super::block::Block;
use super::guarded;
use crate::fetch::{
    self, Address, ConnectionSettings, Connector, EpochOf, Failure, IdleConnections, Limits, Login,
    NoAnswer, Pem, Range, Reading, Security, Step, Tls,
};

create_exception!(
    ashore_native,
    ReadingFailed,
    PyException,
    "A reading ended early."
);
create_exception!(
    ashore_native,
    OffsetsRefused,
    ReadingFailed,
    "A partition no longer has an offset: index of the range, offset, reason."
);
create_exception!(
    ashore_native,
    TopicReplaced,
    ReadingFailed,
    "A topic was deleted and created again."
);
create_exception!(
    ashore_native,
    TooLarge,
    ReadingFailed,
    "Offsets exceed a limit of bytes: index of the range, first offset, offset after the last."
);
create_exception!(
    ashore_native,
    GaveUp,
    ReadingFailed,
    "Another reader has to continue, from `rest` on."
);
create_exception!(
    ashore_native,
    BrokerSilent,
    ReadingFailed,
    "A broker does not answer now."
);

/// One reading of ranges; used by one thread.
#[pyclass]
struct RangeReader {
    reading: Option<Reading>, // None: it failed
    is_done: bool,
}

#[pymethods]
impl RangeReader {
    /// Start to read `ranges`: topic, partition, first offset, offset after the last. `topic_ids`:
    /// of topics whose id is known, 16 bytes each.
    #[new]
    fn new(
        bootstrap: Vec<(String, u16)>,
        ranges: Vec<(String, i32, i64, i64)>,
        with_headers: Vec<String>,
        topic_ids: HashMap<String, [u8; 16]>,
        settings: &ReaderSettings,
        connections: &ReaderConnections,
    ) -> Self {
        let bootstrap = bootstrap
            .into_iter()
            .map(|(host, port)| Address { host, port })
            .collect();
        let ranges: Vec<_> = ranges
            .into_iter()
            .map(|(topic, partition, start, end)| Range {
                topic,
                partition,
                start,
                end,
            })
            .collect();
        let reading = Reading::new(
            bootstrap,
            &ranges,
            &with_headers,
            &topic_ids,
            settings.connector(connections),
            settings.limits.clone(),
        );
        RangeReader {
            reading: Some(reading),
            is_done: false,
        }
    }

    /// Continue for at most a duration; return records of one partition, or None if there are none
    /// yet, or no more.
    fn step(&mut self, py: Python<'_>, at_most_s: f64) -> PyResult<Option<Block>> {
        let Some(mut reading) = self.reading.take() else {
            return Err(PyRuntimeError::new_err("the reading has failed before"));
        };
        let at_most = seconds(at_most_s);
        let (reading, step) = guarded(py, move || {
            let step = reading.step(at_most);
            (reading, step)
        })?;
        self.reading = Some(reading);
        match step {
            Ok(Step::Records(records)) => Ok(Some(Block::new(records))),
            Ok(Step::Waiting) => Ok(None),
            Ok(Step::Done) => {
                self.is_done = true;
                Ok(None)
            }
            Err(Failure::Gone(range, offset, text)) => {
                Err(OffsetsRefused::new_err((range, offset, text)))
            }
            Err(Failure::Replaced(text)) => Err(TopicReplaced::new_err(text)),
            Err(Failure::TooLarge(range, start, end)) => {
                Err(TooLarge::new_err((range, start, end)))
            }
            Err(Failure::GaveUp(text)) => Err(GaveUp::new_err(text)),
        }
    }

    /// Whether all records were returned.
    #[getter]
    fn is_done(&self) -> bool {
        self.is_done
    }

    /// Return the next offset of each range whose record was not returned.
    fn rest(&self) -> PyResult<Vec<i64>> {
        let reading = self.reading.as_ref();
        reading
            .map(Reading::next_offsets)
            .ok_or_else(|| PyRuntimeError::new_err("the reading is lost"))
    }

    /// Whether each fetch so far named the ids that were given, of all its topics.
    #[getter]
    fn is_by_id(&self) -> bool {
        self.reading.as_ref().is_some_and(Reading::is_by_id)
    }

    /// Return fetches, their bytes, lookups of leaders and damaged answers so far.
    fn counts(&self) -> (u64, u64, u64, u64) {
        let counts = self.reading.as_ref().map(Reading::counts);
        let each = counts.unwrap_or_default();
        (each.fetches, each.bytes, each.leader_lookups, each.damaged)
    }
}

/// Topic, partition, error code, and the offset after the last of the epoch, or -1.
type EpochEnd = (String, i32, i16, i64);

/// Ask the broker at `host` and `port` for the ends of leader epochs: `asked` are topics, partitions
/// and epochs. It answers for partitions that it leads.
#[pyfunction]
fn read_epoch_ends(
    py: Python<'_>,
    host: String,
    port: u16,
    asked: Vec<(String, i32, i32)>,
    settings: &ReaderSettings,
    connections: &ReaderConnections,
) -> PyResult<Vec<EpochEnd>> {
    let asked: Vec<_> = asked
        .into_iter()
        .map(|(topic, partition, epoch)| EpochOf {
            topic,
            partition,
            epoch,
        })
        .collect();
    let (broker, connector) = (Address { host, port }, settings.connector(connections));
    let found = guarded(py, || fetch::read_epoch_ends(&broker, &asked, &connector))?;
    let found = found.map_err(|error| match error {
        NoAnswer::Retriable(text) => BrokerSilent::new_err(text),
        NoAnswer::GaveUp(text) => GaveUp::new_err(text),
    })?;
    Ok(found
        .into_iter()
        .map(|each| (each.of.topic, each.of.partition, each.error, each.end))
        .collect())
}

/// Connections that are kept between readings of the same settings.
#[pyclass(frozen)]
struct ReaderConnections(IdleConnections);

#[pymethods]
impl ReaderConnections {
    #[new]
    fn new() -> Self {
        ReaderConnections(IdleConnections::default())
    }
}

/// How connections are secured. A file that cannot be read fails the first step of a reading.
#[pyclass(frozen)]
struct ReaderSecurity(Result<Security, String>);

#[pymethods]
impl ReaderSecurity {
    /// See `Tls` and `Login`; a login is a mechanism, a user and a password. A PEM is given as text,
    /// as the location of a file, or not at all.
    #[new]
    #[pyo3(signature = (*, tls, ca_pem=None, ca_location=None, certificate_pem=None,
        certificate_location=None, key_pem=None, key_location=None, checks_name=true, login=None))]
    #[allow(clippy::too_many_arguments)] // by their names
    fn new(
        tls: bool,
        ca_pem: Option<String>,
        ca_location: Option<PathBuf>,
        certificate_pem: Option<String>,
        certificate_location: Option<PathBuf>,
        key_pem: Option<String>,
        key_location: Option<PathBuf>,
        checks_name: bool,
        login: Option<(String, String, String)>,
    ) -> Self {
        let pem = |text: Option<String>, place: Option<PathBuf>| {
            text.map(Pem::Text).or(place.map(Pem::File))
        };
        let trust = pem(ca_pem, ca_location);
        let certificate = pem(certificate_pem, certificate_location);
        let key = pem(key_pem, key_location);
        let make = || {
            let identity = certificate.as_ref().zip(key.as_ref());
            let tls = tls.then(|| Tls::new(trust.as_ref(), identity, checks_name));
            let login =
                login.map(|(mechanism, user, password)| Login::new(&mechanism, user, password));
            Ok(Security {
                tls: tls.transpose()?,
                login: login.transpose()?,
            })
        };
        ReaderSecurity(make())
    }
}

/// The connection settings and limits of a reading.
#[pyclass(frozen)]
struct ReaderSettings {
    connection: ConnectionSettings,
    limits: Limits,
}

impl ReaderSettings {
    fn connector(&self, connections: &ReaderConnections) -> Connector {
        Connector {
            idle: connections.0.clone(),
            settings: self.connection.clone(),
        }
    }
}

#[pymethods]
impl ReaderSettings {
    /// See `ConnectionSettings` and `Limits`.
    #[new]
    #[pyo3(signature = (*, security, client_id, connect_s, answer_s, patience_s, fetch_bytes, batch_records, batch_bytes, record_bytes, unpacked_bytes, wave_records))]
    #[allow(clippy::too_many_arguments)] // by their names
    fn new(
        security: &ReaderSecurity,
        client_id: String,
        connect_s: f64,
        answer_s: f64,
        patience_s: f64,
        fetch_bytes: i32,
        batch_records: usize,
        batch_bytes: usize,
        record_bytes: usize,
        unpacked_bytes: usize,
        wave_records: i64,
    ) -> Self {
        let connection = ConnectionSettings {
            client_id,
            connect: seconds(connect_s),
            answer: seconds(answer_s),
            security: security.0.clone(),
        };
        let limits = Limits {
            fetch_bytes,
            records: batch_records,
            bytes: batch_bytes,
            record_bytes,
            unpacked_bytes,
            wave_records,
            patience: seconds(patience_s),
        };
        ReaderSettings { connection, limits }
    }
}

fn seconds(wanted: f64) -> Duration {
    Duration::try_from_secs_f64(wanted).unwrap_or_default()
}

/// Add the classes to the module.
pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add_class::<RangeReader>()?;
    module.add_class::<ReaderConnections>()?;
    module.add_class::<ReaderSecurity>()?;
    module.add_class::<ReaderSettings>()?;
    module.add("ReadingFailed", py.get_type::<ReadingFailed>())?;
    module.add("OffsetsRefused", py.get_type::<OffsetsRefused>())?;
    module.add("TopicReplaced", py.get_type::<TopicReplaced>())?;
    module.add("TooLarge", py.get_type::<TooLarge>())?;
    module.add("GaveUp", py.get_type::<GaveUp>())?;
    module.add("BrokerSilent", py.get_type::<BrokerSilent>())?;
    module.add_function(wrap_pyfunction!(read_epoch_ends, module)?)?;
    Ok(())
}
