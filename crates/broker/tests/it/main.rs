//! The broker from outside: raw protocol messages over memory and TCP.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod classic_groups;
mod decoders;
mod directory;
mod fronts;
mod noise;
mod programs;
mod raw;
mod records;
mod streams_groups;
mod streams_groups_model;
mod topics;
mod transactions;
mod versions;
