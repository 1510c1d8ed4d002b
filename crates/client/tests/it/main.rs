//! The client against a real broker, named by `KSTREAMS_TEST_BOOTSTRAP`.

mod fetch;
mod group;
mod offsets;
mod produce;
mod support;
mod topics;
