//! Compressed record batches: gzip, snappy in both of Java's framings, lz4, zstd.
//!
//! The output grows with the bytes that were decompressed, up to a limit, and never by the size in a
//! header. A batch beyond the limit is too large, not damaged: reading it again does not help.

use std::io::Read;

use flate2::read::GzDecoder;
use zstd_safe::{DCtx, InBuffer, OutBuffer};

use super::wire::{Cursor, Malformed, malformed};

/// The highest limit: Arrow and Kafka count bytes in 31 bits.
pub(super) const LIMIT_BYTES: usize = 1 << 30;
const SNAPPY_FRAMED: &[u8] = b"\x82SNAPPY\0";
const LZ4_FRAME: u32 = 0x184d_2204;
const STEP_BYTES: usize = 128 << 10; // what a stream hands out at a time
const KEPT_BYTES: usize = 16 << 20; // of a batch larger than that, no room is kept for the next

/// Why a batch is not decompressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unpacked {
    /// It is damaged.
    Damaged(Malformed),
    /// Its records exceed the limit.
    TooLarge,
}

impl From<Malformed> for Unpacked {
    fn from(error: Malformed) -> Self {
        Unpacked::Damaged(error)
    }
}

type Filled<T> = Result<T, Unpacked>;

fn damaged<T>(what: &str) -> Filled<T> {
    Ok(malformed(what)?)
}

/// Output bytes in a buffer that is reused.
#[derive(Debug)]
struct Buffer {
    bytes: Vec<u8>,
    used: usize,
    limit: usize,
}

impl Buffer {
    fn clear(&mut self) {
        self.used = 0;
        if self.bytes.len() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
    }

    /// Return space for `size` more bytes, which count once they are `taken`. The space may exceed
    /// the limit by one step or block; taken bytes may not.
    fn room(&mut self, size: usize) -> &mut [u8] {
        let end = self.used + size;
        if end > self.bytes.len() {
            let doubled = (self.bytes.len() * 2).min(self.limit);
            self.bytes.resize(end.max(doubled), 0);
        }
        &mut self.bytes[self.used..end]
    }

    fn taken(&mut self, size: usize) -> Filled<()> {
        self.used += size;
        if self.used > self.limit {
            return Err(Unpacked::TooLarge);
        }
        Ok(())
    }

    fn copy(&mut self, bytes: &[u8]) -> Filled<()> {
        self.room(bytes.len()).copy_from_slice(bytes);
        self.taken(bytes.len())
    }

    fn read_all(&mut self, mut from: impl Read, codec: &str) -> Filled<()> {
        loop {
            match from.read(self.room(STEP_BYTES)) {
                Ok(0) => return Ok(()),
                Ok(size) => self.taken(size)?,
                Err(error) => return damaged(&format!("{codec}: {error}")),
            }
        }
    }
}

/// Decompressors, and the output of the last batch.
pub(super) struct Codecs {
    zstd: Option<DCtx<'static>>,
    out: Buffer,
}

impl Codecs {
    /// `limit`: bytes of a decompressed batch.
    pub(super) fn new(limit: usize) -> Self {
        let out = Buffer {
            bytes: Vec::new(),
            used: 0,
            limit: limit.min(LIMIT_BYTES),
        };
        Codecs { zstd: None, out }
    }

    /// The capacity of the output buffer.
    #[cfg(test)]
    pub(super) fn room_bytes(&self) -> usize {
        self.out.bytes.capacity()
    }

    /// Return the records of a batch, decompressed if `codec` is a codec of Kafka.
    pub(super) fn unpack<'a>(&'a mut self, codec: i16, bytes: &'a [u8]) -> Filled<&'a [u8]> {
        if codec != 0 {
            return self.decompress(codec, bytes);
        }
        if bytes.len() > self.out.limit {
            return Err(Unpacked::TooLarge);
        }
        Ok(bytes)
    }

    /// Decompress `bytes` by a codec of Kafka.
    pub(super) fn decompress(&mut self, codec: i16, bytes: &[u8]) -> Filled<&[u8]> {
        let out = &mut self.out;
        out.clear();
        match codec {
            1 => out.read_all(GzDecoder::new(bytes), "gzip")?,
            2 => snappy(bytes, out)?,
            3 => lz4(bytes, out)?,
            4 => zstd(self.zstd.get_or_insert_with(DCtx::create), bytes, out)?,
            _ => {
                return damaged(&format!(
                    "a batch is compressed by codec {codec}, which is none"
                ));
            }
        }
        Ok(&self.out.bytes[..self.out.used])
    }
}

