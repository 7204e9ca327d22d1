//! Sets of instructions: an engine for each processor, one of which is chosen when a decoder is made.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod engine;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;

#[cfg(target_arch = "x86_64")]
pub use avx2::Avx2;
pub use engine::{Engine, Routine, copy_plain, copy_record, count_plain};
#[cfg(target_arch = "aarch64")]
pub use neon::Neon;
pub use scalar::Scalar;

/// Which engine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstructionSet {
    /// [`Scalar`]
    Scalar,
    /// `Avx2`
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// `Neon`
    #[cfg(target_arch = "aarch64")]
    Neon,
}

impl InstructionSet {
    /// The best one that this processor has.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt")
        {
            return InstructionSet::Avx2;
        }
        #[cfg(target_arch = "aarch64")]
        if std::arch::is_aarch64_feature_detected!("neon") {
            return InstructionSet::Neon;
        }
        InstructionSet::Scalar
    }

    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            InstructionSet::Scalar => Scalar::NAME,
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => Avx2::NAME,
            #[cfg(target_arch = "aarch64")]
            InstructionSet::Neon => Neon::NAME,
        }
    }
}
