//! Bytes to and from a broker, plain or by TLS. No call waits longer than its limit.

use std::io::{self, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::ClientConnection;

use super::connection::Address;
use super::tls::Tls;

/// Bytes of a read from the socket; rustls itself asks for 4 KB.
const SOCKET_READ: usize = 128 << 10;

/// A stream to a broker.
pub(super) enum Stream {
    Plain(TcpStream),
    Secured(Box<Secured>),
}

/// A stream by TLS.
pub(super) struct Secured {
    session: ClientConnection,
    socket: BufReader<TcpStream>,
}

impl Stream {
    /// Connect, with a handshake if there is TLS; `within` is the timeout of both together.
    pub(super) fn open(address: &Address, within: Duration, tls: Option<&Tls>) -> io::Result<Self> {
        let session = tls.map(|tls| tls.session(&address.host)).transpose()?;
        let until = Instant::now() + within;
        let socket = connect(address, within)?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let Some(mut session) = session else {
            return Ok(Stream::Plain(socket));
        };
        session.set_buffer_limit(None); // a request is taken whole
        let mut secured = Box::new(Secured {
            session,
            socket: BufReader::with_capacity(SOCKET_READ, socket),
        });
        secured.shake_hands(until)?;
        Ok(Stream::Secured(secured))
    }

    fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Secured(secured) => secured.socket.get_ref(),
        }
    }

    /// Write all bytes by `until`.
    pub(super) fn write_all(&mut self, mut bytes: &[u8], until: Instant) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => {
                while !bytes.is_empty() {
                    match send_by(socket, until, || (&*socket).write(bytes))? {
                        0 => return Err(io::ErrorKind::WriteZero.into()),
                        size => bytes = &bytes[size..],
                    }
                }
                Ok(())
            }
            Stream::Secured(secured) => {
                secured.session.writer().write_all(bytes)?;
                secured.flush(until)
            }
        }
    }

    /// Append at most `size` bytes; bytes before an error are kept. At the end of the stream there
    /// are fewer bytes, and no error. After a read that would block no bytes are buffered here, so
    /// the caller may wait for the socket.
    pub(super) fn read(&mut self, size: usize, into: &mut Vec<u8>) -> io::Result<usize> {
        let size = size as u64;
        match self {
            Stream::Plain(socket) => (&*socket).take(size).read_to_end(into),
            Stream::Secured(secured) => secured.by_ref().take(size).read_to_end(into),
        }
    }
}

impl Secured {
    fn shake_hands(&mut self, until: Instant) -> io::Result<()> {
        while self.session.is_handshaking() {
            self.flush(until)?;
            let Secured { session, socket } = self;
            let taken = match take_in(session, socket) {
                Err(error) if is_passing(&error) => {
                    wait_until(socket.get_ref(), PollFlags::IN, until)?;
                    continue;
                }
                done => done?,
            };
            if taken == 0 {
                let text = "the broker closed the connection during the TLS handshake";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
            }
        }
        self.flush(until)
    }

    /// Send pending bytes by `until`.
    fn flush(&mut self, until: Instant) -> io::Result<()> {
        let Secured { session, socket } = self;
        let socket = socket.get_ref();
        while session.wants_write() {
            send_by(socket, until, || session.write_tls(&mut &*socket))?;
        }
        Ok(())
    }
}

impl Read for Secured {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                done => return done,
            }
            take_in(&mut self.session, &mut self.socket)?;
        }
    }
}

/// Read from the socket, up to a record of TLS; 0 is the end of the stream.
fn take_in(session: &mut ClientConnection, socket: &mut BufReader<TcpStream>) -> io::Result<usize> {
    let taken = session.read_tls(socket)?;
    let done = session.process_new_packets();
    if session.wants_write() {
        // An alert, or keys that change. Where it would block, it goes out with the next request.
        let _ = session.write_tls(&mut socket.get_ref());
    }
    match done {
        Ok(_) => Ok(taken),
        Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
    }
}

pub(super) fn is_passing(error: &io::Error) -> bool {
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

/// Try `send` until it does not block, at most until `until`.
fn send_by(
    socket: &TcpStream,
    until: Instant,
    mut send: impl FnMut() -> io::Result<usize>,
) -> io::Result<usize> {
    loop {
        match send() {
            Err(error) if is_passing(&error) => wait_until(socket, PollFlags::OUT, until)?,
            done => return done,
        }
    }
}

fn wait_until(socket: &TcpStream, flags: PollFlags, until: Instant) -> io::Result<()> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    wait(&mut [PollFd::new(socket, flags)], left)
}

/// Wait until bytes arrive on one of the streams, for at most a duration.
pub(super) fn wait_for_any<'a>(
    streams: impl IntoIterator<Item = &'a Stream>,
    at_most: Duration,
) -> io::Result<()> {
    let mut watched: Vec<_> = streams
        .into_iter()
        .map(|each| PollFd::new(each.socket(), PollFlags::IN))
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
