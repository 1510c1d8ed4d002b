//! Fuzzes `requests`: the function is a test of `crates/broker`, which says what the bytes are.

#![no_main]

#[path = "../../crates/broker/tests/it/decoders/requests.rs"]
mod requests;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = requests::run(data);
});
