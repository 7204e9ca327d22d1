//! Arrays as Python takes them.

use std::ffi::CStr;
use std::sync::Mutex;

use arrow_data::ArrayData;
use arrow_data::ffi::FFI_ArrowArray;
use arrow_schema::ffi::FFI_ArrowSchema;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// The name of a capsule with a schema.
pub(super) const SCHEMA: &CStr = c"arrow_schema";
/// The name of a capsule with an array.
pub(super) const ARRAY: &CStr = c"arrow_array";

/// An array as `pyarrow.array` takes it, once; rows are a struct, for `pyarrow.record_batch`.
/// Nothing of it is here afterwards.
#[pyclass(frozen)]
pub(super) struct Block {
    array: Mutex<Option<ArrayData>>,
}

impl Block {
    pub(super) fn new(array: ArrayData) -> Self {
        Block {
            array: Mutex::new(Some(array)),
        }
    }
}

#[pymethods]
impl Block {
    /// See Arrow's PyCapsule interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let _ = requested_schema; // may be disregarded
        let array = self.array.lock().ok().and_then(|mut array| array.take());
        let array = array.ok_or_else(|| PyValueError::new_err("the array was taken before"))?;
        let failed = |error: arrow_schema::ArrowError| PyRuntimeError::new_err(error.to_string());
        let schema = FFI_ArrowSchema::try_from(array.data_type()).map_err(failed)?;
        Ok((
            PyCapsule::new_with_value(py, schema, SCHEMA)?,
            PyCapsule::new_with_value(py, FFI_ArrowArray::new(&array), ARRAY)?,
        ))
    }
}

/// Add arrays to the module.
pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Block>()
}
