//! Options of operators: one struct each, everything optional has a default.

mod branched;
mod deduplicated;
mod emit_strategy;
mod grouped;
mod joined;
mod materialized;
mod printed;
mod processed;
mod repartitioned;
mod stream_joined;
mod suppressed;
mod table_joined;

pub(super) use self::branched::BranchUse;
pub use self::branched::Branched;
pub use self::deduplicated::Deduplicated;
pub use self::emit_strategy::EmitStrategy;
pub use self::grouped::Grouped;
pub use self::joined::Joined;
pub use self::materialized::Materialized;
pub use self::printed::Printed;
pub use self::processed::Processed;
pub use self::repartitioned::Repartitioned;
pub use self::stream_joined::StreamJoined;
pub use self::suppressed::{Eager, Strict, Suppressed};
pub use self::table_joined::TableJoined;
pub(crate) use self::table_joined::{KeyPartitioner, by_key};
