//! Connections that are kept between readings: connecting and asking for versions takes longer than
//! fetching a few records.

use std::fmt;
use std::process;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::connection::{Address, Connection, ConnectionError, ConnectionSettings};

/// Brokers close connections that are idle for ten minutes; a job that reads so rarely reconnects.
const KEPT: Duration = Duration::from_secs(60);

/// Idle connections of the same settings.
#[derive(Clone, Default)]
pub struct IdleConnections(Arc<Mutex<Vec<Idle>>>);

/// How connections are made: an idle one is preferred.
#[derive(Debug, Clone)]
pub struct Connector {
    /// Connections that are kept between readings of the same settings.
    pub idle: IdleConnections,
    /// The settings of new connections.
    pub settings: ConnectionSettings,
}

impl Connector {
    pub(super) fn connect(&self, address: &Address) -> Result<Connection, ConnectionError> {
        match self.idle.take(address) {
            Some(connection) => Ok(connection),
            None => Connection::open(address, &self.settings),
        }
    }
}

struct Idle {
    connection: Connection,
    since: Instant,
    process: u32, // a forked child must not use the sockets of its parent
}

impl IdleConnections {
    /// Take a connection to a broker that is open, as far as is known.
    fn take(&self, address: &Address) -> Option<Connection> {
        // No waiting: the thread with the lock may not exist in a forked child.
        let mut kept = self.0.try_lock().ok()?;
        kept.retain(Idle::may_be_used);
        while let Some(at) = kept
            .iter()
            .position(|each| each.connection.address() == address)
        {
            let mut found = kept.swap_remove(at).connection;
            if found.is_idle() {
                return Some(found);
            }
        }
        None
    }

    /// Keep a connection for the next reading; close it if an answer is in flight.
    pub(super) fn give(&self, mut connection: Connection) {
        if !connection.is_idle() {
            return;
        }
        connection.free_room();
        if let Ok(mut kept) = self.0.try_lock() {
            kept.retain(Idle::may_be_used);
            kept.push(Idle {
                connection,
                since: Instant::now(),
                process: process::id(),
            });
        }
    }
}

impl Idle {
    fn may_be_used(&self) -> bool {
        self.process == process::id() && self.since.elapsed() < KEPT
    }
}

impl fmt::Debug for IdleConnections {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("IdleConnections")
    }
}
