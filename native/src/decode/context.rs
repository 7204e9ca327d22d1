//! What parsing needs beside the columns: the record, and its first fault.

use arrow_schema::DataType;

use super::explain::{Stop, judge, lex, pass};
use super::keys::Target;
use super::kinds::sql_name;
use super::reason::{Code, Fault, Verdict};
use super::scalars::strings::skip_text;
use super::scan::Scalar;
use super::text::{Cursor, Text};

/// What parsing needs beside the columns.
#[derive(Default)]
pub struct Context {
    /// The record.
    pub text: Text,
    /// Whether columns of integers take `5.0` and `1e3`.
    pub takes_whole: bool,
    /// How many objects and lists of columns are open.
    pub depth: usize,
    /// The first fault of the record.
    pub fault: Fault,
    /// The name of the unknown key that was read last.
    pub key: Vec<u8>,
    /// How many objects were begun.
    pub objects: u64,
    /// The keys of the record's own object that are no fields: those that were learnt.
    pub unknown: Vec<usize>,
    /// Those that were not, by name.
    pub unknown_names: Vec<Box<[u8]>>,
}

impl Context {
    /// Keep a key of the record's own object that is no field.
    #[inline(never)]
    pub fn note_unknown(&mut self, target: Target) {
        match target {
            Target::Learnt(known) => self.unknown.push(known),
            _ => self.unknown_names.push(self.key.as_slice().into()),
        }
    }

    /// The text is not JSON at a cursor.
    #[cold]
    #[inline(never)]
    pub fn refuse_text(&mut self, at: Cursor) {
        let bytes = self.text.bytes();
        let start = bytes.iter().position(|byte| *byte == b'{').unwrap_or(0);
        let end = bytes.trim_ascii_end().len(); // space behind the record is not part of it
        self.fault.set_broken(self.text.offset(at).min(end) - start);
    }

    /// No key stands at a cursor, or no colon behind it.
    #[cold]
    #[inline(never)]
    pub fn refuse_key(&mut self, at: Cursor) {
        let quote = at.skip_space();
        let behind = match quote.byte() {
            b'"' => skip_text::<Scalar>(quote.skip(1)),
            _ => None,
        };
        self.refuse_text(behind.map_or(quote, Cursor::skip_space));
    }

    /// The value at a cursor, which is outside the schema, was not passed.
    #[cold]
    #[inline(never)]
    pub fn refuse_skipped(&mut self, at: Cursor) {
        match pass(at, self.depth) {
            Err(Stop::Broken(at)) | Ok(at) => self.refuse_text(at),
            Err(Stop::Unsure) => self.fault.set(None),
        }
    }

    /// The value at a cursor was not taken for a column of a type.
    #[cold]
    #[inline(never)]
    pub fn refuse_value(&mut self, data_type: &DataType, at: Cursor) {
        if self.fault.is_set() {
            return; // of a value inside it
        }
        let end = match lex(at) {
            Ok(end) => end,
            Err(Stop::Broken(at)) => return self.refuse_text(at),
            Err(Stop::Unsure) => return self.fault.set(None),
        };
        let token = end.from(at);
        let shown: &[u8] = match token {
            b"{" => b"{...}",
            b"[" => b"[...]",
            _ => token,
        };
        match judge(data_type, token) {
            Verdict::Bad(Code::NotInteger) if self.takes_whole => self.fault.set(None),
            Verdict::Bad(code) => self.fault.set_value(code, &sql_name(data_type), shown),
            Verdict::Fits => self.refuse_text(end),
            Verdict::Unsure => self.fault.set(None),
        }
    }
}
