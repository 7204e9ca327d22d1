//! Records of Kafka by its own protocol: ranges of partitions in, batches of Arrow out.
//!
//! What it is: a reader of committed records over plain connections, from Kafka 2.4 on, message
//! format 2, all codecs. What it cannot do, or cannot mend, it gives up for another reader.
//! What it promises: every committed record of a range once, in order, its bytes as they are; a CRC
//! that is wrong is never let pass; memory is bounded by what a fetch may return and by a batch.
//! What it must not know: JSON, tables, Python.

mod batch;
mod codecs;
mod columns;
mod connection;
#[cfg(fuzzing)]
mod fuzzed;
mod protocol;
mod ranges;
mod reading;
#[cfg(test)]
mod tests;
mod wire;

pub use connection::{Address, Manners};
#[cfg(fuzzing)]
pub use fuzzed::fuzz_batches;
pub use ranges::Range;
pub use reading::{Counts, Failure, Limits, Reading, Step};
