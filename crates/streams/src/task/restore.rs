//! Restoring: the stores of a task are filled from their changelogs before the task is built.
//!
//! It is done when the position has reached the end that the topic had at the start, whatever lies there: the end may be a marker,
//! a gap, or a compacted tail. Writes go to the engine in large sorted batches, each followed by the offset it leads to, so that a
//! crash in between repeats at most one batch.

use super::source::read_headers;
use crate::error::{Error, ErrorKind, Result};
use crate::processor::{RecordContext, TaskId};
use crate::state::{RestoreBatch, Restored, StoreBudget, StoreSpec, TaskBackends};
use crate::topology::{ChangelogTopic, Graph};
use kstreams_protocol::batch::{RecordReader, RecordRef};
use std::sync::Arc;

/// One store on its way to the end of its changelog.
pub(crate) struct RestoreStore {
    pub(crate) changelog: Arc<str>,
    /// Where to read next; `None`: from the beginning of the topic, whatever the application's own reset policy is.
    pub(crate) position: Option<i64>,
    end: Option<i64>,
    spec: StoreSpec,
    rows: Restored,
    pending: RestoreBatch,
    restored: u64,
}

/// A task that is not running yet.
pub(crate) struct Restoring {
    pub(crate) id: TaskId,
    pub(crate) stores: Vec<RestoreStore>,
    backends: TaskBackends,
}

impl Restoring {
    /// Looks up how far the engines are.
    pub(crate) fn begin(
        graph: &Graph,
        application_id: &str,
        id: TaskId,
        mut backends: TaskBackends,
        budget: &StoreBudget,
    ) -> Result<Self> {
        let used = graph.stores_of(id.subtopology);
        let mut stores = Vec::new();
        for spec in graph.stores.iter().filter(|spec| used.contains(&spec.name)) {
            let Some(changelog) = ChangelogTopic::name_of(application_id, spec) else { continue };
            let position = backends.offset(spec, &changelog)?;
            let rows = Restored::begin(spec, &mut backends)?;
            stores.push(RestoreStore {
                changelog,
                position,
                end: None,
                spec: spec.clone(),
                rows,
                pending: RestoreBatch::new(budget.read_cache.clone()),
                restored: 0,
            });
        }
        Ok(Restoring { id, stores, backends })
    }

    /// The end of a changelog at the start of restoring. A store that is ahead of its changelog belongs to another one.
    /// A store whose changelog is an input goes as far as that is committed: what comes behind is processed.
    pub(crate) fn set_range(
        &mut self,
        changelog: &str,
        begin: i64,
        end: i64,
        committed: Option<i64>,
    ) -> Result<()> {
        let id = self.id;
        let Some(store) = self.store(changelog) else { return Ok(()) };
        let end = match store.spec.source_topic {
            Some(_) => committed.unwrap_or(begin).min(end).max(store.position.unwrap_or(begin)),
            None => end,
        };
        if store.position.is_some_and(|position| position > end) {
            return Err(Error::new(
                ErrorKind::State,
                format!(
                    "task {id}: the local state of store {} is at offset {} of {changelog}, but the topic ends at {end}: \
                     it was made again; clean up the state directory to restore from it",
                    store.spec.name,
                    store.position.unwrap_or_default()
                ),
            ));
        }
        // What was deleted before the local state's offset changes nothing; a gap in front of it is compacted away.
        store.position = Some(store.position.unwrap_or(begin).max(begin));
        store.end = Some(end);
        Ok(())
    }

    /// Takes fetched changelog records. `next_offset` is where the next fetch begins.
    pub(crate) fn add(
        &mut self,
        changelog: &str,
        batches: Vec<RecordReader>,
        next_offset: i64,
    ) -> Result<()> {
        let id = self.id;
        let Restoring { stores, backends, .. } = self;
        let Some(store) = stores.iter_mut().find(|store| *store.changelog == *changelog) else {
            return Ok(());
        };
        for mut batch in batches {
            loop {
                let record = batch.next_record().map_err(|error| {
                    Error::new(ErrorKind::Broker, "a changelog batch is damaged")
                        .with_source(error)
                        .context(format!("topic {changelog}, partition {}", id.partition))
                })?;
                let Some(record) = record else { break };
                if store.is_behind_end(record.offset) {
                    break;
                }
                store.take(&record, id.partition)?;
            }
        }
        store.position = Some(match store.end {
            Some(end) if store.is_behind_end(next_offset) => end,
            _ => next_offset,
        });
        if store.pending.is_full() || store.is_done() {
            store.write(backends)?;
        }
        Ok(())
    }

    /// Where reading of a changelog goes on.
    pub(crate) fn position(&self, changelog: &str) -> Option<i64> {
        self.stores.iter().find(|store| *store.changelog == *changelog)?.position
    }

    fn store(&mut self, changelog: &str) -> Option<&mut RestoreStore> {
        self.stores.iter_mut().find(|store| *store.changelog == *changelog)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.stores.iter().all(RestoreStore::is_done)
    }

    /// The topics that are changelogs and inputs at once.
    pub(crate) fn source_changelogs(&self) -> Vec<Arc<str>> {
        self.stores.iter().filter_map(|store| store.spec.source_topic.clone()).collect()
    }

    /// How many records were read.
    pub(crate) fn restored(&self) -> u64 {
        self.stores.iter().map(|store| store.restored).sum()
    }

    /// Gives the engines to the task, or back to the directory.
    pub(crate) fn finish(mut self) -> Result<TaskBackends> {
        for store in &mut self.stores {
            store.write(&mut self.backends)?;
        }
        Ok(self.backends)
    }
}

impl RestoreStore {
    /// Whether the position has reached the end.
    pub(crate) fn is_done(&self) -> bool {
        matches!((self.position, self.end), (Some(position), Some(end)) if position >= end)
    }

    /// Whether a record belongs to those that are yet to be processed.
    fn is_behind_end(&self, offset: i64) -> bool {
        self.spec.source_topic.is_some() && self.end.is_some_and(|end| offset >= end)
    }

    /// Where the topic ended at the start.
    pub(crate) fn end(&self) -> Option<i64> {
        self.end
    }

    fn take(&mut self, record: &RecordRef<'_>, partition: i32) -> Result<()> {
        let RecordRef { key: Some(key), value, timestamp, offset, .. } = *record else {
            return Ok(());
        };
        self.restored += 1;
        let topic = &self.changelog;
        let origin = || {
            let topic = (**topic).into();
            let context = RecordContext { topic, partition, offset, timestamp };
            (context, read_headers(&record.headers))
        };
        self.rows.take(&mut self.pending, key, value, timestamp, origin)
    }

    fn write(&mut self, backends: &mut TaskBackends) -> Result<()> {
        let Some(position) = self.position else { return Ok(()) };
        let clock = self.rows.clock();
        backends.restore(&self.spec, &mut self.pending, &self.changelog, position, clock)
    }
}
