//! Byte layouts of keys and values inside stores: Java's.

pub(super) mod timestamped_value;
