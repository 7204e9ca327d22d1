//! Encoding and decoding of Kafka's protocol.
//!
//! Lengths and counts are not trusted: each must lie within the bytes at hand before memory is
//! reserved for it.

use std::fmt;

/// Bytes that do not follow the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(pub String);

impl fmt::Display for Malformed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// The result of decoding.
pub type Parsed<T> = Result<T, Malformed>;

/// Return the error for malformed bytes.
#[cold]
#[inline(never)]
pub(super) fn malformed<T>(what: &str) -> Parsed<T> {
    Err(Malformed(what.to_owned()))
}

/// A position in bytes that advances as they are read.
#[derive(Debug, Clone)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

macro_rules! number {
    ($name:ident, $type:ty) => {
        pub(super) fn $name(&mut self) -> Parsed<$type> {
            const SIZE: usize = size_of::<$type>();
            let mut taken = [0; SIZE];
            taken.copy_from_slice(self.take(SIZE)?);
            Ok(<$type>::from_be_bytes(taken))
        }
    };
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Cursor { bytes, at: 0 }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    #[inline(always)]
    pub(super) fn take(&mut self, size: usize) -> Parsed<&'a [u8]> {
        match self.bytes[self.at..].get(..size) {
            Some(taken) => {
                self.at += size;
                Ok(taken)
            }
            None => malformed("it ends in the midst of a field"),
        }
    }

    number!(i8, i8);
    number!(i16, i16);
    number!(i32, i32);
    number!(i64, i64);
    number!(u32, u32);

    pub(super) fn uuid(&mut self) -> Parsed<[u8; 16]> {
        let mut id = [0; 16];
        id.copy_from_slice(self.take(16)?);
        Ok(id)
    }

    /// A number in zigzag and groups of seven bits, as records have them.
    #[inline(always)]
    pub(super) fn varint(&mut self) -> Parsed<i64> {
        // Nearly all have one to three bytes.
        let found = match self.bytes[self.at..] {
            [a, ..] if a < 0x80 => {
                self.at += 1;
                u64::from(a)
            }
            [a, b, ..] if b < 0x80 => {
                self.at += 2;
                u64::from(a & 0x7f) | u64::from(b) << 7
            }
            [a, b, c, ..] if c < 0x80 => {
                self.at += 3;
                u64::from(a & 0x7f) | u64::from(b & 0x7f) << 7 | u64::from(c) << 14
            }
            _ => self.unsigned(64)?,
        };
        Ok((found >> 1).cast_signed() ^ -(found & 1).cast_signed())
    }

    /// A number in groups of seven bits, the lowest first.
    #[inline(never)]
    fn unsigned(&mut self, bits: u32) -> Parsed<u64> {
        let (mut found, mut shift) = (0_u64, 0);
        for &byte in &self.bytes[self.at..] {
            if shift >= bits {
                break;
            }
            self.at += 1;
            found |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(found);
            }
            shift += 7;
        }
        malformed("a number does not end")
    }

    /// Skip the bytes of a nullable field of a record and return them; a size of -1 is null.
    #[inline(always)]
    pub(super) fn nullable(&mut self) -> Parsed<Option<&'a [u8]>> {
        match self.varint()? {
            -1 => Ok(None),
            size => match usize::try_from(size) {
                Ok(size) => self.take(size).map(Some),
                Err(_) => malformed("a size is negative"),
            },
        }
    }

    /// The size of a string, of bytes or of an array; None is null.
    fn size(&mut self, is_compact: bool, is_short: bool) -> Parsed<Option<usize>> {
        let size = if is_compact {
            i64::from(u32::try_from(self.unsigned(35)?).unwrap_or(u32::MAX)) - 1
        } else if is_short {
            i64::from(self.i16()?)
        } else {
            i64::from(self.i32()?)
        };
        match usize::try_from(size) {
            Ok(size) if size <= self.left() => Ok(Some(size)),
            Ok(_) => malformed("a size is larger than what follows"),
            Err(_) if size == -1 => Ok(None),
            Err(_) => malformed("a size is negative"),
        }
    }

    pub(super) fn string(&mut self, is_compact: bool) -> Parsed<Option<String>> {
        let Some(size) = self.size(is_compact, true)? else {
            return Ok(None);
        };
        match std::str::from_utf8(self.take(size)?) {
            Ok(text) => Ok(Some(text.to_owned())),
            Err(_) => malformed("a string is not UTF-8"),
        }
    }

    /// Bytes; null is empty.
    pub(super) fn bytes(&mut self, is_compact: bool) -> Parsed<&'a [u8]> {
        let size = self.size(is_compact, false)?.unwrap_or(0);
        self.take(size)
    }

    /// The number of elements of an array, each of which takes at least one byte; null is none.
    pub(super) fn count(&mut self, is_compact: bool) -> Parsed<usize> {
        Ok(self.size(is_compact, false)?.unwrap_or(0))
    }

    /// Skip the tagged fields of a structure, if its version has any.
    pub(super) fn tags(
        &mut self,
        is_flexible: bool,
        mut take: impl FnMut(u64, &mut Cursor<'a>) -> Parsed<()>,
    ) -> Parsed<()> {
        if !is_flexible {
            return Ok(());
        }
        for _ in 0..self.unsigned(35)? {
            let tag = self.unsigned(35)?;
            match usize::try_from(self.unsigned(35)?) {
                Ok(size) => take(tag, &mut Cursor::new(self.take(size)?))?,
                Err(_) => return malformed("a tagged field is too large"),
            }
        }
        Ok(())
    }

    pub(super) fn skip_tags(&mut self, is_flexible: bool) -> Parsed<()> {
        self.tags(is_flexible, |_, _| Ok(()))
    }
}

