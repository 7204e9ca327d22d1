//! A connection to a broker, with one request at a time.
//!
//! No call waits longer than its limit. An answer that has arrived in part is kept.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use super::protocol::{
    self, API_VERSIONS, LOGIN_VERSION, SASL_AUTHENTICATE, SASL_HANDSHAKE, Versions,
};
use super::sasl::Login;
use super::stream::{self, Stream, is_passing};
use super::tls::Tls;
use super::wire::{Malformed, Writer};

/// The largest answer: Kafka's own limit of a batch, and room around it.
const LARGEST_ANSWER: usize = 1 << 30;
const FIRST_ROOM: usize = 1 << 20;
/// The largest first answer of a connection: less, to detect a server that is not Kafka.
const LARGEST_FIRST_ANSWER: usize = 1 << 20;
/// The fraction of a session after which the client logs in again.
const PART_OF_SESSION: f64 = 0.85;

/// Where a broker listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// A name or an address.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.host, self.port)
    }
}

/// How connections are secured.
#[derive(Debug, Clone, Default)]
pub struct Security {
    /// None: connections are not encrypted.
    pub tls: Option<Tls>,
    /// None: without a login.
    pub login: Option<Login>,
}

/// Timeouts, client id and security of connections.
#[derive(Debug, Clone)]
pub struct ConnectionSettings {
    /// The name of the client in logs of brokers.
    pub client_id: String,
    /// The timeout of a connect, with the handshake of TLS.
    pub connect: Duration,
    /// How long a broker may send nothing while a fetch is in flight; the timeout of any other
    /// answer, and of a login.
    pub answer: Duration,
    /// Or why there is none: then connecting fails.
    pub security: Result<Security, String>,
}

/// Why a connection is closed.
#[derive(Debug)]
pub(super) enum ConnectionError {
    /// The network or the broker failed: another connection may work.
    Retriable(String),
    /// The answer does not follow the protocol.
    Damaged(String),
    /// Another connection would fail, too: the protocol is too old, or TLS or the login is refused.
    Refused(String),
}

impl From<io::Error> for ConnectionError {
    fn from(error: io::Error) -> Self {
        ConnectionError::Retriable(error.to_string())
    }
}

impl From<Malformed> for ConnectionError {
    fn from(error: Malformed) -> Self {
        ConnectionError::Damaged(error.0)
    }
}

/// A request in flight.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due {
    pub(super) correlation: i32,
    pub(super) version: i16,
}

/// A connection.
pub(super) struct Connection {
    address: Address,
    stream: Stream,
    login: Option<Login>,
    log_in_again: Option<Instant>, // the session of the login has an end
    client_id: String,
    answer_within: Duration,
    versions: Versions,
    largest: usize,
    sent: i32,
    size: Option<usize>,
    incoming: Vec<u8>,
    heard: Instant,
}

impl Connection {
    /// Connect, ask for the broker's versions, and log in.
    pub(super) fn open(
        address: &Address,
        settings: &ConnectionSettings,
    ) -> Result<Self, ConnectionError> {
        let security = settings.security.as_ref();
        let security = security.map_err(|text| ConnectionError::Refused(text.clone()))?;
        let stream = Stream::open(address, settings.connect, security.tls.as_ref())
            .map_err(|error| not_opened(address, &error))?;
        let mut opened = Connection {
            address: address.clone(),
            stream,
            login: security.login.clone(),
            log_in_again: None,
            client_id: settings.client_id.clone(),
            answer_within: settings.answer,
            versions: Versions::default(),
            largest: LARGEST_FIRST_ANSWER,
            sent: 0,
            size: None,
            incoming: Vec::new(),
            heard: Instant::now(),
        };
        let due = opened.send(API_VERSIONS, 0, |_| ())?;
        let answer = opened.wait_for_answer()?;
        opened.versions = protocol::read_versions(&answer, due.correlation)
            .map_err(|error| opened.damaged(&error))?
            .map_err(|error| opened.refused(&error))?;
        opened.log_in()?;
        opened.largest = LARGEST_ANSWER;
        Ok(opened)
    }

