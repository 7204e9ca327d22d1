//! 16 bytes at a time: every 64-bit ARM processor.

use std::arch::aarch64::*;

use super::engine::{Engine, Routine};

/// The engine.
pub struct Neon;

// SAFETY: `InstructionSet::detect` returns it only where the processor has the instructions.
unsafe impl Engine for Neon {
    const NAME: &'static str = "NEON";
    const BITS: usize = 4;
    type Vector = uint8x16_t;

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn or(one: uint8x16_t, other: uint8x16_t) -> uint8x16_t {
        vorrq_u8(one, other)
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn is_ascii(bytes: uint8x16_t) -> bool {
        vmaxvq_u8(bytes) < 0x80
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn find_special(bytes: uint8x16_t) -> u64 {
        let quote = vceqq_u8(bytes, vdupq_n_u8(b'"'));
        let escape = vceqq_u8(bytes, vdupq_n_u8(b'\\'));
        let control = vcltq_u8(bytes, vdupq_n_u8(0x20));
        let found = vreinterpretq_u16_u8(vorrq_u8(vorrq_u8(quote, escape), control));
        vget_lane_u64::<0>(vreinterpret_u64_u8(vshrn_n_u16::<4>(found)))
    }

    #[inline(never)]
    #[target_feature(enable = "neon")]
    unsafe fn call<R: Routine<A, B, C>, A, B, C>(a: A, b: B, c: C) -> R::Output {
        R::run::<Self>(a, b, c)
    }
}
