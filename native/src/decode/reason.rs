//! Why a value is no row, in the words of `JsonDecoder`.

use std::borrow::Cow;

use arrow_schema::Fields;

use super::kinds::{Kind, kind_of};

/// Why a value is no row.
#[derive(Clone, Copy, Debug)]
pub enum Reason<'a> {
    /// For something that is said of many values in the same words.
    Common(Common),
    /// For what stands between these words: text in UTF-8.
    Words(Frame, &'a [u8]),
    /// It is not known, and it may be a row: `JsonDecoder` is to be asked.
    Unknown,
}

impl Reason<'_> {
    /// In the same words each time.
    pub const fn fixed(words: &'static str) -> Self {
        Reason::Common(Common::Fixed(words))
    }
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
                let mut words = String::new();
                write_twice(&mut words, &format!("/{}", fields[field].name()));
                words.into()
            }
            Common::Kind(field, kind) => {
                let (mut words, field) = (String::new(), &fields[field]);
                let expected = kind_of(field.data_type());
                write_other_kind(&mut words, &format!("/{}", field.name()), expected, kind);
                words.into()
            }
        }
    }
}

/// Write that the field at a path is there twice.
pub fn write_twice(words: &mut String, path: &str) {
    words.extend(["Column(", path, ") was specified twice"]);
}

/// Write that the value at a path is of another kind than its column.
pub fn write_other_kind(words: &mut String, path: &str, expected: Kind, kind: Kind) {
    let (expected, kind) = (expected.name(), kind.name());
    words.extend(["Column(", path, ") changed from ", expected, " to ", kind]);
}

/// Words before and behind something that a record has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// There are none.
    None,
    /// Of a number that is no TINYINT.
    Int8,
    /// Of a number that is no SMALLINT.
    Int16,
    /// Of a number that is no INT.
    Int32,
    /// Of a number that is no BIGINT.
    Int64,
    /// Of a text that is no DECIMAL.
    Decimal,
    /// Of the precision of a DECIMAL that has fewer digits than a number.
    Precision,
    /// Of a text that is no DATE.
    Date,
    /// Of a text with a zone that is no TIMESTAMP.
    Time,
    /// Of a text without a zone, where one is needed.
    TimeWithoutZone,
    /// Of a text without a zone that is no TIMESTAMP_NTZ.
    LocalTime,
    /// Of a text with a zone, where none may be.
    LocalTimeWithZone,
    /// Of how many letters a text has that is no base64.
    Base64,
}

impl Frame {
    /// The words before and behind.
    fn words(self) -> (&'static str, &'static str) {
        macro_rules! integer {
            ($name:literal) => {
                (
                    concat!("Failed to convert JSON to ", $name, ", couldn't parse:"),
                    "",
                )
            };
        }
        macro_rules! parsed {
            ($type:literal, $more:literal) => {
                (
                    "Failed to parse string: '",
                    concat!("' as a scalar of type ", $type, $more),
                )
            };
        }
        match self {
            Frame::None => ("", ""),
            Frame::Int8 => integer!("int8"),
            Frame::Int16 => integer!("int16"),
            Frame::Int32 => integer!("int32"),
            Frame::Int64 => integer!("int64"),
            Frame::Decimal => ("The string '", "' is not a valid decimal256 number"),
            Frame::Precision => ("Decimal value does not fit in precision ", ""),
            Frame::Date => parsed!("date32[day]", ""),
            Frame::Time => parsed!("timestamp[us, tz=UTC]", ""),
            Frame::TimeWithoutZone => parsed!(
                "timestamp[us, tz=UTC]",
                ": expected a zone offset. If these timestamps are in local time, cast to \
                 timestamp without timezone, then call assume_timezone."
            ),
            Frame::LocalTime => parsed!("timestamp[us]", ""),
            Frame::LocalTimeWithZone => {
                parsed!("timestamp[us]", ": expected no zone offset.")
            }
            Frame::Base64 => (
                "not base64: Invalid base64-encoded string: number of data characters (",
                ") cannot be 1 more than a multiple of 4",
            ),
        }
    }

    /// Append the words with something between.
    pub fn push(self, between: &[u8], text: &mut Vec<u8>) {
        let (before, behind) = self.words();
        text.extend_from_slice(before.as_bytes());
        text.extend_from_slice(between);
        text.extend_from_slice(behind.as_bytes());
    }
}

/// A reason that is kept while the record is read on.
#[derive(Default)]
pub struct Kept {
    what: What,
    between: Vec<u8>,
}

#[derive(Clone, Copy, Default)]
enum What {
    #[default]
    Unknown,
    Common(Common),
    Words(Frame),
}

impl Kept {
    /// Keep a reason instead of the one before.
    pub fn set(&mut self, reason: Reason<'_>) {
        self.what = match reason {
            Reason::Common(common) => What::Common(common),
            Reason::Words(frame, between) => {
                self.between.clear(); // its memory is used again
                self.between.extend_from_slice(between);
                What::Words(frame)
            }
            Reason::Unknown => What::Unknown,
        };
    }

    /// The reason that is kept.
    pub fn get(&self) -> Reason<'_> {
        match self.what {
            What::Common(common) => Reason::Common(common),
            What::Words(frame) => Reason::Words(frame, &self.between),
            What::Unknown => Reason::Unknown,
        }
    }
}
