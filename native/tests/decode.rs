//! The decoder on values of any kind: whatever it is given, its columns are sound, and neither the
//! processor nor what it has learnt from other values decides what comes of one.

#[path = "decode/checks.rs"]
mod checks;

use checks::{SCHEMAS, check};
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Tokens at the edges of types, and of JSON itself.
const TOKENS: &[&str] = &[
    "0",
    "-0",
    "1",
    "-1",
    "127",
    "128",
    "-129",
    "32768",
    "2147483648",
    "-2147483649",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "12345678901234567890123456789012345678.9",
    "0.1",
    "1e400",
    "-1E-400",
    "4.9e-324",
    "3.4028236e38",
    "01",
    "1.",
    ".5",
    "NaN",
    "-Infinity",
    "true",
    "false",
    "null",
    "nul",
    "\"\"",
    "\"plain\"",
    "\"\u{e9}\u{4e2d}\u{1f600}\"",
    "\"\\u00e9\\n\\\\\\\"\"",
    "\"\\ud83d\\ude00\"",
    "\"\\ud83d\"",
    "\"\\udc00\"",
    "\"\u{7f}\u{0}\"",
    "\"2026-02-29\"",
    "\"2024-02-29\"",
    "\"9999-12-31T23:59:59.999999Z\"",
    "\"2026-11-24T12:00:00.1234567+14:00\"",
    "\"2026-11-24 12:00:00\"",
    "\"aGVsbG8=\"",
    "\"aGVsbG8\"",
    "[]",
    "[1,2,null]",
    "[[[]]]",
    "{}",
    "{\"x\":1,\"y\":\"z\"}",
    "{\"x\":1,\"x\":2}",
    "{\"k\":[{\"x\":null}]}",
];
const KEYS: &[&str] = &[
    "id",
    "small",
    "tiny",
    "wide",
    "f",
    "ratio",
    "ok",
    "text",
    "raw",
    "day",
    "at",
    "local",
    "money",
    "items",
    "tags",
    "inner",
    "x",
    "y",
    "unknown",
    "a key with a \\\" quote",
    "\u{e9}",
];
const SPACES: &[&str] = &["", " ", "\n\t", "\r\n  "];

fn member() -> impl Strategy<Value = String> {
    let parts = (select(KEYS), select(SPACES), select(TOKENS), select(SPACES));
    parts.prop_map(|(key, before, token, after)| format!("{before}\"{key}\":{after}{token}"))
}

fn object() -> impl Strategy<Value = Vec<u8>> {
    let members = prop::collection::vec(member(), 0..12);
    (members, select(SPACES))
        .prop_map(|(members, space)| format!("{{{}{space}}}{space}", members.join(",")).into())
}

/// An object with a byte changed, put in, or its end cut off: mostly no JSON any more.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let change = (any::<Index>(), any::<u8>(), 0..3);
    (object(), change).prop_map(|(mut bytes, (at, byte, how))| {
        let at = at.index(bytes.len());
        match how {
            0 => bytes[at] = byte,
            1 => bytes.insert(at, byte),
            _ => bytes.truncate(at),
        }
        bytes
    })
}

fn value() -> impl Strategy<Value = Option<Vec<u8>>> {
    prop_oneof![
        6 => object().prop_map(Some),
        3 => damaged().prop_map(Some),
        1 => prop::collection::vec(any::<u8>(), 0..80).prop_map(Some),
        1 => Just(None),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn whatever_is_decoded_is_sound(
        schema in 0..SCHEMAS,
        values in prop::collection::vec(value(), 1..24),
    ) {
        check(schema, &values);
    }
}

#[test]
fn a_hundred_thousand_levels_are_survived() {
    for (open, close) in [("[", "]"), ("{\"x\":", "}")] {
        let deep = format!(
            "{{\"unknown\":{}1{}}}",
            open.repeat(100_000),
            close.repeat(100_000)
        );
        let items = format!(
            "{{\"items\":{}1{}}}",
            open.repeat(100_000),
            close.repeat(100_000)
        );
        let values = [deep, items].map(|text| Some(text.into_bytes()));
        (0..SCHEMAS).for_each(|schema| check(schema, &values));
    }
}

#[test]
fn every_prefix_of_a_record_is_survived() {
    let tokens: Vec<_> = KEYS
        .iter()
        .zip(TOKENS.iter().cycle().skip(5))
        .map(|(key, token)| format!("\"{key}\":{token}"))
        .collect();
    let whole = format!("{{{}}}", tokens.join(",")).into_bytes();
    let values: Vec<_> = (0..=whole.len())
        .map(|end| Some(whole[..end].to_vec()))
        .collect();
    (0..SCHEMAS).for_each(|schema| check(schema, &values));
}
