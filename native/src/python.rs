//! What Python sees of the crate. No panic leaves it: see [`guarded`].

mod block;
mod decoding;
mod reading;

use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// What Python and the crate agree on. One higher with every change that the other side would notice.
const INTERFACE: u32 = 9;

/// Run `work` without Python's lock. A panic, which is a mistake in this crate, becomes a
/// RuntimeError: the task fails with a sentence.
pub(crate) fn guarded<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    py.detach(|| catch_unwind(AssertUnwindSafe(work)))
        .map_err(|panic| {
            let error = panic
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_default();
            PyRuntimeError::new_err(format!("a mistake in ashore_native: {error}"))
        })
}

/// What this build of the crate is, for people: its version and what the processor lends it.
#[pyfunction]
fn describe(py: Python<'_>) -> PyResult<String> {
    guarded(py, || {
        let engine = crate::decode::InstructionSet::detect().name();
        format!("ashore-native {}, {engine}", env!("CARGO_PKG_VERSION"))
    })
}

#[pymodule]
fn ashore_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("INTERFACE", INTERFACE)?;
    module.add_function(wrap_pyfunction!(describe, module)?)?;
    block::register(module)?;
    decoding::register(module)?;
    reading::register(module)
}
