//! Kinds of JSON values, as the parser of `JsonDecoder` names them.

use arrow_schema::DataType;

/// The kind that the values of a column have. A DECIMAL has two.
pub fn kind_of(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Boolean => "boolean",
        DataType::Utf8 | DataType::Binary | DataType::Date32 | DataType::Timestamp(..) => "string",
        DataType::Decimal128(..) => "number_or_string",
        DataType::List(_) => "array",
        DataType::Struct(_) | DataType::Map(..) => "object",
        _ => "number",
    }
}

/// Whether a column of a kind takes values of another one.
pub fn takes(expected: &str, kind: &str) -> bool {
    expected == kind || expected == "number_or_string" && matches!(kind, "number" | "string")
}

/// The kind of a value that begins with a byte, if it is in order; none: every column takes it, or
/// it is no value.
pub fn kind_at(first: u8) -> Option<&'static str> {
    Some(match first {
        b'"' => "string",
        b'{' => "object",
        b'[' => "array",
        b't' | b'f' => "boolean",
        b'-' | b'0'..=b'9' | b'N' | b'I' => "number",
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
