//! A connection to a broker: requests out, answers in, one after the other.
//!
//! No call waits longer than it is told to. Of an answer that has come in part the part is kept.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::protocol::{self, API_VERSIONS, Versions};
use super::wire::{Malformed, Writer};

/// No answer is larger: Kafka's own limit of a batch, and room for what is around it.
const LARGEST_ANSWER: usize = 1 << 30;
const FIRST_ROOM: usize = 1 << 20;

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

/// How long brokers may take, and what they are told of the client.
#[derive(Debug, Clone)]
pub struct Manners {
    /// What brokers write into their logs.
    pub client_id: String,
    /// How long a connection may take to be made.
    pub connect: Duration,
    /// How long a broker may send nothing while an answer is due.
    pub answer: Duration,
}

/// Why a connection is of no more use.
#[derive(Debug)]
pub(super) enum Broken {
    /// Of the network, or the broker: another connection may be better.
    Passing(String),
    /// What came is not what the protocol says.
    Damaged(String),
    /// The broker speaks too old a protocol.
    Unspoken(String),
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
#[derive(Debug)]
pub(super) struct Connection {
    address: Address,
    stream: TcpStream,
    client_id: String,
    answer_within: Duration,
    versions: Versions,
    sent: i32,
    size: Option<usize>,
    incoming: Vec<u8>,
    heard: Instant,
}

impl Connection {
    /// Connect, and ask what the broker speaks.
    pub(super) fn open(address: &Address, manners: &Manners) -> Result<Self, Broken> {
        let stream = connect(address, manners.connect)
            .map_err(|error| Broken::Passing(format!("{address}: {error}")))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut opened = Connection {
            address: address.clone(),
            stream,
            client_id: manners.client_id.clone(),
            answer_within: manners.answer,
            versions: Versions {
                fetch: 0,
                metadata: 0,
            },
            sent: 0,
            size: None,
            incoming: Vec::new(),
            heard: Instant::now(),
        };
        let due = opened.send(API_VERSIONS, 0, |_| ())?;
        let answer = opened.wait_for_answer()?;
        opened.versions = protocol::read_versions(&answer, due.correlation)
            .map_err(|error| opened.damaged(&error))?
            .map_err(|error| Broken::Unspoken(format!("{address}: {error}")))?;
        Ok(opened)
    }

    pub(super) fn versions(&self) -> Versions {
        self.versions
    }

    /// Send a request, whose rest is written by `write`. Its answer is due then.
    pub(super) fn send(
        &mut self,
        api: i16,
        version: i16,
        write: impl FnOnce(&mut Writer),
    ) -> Result<Due, Broken> {
        self.sent = self.sent.wrapping_add(1);
        let mut out = protocol::begin(api, version, self.sent, &self.client_id);
        write(&mut out);
        self.write(&protocol::finish(out))
            .map_err(|error| self.passing(&error))?;
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
        let has_all = self.read().map_err(|error| self.passing(&error))?;
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

    /// Wait for the answer that is due.
    pub(super) fn wait_for_answer(&mut self) -> Result<Vec<u8>, Broken> {
        loop {
            if let (Some(answer), _) = self.receive()? {
                return Ok(answer);
            }
            wait_for_any([&*self], self.answer_within)?;
        }
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

    pub(super) fn damaged(&self, error: &dyn fmt::Display) -> Broken {
        Broken::Damaged(format!("an answer of {} is damaged: {error}", self.address))
    }

    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let until = Instant::now() + self.answer_within;
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(size) => bytes = &bytes[size..],
                Err(error) if is_passing(&error) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                    wait(&mut [PollFd::new(&self.stream, PollFlags::OUT)], left)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
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
            if size > LARGEST_ANSWER {
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
            match (&self.stream)
                .take(step as u64)
                .read_to_end(&mut self.incoming)
            {
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

fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

fn connect(address: &Address, within: Duration) -> io::Result<TcpStream> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for each in (address.host.as_str(), address.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&each, within) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Wait until something has come on one of the connections, at most so long.
pub(super) fn wait_for_any<'a>(
    connections: impl IntoIterator<Item = &'a Connection>,
    at_most: Duration,
) -> io::Result<()> {
    let mut watched: Vec<_> = connections
        .into_iter()
        .map(|each| PollFd::new(&each.stream, PollFlags::IN))
        .collect();
    wait(&mut watched, at_most)
}

fn wait(watched: &mut [PollFd<'_>], at_most: Duration) -> io::Result<()> {
    let at_most = Timespec {
        tv_sec: at_most.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: at_most.subsec_nanos().into(),
    };
    match poll(watched, Some(&at_most)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
