//! A streams group's topology against the topics there are: how many tasks each sub-topology has,
//! and which internal topics are missing. Java: `InternalTopicManager` and what it uses.

use std::collections::{BTreeMap, BTreeSet};

use kstreams_protocol::streams_group::TopicInfo;
use kstreams_protocol::streams_group::heartbeat::{Subtopology, Topology};

/// Status codes of heartbeats.
pub(crate) const STALE_TOPOLOGY: i8 = 0;
const MISSING_SOURCE_TOPICS: i8 = 1;
const INCORRECTLY_PARTITIONED_TOPICS: i8 = 2;
pub(crate) const MISSING_INTERNAL_TOPICS: i8 = 3;
pub(crate) const SHUTDOWN_APPLICATION: i8 = 4;
pub(crate) const ASSIGNMENT_DELAYED: i8 = 5;

/// What is wrong with the topics: a status code and its detail.
pub(crate) type Problem = (i8, String);

/// A topology with the numbers of partitions filled in.
#[derive(Debug, Default, Clone)]
pub(crate) struct Configured {
    /// By sub-topology; empty when topics are wrong.
    pub(crate) subtopologies: BTreeMap<String, ConfiguredSubtopology>,
    /// Internal topics to create.
    pub(crate) missing: Vec<InternalTopic>,
    /// Why no tasks can be given yet.
    pub(crate) problem: Option<Problem>,
}

#[derive(Debug, Clone)]
pub(crate) struct ConfiguredSubtopology {
    pub(crate) tasks: i32,
    pub(crate) stateful: bool,
    pub(crate) repartition: Vec<InternalTopic>,
    pub(crate) changelogs: Vec<InternalTopic>,
}

/// An internal topic as it must be.
#[derive(Debug, Clone)]
pub(crate) struct InternalTopic {
    pub(crate) info: TopicInfo,
    pub(crate) partitions: i32,
}

/// The topics that a topology reads or needs.
pub(crate) fn required_topics(topology: &Topology) -> BTreeSet<&str> {
    let mut all = BTreeSet::new();
    for subtopology in &topology.subtopologies {
        all.extend(source_topics(subtopology));
        all.extend(subtopology.state_changelog_topics.iter().map(|topic| topic.name.as_str()));
    }
    all
}

/// Source and repartition source topics.
pub(crate) fn source_topics(subtopology: &Subtopology) -> impl Iterator<Item = &str> {
    let sources =
        subtopology.source_topics.iter().map(kstreams_protocol::protocol::StrBytes::as_str);
    let repartition = subtopology.repartition_source_topics.iter();
    sources.chain(repartition.map(|topic| topic.name.as_str()))
}

/// Fills in a topology; `existing` tells how many partitions a topic has.
pub(crate) fn configure(topology: &Topology, existing: impl Fn(&str) -> Option<i32>) -> Configured {
    match Counts::new(topology, &existing).and_then(|counts| {
        let subtopologies = counts.subtopologies(topology)?;
        let missing = missing(&subtopologies, &existing)?;
        Ok((subtopologies, missing))
    }) {
        Ok((subtopologies, missing)) => {
            let names: Vec<&str> = missing.iter().map(|topic| topic.info.name.as_str()).collect();
            let problem = (!missing.is_empty()).then(|| {
                (
                    MISSING_INTERNAL_TOPICS,
                    format!("Internal topics are missing: {}", names.join(", ")),
                )
            });
            Configured { subtopologies, missing, problem }
        }
        Err(problem) => Configured { problem: Some(problem), ..Configured::default() },
    }
}

