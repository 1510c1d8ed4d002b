//! What users write: streams and tables, typed and lazy.
//!
//! A method turns its typed closure into an operator on the spot, where the types are known, and records a node of the
//! logical plan around it. `StreamsBuilder::build` lowers the plan to a [`crate::topology::Topology`].

mod branch;
mod builder;
mod foreign_key_join;
mod global_table;
mod grouped;
mod grouped_table;
mod options;
mod plan;
mod stream;
mod stream_global_joins;
mod stream_joins;
mod table;
mod table_joins;

pub use self::branch::BranchedKStream;
pub use self::builder::StreamsBuilder;
pub use self::global_table::GlobalKTable;
pub use self::grouped::KGroupedStream;
pub use self::grouped_table::KGroupedTable;
pub use self::options::{
    Branched, Eager, Grouped, Joined, Materialized, Printed, Processed, Repartitioned, Strict,
    Suppressed, TableJoined,
};
pub use self::stream::KStream;
pub use self::table::KTable;
