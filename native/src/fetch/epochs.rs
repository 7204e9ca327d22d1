//! Where leader epochs end: one question to a broker, for which no record is fetched.

use super::connection::{Address, Broken, Connection, Manners};
use super::idle::IdleConnections;
use super::protocol::{self, EPOCH_ENDS_VERSION, EpochEnd, EpochOf, OFFSET_FOR_LEADER_EPOCH};

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoAnswer {
    /// It may pass: the broker is away.
    Passing(String),
    /// For another client.
    GaveUp(String),
}

impl From<Broken> for NoAnswer {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Passing(text) => NoAnswer::Passing(text),
            Broken::Damaged(text) | Broken::Refused(text) => NoAnswer::GaveUp(text),
        }
    }
}

/// Ask a broker where leader epochs of partitions end. It answers for those that it leads; of any
/// other there is an error code, or nothing.
///
/// # Errors
/// See [`NoAnswer`].
pub fn read_epoch_ends(
    broker: &Address,
    asked: &[EpochOf],
    manners: &Manners,
    idle: &IdleConnections,
) -> Result<Vec<EpochEnd>, NoAnswer> {
    let mut connection = match idle.take(broker) {
        Some(connection) => connection,
        None => Connection::open(broker, manners)?,
    };
    if !connection.versions().has_epoch_ends {
        let text = format!("{broker} does not return the ends of leader epochs");
        return Err(NoAnswer::GaveUp(text));
    }
    let due = connection.send(OFFSET_FOR_LEADER_EPOCH, EPOCH_ENDS_VERSION, |out| {
        protocol::write_epochs(out, asked);
    })?;
    let answer = connection.wait_for_answer()?;
    let found = protocol::read_epochs(&answer, due.correlation)
        .map_err(|error| connection.damaged(&error))?;
    idle.give(connection);
    Ok(found)
}
