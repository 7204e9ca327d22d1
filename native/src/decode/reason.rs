//! Why a value is no row, in the words of `JsonDecoder`.

use std::borrow::Cow;

use arrow_schema::Fields;

use super::kinds::{Kind, kind_of};

/// Why a value is no row.
#[derive(Clone, Copy, Debug)]
pub enum Reason<'a> {
    /// For something that is said of many values in the same words.
    Common(Common),
    /// In words for this one: text in UTF-8.
    Words(&'a [u8]),
    /// It is not known, and it may be a row: `JsonDecoder` is to be asked.
    Unknown,
}

/// What is said of many values in the same words.
#[derive(Clone, Copy, Debug)]
pub enum Common {
    /// These words.
    Fixed(&'static str),
    /// The field of that number, of the record's own object, is there twice.
    Twice(usize),
    /// Its value is of another kind than its column.
    Kind(usize, Kind),
}

impl Common {
    /// A number that differs from that of all others, of those that `words` says different words
    /// for. Fixed words that are equal may have several.
    pub fn id(self) -> u64 {
        // An address has less than 62 bits, and so has the number of a field, with its kind.
        match self {
            Common::Fixed(words) => words.as_ptr() as u64,
            Common::Twice(field) => 1 << 62 | field as u64,
            Common::Kind(field, kind) => 1 << 63 | (field as u64) << 8 | kind as u64,
        }
    }

    /// The words, for records of these columns.
    pub fn words(self, fields: &Fields) -> Cow<'static, str> {
        match self {
            Common::Fixed(words) => words.into(),
            Common::Twice(field) => {
                let name = fields[field].name();
                format!("Column(/{name}) was specified twice").into()
            }
            Common::Kind(field, kind) => {
                let (name, column) = (fields[field].name(), kind_of(fields[field].data_type()));
                let (expected, kind) = (column.name(), kind.name());
                format!("Column(/{name}) changed from {expected} to {kind}").into()
            }
        }
    }
}
