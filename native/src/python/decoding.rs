//! The decoder as Python sees it.

use std::sync::Mutex;

use arrow_data::ffi::FFI_ArrowArray;
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{DataType, Schema};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::block::{ARRAY, Block, SCHEMA};
use super::guarded;
use crate::decode::{self, Source};

/// Add the decoder to the module.
pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<JsonDecoder>()?;
    module.add_class::<DecodedJson>()
}

/// Turns values that hold one JSON object each into rows of a schema.
#[pyclass(frozen)]
struct JsonDecoder {
    decoder: Mutex<decode::Decoder>,
}

/// Of values by their numbers: those that are rows, those that are none, a reason for each of
/// these, and those that are left.
type Verdicts = (Py<Block>, Py<Block>, Py<Block>, Option<Py<Block>>);

/// The result of a call.
#[pyclass(frozen, get_all)]
struct DecodedJson {
    /// The rows: blocks that Arrow can take.
    blocks: Vec<Py<Block>>,
    /// Where not all values are rows: the numbers of rows, those of bad values with their reasons, and
    /// those on which the decoder in Python decides. Each ascends.
    verdicts: Option<Verdicts>,
    /// How many rows have top-level fields that the schema does not name.
    unknown_records: usize,
    /// Names of such fields.
    unknown_names: Vec<String>,
}

#[pymethods]
impl JsonDecoder {
    /// A decoder for an Arrow schema. `engine`: `scalar`, or nothing for the best one there is.
    /// `takes_whole`: columns of integers take `5.0` and `1e3`.
    #[new]
    #[pyo3(signature = (schema, engine=None, takes_whole=false))]
    fn new(
        py: Python<'_>,
        schema: &Bound<'_, PyAny>,
        engine: Option<&str>,
        takes_whole: bool,
    ) -> PyResult<Self> {
        let schema = take_schema(schema)?;
        let engine = match engine {
            None => decode::InstructionSet::detect(),
            Some("scalar") => decode::InstructionSet::Scalar,
            Some(other) => return Err(PyValueError::new_err(format!("no engine {other}"))),
        };
        let decoder = guarded(py, || decode::Decoder::new(&schema, engine));
        let decoder = decoder?.map_err(PyValueError::new_err)?;
        let decoder = Mutex::new(if takes_whole {
            decoder.taking_whole()
        } else {
            decoder
        });
        Ok(JsonDecoder { decoder })
    }

    /// Decode an Arrow array of binary values.
    fn decode(&self, py: Python<'_>, values: &Bound<'_, PyAny>) -> PyResult<DecodedJson> {
        let values = Values::take(values)?;
        let decoded = guarded(py, || {
            // A panic in an earlier call has left columns half filled: it is not used again.
            self.decoder
                .lock()
                .map(|mut decoder| decoder.decode(&values))
                .ok()
        })?
        .ok_or_else(|| PyRuntimeError::new_err("an earlier call of this decoder has failed"))?;
        let block = |array| Py::new(py, Block::new(array));
        let name = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let verdicts = Some(decoded.bad).filter(|bad| !bad.is_empty()).map(|bad| {
            let found = bad.into_verdicts(values.len());
            PyResult::Ok((
                block(found.good)?,
                block(found.bad)?,
                block(found.reasons)?,
                found.undecided.map(block).transpose()?,
            ))
        });
        Ok(DecodedJson {
            blocks: decoded
                .blocks
                .into_iter()
                .map(block)
                .collect::<PyResult<_>>()?,
            verdicts: verdicts.transpose()?,
            unknown_records: decoded.unknown_records,
            unknown_names: decoded
                .unknown_names
                .iter()
                .map(|each| name(each))
                .collect(),
        })
    }
}

fn take_schema(schema: &Bound<'_, PyAny>) -> PyResult<Schema> {
    let capsule = schema
        .call_method0("__arrow_c_schema__")?
        .cast_into::<PyCapsule>()?;
    let pointer = capsule
        .pointer_checked(Some(SCHEMA))?
        .cast::<FFI_ArrowSchema>();
    // SAFETY: a capsule of that name holds a schema, which is only looked at.
    Schema::try_from(unsafe { pointer.as_ref() })
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Binary values of an Arrow array of Python's, which lives as long as this does.
struct Values {
    array: FFI_ArrowArray,
    is_large: bool,
}

impl Values {
    fn take(values: &Bound<'_, PyAny>) -> PyResult<Self> {
        let pair = values.call_method0("__arrow_c_array__")?;
        let (schema, array) = pair.extract::<(Bound<'_, PyCapsule>, Bound<'_, PyCapsule>)>()?;
        let schema = schema
            .pointer_checked(Some(SCHEMA))?
            .cast::<FFI_ArrowSchema>();
        let array = array.pointer_checked(Some(ARRAY))?.cast::<FFI_ArrowArray>();
        // SAFETY: a capsule of that name holds a schema, which is only looked at.
        let data_type = DataType::try_from(unsafe { schema.as_ref() });
        let is_large = match data_type {
            Ok(DataType::Binary) => false,
            Ok(DataType::LargeBinary) => true,
            _ => {
                return Err(PyTypeError::new_err(
                    "values are to be a binary or large binary array",
                ));
            }
        };
        // SAFETY: a capsule of that name holds an array; it is moved out, as consumers are to do.
        let array = unsafe { FFI_ArrowArray::from_raw(array.as_ptr()) };
        Ok(Values { array, is_large })
    }

    /// Where a value ends, or the first one begins.
    fn edge(&self, number: usize) -> usize {
        let offsets = self.array.buffer(1);
        // SAFETY: a binary array of `len` values behind `offset` has one offset more than these.
        unsafe {
            if self.is_large {
                offsets.cast::<i64>().add(number).read() as usize
            } else {
                offsets.cast::<i32>().add(number).read() as usize
            }
        }
    }
}

impl Source for Values {
    fn len(&self) -> usize {
        self.array.len()
    }

    #[inline(always)]
    fn get(&self, row: usize) -> Option<&[u8]> {
        assert!(row < self.array.len(), "there is no such value");
        let number = self.array.offset() + row;
        let validity = self.array.buffer(0);
        // SAFETY: where there is a validity buffer it has a bit for each value.
        if !validity.is_null() && unsafe { *validity.add(number / 8) } >> (number % 8) & 1 == 0 {
            return None;
        }
        let (start, end) = (self.edge(number), self.edge(number + 1));
        if start == end {
            return Some(&[]);
        }
        // SAFETY: the offsets of an array lie in its data.
        Some(unsafe { std::slice::from_raw_parts(self.array.buffer(2).add(start), end - start) })
    }
}

// SAFETY: the array is moved to whoever holds it, and its buffers are never written to.
unsafe impl Sync for Values {}
