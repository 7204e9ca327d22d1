//! Large buffers that are used again for the values of the next batches.
//!
//! What it is: a few buffers which come back when the last reader of a batch lets go of it.
//! What it promises: a buffer belongs to one batch at a time; at most `KEPT` of at most `LARGEST`
//! bytes are kept. What is decoded lives longer than the records it comes from, so that a heap
//! has no place left for the next 16 MB in one piece, and takes new memory from the system.
//! What it must not know: records, columns.

use std::sync::{Mutex, PoisonError};

use arrow_buffer::Buffer;

/// Smaller ones are left to the allocator, in bytes.
const LARGE: usize = 4 << 20;
/// Larger ones go back to it, in bytes.
const LARGEST: usize = 24 << 20;
/// One is read from while another one is filled.
const KEPT: usize = 2;

/// The buffers of this process.
pub(super) static SPARE: Spare = Spare::new();

/// Buffers that nobody uses.
#[derive(Debug)]
pub(super) struct Spare(Mutex<Vec<Vec<u8>>>);

impl Spare {
    const fn new() -> Self {
        Spare(Mutex::new(Vec::new()))
    }

    /// Return `content` with room for `more` bytes.
    ///
    /// `usual`: what large buffers have room for in any case, in bytes, so that each serves for
    /// each. Room that is not written to costs no memory.
    pub(super) fn grow(&self, mut content: Vec<u8>, more: usize, usual: usize) -> Vec<u8> {
        let size = content.len().saturating_add(more);
        if size < LARGE || size <= content.capacity() {
            content.reserve_exact(more);
            return content;
        }
        let mut grown = self
            .take(size)
            .unwrap_or_else(|| Vec::with_capacity(size.max(usual)));
        grown.extend_from_slice(&content);
        grown
    }

    /// Return a buffer of Arrow with this content, whose memory comes back here.
    pub(super) fn lend(&'static self, content: Vec<u8>) -> Buffer {
        if content.capacity() < LARGE {
            return Buffer::from_vec(content);
        }
        let lent = Lent {
            content,
            spare: self,
        };
        Buffer::from(bytes::Bytes::from_owner(lent))
    }

    fn take(&self, size: usize) -> Option<Vec<u8>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().position(|each| each.capacity() >= size);
        if found.is_none() && kept.len() == KEPT {
            kept.pop(); // too small, and it would stay so
        }
        found.map(|at| kept.swap_remove(at))
    }

    fn put(&self, mut content: Vec<u8>) {
        if content.capacity() > LARGEST {
            return;
        }
        content.clear();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT {
            kept.push(content);
        }
    }
}

/// Content that a batch has.
struct Lent {
    content: Vec<u8>,
    spare: &'static Spare,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.content
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.spare.put(std::mem::take(&mut self.content));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: usize = 16 << 20;

    fn spare() -> &'static Spare {
        Box::leak(Box::new(Spare::new()))
    }

    fn filled(spare: &Spare, byte: u8, size: usize) -> Vec<u8> {
        let mut content = spare.grow(vec![byte; 3], size, USUAL);
        content.resize(size, byte);
        content
    }

    #[test]
    fn a_large_buffer_is_used_again_once_the_last_reader_lets_go_of_it() {
        let spare = spare();
        let first = spare.lend(filled(spare, 1, LARGE));
        let (reader, place) = (first.slice(1), first.as_ptr());
        drop(first);
        let meanwhile = spare.lend(filled(spare, 2, LARGE));
        assert_ne!(meanwhile.as_ptr(), place);
        assert!(reader.iter().all(|byte| *byte == 1));
        drop(reader);
        let next = spare.lend(filled(spare, 3, LARGE + 1));
        assert_eq!(next.as_ptr(), place);
        assert!(next.iter().all(|byte| *byte == 3));
        assert!(meanwhile.iter().all(|byte| *byte == 2));
    }

    #[test]
    fn growing_keeps_what_was_there() {
        let spare = spare();
        drop(spare.lend(filled(spare, 9, LARGE)));
        for more in [0, 10, LARGE, USUAL + 1] {
            let grown = spare.grow(b"abc".to_vec(), more, USUAL);
            assert_eq!(grown, b"abc");
            assert!(grown.capacity() >= 3 + more);
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let spare = spare();
        let many: Vec<Buffer> = (0..=KEPT)
            .map(|_| spare.lend(filled(spare, 1, LARGE)))
            .collect();
        drop(many);
        drop(spare.lend(Vec::with_capacity(LARGEST + 1)));
        drop(spare.lend(b"small".to_vec()));
        let kept: Vec<usize> = spare.0.lock().unwrap().iter().map(Vec::capacity).collect();
        assert_eq!(kept.len(), KEPT);
        assert!(kept.iter().all(|size| (LARGE..=LARGEST).contains(size)));
    }

    #[test]
    fn buffers_that_are_too_small_make_room_for_larger_ones() {
        let spare = spare();
        let small: Vec<Buffer> = (0..KEPT)
            .map(|_| spare.lend(Vec::with_capacity(LARGE)))
            .collect();
        drop(small);
        let larger = spare.lend(filled(spare, 1, LARGE + 1));
        let place = larger.as_ptr();
        drop(larger);
        let next = filled(spare, 2, LARGE + 2);
        assert_eq!(next.as_ptr(), place);
    }
}
