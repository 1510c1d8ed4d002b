//! The client against a real broker, named by `KSTREAMS_TEST_BOOTSTRAP`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod fetch;
mod group;
mod offsets;
mod produce;
mod support;
mod topics;
