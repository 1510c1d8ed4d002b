//! Topics that must have equally many partitions: those whose records a join or a common aggregation brings together.

use super::Graph;
use super::internal_topics::RepartitionTopic;
use super::java_hash::{buckets, java_hash};
use crate::error::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A group of topics, without the application's prefix, and what brings them together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Copartition {
    pub(crate) topics: BTreeSet<Arc<str>>,
    pub(crate) what: &'static str,
}

/// Groups that have topics in common are one.
pub(super) fn united(groups: Vec<Copartition>) -> Vec<Copartition> {
    let mut united: Vec<Copartition> = Vec::new();
    for group in groups {
        let mut group = group;
        let mut rest = Vec::new();
        for other in united {
            match other.topics.is_disjoint(&group.topics) {
                true => rest.push(other),
                false => group = Copartition { topics: &group.topics | &other.topics, ..other },
            }
        }
        rest.push(group);
        united = rest;
    }
    united
}

/// Refuses repartition topics of one group that are given different numbers of partitions.
pub(super) fn check(
    groups: &[Copartition],
    repartition_topics: &BTreeMap<Arc<str>, RepartitionTopic>,
) -> Result<()> {
    for group in groups {
        check_counts(group, |topic| repartition_topics.get(topic)?.partitions)?;
    }
    Ok(())
}

/// Refuses topics of one group that have different numbers of partitions, as far as these are known.
pub(crate) fn check_counts(
    group: &Copartition,
    count: impl Fn(&Arc<str>) -> Option<i32>,
) -> Result<()> {
    let known: Vec<(&Arc<str>, i32)> =
        group.topics.iter().filter_map(|topic| Some((topic, count(topic)?))).collect();
    if known.iter().all(|(_, partitions)| Some(*partitions) == known.first().map(|first| first.1)) {
        return Ok(());
    }
    let listed: Vec<String> =
        known.iter().map(|(topic, partitions)| format!("{topic} has {partitions}")).collect();
    Err(Error::topology(format!(
        "{} need topics with equally many partitions, or equal keys would never meet: {}",
        group.what,
        listed.join(", ")
    )))
}

impl Graph {
    /// The groups of a sub-topology, with the topics' names on the cluster, in Java's order.
    pub(crate) fn copartitions(
        &self,
        application_id: &str,
        subtopology: u32,
    ) -> Vec<Vec<(Arc<str>, Arc<str>)>> {
        let sources = self.source_topics(subtopology);
        let own = self.copartition.iter().filter(|group| group.topics.is_subset(&sources));
        let own: Vec<Vec<(Arc<str>, Arc<str>)>> = own
            .map(|group| {
                let names = group
                    .topics
                    .iter()
                    .map(|topic| (topic.clone(), self.topic_name(application_id, topic)));
                let names: Vec<(Arc<str>, Arc<str>)> = names.collect();
                let hashes: Vec<u32> = names.iter().map(|(_, name)| java_hash(name)).collect();
                let places: Vec<usize> = (0..names.len()).collect();
                buckets(&hashes, &places).into_iter().map(|place| names[place].clone()).collect()
            })
            .collect();
        // A set's hash is the sum of its elements'.
        let hash = |group: &Vec<(Arc<str>, Arc<str>)>| {
            group.iter().fold(0u32, |sum, (_, name)| sum.wrapping_add(java_hash(name)))
        };
        let hashes: Vec<u32> = own.iter().map(hash).collect();
        let places: Vec<usize> = (0..own.len()).collect();
        buckets(&hashes, &places).into_iter().map(|place| own[place].clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(topics: &[&str]) -> Copartition {
        Copartition { topics: topics.iter().map(|topic| Arc::from(*topic)).collect(), what: "they" }
    }

    #[test]
    fn groups_with_a_topic_in_common_are_one() {
        let groups =
            vec![group(&["a", "b"]), group(&["c", "d"]), group(&["e"]), group(&["b", "c"])];
        assert_eq!(united(groups), [group(&["e"]), group(&["a", "b", "c", "d"])]);
    }

    #[test]
    fn different_counts_are_named() {
        let group = group(&["l", "r", "s"]);
        let count = |r| {
            move |topic: &Arc<str>| {
                [("l", 2), ("r", r)].iter().find(|(name, _)| **name == **topic).map(|found| found.1)
            }
        };
        assert!(check_counts(&group, count(2)).is_ok());
        let error = check_counts(&group, count(3)).expect_err("refused");
        assert!(error.to_string().ends_with("never meet: l has 2, r has 3"), "{error}");
    }
}
