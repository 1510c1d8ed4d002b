//! Purging repartition topics: records that every task has committed are of no use to anyone.
//!
//! Never past the committed offset, so a crash right after it loses nothing; at most one request at a time and one an interval.

use kstreams_client::{Client, Pending, Results, TopicPartition};
use std::collections::BTreeMap;
use std::time::Duration;

/// Deletes what is committed from the repartition topics of a thread's tasks.
pub(super) struct Purge {
    interval: Duration,
    last: Option<Duration>,
    committed: BTreeMap<TopicPartition, i64>,
    running: Option<Pending<Results<TopicPartition, i64>>>,
}

impl Purge {
    pub(super) fn new(interval: Duration) -> Self {
        Purge { interval, last: None, committed: BTreeMap::new(), running: None }
    }

    /// Notes an offset that was committed for a repartition topic.
    pub(super) fn committed(&mut self, partition: TopicPartition, offset: i64) {
        self.committed.insert(partition, offset);
    }

    /// Sends a request when it is time.
    pub(super) fn poll(&mut self, client: &mut Client, now: Duration) {
        if let Some(pending) = &mut self.running {
            let Some(result) = pending.try_take() else { return };
            self.running = None;
            let failed = match &result {
                Ok(results) => {
                    results.iter().find_map(|(p, result)| Some((Some(p), result.as_ref().err()?)))
                }
                Err(error) => Some((None, error)),
            };
            if let Some((partition, error)) = failed {
                let partition = partition.map(ToString::to_string);
                tracing::warn!(
                    partition,
                    "cannot purge a repartition topic: {error}; it is tried again"
                );
            }
        }
        let due = self.last.is_none_or(|last| now - last >= self.interval);
        if due && !self.committed.is_empty() {
            self.last = Some(now);
            self.running = Some(client.delete_records(std::mem::take(&mut self.committed)));
        }
    }
}
