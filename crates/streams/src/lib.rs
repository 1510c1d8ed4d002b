//! Kafka Streams as a Rust library: streams, tables and state stores over Kafka topics, with Java 4.4's names, bytes and results.
//!
//! ```
//! use kstreams::prelude::*;
//!
//! fn topology() -> Result<Topology> {
//!     let builder = StreamsBuilder::new();
//!     builder
//!         .stream("lines", Consumed::values::<String>())
//!         .flat_map_values(|line| line.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>())
//!         .group_by(|_, word| word.clone(), Grouped::new())
//!         .count(Materialized::named("word-counts"))
//!         .to_stream()
//!         .to("counts", Produced::new());
//!     builder.build()
//! }
//!
//! // A unit test needs no broker and no threads:
//! let mut driver = TopologyTestDriver::new(topology()?)?;
//! let mut lines = driver.input::<(), String>("lines");
//! let mut counts = driver.output::<String, i64>("counts");
//! lines.pipe_at(&mut driver, 0, "to be or not to be")?;
//! assert_eq!(counts.read_table(&mut driver)?, table! { "to" => 2, "be" => 2, "or" => 1, "not" => 1 });
//! # Ok::<(), kstreams::Error>(())
//! ```
//!
//! The modules are in the order of a record's way: what the user writes (`dsl`, `processor`), the checked graph (`topology`), its
//! nodes (`operators`), the running task (`task`), what it remembers (`state`), and what makes it all run (`runtime`).

pub mod dsl;
mod operators;
pub mod processor;
pub mod runtime;
pub mod state;
mod task;
pub mod testing;
pub mod topology;

pub mod config;
pub mod error;
#[cfg(doc)]
pub mod from_java;
pub mod handlers;
pub mod prelude;
pub mod record;
pub mod serde;
pub mod windowed;

pub use error::{Error, ErrorKind, Result};