/// A request that is being written.
#[derive(Debug, Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn i8(&mut self, value: i8) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    pub(super) fn i16(&mut self, value: i16) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    pub(super) fn i32(&mut self, value: i32) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    pub(super) fn i64(&mut self, value: i64) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn unsigned(&mut self, mut value: usize) -> &mut Self {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
        self
    }

    /// Requires: the string is no longer than a name of Kafka may be.
    pub(super) fn string(&mut self, is_compact: bool, text: &str) -> &mut Self {
        if is_compact {
            self.unsigned(text.len() + 1);
        } else {
            self.i16(i16::try_from(text.len()).unwrap_or(i16::MAX));
        }
        self.raw(text.as_bytes())
    }

    pub(super) fn count(&mut self, is_compact: bool, count: usize) -> &mut Self {
        if is_compact {
            self.unsigned(count + 1)
        } else {
            self.i32(i32::try_from(count).unwrap_or(i32::MAX))
        }
    }

    /// Write an empty list of tagged fields, if the structure's version has one.
    pub(super) fn no_tags(&mut self, is_flexible: bool) -> &mut Self {
        if is_flexible { self.i8(0) } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_kafka_writes_them() {
        let cases: [(&[u8], i64); 6] = [
            (&[0], 0),
            (&[1], -1),
            (&[2], 1),
            (&[0x80, 0x01], 64),
            (
                &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
                i64::MAX,
            ),
            (
                &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
                i64::MIN,
            ),
        ];
        for (bytes, wanted) in cases {
            assert_eq!(Cursor::new(bytes).varint(), Ok(wanted));
        }
        assert!(Cursor::new(&[0xff; 20]).varint().is_err());
        assert!(Cursor::new(&[0x80]).varint().is_err());
    }

    #[test]
    fn a_size_beyond_the_bytes_is_refused_before_anything_is_reserved() {
        assert!(
            Cursor::new(&[0x7f, 0xff, 0xff, 0xff, 1])
                .count(false)
                .is_err()
        );
        assert!(
            Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0x0f, 1])
                .count(true)
                .is_err()
        );
        assert!(
            Cursor::new(&[0xff, 0xff, 0xff, 0xfe, 1])
                .bytes(false)
                .is_err()
        );
        assert_eq!(
            Cursor::new(&[0xff, 0xff, 0xff, 0xff]).bytes(false),
            Ok(&[][..])
        );
    }
}
