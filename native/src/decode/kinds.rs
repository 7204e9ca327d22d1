//! Kinds of JSON values, and the names of types in SQL.

use std::borrow::Cow;

use arrow_schema::DataType;

/// A kind of JSON values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// The name of a type in SQL; of one that holds others, without these.
pub fn sql_name(data_type: &DataType) -> Cow<'static, str> {
    Cow::Borrowed(match data_type {
        DataType::Boolean => "BOOLEAN",
        DataType::Int8 => "TINYINT",
        DataType::Int16 => "SMALLINT",
        DataType::Int32 => "INT",
        DataType::Int64 => "BIGINT",
        DataType::Float32 => "FLOAT",
        DataType::Float64 => "DOUBLE",
        DataType::Utf8 => "STRING",
        DataType::Binary => "BINARY",
        DataType::Date32 => "DATE",
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP",
        DataType::Timestamp(_, None) => "TIMESTAMP_NTZ",
        DataType::List(_) => "ARRAY",
        DataType::Map(..) => "MAP",
        DataType::Decimal128(precision, scale) => {
            return Cow::Owned(format!("DECIMAL({precision},{scale})"));
        }
        _ => "STRUCT",
    })
}
