//! 32 bytes at a time: most processors of x86-64 since 2013.

use std::arch::x86_64::*;

use super::engine::{Engine, Routine};

/// The engine.
pub struct Avx2;

// SAFETY: `InstructionSet::detect` returns it only where the processor has the instructions.
unsafe impl Engine for Avx2 {
    const NAME: &'static str = "AVX2";
    const BITS: usize = 1;
    type Vector = __m256i;

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    unsafe fn or(one: __m256i, other: __m256i) -> __m256i {
        _mm256_or_si256(one, other)
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    unsafe fn is_ascii(bytes: __m256i) -> bool {
        _mm256_movemask_epi8(bytes) == 0
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    unsafe fn find_special(bytes: __m256i) -> u64 {
        let quote = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(b'"' as i8));
        let escape = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(b'\\' as i8));
        let last = _mm256_set1_epi8(0x1f);
        let control = _mm256_cmpeq_epi8(_mm256_max_epu8(bytes, last), last);
        let found = _mm256_or_si256(_mm256_or_si256(quote, escape), control);
        _mm256_movemask_epi8(found) as u32 as u64
    }

    #[inline(never)]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    unsafe fn call<R: Routine<A, B, C>, A, B, C>(a: A, b: B, c: C) -> R::Output {
        R::run::<Self>(a, b, c)
    }
}
