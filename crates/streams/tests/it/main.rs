//! Tests of the library from outside: on the test driver, and on a real broker.

mod broker;
mod compile_fail;
mod driver;
mod interop;
mod kafka;
mod random;
