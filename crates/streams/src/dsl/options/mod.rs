//! Options of operators: one struct each, everything optional has a default.

mod grouped;
mod materialized;
mod processed;

pub use self::grouped::Grouped;
pub use self::materialized::Materialized;
pub use self::processed::Processed;
