//! The topologies of `tests/java/Oracle.java`, written with kstreams: one file an area, in the oracle's order.

mod aggregations;
mod papi;
mod stateless;
mod stream_joins;
mod tables;
mod windows;

use crate::lines::Kind;
use kstreams::prelude::*;

pub(crate) type Text = Option<String>;

/// A topology: its name, how its output values are shown, and how it is built.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) value: Kind,
    pub(crate) build: fn() -> Result<Topology>,
}

pub(crate) fn find(name: &str) -> std::result::Result<Case, String> {
    let found = all().into_iter().find(|case| case.name == name);
    found.ok_or_else(|| format!("there is no topology {name}: `oracle list` shows them"))
}

pub(crate) fn all() -> Vec<Case> {
    [
        stateless::cases(),
        tables::cases(),
        aggregations::cases(),
        windows::cases(),
        stream_joins::cases(),
        papi::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A topology with values of text.
fn text(name: &'static str, build: fn() -> Result<Topology>) -> Case {
    Case { name, value: Kind::Text, build }
}

/// A topology with 64-bit integers as values.
fn long(name: &'static str, build: fn() -> Result<Topology>) -> Case {
    Case { name, value: Kind::Long, build }
}

/// Keys and values of text, both may be null.
pub(crate) fn stream(builder: &StreamsBuilder, topic: &str) -> KStream<Text, Text> {
    builder.stream(topic, Consumed::new())
}

/// The first character.
pub(crate) fn first(value: &Text) -> Text {
    value.as_ref().map(|value| value.chars().take(1).collect())
}
