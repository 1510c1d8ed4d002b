//! Topics that must have equally many partitions: those whose records a join or a common aggregation brings together.

use super::Graph;
use super::internal_topics::RepartitionTopic;
use super::java_hash::{buckets, java_hash};
use crate::error::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A group of topics, without the application's prefix.
pub(crate) type Copartition = BTreeSet<Arc<str>>;

/// Groups that have topics in common are one.
pub(super) fn united(groups: Vec<Copartition>) -> Vec<Copartition> {
    let mut united: Vec<Copartition> = Vec::new();
    for mut group in groups {
        let mut rest = Vec::new();
        for other in united {
            match other.is_disjoint(&group) {
                true => rest.push(other),
                false => group.extend(other),
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
        let given = group.iter().filter_map(|topic| {
            let partitions = repartition_topics.get(topic)?.partitions?;
            Some((topic, partitions))
        });
        check_counts(given)?;
    }
    Ok(())
}

/// Refuses topics of one group that have different numbers of partitions.
pub(crate) fn check_counts<'a>(
    counts: impl Iterator<Item = (&'a Arc<str>, i32)> + Clone,
) -> Result<()> {
    let mut numbers = counts.clone().map(|(_, partitions)| partitions);
    let first = numbers.next();
    if numbers.all(|partitions| Some(partitions) == first) {
        return Ok(());
    }
    let listed: Vec<String> =
        counts.map(|(topic, partitions)| format!("{topic} has {partitions}")).collect();
    Err(Error::topology(format!(
        "the topics that are joined, or aggregated together, need equally many partitions: {}",
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
        let own = self.copartition.iter().filter(|group| group.is_subset(&sources));
        let own: Vec<Vec<(Arc<str>, Arc<str>)>> = own
            .map(|group| {
                let names = group
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
        topics.iter().map(|topic| Arc::from(*topic)).collect()
    }

    #[test]
    fn groups_with_a_topic_in_common_are_one() {
        let groups =
            vec![group(&["a", "b"]), group(&["c", "d"]), group(&["e"]), group(&["b", "c"])];
        assert_eq!(united(groups), [group(&["e"]), group(&["a", "b", "c", "d"])]);
    }

    #[test]
    fn different_counts_are_named() {
        let (l, r): (Arc<str>, Arc<str>) = ("l".into(), "r".into());
        assert!(check_counts([(&l, 2), (&r, 2)].into_iter()).is_ok());
        let error = check_counts([(&l, 2), (&r, 3)].into_iter()).expect_err("refused");
        assert!(error.to_string().contains("l has 2, r has 3"), "{error}");
    }
}
