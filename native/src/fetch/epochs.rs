//! The ends of leader epochs: one request to a broker, without records.

use super::connection::{Address, ConnectionError};
use super::idle::Connector;
use super::protocol::{self, EPOCH_ENDS_VERSION, EpochEnd, EpochOf, OFFSET_FOR_LEADER_EPOCH};

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoAnswer {
    /// The broker does not answer now.
    Retriable(String),
    /// Another client has to ask.
    GaveUp(String),
}

impl From<ConnectionError> for NoAnswer {
    fn from(error: ConnectionError) -> Self {
        match error {
            ConnectionError::Retriable(text) => NoAnswer::Retriable(text),
            ConnectionError::Damaged(text) | ConnectionError::Refused(text) => {
                NoAnswer::GaveUp(text)
            }
        }
    }
}

/// Ask a broker for the ends of leader epochs. It answers for partitions that it leads; for others
/// it returns an error code, or nothing.
///
/// # Errors
/// See [`NoAnswer`].
pub fn read_epoch_ends(
    broker: &Address,
    epochs: &[EpochOf],
    connector: &Connector,
) -> Result<Vec<EpochEnd>, NoAnswer> {
    let mut connection = connector.connect(broker)?;
    if !connection.versions().has_epoch_ends {
        let text = format!("{broker} does not return the ends of leader epochs");
        return Err(NoAnswer::GaveUp(text));
    }
    let due = connection.send(OFFSET_FOR_LEADER_EPOCH, EPOCH_ENDS_VERSION, |out| {
        protocol::write_epochs(out, epochs);
    })?;
    let answer = connection.wait_for_answer()?;
    let found = protocol::read_epochs(&answer, due.correlation)
        .map_err(|error| connection.damaged(&error))?;
    connector.idle.give(connection);
    Ok(found)
}
