//! Fuzzes `record_batches`: the function is a test of `crates/protocol`, which says what the bytes are.

#![no_main]

#[path = "../../crates/protocol/tests/it/decoders/record_batches.rs"]
mod record_batches;

libfuzzer_sys::fuzz_target!(|data: &[u8]| record_batches::run(data));
