//! What a broker may send: record batches of any bytes, with a CRC that agrees.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ashore_native::fetch::fuzz_batches(bytes));
