//! Fuzzes `directory`: the function is a test of `crates/broker`, which says what the bytes are.

#![no_main]

#[path = "../../crates/broker/tests/it/decoders/directory.rs"]
mod directory;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let folder = format!("kstreams-fuzz-{}", std::process::id());
    let _ = directory::run(data, &std::env::temp_dir().join(folder));
});
