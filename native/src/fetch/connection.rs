//! A connection to a broker: requests out, answers in, one after the other.
//!
//! No call waits longer than it is told to. Of an answer that has come in part the part is kept.

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

/// No answer is larger: Kafka's own limit of a batch, and room for what is around it.
const LARGEST_ANSWER: usize = 1 << 30;
const FIRST_ROOM: usize = 1 << 20;
/// The first answer of a connection is not as large, so that what is not Kafka is told from it.
const LARGEST_FIRST_ANSWER: usize = 1 << 20;
/// A login is made again when so much of a session has passed.
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
    /// None: they are not encrypted.
    pub tls: Option<Tls>,
    /// None: without a login.
    pub login: Option<Login>,
}

/// How long brokers may take, what they are told of the client, and how connections are secured.
#[derive(Debug, Clone)]
pub struct Manners {
    /// What brokers write into their logs.
    pub client_id: String,
    /// How long a connection may take to be made, with the handshake of TLS.
    pub connect: Duration,
    /// How long a broker may send nothing while an answer to a fetch is due, and how long any other
    /// answer, and a login, may take.
    pub answer: Duration,
    /// Where this failed, no connection is made: why.
    pub security: Result<Security, String>,
}

/// Why a connection is of no more use.
#[derive(Debug)]
pub(super) enum Broken {
    /// Of the network, or the broker: another connection may be better.
    Passing(String),
    /// What came is not what the protocol says.
    Damaged(String),
    /// Another connection is no better: the protocol is too old, or TLS or the login is refused.
    Refused(String),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Broken::Passing(error.to_string())
    }
}

impl From<Malformed> for Broken {
    fn from(error: Malformed) -> Self {
        Broken::Damaged(error.0)
    }
}

/// A request whose answer is due.
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
    /// Connect, ask what the broker speaks, and log in.
    pub(super) fn open(address: &Address, manners: &Manners) -> Result<Self, Broken> {
        let security = manners.security.as_ref();
        let security = security.map_err(|text| Broken::Refused(text.clone()))?;
        let stream = Stream::open(address, manners.connect, security.tls.as_ref())
            .map_err(|error| not_opened(address, &error))?;
        let mut opened = Connection {
            address: address.clone(),
            stream,
            login: security.login.clone(),
            log_in_again: None,
            client_id: manners.client_id.clone(),
            answer_within: manners.answer,
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
    fn log_in(&mut self) -> Result<(), Broken> {
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
                protocol::write_said(out, &message);
            })?;
            let answer = self.wait_for_answer()?;
            let (said, lifetime_ms) = protocol::read_said(&answer, due.correlation)
                .map_err(|error| self.damaged(&error))?
                .map_err(|error| self.refused(&error))?;
            match exchange.next(&said).map_err(|error| self.refused(&error))? {
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

    /// Send a request, whose rest is written by `write`. Its answer is due then. Requires: no other
    /// is. Where the session of a login nears its end, there is a new login before.
    pub(super) fn send(
        &mut self,
        api: i16,
        version: i16,
        write: impl FnOnce(&mut Writer),
    ) -> Result<Due, Broken> {
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

    /// Take what has come, without waiting: an answer, or None if it has not come in full.
    /// The flag says whether anything came.
    pub(super) fn receive(&mut self) -> Result<(Option<Vec<u8>>, bool), Broken> {
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

    /// Wait for the answer that is due, all of it: a part that comes buys no time.
    pub(super) fn wait_for_answer(&mut self) -> Result<Vec<u8>, Broken> {
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

    /// Return how much of the answer that is due has come, for people.
    pub(super) fn describe_due(&self) -> String {
        match self.size {
            None => format!("{} has sent nothing", self.address),
            Some(size) => {
                let came = self.incoming.len();
                format!("{} has sent {came} of {size} bytes", self.address)
            }
        }
    }

    /// Whether nothing is to come, and the broker has not closed the connection, as far as can be
    /// told without a request.
    pub(super) fn is_idle(&mut self) -> bool {
        // A byte, or the end of the stream, is no error.
        let is_silent =
            matches!(self.stream.read(1, &mut Vec::new()), Err(error) if is_passing(&error));
        is_silent && self.size.is_none() && self.incoming.is_empty()
    }

    /// Let go of the room for answers.
    pub(super) fn free_room(&mut self) {
        self.incoming = Vec::new();
    }

    /// Give back the room of an answer, for the next one.
    pub(super) fn reuse(&mut self, mut answer: Vec<u8>) {
        if self.size.is_none() && self.incoming.capacity() == 0 {
            answer.clear();
            self.incoming = answer;
        }
    }

    pub(super) fn passing(&self, error: &dyn fmt::Display) -> Broken {
        Broken::Passing(format!("{}: {error}", self.address))
    }

    fn refused(&self, error: &dyn fmt::Display) -> Broken {
        Broken::Refused(format!("{}: {error}", self.address))
    }

    fn broken(&self, error: &io::Error) -> Broken {
        match tls_error(error) {
            // Also where a broker refuses the client's certificate, after the handshake.
            Some(rustls::Error::AlertReceived(_)) => self.refused(error),
            Some(_) => self.damaged(error),
            None if error.kind() == io::ErrorKind::InvalidData => self.damaged(error),
            None => self.passing(error),
        }
    }

    pub(super) fn damaged(&self, error: &dyn fmt::Display) -> Broken {
        Broken::Damaged(format!("an answer of {} is damaged: {error}", self.address))
    }

    /// Read what there is of an answer; tell whether it is all there.
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

    /// Read until there are `size` bytes; false: there are not so many yet. Room grows with what has
    /// come: a size alone reserves little.
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

/// Why there is no connection. One that ends in the handshake of TLS may be of a broker that does
/// not speak it, or of one that is stopped: a few times in a row it is the former.
fn not_opened(address: &Address, error: &io::Error) -> Broken {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    let text = format!("{address}: {error}");
    match error.kind() {
        UnexpectedEof | ConnectionReset | BrokenPipe => Broken::Damaged(text),
        _ if tls_error(error).is_some() => Broken::Refused(text),
        _ => Broken::Passing(text),
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

/// Wait until something has come on one of the connections, at most so long.
pub(super) fn wait_for_any<'a>(
    connections: impl IntoIterator<Item = &'a Connection>,
    at_most: Duration,
) -> io::Result<()> {
    let streams = connections.into_iter().map(|each| &each.stream);
    stream::wait_for_any(streams, at_most)
}
