//! Coming from Java: every public method of Kafka Streams 4.4 and its test utilities, and what does the same here.
//!
//! One method with an options struct stands here where Java has overloads. [`KStream::named`], [`KTable::named`] and
//! [`KTable::materialized`] follow the operator that they are about. Methods `try_…` take closures that can fail. There is no null: a
//! table has no entry where Java's has a null value, and [`Serde::is_null`] says what counts as null in a topic.
#![doc = include_str!("from_java.md")]

#[allow(unused_imports, reason = "the names are those of links")]
use crate::{
    config::*, dsl::*, handlers::*, prelude::*, processor::*, runtime::*, serde::*, state::*,
    testing::*, topology::*,
};
