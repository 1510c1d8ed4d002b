//! The physical graph: sources, processors and sinks with typed edges, checked and printable.
//!
//! A [`Topology`] is a description: it can be printed, sent to other threads, and built into as many tasks as there are
//! partitions. Both the DSL and [`TopologyBuilder`] end here.

mod builder;
mod consumed;
mod copartition;
mod describe;
pub(crate) mod erased;
mod instantiate;
mod internal_topics;
mod java_hash;
mod lint;
mod names;
mod node;
mod produced;
mod subtopology;
mod topic_names;
mod topic_stores;

pub use self::builder::{HandleOf, NodeHandle, TopologyBuilder};
pub(crate) use self::builder::{operator_kind, processor_kind, sink_kind, source_kind};
pub use self::consumed::{AutoOffsetReset, Consumed};
pub(crate) use self::copartition::{Copartition, check_counts};
pub use self::erased::{ProcessorWrapper, WrappedRecord, Wrapper, Wrapping};
pub(crate) use self::instantiate::TaskNodes;
pub(crate) use self::internal_topics::{ChangelogTopic, RepartitionTopic, changelog_name};
pub use self::lint::{Finding, Severity};
pub(crate) use self::names::check_name;
use self::node::NodeSpec;
pub(crate) use self::node::{NodeFacts, NodeKind, Role, SinkTopic};
pub use self::produced::{
    Produced, RecordToPartition, StreamPartitioner, TopicNameExtractor, TopicTarget,
};
pub(crate) use self::subtopology::Subtopology;
pub use self::topic_names::TopicNames;
pub(crate) use self::topic_stores::store_update;

pub use crate::task::{
    FailOnInvalidTimestamp, LogAndSkipOnInvalidTimestamp, SourceRecord, TimestampExtractor,
    UsePartitionTimeOnInvalidTimestamp, WallclockTimestampExtractor, murmur2, partition_for_key,
};

use crate::state::{GlobalSpec, StoreSpec};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A checked topology. Cloning shares it.
#[derive(Clone)]
pub struct Topology(Arc<Graph>);

/// The graph behind a topology. Nodes are in the order in which they were added: parents come first.
pub(crate) struct Graph {
    pub(crate) nodes: Vec<NodeSpec>,
    pub(crate) stores: Vec<StoreSpec>,
    pub(crate) globals: Vec<GlobalSpec>,
    pub(crate) repartition_topics: BTreeMap<Arc<str>, RepartitionTopic>,
    /// The topics from which stores are written, by store.
    pub(crate) writers: BTreeMap<Arc<str>, Arc<str>>,
    pub(crate) subtopologies: Vec<Subtopology>,
    /// Topics that must have equally many partitions.
    pub(crate) copartition: Vec<Copartition>,
}

impl Topology {
    pub(crate) fn graph(&self) -> &Graph {
        &self.0
    }

    /// The topology as Kafka Streams prints it.
    pub fn describe(&self) -> String {
        describe::describe(&self.0)
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

impl fmt::Debug for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}
