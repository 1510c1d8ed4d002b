//! The operators, one file each: small nodes between typed edges.
//!
//! An operator is made from a closure as a factory (a [`NodeFactory`]) that builds the node for each task. Closures are shared by
//! all tasks; what a task remembers is in its stores. An operator does no I/O, reads no clock and knows no task.

mod branch;
mod change_serde;
mod decide;
mod deduplicate;
mod emit_on_close;
mod filter;
mod flat_map;
mod for_each;
pub(crate) mod foreign_key_join;
mod map;
mod pass;
mod peek;
mod print;
mod select_key;
mod session_aggregate;
mod sliding_window_aggregate;
mod stream_aggregate;
mod stream_global_join;
mod stream_self_join;
mod stream_stream_join;
mod stream_table_join;
mod suppress;
mod table_aggregate;
mod table_group;
mod table_join;
mod table_map;
mod table_source;
mod table_store;
mod table_to_stream;
mod table_transform;
mod table_view;
mod window_aggregate;
mod window_view;

pub(crate) use self::branch::{Branches, branch};
pub(crate) use self::change_serde::ChangeSerde;
pub(crate) use self::decide::{Decision, decide, select as select_decision};
pub(crate) use self::deduplicate::{Deduplication, deduplicate};
pub(crate) use self::filter::{filter, map_where_key, not_null_key};
pub(crate) use self::flat_map::{flat_map, flat_map_values};
pub(crate) use self::for_each::for_each;
pub(crate) use self::map::{map, map_values};
pub(crate) use self::pass::pass;
pub(crate) use self::peek::peek;
pub(crate) use self::print::{SharedWriter, print};
pub(crate) use self::select_key::select_key;
pub(crate) use self::session_aggregate::{Merger, SessionRule, session_aggregate};
pub(crate) use self::sliding_window_aggregate::{SlidingRule, sliding_window_aggregate};
pub(crate) use self::stream_aggregate::{Aggregation, Grouping, Step, stream_aggregate};
pub(crate) use self::stream_global_join::{GlobalJoiner, SelectAndJoin, stream_global_join};
pub(crate) use self::stream_self_join::stream_self_join;
pub(crate) use self::stream_stream_join::{
    JoinRule, Left, Right, StreamJoin, StreamJoiner, join_window, stream_stream_join,
};
pub(crate) use self::stream_table_join::{Grace, Lookup, LookupJoiner, stream_table_join};
pub(crate) use self::suppress::{BufferTime, Suppression, WhenFull, suppress, suppress_view};
pub(crate) use self::table_aggregate::{AddAndSubtract, TableAggregation, table_aggregate};
pub(crate) use self::table_group::{GroupSerdes, table_group};
pub(crate) use self::table_join::{JoinSide, Joiner, merge_joined, table_join, table_join_view};
pub(crate) use self::table_map::{TableMapping, map_view, table_map};
pub(crate) use self::table_source::table_source;
pub(crate) use self::table_store::{TableOwnStore, TableStore, TableToken};
pub(crate) use self::table_to_stream::table_to_stream;
pub(crate) use self::table_transform::{TransformSupplier, table_transform, transform_view};
pub(crate) use self::table_view::{TableView, View, store_view};
pub(crate) use self::window_aggregate::{WindowRule, window_aggregate};
pub(crate) use self::window_view::{session_view, window_view};

use crate::error::BoxError;

/// A change of a table on its way down: the value after and, where someone asked for it, the value before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change<V> {
    pub(crate) new: Option<V>,
    pub(crate) old: Option<V>,
    /// Whether the key has this value now; false for a change of a versioned table's past.
    pub(crate) is_latest: bool,
}

impl<V> Change<V> {
    /// A change to what the key has from now on.
    pub(crate) fn latest(new: Option<V>, old: Option<V>) -> Self {
        Change { new, old, is_latest: true }
    }
}

/// What user code returns: its result, or an error for the processing handler.
pub(crate) type Outcome<T> = Result<T, BoxError>;
