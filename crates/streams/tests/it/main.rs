//! Tests of the library from outside: on the test driver, and on a real broker.

mod broker;
mod driver;
mod interop;
mod kafka;
