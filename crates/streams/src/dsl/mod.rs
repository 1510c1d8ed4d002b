//! What users write: streams and tables, typed and lazy.
//!
//! A method turns its typed closure into an operator on the spot, where the types are known, and records a node of the
//! logical plan around it. `StreamsBuilder::build` lowers the plan to a [`crate::topology::Topology`].

mod aggregations;
mod branch;
mod builder;
mod cogrouped;
mod decide;
mod deduplicate;
mod foreign_key_join;
mod global_table;
mod grouped;
mod grouped_table;
mod options;
mod plan;
mod session_windowed;
mod store_writer;
mod stream;
mod stream_end;
mod stream_global_joins;
mod stream_joins;
mod stream_stream_join;
mod table;
mod table_group;
mod table_joins;
mod time_windowed;
mod windows;

pub use self::branch::BranchedKStream;
pub use self::builder::StreamsBuilder;
pub use self::cogrouped::{
    CogroupedBy, CogroupedKStream, SessionWindowedCogroupedKStream, TimeWindowedCogroupedKStream,
};
pub use self::decide::Decisions;
pub use self::global_table::GlobalKTable;
pub use self::grouped::KGroupedStream;
pub use self::grouped_table::KGroupedTable;
pub use self::options::{
    Branched, Deduplicated, Eager, EmitStrategy, Grouped, Joined, Materialized, Printed, Processed,
    Repartitioned, StreamJoined, Strict, Suppressed, TableJoined,
};
pub use self::session_windowed::SessionWindowedKStream;
pub use self::stream::KStream;
pub use self::stream_end::StreamEnd;
pub use self::table::KTable;
pub use self::time_windowed::{TimeWindowedKStream, WindowedBy};
pub use self::windows::{
    JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows, days,
    hours, millis, minutes, seconds,
};
