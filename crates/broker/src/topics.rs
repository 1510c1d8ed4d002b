//! The topics: names, ids, settings, and a log for each partition.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kstreams_protocol::ResponseError;
use uuid::Uuid;

use crate::error::{BrokerError, Refusal};
use crate::journal::{Journal, key};
use crate::log::PartitionLog;
use crate::random::Random;
use crate::topic_config::TopicConfig;

/// A topic and its partitions' logs.
#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) id: Uuid,
    pub(crate) set: BTreeMap<String, String>,
    pub(crate) config: TopicConfig,
    pub(crate) partitions: Vec<PartitionLog>,
}

/// All topics, by name and by id.
#[derive(Debug, Default)]
pub(crate) struct Topics {
    by_name: BTreeMap<String, Topic>,
    names: BTreeMap<Uuid, String>,
    directory: Option<PathBuf>,
}

/// The most partitions a topic may be given, so that a slip does not take all memory.
const MAX_PARTITIONS: i32 = 10_000;

impl Topics {
    /// The topics that the journal knows, with their logs from `directory`.
    pub(crate) fn open(
        directory: Option<PathBuf>,
        journal: &Journal,
        now: i64,
    ) -> Result<Self, BrokerError> {
        let mut topics = Self { directory, ..Self::default() };
        let mut starts = BTreeMap::new();
        for (parts, value) in journal.under("start") {
            let [topic, partition] = &parts[..] else { continue };
            let start = text(&value).parse::<i64>().unwrap_or(0);
            starts.insert((topic.clone(), partition.clone()), start);
        }
        for (parts, value) in journal.under("topic") {
            let Some(name) = parts.first() else { continue };
            let Some((id, count, set)) = decode(&text(&value)) else {
                tracing::warn!(topic = name, "the journal's entry of this topic is not readable");
                continue;
            };
            let start = |partition: i32| {
                let at = (name.clone(), partition.to_string());
                starts.get(&at).copied().unwrap_or(0)
            };
            let config = TopicConfig::new(&set).or_else(|_| TopicConfig::new(&BTreeMap::new()))?;
            let logs: Result<Vec<_>, _> =
                (0..count).map(|p| topics.open_log(id, p, start(p), now)).collect();
            topics.insert(name, Topic { id, set, config, partitions: logs? });
        }
        topics.remove_orphans();
        Ok(topics)
    }

