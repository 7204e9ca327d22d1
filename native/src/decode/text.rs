//! A record as the parser sees it: a copy that ends in NULs, and a cursor into it.
//!
//! Why nothing here reads what is not ours. [`Text`] is the record's bytes followed by at least
//! [`PADDING`] NULs. A [`Cursor`] starts at the first byte and is moved only over bytes that were
//! compared with something that is not NUL: a quote, a digit, a name. So it never passes the first
//! NUL behind the record. A read takes at most [`PADDING`] bytes from where the cursor stands. In
//! debug builds, which tests use, both are checked at each step.

use std::ptr::NonNull;

use super::scan::{Engine, copy_plain, copy_record, count_plain};

/// So many NULs stand behind a record at least, and so many bytes a step may look ahead.
pub const PADDING: usize = 64;

/// The bytes of a record, with NULs behind them.
#[derive(Default)]
pub struct Text {
    bytes: Vec<u8>,
    len: usize,
}

impl Text {
    /// Put a record here. True: every byte of it is ASCII.
    #[inline(always)]
    pub fn set<E: Engine>(&mut self, record: &[u8]) -> bool {
        let need = record.len() + 2 * PADDING;
        if self.bytes.len() < need {
            self.bytes.resize(need.next_power_of_two(), 0);
        }
        self.len = record.len();
        // SAFETY: the buffer has room for the record.
        let is_ascii = unsafe { copy_record::<E>(record, self.bytes.as_mut_ptr()) };
        let at = self.len;
        self.bytes[at..at + PADDING].fill(0);
        is_ascii
    }

    /// The bytes of the record.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// How many bytes are before a cursor.
    #[inline(always)]
    pub fn offset(&self, at: Cursor) -> usize {
        at.at.addr().get() - self.bytes.as_ptr().addr()
    }

    /// A cursor at the first byte.
    #[inline(always)]
    pub fn start(&self) -> Cursor {
        Cursor {
            at: NonNull::from(&self.bytes[..]).cast(), // of all of them: it may look at the padding
            end: self.bytes[self.len..].as_ptr(),
        }
    }
}

/// A place in a [`Text`]. It must not outlive what the text holds now.
#[derive(Clone, Copy)]
pub struct Cursor {
    at: NonNull<u8>, // so that a cursor or none is handed back in registers
    end: *const u8,
}

impl Cursor {
    /// The byte here; NUL at the end of the record, and where the record has one.
    #[inline(always)]
    pub fn byte(self) -> u8 {
        self.look::<1>()[0]
    }

    /// The next `N` bytes. Those behind the record are NUL, as far as `PADDING` reaches.
    #[inline(always)]
    pub fn look<const N: usize>(self) -> [u8; N] {
        const { assert!(N <= PADDING) };
        // SAFETY: see the head of this file.
        unsafe { self.at.cast::<[u8; N]>().read_unaligned() }
    }

    /// The next eight bytes as a number, the first one lowest.
    #[inline(always)]
    pub fn word(self) -> u64 {
        u64::from_le_bytes(self.look::<8>())
    }

    /// The place `count` bytes further. None of those that are left behind is NUL, or the caller
    /// has compared them with a text that holds NULs: neither can reach behind the record.
    #[inline(always)]
    pub fn skip(self, count: usize) -> Cursor {
        debug_assert!(count <= self.left(), "a cursor passes the end");
        // SAFETY: what is passed lies in the record.
        let at = unsafe { self.at.add(count) };
        Cursor { at, ..self }
    }

    /// How many bytes of the record are left.
    #[inline(always)]
    pub fn left(self) -> usize {
        self.end.addr() - self.at.addr().get()
    }

    /// How many bytes lie between an earlier cursor and this one.
    #[inline(always)]
    pub fn since(self, earlier: Cursor) -> usize {
        self.at.addr().get() - earlier.at.addr().get()
    }

    /// The bytes between an earlier cursor and this one. They are there until the text changes.
    #[inline(always)]
    pub fn from<'a>(self, earlier: Cursor) -> &'a [u8] {
        // SAFETY: both are in one record, which holds what lies between them; see `Cursor` for
        // how long.
        unsafe { std::slice::from_raw_parts(earlier.at.as_ptr(), self.since(earlier)) }
    }

    /// The place of the next quote, backslash or control character.
    #[inline(always)]
    pub fn skip_plain<E: Engine>(self) -> Cursor {
        // SAFETY: a NUL stands behind the record, with PADDING bytes to read.
        self.skip(unsafe { count_plain::<E>(self.at.as_ptr()) })
    }

    /// As `skip_plain`, and append what is passed to `to`.
    #[inline(always)]
    pub fn copy_plain<E: Engine>(self, to: &mut Vec<u8>) -> Cursor {
        let room = self.left() + PADDING;
        if to.capacity() - to.len() < room {
            to.reserve(room);
        }
        // SAFETY: as in `skip_plain`; there is room for what is left of the record and PADDING bytes,
        // and `count` bytes were written.
        unsafe {
            let count = copy_plain::<E>(self.at.as_ptr(), to.as_mut_ptr().add(to.len()));
            to.set_len(to.len() + count);
            self.skip(count)
        }
    }

    /// The place behind white space, as JSON knows it.
    #[inline(always)]
    pub fn skip_space(mut self) -> Cursor {
        while matches!(self.byte(), b' ' | b'\t' | b'\n' | b'\r') {
            self = self.skip(1);
        }
        self
    }
}
