//! Eight bytes at a time in a general register: any processor.

use super::engine::{Engine, Routine};

/// The engine.
pub struct Scalar;

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

// SAFETY: every processor has what it uses.
unsafe impl Engine for Scalar {
    const NAME: &'static str = "scalar";
    const BITS: usize = 8;
    type Vector = u64;

    #[inline(always)]
    unsafe fn or(one: u64, other: u64) -> u64 {
        one | other
    }

    #[inline(always)]
    unsafe fn is_ascii(bytes: u64) -> bool {
        bytes & HIGH == 0
    }

    #[inline(always)]
    unsafe fn find_special(bytes: u64) -> u64 {
        let word = u64::from_le(bytes);
        let is_zero = |word: u64| word.wrapping_sub(LOW) & !word;
        let quote = is_zero(word ^ (LOW * b'"' as u64));
        let escape = is_zero(word ^ (LOW * b'\\' as u64));
        let control = word.wrapping_sub(LOW * 0x20) & !word;
        (quote | escape | control) & HIGH
    }

    #[inline(never)]
    unsafe fn call<R: Routine<A, B, C>, A, B, C>(a: A, b: B, c: C) -> R::Output {
        R::run::<Self>(a, b, c)
    }
}
