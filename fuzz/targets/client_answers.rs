//! Fuzzes `client_answers`: the function is a test of `crates/broker`, which says what the bytes are.

#![no_main]

#[path = "../../crates/broker/tests/it/decoders/client_answers.rs"]
mod client_answers;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = client_answers::run(data);
});
