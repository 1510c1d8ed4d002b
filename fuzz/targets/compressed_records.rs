//! Fuzzes `compressed_records`: the function is a test of `crates/protocol`, which says what the bytes are.

#![no_main]

#[path = "../../crates/protocol/tests/it/decoders/compressed_records.rs"]
mod compressed_records;

libfuzzer_sys::fuzz_target!(|data: &[u8]| compressed_records::run(data));