    /// Log in, or log in again, where there is a login.
    fn log_in(&mut self) -> Result<(), ConnectionError> {
        let Some(login) = self.login.clone() else {
            return Ok(());
        };
        let began = Instant::now();
        self.log_in_again = None;
        let due = self.send(SASL_HANDSHAKE, LOGIN_VERSION, |out| {
            protocol::write_mechanism(out, login.mechanism());
        })?;
        let answer = self.wait_for_answer()?;
        protocol::read_mechanisms(&answer, due.correlation)
            .map_err(|error| self.damaged(&error))?
            .map_err(|error| self.refused(&error))?;
        let (mut exchange, mut message) = login.begin().map_err(|error| self.refused(&error))?;
        loop {
            let due = self.send(SASL_AUTHENTICATE, LOGIN_VERSION, |out| {
                protocol::write_login(out, &message);
            })?;
            let answer = self.wait_for_answer()?;
            let (data, lifetime_ms) = protocol::read_login(&answer, due.correlation)
                .map_err(|error| self.damaged(&error))?
                .map_err(|error| self.refused(&error))?;
            match exchange.next(&data).map_err(|error| self.refused(&error))? {
                Some(_) if began.elapsed() > self.answer_within => {
                    return Err(self.passing(&"the login takes too long"));
                }
                Some(next) => message = next,
                None => {
                    self.log_in_again = session_end(began, lifetime_ms);
                    return Ok(());
                }
            }
        }
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    pub(super) fn versions(&self) -> Versions {
        self.versions
    }

    /// Send a request, whose body is written by `write`. Requires: no other is in flight. Logs in
    /// again first if the session of the login nears its end.
    pub(super) fn send(
        &mut self,
        api: i16,
        version: i16,
        write: impl FnOnce(&mut Writer),
    ) -> Result<Due, ConnectionError> {
        if self.log_in_again.is_some_and(|at| at <= Instant::now()) {
            self.log_in()?;
        }
        self.sent = self.sent.wrapping_add(1);
        let mut out = protocol::begin(api, version, self.sent, &self.client_id);
        write(&mut out);
        let until = Instant::now() + self.answer_within;
        self.stream
            .write_all(&protocol::finish(out), until)
            .map_err(|error| self.broken(&error))?;
        self.heard = Instant::now();
        Ok(Due {
            correlation: self.sent,
            version,
        })
    }

    /// Read what has arrived, without waiting: the answer, if it is complete, and whether any bytes
    /// arrived.
    pub(super) fn receive(&mut self) -> Result<(Option<Vec<u8>>, bool), ConnectionError> {
        let was = self.incoming.len();
        let has_all = self.read().map_err(|error| self.broken(&error))?;
        let has_come = self.incoming.len() > was || has_all;
        if has_come {
            self.heard = Instant::now();
        } else if self.heard.elapsed() > self.answer_within {
            let text = format!("no answer within {:?}", self.answer_within);
            return Err(self.passing(&text));
        }
        if !has_all {
            return Ok((None, has_come));
        }
        self.size = None;
        Ok((Some(std::mem::take(&mut self.incoming)), true))
    }

    /// Wait for the complete answer. Bytes that arrive do not extend the timeout.
    pub(super) fn wait_for_answer(&mut self) -> Result<Vec<u8>, ConnectionError> {
        let until = Instant::now() + self.answer_within;
        loop {
            if let (Some(answer), _) = self.receive()? {
                return Ok(answer);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let came = self.incoming.len();
                let text = format!("{came} bytes of an answer within {:?}", self.answer_within);
                return Err(self.passing(&text));
            }
            wait_for_any([&*self], left)?;
        }
    }

    /// Return how much of the answer has arrived, for people.
    pub(super) fn describe_due(&self) -> String {
        match self.size {
            None => format!("{} has sent nothing", self.address),
            Some(size) => {
                let came = self.incoming.len();
                format!("{} has sent {came} of {size} bytes", self.address)
            }
        }
    }

    /// Whether no answer is in flight, and the broker has not closed the connection, as far as is
    /// known without a request.
    pub(super) fn is_idle(&mut self) -> bool {
        // A byte, or the end of the stream, is no error.
        let is_silent =
            matches!(self.stream.read(1, &mut Vec::new()), Err(error) if is_passing(&error));
        is_silent && self.size.is_none() && self.incoming.is_empty()
    }

    /// Release the buffer of answers.
    pub(super) fn free_room(&mut self) {
        self.incoming = Vec::new();
    }

    /// Reuse the buffer of an answer for the next one.
    pub(super) fn reuse(&mut self, mut answer: Vec<u8>) {
        if self.size.is_none() && self.incoming.capacity() == 0 {
            answer.clear();
            self.incoming = answer;
        }
    }

    pub(super) fn passing(&self, error: &dyn fmt::Display) -> ConnectionError {
        ConnectionError::Retriable(format!("{}: {error}", self.address))
    }

    fn refused(&self, error: &dyn fmt::Display) -> ConnectionError {
        ConnectionError::Refused(format!("{}: {error}", self.address))
    }

    fn broken(&self, error: &io::Error) -> ConnectionError {
        match tls_error(error) {
            // Also where a broker refuses the client's certificate, after the handshake.
            Some(rustls::Error::AlertReceived(_)) => self.refused(error),
            Some(_) => self.damaged(error),
            None if error.kind() == io::ErrorKind::InvalidData => self.damaged(error),
            None => self.passing(error),
        }
    }

    pub(super) fn damaged(&self, error: &dyn fmt::Display) -> ConnectionError {
        ConnectionError::Damaged(format!("an answer of {} is damaged: {error}", self.address))
    }

    /// Read what has arrived of an answer; return whether it is complete.
    fn read(&mut self) -> io::Result<bool> {
        if self.size.is_none() {
            if !self.fill(4)? {
                return Ok(false);
            }
            let mut size = [0; 4];
            size.copy_from_slice(&self.incoming[..4]);
            let size = usize::try_from(i32::from_be_bytes(size)).unwrap_or(usize::MAX);
            if size > self.largest {
                let text = "an answer has an impossible size";
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            self.incoming.clear();
            self.size = Some(size);
        }
        self.fill(self.size.unwrap_or(0))
    }

    /// Read until there are `size` bytes; false: there are fewer yet. The buffer grows with the bytes
    /// that arrive: a size alone reserves little.
    fn fill(&mut self, size: usize) -> io::Result<bool> {
        while self.incoming.len() < size {
            let left = size - self.incoming.len();
            let step = left.min(self.incoming.len().max(FIRST_ROOM));
            self.incoming.reserve(step);
            let wanted = self.incoming.len() + step;
            match self.stream.read(step, &mut self.incoming) {
                Ok(_) if self.incoming.len() < wanted => {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the broker closed the connection",
                    ));
                }
                Ok(_) => {}
                Err(error) if is_passing(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// Return why connecting failed. Where the handshake of TLS ends early, the broker has no TLS or is
/// being stopped: a few times in a row it has none.
fn not_opened(address: &Address, error: &io::Error) -> ConnectionError {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    let text = format!("{address}: {error}");
    match error.kind() {
        UnexpectedEof | ConnectionReset | BrokenPipe => ConnectionError::Damaged(text),
        _ if tls_error(error).is_some() => ConnectionError::Refused(text),
        _ => ConnectionError::Retriable(text),
    }
}

fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// When to log in again, where the session of a login has an end.
fn session_end(began: Instant, lifetime_ms: i64) -> Option<Instant> {
    let lifetime = Duration::from_millis(u64::try_from(lifetime_ms).ok()?);
    let part = lifetime.mul_f64(PART_OF_SESSION);
    (!lifetime.is_zero())
        .then(|| began.checked_add(part))
        .flatten()
}

/// Wait until bytes arrive on one of the connections, for at most a duration.
pub(super) fn wait_for_any<'a>(
    connections: impl IntoIterator<Item = &'a Connection>,
    at_most: Duration,
) -> io::Result<()> {
    let streams = connections.into_iter().map(|each| &each.stream);
    stream::wait_for_any(streams, at_most)
}
