//! The loops that a processor can do many bytes at a time, and the choice among them.
//!
//! An [`Engine`] is a set of instructions. Everything else is written once, over an engine, in
//! functions that are inlined into the engine's own, so that all of it is compiled for it.

use super::column::Column;
use super::record::{Context, Object};
use super::text::Cursor;

/// A set of instructions of a processor.
///
/// # Safety
///
/// Each function needs a processor that has these instructions: [`choose`] looks.
pub unsafe trait Engine {
    /// What people are told.
    const NAME: &'static str;

    /// Copy a record to `to`; true: all of it is ASCII.
    ///
    /// # Safety
    ///
    /// `to` has room for the record and 64 bytes more.
    unsafe fn copy_record(record: &[u8], to: *mut u8) -> bool;

    /// Copy bytes from a cursor until a quote, a backslash or a control character; how many.
    ///
    /// # Safety
    ///
    /// `to` has room for what is left of the record and 64 bytes more.
    unsafe fn copy_plain(from: Cursor, to: *mut u8) -> usize;

    /// How many bytes stand before a quote, a backslash or a control character.
    ///
    /// # Safety
    ///
    /// The processor has the instructions.
    unsafe fn count_plain(from: Cursor) -> usize;

    /// [`super::record::parse_record`], compiled for this engine.
    ///
    /// # Safety
    ///
    /// The processor has the instructions.
    unsafe fn parse_record(object: &mut Object, context: &mut Context, record: &[u8]) -> bool;

    /// [`super::record::parse_inner`], compiled for this engine.
    ///
    /// # Safety
    ///
    /// The processor has the instructions.
    unsafe fn parse_inner(column: &mut Column, context: &mut Context, at: Cursor)
    -> Option<Cursor>;

    /// [`super::skip::skip_inner`], compiled for this engine.
    ///
    /// # Safety
    ///
    /// The processor has the instructions.
    unsafe fn skip_inner(at: Cursor, depth: usize) -> Option<Cursor>;
}

