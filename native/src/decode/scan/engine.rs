//! What an engine is, the loops over its vectors, and the one caller.
//!
//! An [`Engine`] has the operations on a vector of bytes, for one set of instructions. All else is
//! written once, over an engine: it is inlined into [`Engine::call`], which the engine compiles with
//! its instructions.

use std::mem::zeroed;

/// A set of instructions of a processor, by its operations on a vector of bytes.
///
/// # Safety
///
/// A vector has at most 64 bytes, and any bytes are one. Each function needs a processor that has the
/// instructions: see `InstructionSet::detect`.
pub unsafe trait Engine: Sized {
    /// The name in messages.
    const NAME: &'static str;
    /// How many bits [`Engine::find_special`] has for a byte.
    const BITS: usize;
    /// As many bytes as are read at once.
    type Vector: Copy;

    /// The bits of two vectors.
    ///
    /// # Safety
    ///
    /// The processor has the instructions.
    unsafe fn or(one: Self::Vector, other: Self::Vector) -> Self::Vector;

    /// Whether all bytes are ASCII.
    ///
    /// # Safety
    ///
    /// The processor has the instructions.
    unsafe fn is_ascii(bytes: Self::Vector) -> bool;

    /// The lowest bit that is set belongs to the first quote, backslash or control character; 0: there
    /// is none. Higher bits may be wrong.
    ///
    /// # Safety
    ///
    /// The processor has the instructions.
    unsafe fn find_special(bytes: Self::Vector) -> u64;

    /// Run a routine, compiled with these instructions.
    ///
    /// # Safety
    ///
    /// The processor has the instructions.
    unsafe fn call<R: Routine<A, B, C>, A, B, C>(a: A, b: B, c: C) -> R::Output;
}

/// A function that is compiled for each engine. Its arguments are apart, to be passed in registers.
pub trait Routine<A, B, C> {
    /// What it returns.
    type Output;

    /// The function; to be `inline(always)`.
    fn run<E: Engine>(a: A, b: B, c: C) -> Self::Output;

    /// Call it as the engine has compiled it.
    #[inline(always)]
    fn call<E: Engine>(a: A, b: B, c: C) -> Self::Output
    where
        Self: Sized,
    {
        // SAFETY: `InstructionSet::detect` has found the instructions of the engine that runs.
        unsafe { E::call::<Self, A, B, C>(a, b, c) }
    }
}

/// Copy a record; true: all of it is ASCII.
///
/// # Safety
///
/// The processor has the instructions, and `to` has room for the record.
#[inline(always)]
pub unsafe fn copy_record<E: Engine>(record: &[u8], to: *mut u8) -> bool {
    let (from, len, size) = (record.as_ptr(), record.len(), size_of::<E::Vector>());
    if len < size {
        // SAFETY: the caller gives room; what is borrowed does not overlap what is written to.
        unsafe { from.copy_to_nonoverlapping(to, len) };
        return record.is_ascii();
    }
    // SAFETY: any bytes are a vector.
    let mut seen: E::Vector = unsafe { zeroed() };
    let mut at = 0;
    loop {
        // SAFETY: a vector from `at` lies in the record; the caller gives as much room.
        unsafe {
            let bytes = from.add(at).cast::<E::Vector>().read_unaligned();
            to.add(at).cast::<E::Vector>().write_unaligned(bytes);
            seen = E::or(seen, bytes);
            if at == len - size {
                return E::is_ascii(seen);
            }
        }
        at = (at + size).min(len - size); // the last bytes may be copied in part again
    }
}

/// How many bytes stand before a quote, a backslash or a control character.
///
/// # Safety
///
/// The processor has the instructions. Such a byte comes, with 64 that can be read from it on.
#[inline(always)]
pub unsafe fn count_plain<E: Engine>(from: *const u8) -> usize {
    let mut count = 0;
    loop {
        // SAFETY: no special byte has come yet, so a vector can be read.
        let special =
            unsafe { E::find_special(from.add(count).cast::<E::Vector>().read_unaligned()) };
        if special != 0 {
            return count + special.trailing_zeros() as usize / E::BITS;
        }
        count += size_of::<E::Vector>();
    }
}

/// As [`count_plain`], and copy these bytes.
///
/// # Safety
///
/// As there; `to` has room for the bytes and 64 more.
#[inline(always)]
pub unsafe fn copy_plain<E: Engine>(from: *const u8, to: *mut u8) -> usize {
    let mut count = 0;
    loop {
        // SAFETY: no special byte has come yet, so a vector can be read, and has room.
        let special = unsafe {
            let bytes = from.add(count).cast::<E::Vector>().read_unaligned();
            to.add(count).cast::<E::Vector>().write_unaligned(bytes);
            E::find_special(bytes)
        };
        if special != 0 {
            return count + special.trailing_zeros() as usize / E::BITS;
        }
        count += size_of::<E::Vector>();
    }
}
