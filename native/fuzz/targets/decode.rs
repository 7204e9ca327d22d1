//! Values of any kind to the decoder: see `checks` for what is to hold. The first byte chooses the
//! schema; the values are what stands between zero bytes and after the last.
#![no_main]

#[path = "../../tests/decode/checks.rs"]
mod checks;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else {
        return;
    };
    let values: Vec<_> = rest.split(|byte| *byte == 0).map(|each| Some(each.to_vec())).collect();
    checks::check(usize::from(*first) % checks::SCHEMAS, &values);
});
