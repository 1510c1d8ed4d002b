//! How far a store has got in its inputs.

use kstreams_client::TopicPartition;
use std::collections::BTreeMap;

/// How far a store has got: of each input partition the offset of the last record that it reflects.
///
/// ```
/// use kstreams::runtime::Position;
///
/// let mut position = Position::new();
/// position.reach("orders", 0, 41);
/// position.merge(&Position::of("orders", 1, 7));
/// assert_eq!(position.offset("orders", 0), Some(41));
/// assert!(position.is_at_least(&Position::of("orders", 1, 7)));
/// assert!(!position.is_at_least(&Position::of("orders", 1, 8)));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Position(BTreeMap<String, BTreeMap<i32, i64>>);

impl Position {
    /// Before everything.
    pub fn new() -> Self {
        Position::default()
    }

    /// The position of one partition.
    pub fn of(topic: &str, partition: i32, offset: i64) -> Self {
        let mut position = Position::new();
        position.reach(topic, partition, offset);
        position
    }

    /// Moves a partition on to an offset, never back.
    pub fn reach(&mut self, topic: &str, partition: i32, offset: i64) {
        if !self.0.contains_key(topic) {
            self.0.insert(topic.into(), BTreeMap::new());
        }
        if let Some(partitions) = self.0.get_mut(topic) {
            let reached = partitions.entry(partition).or_insert(offset);
            *reached = offset.max(*reached);
        }
    }

    /// Moves all partitions on to where the other one has them.
    pub fn merge(&mut self, other: &Position) {
        for (topic, partition, offset) in other.iter() {
            self.reach(topic, partition, offset);
        }
    }

    /// The offset of the last record of a partition that is reflected; -1: none is. `None`: it is not an input.
    pub fn offset(&self, topic: &str, partition: i32) -> Option<i64> {
        self.0.get(topic)?.get(&partition).copied()
    }

    /// All partitions: topic, partition, offset.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i32, i64)> {
        self.0.iter().flat_map(|(topic, partitions)| {
            partitions.iter().map(|(partition, offset)| (&**topic, *partition, *offset))
        })
    }

    /// Whether this is no earlier than a bound in all partitions of the bound.
    pub fn is_at_least(&self, bound: &Position) -> bool {
        self.lags_behind(bound).is_none()
    }

    /// The first partition in which this is earlier than a bound. What is not in here does not count: a store reflects only its own
    /// inputs.
    pub(super) fn lags_behind<'a>(&self, bound: &'a Position) -> Option<(&'a str, i32, i64)> {
        bound.iter().find(|&(topic, partition, wanted)| {
            self.offset(topic, partition).is_some_and(|reached| reached < wanted)
        })
    }

    pub(super) fn has(&self, input: &TopicPartition) -> bool {
        self.offset(&input.topic, input.partition).is_some()
    }
}
