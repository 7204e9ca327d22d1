//! Kinds of JSON values, as the parser of `JsonDecoder` names them.

use arrow_schema::DataType;

/// A kind of JSON values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// `true`, `false`
    Boolean,
    /// `"a"`
    String,
    /// `1`
    Number,
    /// Of a column that takes both, a DECIMAL; no value is of this kind.
    NumberOrString,
    /// `[]`
    Array,
    /// `{}`
    Object,
}

impl Kind {
    /// What the parser calls it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Boolean => "boolean",
            Kind::String => "string",
            Kind::Number => "number",
            Kind::NumberOrString => "number_or_string",
            Kind::Array => "array",
            Kind::Object => "object",
        }
    }

    /// Whether a column of this kind takes values of another one.
    pub fn takes(self, kind: Kind) -> bool {
        self == kind || self == Kind::NumberOrString && matches!(kind, Kind::Number | Kind::String)
    }
}

/// The kind that the values of a column have.
pub fn kind_of(data_type: &DataType) -> Kind {
    match data_type {
        DataType::Boolean => Kind::Boolean,
        DataType::Utf8 | DataType::Binary | DataType::Date32 | DataType::Timestamp(..) => {
            Kind::String
        }
        DataType::Decimal128(..) => Kind::NumberOrString,
        DataType::List(_) => Kind::Array,
        DataType::Struct(_) | DataType::Map(..) => Kind::Object,
        _ => Kind::Number,
    }
}

/// The kind of a value that begins with a byte, if it is in order; none: every column takes it, or
/// it is no value.
pub fn kind_at(first: u8) -> Option<Kind> {
    Some(match first {
        b'"' => Kind::String,
        b'{' => Kind::Object,
        b'[' => Kind::Array,
        b't' | b'f' => Kind::Boolean,
        b'-' | b'0'..=b'9' | b'N' | b'I' => Kind::Number,
        _ => return None,
    })
}

/// Whether a type is a MAP, or has one in it.
pub fn holds_map(data_type: &DataType) -> bool {
    match data_type {
        DataType::Map(..) => true,
        DataType::List(inner) => holds_map(inner.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| holds_map(field.data_type())),
        _ => false,
    }
}
