//! The broker from outside: raw protocol messages over memory and TCP.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod classic_groups;
mod directory;
mod fronts;
mod raw;
mod records;
mod streams_groups;
mod topics;
mod versions;
