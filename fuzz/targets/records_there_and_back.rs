//! Fuzzes `records_there_and_back`: the function is a test of `crates/protocol`, which says what the bytes are.

#![no_main]

#[path = "../../crates/protocol/tests/it/decoders/records_there_and_back.rs"]
mod records_there_and_back;

libfuzzer_sys::fuzz_target!(|data: &[u8]| records_there_and_back::run(data));
