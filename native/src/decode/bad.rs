//! Values that are no rows, as columns: the place of each, and its reason.

use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::DataType;

use super::buffers::{Buffers, Bytes};

/// The values of a call that are no rows, ascending.
#[derive(Debug, Default, PartialEq)]
pub struct BadValues {
    indices: Vec<i64>,
    reasons: Bytes,
    undecided: Vec<i64>, // `JsonDecoder` decides on these
}

/// The values of a call, by their numbers, ascending.
pub struct Verdicts {
    /// The rows.
    pub good: ArrayData,
    /// The values that are no rows.
    pub bad: ArrayData,
    /// A reason for each of these.
    pub reasons: ArrayData,
    /// The values that `JsonDecoder` decides on; None: there are none.
    pub undecided: Option<ArrayData>,
}

impl BadValues {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.indices.len() + self.undecided.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Append a value, and its reason in UTF-8; None: `JsonDecoder` decides.
    pub(super) fn push(&mut self, index: usize, reason: Option<&[u8]>) {
        let Some(reason) = reason else {
            self.undecided.push(index as i64);
            return;
        };
        self.indices.push(index as i64);
        self.reasons.items.extend_from_slice(reason);
        self.reasons.end_value();
    }

    /// The verdicts on the values of a call, of which there are `count`.
    pub fn into_verdicts(mut self, count: usize) -> Verdicts {
        let mut is_good = vec![true; count];
        for index in self.indices.iter().chain(&self.undecided) {
            is_good[*index as usize] = false;
        }
        let good = (0..count as i64).filter(|index| is_good[*index as usize]);
        let texts = ArrayData::builder(DataType::Utf8).len(self.indices.len());
        assert!(
            self.reasons.items.len() <= i32::MAX as usize,
            "2 GB of reasons"
        );
        simdutf8::basic::from_utf8(&self.reasons.items).expect("a reason is no text");
        // SAFETY: an offset for each reason; all are text, and each ends where a letter ends.
        let reasons = unsafe { self.reasons.move_to(texts).build_unchecked() };
        Verdicts {
            good: integers(good.collect()),
            bad: integers(self.indices),
            reasons,
            undecided: (!self.undecided.is_empty()).then(|| integers(self.undecided)),
        }
    }
}

fn integers(values: Vec<i64>) -> ArrayData {
    let builder = ArrayData::builder(DataType::Int64).len(values.len());
    // SAFETY: the buffer has as many integers.
    unsafe {
        builder
            .add_buffer(Buffer::from_vec(values))
            .build_unchecked()
    }
}
