//! Fuzzes `messages`: the function is a test of `crates/protocol`, which says what the bytes are.

#![no_main]

#[path = "../../crates/protocol/tests/it/decoders/messages.rs"]
mod messages;

libfuzzer_sys::fuzz_target!(|data: &[u8]| messages::run(data));