    /// Removes folders of topics that were being created or deleted when the broker ended.
    fn remove_orphans(&self) {
        let Some(directory) = self.directory.as_ref().map(|d| d.join("topics")) else { return };
        let Ok(entries) = std::fs::read_dir(directory) else { return };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let id = path.file_name().and_then(|name| name.to_str()?.parse::<Uuid>().ok());
            if id.is_some_and(|id| !self.names.contains_key(&id))
                && let Err(error) = std::fs::remove_dir_all(&path)
            {
                tracing::warn!(path = %path.display(), %error, "an old topic's files stay");
            }
        }
    }

    fn open_log(
        &self,
        id: Uuid,
        partition: i32,
        start: i64,
        now: i64,
    ) -> Result<PartitionLog, BrokerError> {
        let directory = self.topic_directory(id).map(|d| d.join(partition.to_string()));
        let path = directory.clone().unwrap_or_default();
        PartitionLog::open(directory, start, now)
            .map_err(|source| BrokerError::Storage { path, source })
    }

    /// Folders are called by id: a topic of the same name that comes later never meets old files.
    fn topic_directory(&self, id: Uuid) -> Option<PathBuf> {
        self.directory.as_ref().map(|d| d.join("topics").join(id.to_string()))
    }

    fn insert(&mut self, name: &str, topic: Topic) {
        self.names.insert(topic.id, name.to_owned());
        self.by_name.insert(name.to_owned(), topic);
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Topic> {
        self.by_name.get(name)
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut Topic> {
        self.by_name.get_mut(name)
    }

    pub(crate) fn name_of(&self, id: Uuid) -> Option<&str> {
        self.names.get(&id).map(String::as_str)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Topic)> {
        self.by_name.iter().map(|(name, topic)| (name.as_str(), topic))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&str, &mut Topic)> {
        self.by_name.iter_mut().map(|(name, topic)| (name.as_str(), topic))
    }

    pub(crate) fn log_mut(&mut self, name: &str, partition: i32) -> Option<&mut PartitionLog> {
        let partition = usize::try_from(partition).ok()?;
        self.get_mut(name)?.partitions.get_mut(partition)
    }

    pub(crate) fn log(&self, name: &str, partition: i32) -> Option<&PartitionLog> {
        let partition = usize::try_from(partition).ok()?;
        self.get(name)?.partitions.get(partition)
    }

    /// Whether a topic could be created like this.
    pub(crate) fn check_new(
        &self,
        name: &str,
        partitions: i32,
        set: &BTreeMap<String, String>,
    ) -> Result<TopicConfig, Refusal> {
        check_name(name)?;
        if self.by_name.contains_key(name) {
            let message = format!("Topic '{name}' already exists.");
            return Err(Refusal::new(ResponseError::TopicAlreadyExists, message));
        }
        if partitions <= 0 || partitions > MAX_PARTITIONS {
            let message = "Number of partitions was set to an invalid non-positive value.";
            return Err(Refusal::new(ResponseError::InvalidPartitions, message));
        }
        TopicConfig::new(set)
    }

    pub(crate) fn create(
        &mut self,
        name: &str,
        partitions: i32,
        set: BTreeMap<String, String>,
        to: (&mut Journal, &mut Random, i64),
    ) -> Result<Uuid, Refusal> {
        let (journal, random, now) = to;
        let config = self.check_new(name, partitions, &set)?;
        let id = random.uuid();
        let logs: Result<Vec<_>, _> =
            (0..partitions).map(|p| self.open_log(id, p, 0, now)).collect();
        let partitions = logs.map_err(|error| storage(&error))?;
        self.insert(name, Topic { id, set, config, partitions });
        self.record(name, journal);
        tracing::info!(topic = name, "topic created");
        Ok(id)
    }

    /// Gives a topic `count` partitions, more than it has.
    pub(crate) fn grow(
        &mut self,
        name: &str,
        count: i32,
        journal: &mut Journal,
        now: i64,
    ) -> Result<(), Refusal> {
        let topic = self.get(name).ok_or(ResponseError::UnknownTopicOrPartition)?;
        let (id, from) = (topic.id, i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX));
        let more: Result<Vec<_>, _> =
            (from..count.min(MAX_PARTITIONS)).map(|p| self.open_log(id, p, 0, now)).collect();
        let more = more.map_err(|error| storage(&error))?;
        if let Some(topic) = self.get_mut(name) {
            topic.partitions.extend(more);
        }
        self.record(name, journal);
        Ok(())
    }

    /// Gives a topic these settings in place of those it had.
    pub(crate) fn configure(
        &mut self,
        name: &str,
        set: BTreeMap<String, String>,
        journal: &mut Journal,
    ) -> Result<(), Refusal> {
        let config = TopicConfig::new(&set)?;
        let topic = self.get_mut(name).ok_or(ResponseError::UnknownTopicOrPartition)?;
        (topic.set, topic.config) = (set, config);
        self.record(name, journal);
        Ok(())
    }

    pub(crate) fn delete(&mut self, name: &str, journal: &mut Journal) -> Result<Topic, Refusal> {
        let topic = self.by_name.remove(name).ok_or(ResponseError::UnknownTopicOrPartition)?;
        self.names.remove(&topic.id);
        journal.put(key(&["topic", name]), None);
        journal.remove_under(&["start", name]);
        Ok(topic)
    }

    /// Removes the files of a topic that was deleted.
    pub(crate) fn remove_files(&self, topic: Topic) {
        let id = topic.id;
        for log in topic.partitions {
            if let Err(error) = log.delete() {
                tracing::warn!(%error, "a deleted topic's files could not be removed");
            }
        }
        if let Some(directory) = self.topic_directory(id) {
            let _ = std::fs::remove_dir(directory);
        }
    }

    fn record(&self, name: &str, journal: &mut Journal) {
        if let Some(topic) = self.get(name) {
            journal.put(key(&["topic", name]), Some(encode(topic).as_bytes()));
        }
    }
}

/// A topic's entry in the journal: id, partitions, and a setting a line.
fn encode(topic: &Topic) -> String {
    let mut text = format!("{}\n{}", topic.id, topic.partitions.len());
    for (name, value) in &topic.set {
        text.push('\n');
        text.push_str(name);
        text.push('=');
        text.push_str(value);
    }
    text
}

fn decode(text: &str) -> Option<(Uuid, i32, BTreeMap<String, String>)> {
    let mut lines = text.lines();
    let id = lines.next()?.parse().ok()?;
    let partitions = lines.next()?.parse().ok()?;
    let pair = |line: &str| line.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned()));
    Some((id, partitions, lines.map(pair).collect::<Option<_>>()?))
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn storage(error: &BrokerError) -> Refusal {
    Refusal::new(ResponseError::KafkaStorageError, error.to_string())
}

fn check_name(name: &str) -> Result<(), Refusal> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let why = if name.is_empty() {
        "the empty string is not allowed".to_owned()
    } else if name == "." || name == ".." {
        "'.' or '..' is not allowed".to_owned()
    } else if name.len() > 249 {
        format!("the length of '{name}' is longer than the max allowed length 249")
    } else if !name.chars().all(legal) {
        format!(
            "'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        )
    } else {
        return Ok(());
    };
    let message = format!("Topic name is invalid: {why}");
    Err(Refusal::new(ResponseError::InvalidTopicException, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for name in ["", ".", "..", "a b", "a/b", "ä", &"x".repeat(250)] {
            assert!(check_name(name).is_err(), "{name}");
        }
        for name in ["a", "app-store-changelog", "a.b_c", &"x".repeat(249)] {
            assert!(check_name(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn an_entry_of_the_journal_reads_back() {
        let set: BTreeMap<String, String> =
            [("cleanup.policy".to_owned(), "compact,delete".to_owned())].into();
        let topic = Topic {
            id: Uuid::from_u128(7),
            config: TopicConfig::new(&set).unwrap(),
            set: set.clone(),
            partitions: vec![PartitionLog::open(None, 0, 0).unwrap()],
        };
        assert_eq!(decode(&encode(&topic)), Some((Uuid::from_u128(7), 1, set)));
        assert_eq!(decode("nonsense"), None);
    }
}
