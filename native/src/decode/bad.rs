//! Values that are no rows, as columns: where each stood, and why. Few reasons are met often.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_buffer::{Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, Fields};

/// The values of a call that are no rows, ascending.
#[derive(Default)]
pub struct BadValues {
    indices: Vec<i64>,
    codes: Vec<i32>, // of their reasons; NONE: it is not known
    reasons: Vec<Arc<str>>,
    known: HashMap<Arc<str>, i32>,
}

const NONE: i32 = -1;

impl BadValues {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.indices.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    /// The values by their numbers, and why each is bad; None: `JsonDecoder` knows, and it may be a
    /// row after all.
    pub fn iter(&self) -> impl Iterator<Item = (usize, Option<&str>)> {
        let reason = |code: &i32| self.reasons.get(*code as usize).map(AsRef::as_ref);
        let pairs = self.indices.iter().zip(&self.codes);
        pairs.map(move |(index, code)| (*index as usize, reason(code)))
    }

    /// Append a value.
    pub(super) fn push(&mut self, index: usize, reason: Option<&str>) {
        self.indices.push(index as i64);
        let code = reason.map_or(NONE, |reason| self.code_of(reason));
        self.codes.push(code);
    }

    fn code_of(&mut self, reason: &str) -> i32 {
        // Mostly it is the reason of the value before.
        if let Some(last) = self.codes.last()
            && self
                .reasons
                .get(*last as usize)
                .is_some_and(|each| &**each == reason)
        {
            return *last;
        }
        if let Some(code) = self.known.get(reason) {
            return *code;
        }
        let (reason, code) = (Arc::<str>::from(reason), self.reasons.len() as i32);
        self.reasons.push(reason.clone());
        self.known.insert(reason, code);
        code
    }

    /// The fields of `into_data`.
    pub fn fields() -> Fields {
        let reason = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        Fields::from(vec![
            Field::new("index", DataType::Int64, false),
            Field::new("reason", reason, true),
        ])
    }

    /// A struct of index and reason; no reason: see `iter`.
    pub fn into_data(mut self) -> ArrayData {
        let rows = self.len();
        let is_known: Vec<bool> = self.codes.iter().map(|code| *code != NONE).collect();
        self.codes
            .iter_mut()
            .for_each(|code| *code = (*code).max(0));
        let mut ends = vec![0i32];
        let mut text = Vec::new();
        for reason in &self.reasons {
            text.extend_from_slice(reason.as_bytes());
            ends.push(i32::try_from(text.len()).expect("2 GB of reasons"));
        }
        let fields = Self::fields();
        let build = |kind: &DataType, rows| ArrayData::builder(kind.clone()).len(rows);
        let reasons = build(&DataType::Utf8, self.reasons.len())
            .add_buffer(Buffer::from_vec(ends))
            .add_buffer(Buffer::from_vec(text));
        let indices = build(&DataType::Int64, rows).add_buffer(Buffer::from_vec(self.indices));
        let codes = build(fields[1].data_type(), rows)
            .nulls(Some(NullBuffer::from(is_known)).filter(|nulls| nulls.null_count() > 0))
            .add_buffer(Buffer::from_vec(self.codes));
        // SAFETY: an index and a code for each value; a code that is not null is the number of a
        // reason, and reasons were texts.
        unsafe {
            let codes = codes
                .add_child_data(reasons.build_unchecked())
                .build_unchecked();
            ArrayData::builder(DataType::Struct(fields))
                .len(rows)
                .add_child_data(indices.build_unchecked())
                .add_child_data(codes)
                .build_unchecked()
        }
    }
}