/// The functions that are the same text for each engine.
macro_rules! compile_for {
    ($(#[$feature:meta])?) => {
        $(#[$feature])?
        unsafe fn parse_record(
            object: &mut Object,
            context: &mut Context,
            record: &[u8],
        ) -> bool {
            crate::decode::record::parse_record::<Self>(object, context, record)
        }

        $(#[$feature])?
        unsafe fn parse_inner(
            column: &mut Column,
            context: &mut Context,
            at: Cursor,
        ) -> Option<Cursor> {
            crate::decode::record::parse_inner::<Self>(column, context, at)
        }

        $(#[$feature])?
        unsafe fn skip_inner(at: Cursor, depth: usize) -> Option<Cursor> {
            crate::decode::skip::skip_inner::<Self>(at, depth)
        }
    };
}

/// Eight bytes at a time in a general register: any processor.
pub struct Scalar;

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// The high bit of each byte that is a quote, a backslash or a control character. Above the first
/// of them bits may be wrong.
#[inline(always)]
pub fn find_special(word: u64) -> u64 {
    let is_zero = |word: u64| word.wrapping_sub(LOW) & !word;
    let quote = is_zero(word ^ (LOW * b'"' as u64));
    let escape = is_zero(word ^ (LOW * b'\\' as u64));
    let control = word.wrapping_sub(LOW * 0x20) & !word;
    (quote | escape | control) & HIGH
}

// SAFETY: every processor has what it uses.
unsafe impl Engine for Scalar {
    const NAME: &'static str = "scalar";

    #[inline(always)]
    unsafe fn copy_record(record: &[u8], to: *mut u8) -> bool {
        // SAFETY: the caller gives room; the two do not overlap, as one is borrowed and the other
        // is written through a pointer that the caller owns.
        unsafe { std::ptr::copy_nonoverlapping(record.as_ptr(), to, record.len()) };
        record.is_ascii()
    }

    #[inline(always)]
    unsafe fn copy_plain(from: Cursor, to: *mut u8) -> usize {
        let (mut at, mut count) = (from, 0);
        loop {
            let word = at.word();
            // SAFETY: the caller gives room for the rest of the record and more; a word that
            // begins in it ends less than 64 bytes behind it.
            unsafe {
                to.add(count)
                    .cast::<[u8; 8]>()
                    .write_unaligned(word.to_le_bytes())
            };
            let special = find_special(word);
            if special != 0 {
                return count + special.trailing_zeros() as usize / 8;
            }
            at = at.skip(8);
            count += 8;
        }
    }

    #[inline(always)]
    unsafe fn count_plain(from: Cursor) -> usize {
        let mut at = from;
        loop {
            let special = find_special(at.word());
            if special != 0 {
                return at.since(from) + special.trailing_zeros() as usize / 8;
            }
            at = at.skip(8);
        }
    }

    compile_for!();
}

/// 32 bytes at a time: most processors of x86-64 since 2013.
#[cfg(target_arch = "x86_64")]
pub struct Avx2;

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::*;
    use std::arch::x86_64::*;

    /// One bit for each of 32 bytes that is a quote, a backslash or a control character.
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    #[inline]
    fn find_special(bytes: __m256i) -> u32 {
        let quote = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(b'"' as i8));
        let escape = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(b'\\' as i8));
        let last = _mm256_set1_epi8(0x1f);
        let control = _mm256_cmpeq_epi8(_mm256_max_epu8(bytes, last), last);
        _mm256_movemask_epi8(_mm256_or_si256(_mm256_or_si256(quote, escape), control)) as u32
    }

    // SAFETY: `choose` hands it out only where the processor has the instructions.
    unsafe impl Engine for Avx2 {
        const NAME: &'static str = "AVX2";

        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
        #[inline]
        unsafe fn copy_record(record: &[u8], to: *mut u8) -> bool {
            let (from, len) = (record.as_ptr(), record.len());
            if len < 32 {
                // SAFETY: this engine's caller gives what the other needs.
                return unsafe { Scalar::copy_record(record, to) };
            }
            let mut seen = _mm256_setzero_si256();
            let mut at = 0;
            loop {
                // SAFETY: 32 bytes from `at` lie in the record; the caller gives as much room.
                unsafe {
                    let bytes = _mm256_loadu_si256(from.add(at).cast());
                    _mm256_storeu_si256(to.add(at).cast(), bytes);
                    seen = _mm256_or_si256(seen, bytes);
                }
                if at == len - 32 {
                    return _mm256_movemask_epi8(seen) == 0;
                }
                at = (at + 32).min(len - 32); // the last 32 bytes may be copied in part again
            }
        }

        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
        #[inline]
        unsafe fn copy_plain(from: Cursor, to: *mut u8) -> usize {
            let (mut at, mut count) = (from, 0);
            loop {
                // SAFETY: a cursor may look 64 bytes ahead; the caller gives room.
                let bytes = unsafe {
                    let bytes = _mm256_loadu_si256(at.pointer().cast());
                    _mm256_storeu_si256(to.add(count).cast(), bytes);
                    bytes
                };
                let special = find_special(bytes);
                if special != 0 {
                    return count + special.trailing_zeros() as usize;
                }
                at = at.skip(32);
                count += 32;
            }
        }

        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
        #[inline]
        unsafe fn count_plain(from: Cursor) -> usize {
            let mut at = from;
            loop {
                // SAFETY: a cursor may look 64 bytes ahead.
                let special = find_special(unsafe { _mm256_loadu_si256(at.pointer().cast()) });
                if special != 0 {
                    return at.since(from) + special.trailing_zeros() as usize;
                }
                at = at.skip(32);
            }
        }

        compile_for!(#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]);
    }
}

/// 16 bytes at a time: every 64-bit ARM processor.
#[cfg(target_arch = "aarch64")]
pub struct Neon;

#[cfg(target_arch = "aarch64")]
mod neon {
    use super::*;
    use std::arch::aarch64::*;

    /// Four bits for each of 16 bytes that is a quote, a backslash or a control character.
    #[target_feature(enable = "neon")]
    #[inline]
    fn find_special(bytes: uint8x16_t) -> u64 {
        let quote = vceqq_u8(bytes, vdupq_n_u8(b'"'));
        let escape = vceqq_u8(bytes, vdupq_n_u8(b'\\'));
        let control = vcltq_u8(bytes, vdupq_n_u8(0x20));
        let found = vreinterpretq_u16_u8(vorrq_u8(vorrq_u8(quote, escape), control));
        vget_lane_u64::<0>(vreinterpret_u64_u8(vshrn_n_u16::<4>(found)))
    }

    // SAFETY: `choose` hands it out only where the processor has the instructions.
    unsafe impl Engine for Neon {
        const NAME: &'static str = "NEON";

        #[target_feature(enable = "neon")]
        #[inline]
        unsafe fn copy_record(record: &[u8], to: *mut u8) -> bool {
            let (from, len) = (record.as_ptr(), record.len());
            if len < 16 {
                // SAFETY: this engine's caller gives what the other needs.
                return unsafe { Scalar::copy_record(record, to) };
            }
            let mut seen = vdupq_n_u8(0);
            let mut at = 0;
            loop {
                // SAFETY: 16 bytes from `at` lie in the record; the caller gives as much room.
                unsafe {
                    let bytes = vld1q_u8(from.add(at));
                    vst1q_u8(to.add(at), bytes);
                    seen = vorrq_u8(seen, bytes);
                }
                if at == len - 16 {
                    return vmaxvq_u8(seen) < 0x80;
                }
                at = (at + 16).min(len - 16); // the last 16 bytes may be copied in part again
            }
        }

        #[target_feature(enable = "neon")]
        #[inline]
        unsafe fn copy_plain(from: Cursor, to: *mut u8) -> usize {
            let (mut at, mut count) = (from, 0);
            loop {
                // SAFETY: a cursor may look 64 bytes ahead; the caller gives room.
                let bytes = unsafe {
                    let bytes = vld1q_u8(at.pointer());
                    vst1q_u8(to.add(count), bytes);
                    bytes
                };
                let special = find_special(bytes);
                if special != 0 {
                    return count + special.trailing_zeros() as usize / 4;
                }
                at = at.skip(16);
                count += 16;
            }
        }

        #[target_feature(enable = "neon")]
        #[inline]
        unsafe fn count_plain(from: Cursor) -> usize {
            let mut at = from;
            loop {
                // SAFETY: a cursor may look 64 bytes ahead.
                let special = find_special(unsafe { vld1q_u8(at.pointer()) });
                if special != 0 {
                    return at.since(from) + special.trailing_zeros() as usize / 4;
                }
                at = at.skip(16);
            }
        }

        compile_for!(#[target_feature(enable = "neon")]);
    }
}

/// Which engine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// [`Scalar`]
    Scalar,
    /// `Avx2`
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// `Neon`
    #[cfg(target_arch = "aarch64")]
    Neon,
}

impl Chosen {
    /// What people are told.
    pub fn name(self) -> &'static str {
        match self {
            Chosen::Scalar => Scalar::NAME,
            #[cfg(target_arch = "x86_64")]
            Chosen::Avx2 => Avx2::NAME,
            #[cfg(target_arch = "aarch64")]
            Chosen::Neon => Neon::NAME,
        }
    }
}

/// The best engine that this processor has.
pub fn choose() -> Chosen {
    #[cfg(target_arch = "x86_64")]
    if ["avx2", "bmi1", "bmi2", "lzcnt", "popcnt"]
        .iter()
        .all(|name| has(name))
    {
        return Chosen::Avx2;
    }
    #[cfg(target_arch = "aarch64")]
    if std::arch::is_aarch64_feature_detected!("neon") {
        return Chosen::Neon;
    }
    Chosen::Scalar
}

#[cfg(target_arch = "x86_64")]
fn has(name: &str) -> bool {
    match name {
        "avx2" => is_x86_feature_detected!("avx2"),
        "bmi1" => is_x86_feature_detected!("bmi1"),
        "bmi2" => is_x86_feature_detected!("bmi2"),
        "lzcnt" => is_x86_feature_detected!("lzcnt"),
        _ => is_x86_feature_detected!("popcnt"),
    }
}
