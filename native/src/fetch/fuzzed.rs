//! What the fuzzer hands in as an answer of a broker.

use super::batch::{Aborted, Batch, CRC_AT, CRC_FROM, reach};
use super::codecs::Codecs;

/// Read the committed records of all batches in `bytes`, their CRCs made right first: behind a CRC
/// that is wrong nothing is looked at.
pub fn fuzz_batches(bytes: &[u8]) {
    let mut sealed = bytes.to_vec();
    let mut at = 0;
    while let Ok(Some((_, size))) = Batch::first(&sealed[at..]) {
        let crc = crc32c::crc32c(&sealed[at + CRC_FROM..at + size]);
        sealed[at + CRC_AT..at + CRC_FROM].copy_from_slice(&crc.to_be_bytes());
        at += size;
    }
    let _ = reach(&sealed, 0);
    let (mut aborted, mut codecs) = (Aborted::new(vec![(1, 0), (2, 5)]), Codecs::new(1 << 20));
    let mut at = 0;
    while let Ok(Some((batch, size))) = Batch::first(&sealed[at..]) {
        let _ = aborted.committed(&batch, &mut codecs, |record| {
            assert!(record.offset >= batch.base_offset && record.offset < batch.next_offset());
            record.each_header(|_, _| Ok(()))?;
            Ok(())
        });
        at += size;
    }
}
