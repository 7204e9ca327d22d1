//! JSON objects to Arrow, in one pass.
//!
//! A value is a row, or bad, with a reason (`reason`); or it is left to `JsonDecoder`, the decoder in Python that this
//! one agrees with: the rules are in docs/decisions/0001-json-decoder.md. What this one takes, that
//! one takes too, with the same values.

mod bad;
mod buffers;
mod column;
mod context;
mod explain;
mod keys;
mod kinds;
mod nested;
mod reason;
mod record;
mod scalars;
mod scan;
mod skip;
mod text;

use std::collections::BTreeSet;

use arrow_data::ArrayData;
use arrow_schema::{DataType, Fields, Schema};

pub use bad::{BadValues, Verdicts};
use buffers::{Buffers, Growth};
use column::Column;
use context::Context;
use nested::objects::Object;
use record::ParseRecord;
pub use scan::InstructionSet;
use scan::{Engine, Routine};

/// Rows of a block: more than the reader hands out, so that a batch becomes one large piece.
const BLOCK_ROWS: usize = 131_072;
/// Bytes of the values of a block, about: likewise; offsets have 31 bits.
const BLOCK_BYTES: usize = 32 << 20;
/// The first rows of a block, from which the room for all of them is estimated.
const SAMPLE_ROWS: usize = 512;
/// The most names of unknown fields, as in `JsonDecoder`.
const UNKNOWN_NAMES_MAX: usize = 20;

/// Values by their number: columns of Arrow, records of a batch from a broker.
pub trait Source {
    /// How many there are.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// One of them; None: a tombstone.
    fn get(&self, row: usize) -> Option<&[u8]>;
}

/// The result of a call.
#[derive(Default)]
pub struct Decoded {
    /// The rows, in blocks, each a struct of the columns.
    pub blocks: Vec<ArrayData>,
    /// The values that are no rows.
    pub bad: BadValues,
    /// How many rows have top-level fields that the schema does not name.
    pub unknown_records: usize,
    /// The names of such fields; of many, those that come first.
    pub unknown_names: BTreeSet<Box<[u8]>>,
}

/// Decodes values that hold one JSON object each. It learns in which order keys come.
pub struct Decoder {
    object: Object<Column>,
    context: Context,
    fields: Fields,
    instructions: InstructionSet,
}

impl Decoder {
    /// A decoder for tables of a schema. Error: a type of a column that no table has.
    pub fn new(schema: &Schema, instructions: InstructionSet) -> Result<Self, String> {
        Ok(Decoder {
            object: Object::new(&schema.fields)?,
            context: Context::default(),
            fields: schema.fields.clone(),
            instructions,
        })
    }

    /// The same decoder, whose columns of integers take `5.0` and `1e3`.
    pub fn taking_whole(mut self) -> Self {
        self.context.takes_whole = true;
        self
    }

    /// Decode values.
    pub fn decode(&mut self, values: &impl Source) -> Decoded {
        let mut decoded = Decoded::default();
        match self.instructions {
            InstructionSet::Scalar => self.decode_by::<scan::Scalar>(values, &mut decoded),
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => self.decode_by::<scan::Avx2>(values, &mut decoded),
            #[cfg(target_arch = "aarch64")]
            InstructionSet::Neon => self.decode_by::<scan::Neon>(values, &mut decoded),
        }
        decoded
    }

    fn decode_by<E: Engine>(&mut self, values: &impl Source, decoded: &mut Decoded) {
        let (mut bytes, mut is_reserved) = (0, false);
        for index in 0..values.len() {
            let value = values.get(index);
            let size = value.map_or(0, <[u8]>::len);
            let rows = self.object.len();
            if rows == BLOCK_ROWS || bytes + size > BLOCK_BYTES {
                self.end_block(decoded);
                (bytes, is_reserved) = (0, false);
            } else if rows == SAMPLE_ROWS && !is_reserved {
                self.reserve(values.len() - index, bytes);
                is_reserved = true;
            }
            bytes += size;
            let record = value.unwrap_or_default();
            if ParseRecord::call::<E>(&mut self.object, &mut self.context, record) {
                self.count_unknown(decoded);
            } else {
                self.refuse(record, index, &mut decoded.bad);
            }
        }
        self.end_block(decoded);
    }

    /// Make room for what comes of a block, once its sample is read: buffers that double are copied.
    ///
    /// `left`: values of the call; `bytes`: of the values before.
    #[inline(never)]
    fn reserve(&mut self, left: usize, bytes: usize) {
        let fitting = (BLOCK_BYTES - bytes) / (bytes / SAMPLE_ROWS).max(1);
        self.object.make_room(Growth {
            from: self.object.len(),
            by: left.min(fitting).min(BLOCK_ROWS - SAMPLE_ROWS),
        });
    }

    /// Note a record that was just refused, with its reason.
    #[cold]
    #[inline(never)]
    fn refuse(&mut self, record: &[u8], index: usize, bad: &mut BadValues) {
        let fault = &mut self.context.fault;
        if let Some(code) = explain::find_outer_fault(record) {
            fault.clear();
            fault.set(Some(code));
        }
        bad.push(index, fault.reason());
        fault.clear();
    }

    fn end_block(&mut self, decoded: &mut Decoded) {
        let rows = self.object.len();
        if rows == 0 {
            return;
        }
        let block = ArrayData::builder(DataType::Struct(self.fields.clone())).len(rows);
        let block = self.object.move_to(block);
        // SAFETY: each column has as many values as there are rows; see `Column::move_to`.
        decoded.blocks.push(unsafe { block.build_unchecked() });
    }

    #[inline(always)]
    fn count_unknown(&mut self, decoded: &mut Decoded) {
        if self.context.unknown.is_empty() && self.context.unknown_names.is_empty() {
            return;
        }
        decoded.unknown_records += 1;
        for learnt in &self.context.unknown {
            note_name(
                &mut decoded.unknown_names,
                self.object.unknown_name(*learnt),
            );
        }
        for name in &self.context.unknown_names {
            note_name(&mut decoded.unknown_names, name);
        }
    }
}

fn note_name(names: &mut BTreeSet<Box<[u8]>>, name: &[u8]) {
    if names.contains(name) {
        return;
    }
    names.insert(name.into());
    if names.len() > UNKNOWN_NAMES_MAX {
        names.pop_last();
    }
}
