//! The layers between a typed store and its engine, each with one duty: forward once a commit (`record_cache`), log changes
//! (`changelog`), keep what is not committed and what was read lately (`write_buffer`). `key_value` puts them together.

mod budget;
mod changelog;
mod key_value;
mod lru;
mod record_cache;
mod write_buffer;

pub(crate) use self::budget::{Budget, StoreBudget};
pub(crate) use self::changelog::LogMode;
pub(crate) use self::key_value::{FlushListener, KeyValueLayers};
pub(crate) use self::record_cache::Flushed;