fn missing(
    subtopologies: &BTreeMap<String, ConfiguredSubtopology>,
    existing: impl Fn(&str) -> Option<i32>,
) -> Result<Vec<InternalTopic>, Problem> {
    let mut missing: BTreeMap<&str, &InternalTopic> = BTreeMap::new();
    for subtopology in subtopologies.values() {
        for topic in subtopology.repartition.iter().chain(&subtopology.changelogs) {
            missing.insert(topic.info.name.as_str(), topic);
        }
    }
    let mut create = Vec::new();
    for (name, topic) in missing {
        match existing(name) {
            Some(found) if found != topic.partitions => {
                let detail = format!(
                    "Existing topic {name} has different number of partitions: expected {}, found {found}",
                    topic.partitions
                );
                return Err((INCORRECTLY_PARTITIONED_TOPICS, detail));
            }
            Some(_) => {}
            None => create.push(topic.clone()),
        }
    }
    Ok(create)
}

/// How many partitions topics have, or will have when they are created.
struct Counts<'a> {
    existing: &'a dyn Fn(&str) -> Option<i32>,
    decided: BTreeMap<String, i32>,
}

impl<'a> Counts<'a> {
    fn new(
        topology: &Topology,
        existing: &'a dyn Fn(&str) -> Option<i32>,
    ) -> Result<Self, Problem> {
        let mut lacking = BTreeSet::new();
        for subtopology in &topology.subtopologies {
            let names =
                subtopology.source_topics.iter().map(kstreams_protocol::protocol::StrBytes::as_str);
            lacking.extend(names.filter(|name| existing(name).is_none()));
        }
        if !lacking.is_empty() {
            let names: Vec<&str> = lacking.into_iter().collect();
            let detail = format!("Source topics {} are missing.", names.join(", "));
            return Err((MISSING_SOURCE_TOPICS, detail));
        }
        let mut counts = Self { existing, decided: BTreeMap::new() };
        counts.decide_repartition(topology)?;
        for subtopology in &topology.subtopologies {
            for group in &subtopology.copartition_groups {
                let names = group
                    .source_topics
                    .iter()
                    .filter_map(|i| subtopology.source_topics.get(usize::try_from(*i).ok()?))
                    .map(kstreams_protocol::protocol::StrBytes::as_str);
                let sources: BTreeSet<&str> = names.collect();
                let topics = group
                    .repartition_source_topics
                    .iter()
                    .filter_map(|i| {
                        subtopology.repartition_source_topics.get(usize::try_from(*i).ok()?)
                    })
                    .collect::<Vec<_>>();
                counts.copartition(&sources, &topics)?;
            }
        }
        Ok(counts)
    }

    fn get(&self, topic: &str) -> Option<i32> {
        (self.existing)(topic).or_else(|| self.decided.get(topic).copied())
    }

    /// Repartition topics get the number they ask for, or the largest of what is upstream.
    fn decide_repartition(&mut self, topology: &Topology) -> Result<(), Problem> {
        let mut open: BTreeSet<&str> = BTreeSet::new();
        for topic in topology.subtopologies.iter().flat_map(|s| &s.repartition_source_topics) {
            if topic.partitions != 0 {
                self.decided.insert(topic.name.to_string(), topic.partitions);
            } else {
                open.insert(topic.name.as_str());
            }
        }
        while !open.is_empty() {
            let before = open.len();
            let still: BTreeSet<&str> = open
                .iter()
                .copied()
                .filter(|name| match self.upstream(topology, name) {
                    Some(count) => {
                        self.decided.insert((*name).to_owned(), count);
                        false
                    }
                    None => true,
                })
                .collect();
            if still.len() == before {
                let detail = "Failed to compute number of partitions for all repartition topics. \
                              There may be loops in the topology that cannot be resolved.";
                return Err((MISSING_INTERNAL_TOPICS, detail.to_owned()));
            }
            open = still;
        }
        Ok(())
    }

    /// The largest number of partitions upstream of a repartition topic, if all are known.
    fn upstream(&self, topology: &Topology, repartition: &str) -> Option<i32> {
        let writes = |subtopology: &&Subtopology| {
            subtopology.repartition_sink_topics.iter().any(|name| name.as_str() == repartition)
        };
        let mut largest = None;
        for subtopology in topology.subtopologies.iter().filter(writes) {
            for topic in source_topics(subtopology) {
                largest = largest.max(Some(self.get(topic)?));
            }
        }
        largest
    }

