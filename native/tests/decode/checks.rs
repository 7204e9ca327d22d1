//! What holds for the decoder whatever it is given. The tests and the fuzzer share it.

use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};
use ashore_native::decode::{Decoded, Decoder, InstructionSet, Source};

/// How many schemas there are: all types, nested ones, and fields that are required.
pub const SCHEMAS: usize = 3;

fn schema_of(number: usize) -> Schema {
    let field = |name: &str, data_type| Field::new(name, data_type, true);
    let inner = Fields::from(vec![
        field("x", DataType::Int64),
        field("y", DataType::Utf8),
    ]);
    let list = |item| DataType::List(Field::new("element", item, true).into());
    let map = |item| {
        let pair = Fields::from(vec![
            Field::new("key", DataType::Utf8, false),
            Field::new("value", item, true),
        ]);
        DataType::Map(
            Field::new("entries", DataType::Struct(pair), false).into(),
            false,
        )
    };
    let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    Schema::new(match number {
        0 => vec![
            field("id", DataType::Int64),
            field("small", DataType::Int16),
            field("tiny", DataType::Int8),
            field("wide", DataType::Int32),
            field("f", DataType::Float32),
            field("ratio", DataType::Float64),
            field("ok", DataType::Boolean),
            field("text", DataType::Utf8),
            field("raw", DataType::Binary),
            field("day", DataType::Date32),
            field("at", utc),
            field("local", DataType::Timestamp(TimeUnit::Microsecond, None)),
            field("money", DataType::Decimal128(38, 4)),
        ],
        1 => vec![
            field("items", list(list(DataType::Int64))),
            field("tags", map(DataType::Utf8)),
            field("inner", DataType::Struct(inner.clone())),
            field("text", map(list(DataType::Struct(inner)))),
            field("x", list(DataType::Utf8)),
        ],
        _ => vec![
            Field::new("id", DataType::Int64, false),
            Field::new("text", DataType::Utf8, false),
            field("y", DataType::Utf8),
        ],
    })
}

struct Values<'a>(&'a [Option<Vec<u8>>]);

impl Source for Values<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, row: usize) -> Option<&[u8]> {
        self.0[row].as_deref()
    }
}

/// Decode values in every way that there is, and compare. Panics where something is not as it is
/// to be: columns that Arrow finds fault with, a value that is lost, or an outcome that depends on
/// the processor, or on what the decoder has met before.
pub fn check(schema: usize, values: &[Option<Vec<u8>>]) {
    let schema = schema_of(schema);
    let mut decoder = Decoder::new(&schema, InstructionSet::detect()).expect("a schema of tables");
    let first = decoder.decode(&Values(values));
    for block in &first.blocks {
        block.validate_full().expect("columns that Arrow accepts");
    }
    let rows: usize = first.blocks.iter().map(|block| block.len()).sum();
    let bad = first.bad.len();
    assert_eq!(rows + bad, values.len(), "a value was lost");

    let again = decoder.decode(&Values(values));
    same(&first, &again, "it has met the values before");
    let scalar =
        Decoder::new(&schema, InstructionSet::Scalar).map(|mut each| each.decode(&Values(values)));
    same(
        &first,
        &scalar.expect("a schema of tables"),
        "another processor",
    );
}

fn same(one: &Decoded, other: &Decoded, why: &str) {
    assert_eq!(one.bad, other.bad, "{why}");
    assert!(one.blocks == other.blocks, "{why}");
    assert_eq!(one.unknown_records, other.unknown_records, "{why}");
    assert_eq!(one.unknown_names, other.unknown_names, "{why}");
}
