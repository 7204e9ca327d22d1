//! Reads ranges of partitions by Kafka's protocol into record batches of Arrow.
//!
//! What it is: a reader of committed records from Kafka 2.4 on, message format 2, all codecs,
//! over plain connections or TLS, with logins by a password. What it cannot read is left to another
//! reader.
//! What it promises: every committed record of a range once, in order, its bytes unchanged; every
//! CRC is checked; memory is bounded by the size of a fetch and of a batch.

mod assembly;
mod batch;
mod buffers;
mod codecs;
mod columns;
mod connection;
mod epochs;
#[cfg(fuzzing)]
mod fuzzed;
mod idle;
mod in_flight;
mod leaders;
mod protocol;
mod ranges;
mod reading;
mod sasl;

mod stream;
#[cfg(test)]
mod tests;
mod tls;
mod wire;

pub use connection::{Address, ConnectionSettings, Security};
pub use epochs::{NoAnswer, read_epoch_ends};
#[cfg(fuzzing)]
pub use fuzzed::fuzz_batches;
pub use idle::{Connector, IdleConnections};
pub use protocol::{EpochEnd, EpochOf, TopicId};
pub use ranges::Range;
pub use reading::{Counts, Failure, Limits, Reading, Step};
pub use sasl::Login;
pub use tls::{Pem, Tls};
