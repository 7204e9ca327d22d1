//! Why a value is no row: a code, the path of the field, and what stands there.
//!
//! The codes, and how a reason is written, are those of src/ashore/topics/decode/explain.py; the
//! words for them are made in Python.

use std::io::Write as _;

/// The most letters of a reason.
const REASON_MAX: usize = 200;

/// Why a value is no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// No value, or white space only.
    Empty,
    /// It does not begin and end as an object.
    NotObject,
    /// Some of its bytes are not UTF-8.
    NotUtf8,
    /// It breaks a rule of JSON.
    NotJson,
    /// A field is there twice.
    FieldTwice,
    /// A key of a MAP is there twice.
    KeyTwice,
    /// A value of another kind than its column.
    WrongType,
    /// No value in a column that needs one.
    Null,
    /// A number with a point or an exponent in a column of integers.
    NotInteger,
    /// A number that is too large for its column.
    NumberRange,
    /// A text that is no number, for a DECIMAL.
    NotDecimal,
    /// More digits after the point than a DECIMAL has.
    DecimalDigits,
    /// A text that is no date or no time.
    NotTime,
    /// A time outside of the years 1 to 9999.
    TimeRange,
    /// A text that is not base64.
    NotBase64,
}

impl Code {
    /// How it is written.
    pub fn name(self) -> &'static str {
        match self {
            Code::Empty => "empty",
            Code::NotObject => "not-object",
            Code::NotUtf8 => "not-utf8",
            Code::NotJson => "not-json",
            Code::FieldTwice => "field-twice",
            Code::KeyTwice => "key-twice",
            Code::WrongType => "wrong-type",
            Code::Null => "null",
            Code::NotInteger => "not-integer",
            Code::NumberRange => "number-range",
            Code::NotDecimal => "not-decimal",
            Code::DecimalDigits => "decimal-digits",
            Code::NotTime => "not-time",
            Code::TimeRange => "time-range",
            Code::NotBase64 => "not-base64",
        }
    }
}

/// What is found about a value that was not taken.
pub enum Verdict {
    /// It does not fit its column.
    Bad(Code),
    /// It does, so what stands behind it is wrong.
    Fits,
    /// `JsonDecoder` decides.
    Unsure,
}

/// The first fault of a record, noted where parsing stops; its path grows on the way out.
#[derive(Default)]
pub struct Fault {
    is_set: bool,
    code: Option<Code>, // none: `JsonDecoder` decides
    path: Vec<u8>,
    detail: Vec<u8>,
    text: Vec<u8>,
}

impl Fault {
    /// Forget it: another record comes.
    pub fn clear(&mut self) {
        self.is_set = false;
        self.code = None;
        self.path.clear();
        self.detail.clear();
    }

    /// Whether a fault was noted, or that it is not certain whether there is one.
    pub fn is_set(&self) -> bool {
        self.is_set
    }

    /// Note a fault; none: it is not certain whether there is one.
    pub fn set(&mut self, code: Option<Code>) {
        self.is_set = true;
        self.code = code;
    }

    /// Note that the text is not JSON at a byte, counted from the brace that opens the record.
    pub fn set_broken(&mut self, at: usize) {
        self.set(Some(Code::NotJson));
        let _ = write!(self.detail, "byte {at}");
    }

    /// Note a fault of a value: the type of its column, and the value as it is written.
    pub fn set_value(&mut self, code: Code, sql_type: &str, token: &[u8]) {
        self.set(Some(code));
        for part in [sql_type.as_bytes(), b" ", token] {
            self.detail.extend_from_slice(part);
        }
    }

    /// Note which field of an object, or which part of a list or map, the fault is in.
    #[cold]
    pub fn enter(&mut self, name: &[u8]) {
        if self.code == Some(Code::NotJson) {
            return; // its place says more
        }
        let inner = std::mem::take(&mut self.path);
        self.path.extend_from_slice(name);
        if !inner.is_empty() {
            self.path.push(b'.');
            self.path.extend_from_slice(&inner);
        }
    }

    /// The reason as it is written; none: `JsonDecoder` decides.
    pub fn reason(&mut self) -> Option<&[u8]> {
        self.text.clear();
        self.text.extend_from_slice(self.code?.name().as_bytes());
        let mut separator: &[u8] = b": ";
        for part in [&self.path, &self.detail] {
            if !part.is_empty() {
                self.text.extend_from_slice(separator);
                self.text.extend_from_slice(part);
                separator = b" ";
            }
        }
        Some(shortened(&self.text))
    }
}

/// The first letters of a text in UTF-8.
fn shortened(text: &[u8]) -> &[u8] {
    let is_start = |(_, byte): &(usize, &u8)| **byte & 0xc0 != 0x80;
    let mut letters = text.iter().enumerate().filter(is_start);
    match letters.nth(REASON_MAX) {
        Some((end, _)) if text.len() > REASON_MAX => &text[..end],
        _ => text,
    }
}