    fn copartition(
        &mut self,
        sources: &BTreeSet<&str>,
        repartition: &[&TopicInfo],
    ) -> Result<(), Problem> {
        let (fixed, flexible): (Vec<&TopicInfo>, Vec<&TopicInfo>) =
            repartition.iter().partition(|topic| topic.partitions != 0);
        let different = |names: Vec<&str>, counts: &Self| {
            let count = |name: &&str| format!("{name}={}", counts.get(name).unwrap_or_default());
            let all: Vec<String> = names.iter().map(count).collect();
            let detail = format!(
                "Following topics do not have the same number of partitions: [{{{}}}]",
                all.join(", ")
            );
            (INCORRECTLY_PARTITIONED_TOPICS, detail)
        };
        let of = |names: &[&str], counts: &Self| {
            names.iter().filter_map(|name| counts.get(name)).collect::<BTreeSet<i32>>()
        };
        let source_names: Vec<&str> = sources.iter().copied().collect();
        let fixed_names: Vec<&str> = fixed.iter().map(|topic| topic.name.as_str()).collect();
        let source_counts = of(&source_names, self);
        let fixed_counts = of(&fixed_names, self);
        if source_counts.len() > 1 {
            return Err(different(source_names, self));
        }
        if fixed_counts.len() > 1 {
            return Err(different(fixed_names, self));
        }
        let count = match (source_counts.first(), fixed_counts.first()) {
            (Some(source), Some(fixed)) if source != fixed => {
                let detail = format!(
                    "Number of partitions [{fixed}] of repartition topic [{}] doesn't match number \
                     of partitions [{source}] of the source topic.",
                    fixed_names.first().copied().unwrap_or_default()
                );
                return Err((INCORRECTLY_PARTITIONED_TOPICS, detail));
            }
            (Some(count), _) | (None, Some(count)) => Some(*count),
            (None, None) => flexible.iter().filter_map(|topic| self.get(&topic.name)).max(),
        };
        if let Some(count) = count {
            for topic in flexible {
                self.decided.insert(topic.name.to_string(), count);
            }
        }
        Ok(())
    }

    /// A copartitioned topic gets what was decided, whatever an older one of the name has.
    fn of_internal(&self, topic: &TopicInfo) -> i32 {
        let decided = self.decided.get(topic.name.as_str()).copied();
        decided.or_else(|| self.get(&topic.name)).unwrap_or(topic.partitions)
    }

    fn subtopologies(
        &self,
        topology: &Topology,
    ) -> Result<BTreeMap<String, ConfiguredSubtopology>, Problem> {
        let mut all = BTreeMap::new();
        for subtopology in &topology.subtopologies {
            let names = subtopology.source_topics.iter().filter_map(|name| self.get(name));
            let repartition = subtopology.repartition_source_topics.iter();
            let tasks = names.chain(repartition.map(|topic| self.of_internal(topic))).max();
            let Some(tasks) = tasks else {
                let detail = "A sub-topology has no source topics".to_owned();
                return Err((MISSING_SOURCE_TOPICS, detail));
            };
            let internal =
                |info: &TopicInfo, partitions| InternalTopic { info: info.clone(), partitions };
            let repartition = subtopology.repartition_source_topics.iter();
            let changelogs = subtopology.state_changelog_topics.iter();
            let configured = ConfiguredSubtopology {
                tasks,
                stateful: !subtopology.state_changelog_topics.is_empty(),
                repartition: repartition.map(|t| internal(t, self.of_internal(t))).collect(),
                changelogs: changelogs.map(|topic| internal(topic, tasks)).collect(),
            };
            all.insert(subtopology.subtopology_id.to_string(), configured);
        }
        Ok(all)
    }
}
