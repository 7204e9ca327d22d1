//! A pool of large buffers for the values of record batches.
//!
//! What it is: a few buffers, which return when the last reader of a batch releases it.
//! What it promises: a buffer belongs to one batch at a time; at most `KEPT` of at most `LARGEST`
//! bytes are kept. Decoded rows live longer than the records that they come from, so without a pool
//! the heap has no free 16 MB for the next batch, and takes new memory from the system.

use std::sync::{Mutex, PoisonError};

use arrow_buffer::Buffer;

/// Smaller buffers are left to the allocator, in bytes.
const LARGE: usize = 4 << 20;
/// Larger buffers return to it, in bytes.
const LARGEST: usize = 24 << 20;
/// One is read while another one is filled.
const KEPT: usize = 2;

/// The buffers of this process.
pub(super) static BUFFERS: BufferPool = BufferPool::new();

/// Buffers that are not in use.
#[derive(Debug)]
pub(super) struct BufferPool(Mutex<Vec<Vec<u8>>>);

impl BufferPool {
    const fn new() -> Self {
        BufferPool(Mutex::new(Vec::new()))
    }

    /// Return `content` with room for `more` bytes.
    ///
    /// `usual`: the least capacity of large buffers, in bytes, so that any of them can replace any
    /// other. Capacity that is not written to costs no memory.
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

    /// Return a buffer of Arrow with this content, whose memory returns to the pool.
    pub(super) fn lend(&'static self, content: Vec<u8>) -> Buffer {
        if content.capacity() < LARGE {
            return Buffer::from_vec(content);
        }
        let lent = Lent {
            content,
            pool: self,
        };
        Buffer::from(bytes::Bytes::from_owner(lent))
    }

    fn take(&self, size: usize) -> Option<Vec<u8>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().position(|each| each.capacity() >= size);
        if found.is_none() && kept.len() == KEPT {
            kept.pop(); // too small for the batches of today
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

/// The content of a batch.
struct Lent {
    content: Vec<u8>,
    pool: &'static BufferPool,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.content
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.pool.put(std::mem::take(&mut self.content));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: usize = 16 << 20;

    fn pool() -> &'static BufferPool {
        Box::leak(Box::new(BufferPool::new()))
    }

    fn filled(pool: &BufferPool, byte: u8, size: usize) -> Vec<u8> {
        let mut content = pool.grow(vec![byte; 3], size, USUAL);
        content.resize(size, byte);
        content
    }

    #[test]
    fn a_large_buffer_is_used_again_once_the_last_reader_lets_go_of_it() {
        let pool = pool();
        let first = pool.lend(filled(pool, 1, LARGE));
        let (reader, place) = (first.slice(1), first.as_ptr());
        drop(first);
        let meanwhile = pool.lend(filled(pool, 2, LARGE));
        assert_ne!(meanwhile.as_ptr(), place);
        assert!(reader.iter().all(|byte| *byte == 1));
        drop(reader);
        let next = pool.lend(filled(pool, 3, LARGE + 1));
        assert_eq!(next.as_ptr(), place);
        assert!(next.iter().all(|byte| *byte == 3));
        assert!(meanwhile.iter().all(|byte| *byte == 2));
    }

    #[test]
    fn growing_keeps_what_was_there() {
        let pool = pool();
        drop(pool.lend(filled(pool, 9, LARGE)));
        for more in [0, 10, LARGE, USUAL + 1] {
            let grown = pool.grow(b"abc".to_vec(), more, USUAL);
            assert_eq!(grown, b"abc");
            assert!(grown.capacity() >= 3 + more);
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let pool = pool();
        let many: Vec<Buffer> = (0..=KEPT)
            .map(|_| pool.lend(filled(pool, 1, LARGE)))
            .collect();
        drop(many);
        drop(pool.lend(Vec::with_capacity(LARGEST + 1)));
        drop(pool.lend(b"small".to_vec()));
        let kept: Vec<usize> = pool.0.lock().unwrap().iter().map(Vec::capacity).collect();
        assert_eq!(kept.len(), KEPT);
        assert!(kept.iter().all(|size| (LARGE..=LARGEST).contains(size)));
    }

    #[test]
    fn buffers_that_are_too_small_make_room_for_larger_ones() {
        let pool = pool();
        let small: Vec<Buffer> = (0..KEPT)
            .map(|_| pool.lend(Vec::with_capacity(LARGE)))
            .collect();
        drop(small);
        let larger = pool.lend(filled(pool, 1, LARGE + 1));
        let place = larger.as_ptr();
        drop(larger);
        let next = filled(pool, 2, LARGE + 2);
        assert_eq!(next.as_ptr(), place);
    }
}
