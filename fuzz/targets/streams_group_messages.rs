//! Fuzzes `streams_group_messages`: the function is a test of `crates/protocol`, which says what the bytes are.

#![no_main]

#[path = "../../crates/protocol/tests/it/decoders/streams_group_messages.rs"]
mod streams_group_messages;

libfuzzer_sys::fuzz_target!(|data: &[u8]| streams_group_messages::run(data));
