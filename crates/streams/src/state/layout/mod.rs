//! Byte layouts of keys and values inside stores: Java's.

pub(super) mod buffer_value;
pub(super) mod join_list;
pub(super) mod timestamped_value;
pub(super) mod versioned_row;
pub(super) mod windowed_key;
