//! Records of Kafka to Arrow: what `reader: native` runs in the tasks of a job.
//!
//! `decode` turns values that hold one JSON object each into columns of a schema; `fetch` reads
//! them from brokers. Neither knows of tables, of the landing log or of Spark. `python` is all that
//! Python sees.

mod base64;
pub mod decode;
pub mod fetch;
#[cfg(feature = "python")]
mod python;
