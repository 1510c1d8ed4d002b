//! Where every topology of the DSL begins.

use super::plan::{PlanKind, PlanRef, prefix};
use super::stream::KStream;
use crate::error::Result;
use crate::topology::{Consumed, TopicNames, Topology, source_kind};
use std::fmt;

/// Builds a topology from streams.
///
/// ```
/// use kstreams::prelude::*;
///
/// let builder = StreamsBuilder::new();
/// builder
///     .stream("lines", Consumed::values::<String>())
///     .flat_map_values(|line| line.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>())
///     .group_by(|_, word| word.clone(), Grouped::new())
///     .count(Materialized::named("word-counts"))
///     .to_stream()
///     .to("counts", Produced::new());
/// let topology = builder.build()?;
/// println!("{topology}");
/// # Ok::<(), kstreams::Error>(())
/// ```
#[derive(Default)]
pub struct StreamsBuilder {
    plan: PlanRef,
}

impl StreamsBuilder {
    /// An empty builder.
    pub fn new() -> Self {
        StreamsBuilder::default()
    }

    /// The records of one topic or several. Reading a topic twice gives the same source twice.
    #[track_caller]
    pub fn stream<K, V>(
        &self,
        topics: impl Into<TopicNames>,
        consumed: Consumed<K, V>,
    ) -> KStream<K, V>
    where
        K: Clone + 'static,
        V: Clone + 'static,
    {
        let name = self.plan.name(consumed.name.clone(), prefix::SOURCE);
        let (key, value) = (consumed.key.clone(), consumed.value.clone());
        let kind = PlanKind::Source(source_kind(topics.into().0, consumed));
        let node = self.plan.add(name, kind, Vec::new());
        KStream::new(self.plan.clone(), node, Some(key), Some(value))
    }

    /// The topology of everything that was asked for so far.
    ///
    /// # Errors
    /// The first mistake, with the line of the program where it is: two nodes of one name, a missing serde, a store of two
    /// types, one topic read with two types.
    pub fn build(&self) -> Result<Topology> {
        self.plan.lower()
    }
}

impl fmt::Debug for StreamsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamsBuilder")
    }
}
