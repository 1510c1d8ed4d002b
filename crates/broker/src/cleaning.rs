//! What the time does to records: retention by age and size, and compaction, one partition at a
//! time.

use kstreams_protocol::ResponseError;

use crate::error::{BrokerError, Refusal};
use crate::node::Node;
use crate::topics::Topic;

/// Between the cleanings of two partitions, for whoever waits.
const CLEANING_PAUSE_MS: i64 = 5;

impl Node {
    pub(crate) fn retain_all(&mut self) {
        let names: Vec<String> = self.topics.iter().map(|(name, _)| name.to_owned()).collect();
        for name in names {
            self.retain_topic(&name);
        }
        let before = self.now - self.config.producer_id_expiration_ms;
        for (_, topic) in self.topics.iter_mut() {
            for log in &mut topic.partitions {
                log.expire_producers(before);
            }
        }
    }

    fn retain_topic(&mut self, name: &str) {
        let now = self.now;
        let Some(topic) = self.topics.get_mut(name).filter(|topic| topic.config.delete) else {
            return;
        };
        let (ms, bytes) = (topic.config.retention_ms, topic.config.retention_bytes);
        let mut moved = Vec::new();
        for (partition, log) in (0..).zip(&mut topic.partitions) {
            match log.retain(ms, bytes, now) {
                Ok(true) => moved.push(partition),
                Ok(false) => {}
                Err(error) => tracing::error!(topic = name, %error, "retention failed"),
            }
        }
        for partition in moved {
            self.record_start(name, partition);
        }
    }

    /// Cleans one partition: requests have their turn before the next one.
    pub(crate) fn clean_next(&mut self) {
        if let Some((name, partition)) = self.to_clean.pop_front() {
            let now = self.now;
            if let Some(topic) = self.topics.get_mut(&name)
                && topic.config.compact
                && let Some(log) = topic.partitions.get_mut(partition)
                && let Err(error) = log.compact(&topic.config, now, false)
            {
                tracing::error!(topic = name, partition, %error, "compaction failed");
            }
        } else {
            let compacted = self.topics.iter().filter(|(_, topic)| topic.config.compact);
            let of = |(name, topic): (&str, &Topic)| {
                let name = name.to_owned();
                (0..topic.partitions.len()).map(move |partition| (name.clone(), partition))
            };
            self.to_clean = compacted.flat_map(of).collect();
        }
        let pause = if self.to_clean.is_empty() {
            self.config.cleaner_interval_ms
        } else {
            CLEANING_PAUSE_MS
        };
        self.next_cleaning = self.now + pause;
    }

    /// Compaction and retention of one topic, now and to its end.
    pub(crate) fn clean_topic(&mut self, name: &str) -> Result<(), BrokerError> {
        self.compact_topic(name)?;
        self.retain_topic(name);
        Ok(())
    }

    fn compact_topic(&mut self, name: &str) -> Result<(), BrokerError> {
        let now = self.now;
        let unknown = Refusal::new(ResponseError::UnknownTopicOrPartition, name);
        let topic = self.topics.get_mut(name).ok_or(unknown)?;
        if !topic.config.compact {
            return Ok(());
        }
        for log in &mut topic.partitions {
            log.compact(&topic.config, now, true)
                .map_err(|source| BrokerError::Storage { path: name.into(), source })?;
        }
        Ok(())
    }
}