fn zstd(context: &mut DCtx<'_>, bytes: &[u8], out: &mut Buffer) -> Filled<()> {
    let failed = |code| Malformed(format!("zstd: {}", zstd_safe::get_error_name(code)));
    context
        .reset(zstd_safe::ResetDirective::SessionOnly)
        .map_err(failed)?;
    let mut from = InBuffer::around(bytes);
    loop {
        let was = from.pos();
        let mut into = OutBuffer::around(out.room(STEP_BYTES));
        let hint = context
            .decompress_stream(&mut into, &mut from)
            .map_err(failed)?;
        let size = into.pos();
        out.taken(size)?;
        if hint == 0 && from.pos() == bytes.len() {
            return Ok(());
        }
        if size == 0 && from.pos() == was {
            return damaged("zstd: the frame is not complete");
        }
    }
}

/// Snappy as librdkafka or Java's stream writes it; the latter: a header, then blocks with sizes.
fn snappy(bytes: &[u8], out: &mut Buffer) -> Filled<()> {
    if !bytes.starts_with(SNAPPY_FRAMED) {
        return snappy_block(bytes, out);
    }
    let mut from = Cursor::new(bytes);
    from.take(SNAPPY_FRAMED.len())?;
    from.take(8)?; // its version, and the oldest that can read it
    while from.left() > 0 {
        let block = from.bytes(false)?;
        snappy_block(block, out)?;
    }
    Ok(())
}

fn snappy_block(block: &[u8], out: &mut Buffer) -> Filled<()> {
    let failed = |error| Malformed(format!("snappy: {error}"));
    let size = snap::raw::decompress_len(block).map_err(failed)?;
    // A copy of 64 bytes takes two at least: what promises more is damaged.
    if size / 64 > block.len() {
        return damaged("snappy: a block promises more than it can hold");
    }
    if out.used + size > out.limit {
        return Err(Unpacked::TooLarge); // which it promises, and keeps if it is not damaged
    }
    let written = snap::raw::Decoder::new()
        .decompress(block, out.room(size))
        .map_err(failed)?;
    out.taken(written)
}

/// An LZ4 frame. Independent blocks, which Kafka's clients write, are decompressed here: without the
/// buffers of the general reader.
fn lz4(bytes: &[u8], out: &mut Buffer) -> Filled<()> {
    const INDEPENDENT: u8 = 0x20;
    const BLOCK_CHECKSUM: u8 = 0x10;
    const CONTENT_SIZE: u8 = 8;
    const CONTENT_CHECKSUM: u8 = 4;
    const DICTIONARY: u8 = 1;
    let mut from = Cursor::new(bytes);
    if from.u32()?.swap_bytes() != LZ4_FRAME {
        return damaged("lz4: it is no frame");
    }
    let header = from.take(2)?;
    let (flags, sizes) = (header[0], header[1]);
    let is_plain = flags & 0xc0 == 0x40 && flags & DICTIONARY == 0;
    if !is_plain || flags & INDEPENDENT == 0 {
        return out.read_all(lz4_flex::frame::FrameDecoder::new(bytes), "lz4");
    }
    let block_bytes = match sizes >> 4 & 7 {
        size @ 4..=7 => 1_usize << (8 + 2 * size),
        _ => return damaged("lz4: blocks have no size"),
    };
    from.take(if flags & CONTENT_SIZE == 0 { 1 } else { 9 })?; // the header's checksum behind it
    loop {
        let size = from.u32()?.swap_bytes();
        if size == 0 {
            break;
        }
        let block = from.take((size & 0x7fff_ffff) as usize)?;
        if size >> 31 == 1 {
            out.copy(block)?;
        } else {
            // A byte gives at most 255, so a short block does not reserve a whole one.
            let room = block_bytes.min(block.len().saturating_mul(255));
            let written = lz4_flex::block::decompress_into(block, out.room(room))
                .map_err(|error| Malformed(format!("lz4: {error}")))?;
            out.taken(written)?;
        }
        if flags & BLOCK_CHECKSUM != 0 {
            from.take(4)?; // what the batch's CRC has covered
        }
    }
    if flags & CONTENT_CHECKSUM != 0 {
        from.take(4)?;
    }
    if from.left() > 0 {
        return damaged("lz4: something follows the frame");
    }
    Ok(())
}
