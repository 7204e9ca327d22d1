//! Connections between two readings: to connect, and to ask what a broker speaks, takes longer than
//! to fetch a few records.

use std::fmt;
use std::process;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::connection::{Address, Connection};

/// Brokers close what is idle for ten minutes; a job that reads so rarely may connect again.
const KEPT: Duration = Duration::from_secs(60);

/// Idle connections that were made alike: all who share them have the same settings.
#[derive(Clone, Default)]
pub struct IdleConnections(Arc<Mutex<Vec<Idle>>>);

struct Idle {
    connection: Connection,
    since: Instant,
    process: u32, // a child that was forked has its parent's sockets, and must not use them
}

impl IdleConnections {
    /// Take a connection to a broker that is open, as far as can be told.
    pub(super) fn take(&self, address: &Address) -> Option<Connection> {
        // Not waited for: the thread that holds it may not exist in a child that was forked.
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

    /// Keep a connection for the next reading. One whose answer is still to come is closed.
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
