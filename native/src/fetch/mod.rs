//! Records of Kafka by its own protocol: ranges of partitions in, batches of Arrow out.
//!
//! What it is: a reader of committed records from Kafka 2.4 on, message format 2, all codecs,
//! over plain connections or TLS, with logins by a password. What it cannot do, or cannot mend, it gives up for another reader.
//! What it promises: every committed record of a range once, in order, its bytes as they are; a CRC
//! that is wrong is never let pass; memory is bounded by what a fetch may return and by a batch.
//! What it must not know: JSON, tables, Python.

mod batch;
mod codecs;
mod columns;
mod connection;
mod epochs;
#[cfg(fuzzing)]
mod fuzzed;
mod idle;
mod protocol;
mod ranges;
mod reading;
mod sasl;
mod spare;
mod stream;
#[cfg(test)]
mod tests;
mod tls;
mod wire;

pub use connection::{Address, Manners, Security};
pub use epochs::{NoAnswer, read_epoch_ends};
#[cfg(fuzzing)]
pub use fuzzed::fuzz_batches;
pub use idle::IdleConnections;
pub use protocol::{EpochEnd, EpochOf, TopicId};
pub use ranges::Range;
pub use reading::{Counts, Failure, Limits, Reading, Step};
pub use sasl::Login;
pub use tls::{Pem, Tls};
