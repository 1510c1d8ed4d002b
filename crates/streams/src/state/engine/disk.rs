//! Stores on disk: one fjall database a task, one keyspace a store, and one for the changelog offsets.
//!
//! fjall writes a batch over several keyspaces to its journal at once, so after kill -9 a commit is there as a whole or not at all.

use super::{
    Backend, CommitBatch, Direction, Engine, EngineEntries, KeyRange, Write, is_empty_range,
};
use crate::error::{Error, Result};
use byteview::ByteView;
use fjall::{AbstractTree, Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The keyspace of the offsets; no store can have this name, `.` alone is not enough to be one.
const OFFSETS: &str = "__offsets";
/// Prefix of the keyspaces of stores.
const STORE: &str = "store.";
/// One task writes in one thread; a small memtable keeps a process with many tasks small.
const WORKERS: usize = 1;
const BLOCK_CACHE_BYTES: u64 = 8 << 20;
const MEMTABLE_BYTES: u64 = 8 << 20;
const JOURNAL_BYTES_MAX: u64 = 64 << 20;

/// The stores of one task in its directory.
pub(crate) struct DiskBackend {
    path: PathBuf,
    database: Database,
    offsets: Keyspace,
    stores: BTreeMap<Arc<str>, Keyspace>,
}

impl DiskBackend {
    /// Opens or makes the database in `path`.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let failed = |error| failed(path, "open", error);
        let database = Database::builder(path)
            .worker_threads(WORKERS)
            .cache_size(BLOCK_CACHE_BYTES)
            .max_journaling_size(JOURNAL_BYTES_MAX)
            .open()
            .map_err(failed)?;
        let offsets = database.keyspace(OFFSETS, KeyspaceCreateOptions::default).map_err(failed)?;
        Ok(DiskBackend { path: path.into(), database, offsets, stores: BTreeMap::new() })
    }

    fn keyspace(&mut self, store: &str) -> Result<Keyspace> {
        if let Some(keyspace) = self.stores.get(store) {
            return Ok(keyspace.clone());
        }
        let options = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES);
        let keyspace = self
            .database
            .keyspace(&format!("{STORE}{store}"), options)
            .map_err(|error| failed(&self.path, "open", error))?;
        self.stores.insert(store.into(), keyspace.clone());
        Ok(keyspace)
    }
}

impl Backend for DiskBackend {
    fn engine(&mut self, store: &str) -> Result<Box<dyn Engine>> {
        let keyspace = self.keyspace(store)?;
        let (path, database) = (self.path.clone(), self.database.clone());
        Ok(Box::new(DiskEngine { path, database, keyspace }))
    }

    fn offsets(&self) -> Result<BTreeMap<Arc<str>, i64>> {
        let mut offsets = BTreeMap::new();
        for entry in self.offsets.iter() {
            let (topic, offset) =
                entry.into_inner().map_err(|error| failed(&self.path, "read", error))?;
            let offset = <[u8; 8]>::try_from(&*offset);
            let (Ok(topic), Ok(offset)) = (std::str::from_utf8(&topic), offset) else {
                return Err(Error::state(format!(
                    "the offsets in {} are damaged: delete the directory, \
                     the state is read from the changelogs again",
                    self.path.display()
                )));
            };
            offsets.insert(topic.into(), i64::from_be_bytes(offset));
        }
        Ok(offsets)
    }

    fn commit(&mut self, commit: CommitBatch) -> Result<()> {
        let mut batch = self.database.batch();
        for (store, writes) in commit.writes {
            let keyspace = self.keyspace(&store)?;
            for (key, value) in writes {
                match value {
                    Some(value) => batch.insert(&keyspace, key, value),
                    None => batch.remove(&keyspace, key),
                }
            }
        }
        for (topic, offset) in commit.offsets {
            batch.insert(&self.offsets, topic.as_bytes(), offset.to_be_bytes());
        }
        batch.commit().map_err(|error| failed(&self.path, "write", error))?;
        for (store, end) in commit.expired {
            // Tables of nothing but expired rows are unlinked. What lies in others goes with them, some day.
            let keyspace = self.keyspace(&store)?;
            let tables = keyspace.tree.current_version();
            if tables.iter_tables().any(|table| **table.metadata.key_range.max() < *end) {
                let dropped = keyspace.tree.drop_range(..end);
                dropped.map_err(|error| failed(&self.path, "clean", error.into()))?;
            }
        }
        Ok(())
    }

    /// Past journal and memtable, straight into tables.
    fn load(&mut self, store: &Arc<str>, writes: &mut dyn Iterator<Item = Write>) -> Result<()> {
        let keyspace = self.keyspace(store)?;
        let load = || {
            let mut ingestion = keyspace.start_ingestion()?;
            for (key, value) in writes {
                match value {
                    Some(value) => ingestion.write(key, value)?,
                    None => ingestion.write_tombstone(key)?,
                }
            }
            ingestion.finish()
        };
        load().map_err(|error| failed(&self.path, "write", error))
    }
}

impl Drop for DiskBackend {
    fn drop(&mut self) {
        if let Err(error) = self.database.persist(PersistMode::Buffer) {
            tracing::warn!(path = %self.path.display(), "cannot persist the state store: {error}");
        }
    }
}

struct DiskEngine {
    path: PathBuf,
    database: Database,
    keyspace: Keyspace,
}

impl Engine for DiskEngine {
    fn get(&self, key: &[u8]) -> Result<Option<ByteView>> {
        let value = self.keyspace.get(key).map_err(|error| failed(&self.path, "read", error))?;
        Ok(value.map(ByteView::from))
    }

    fn range(&self, range: &KeyRange, direction: Direction) -> Result<EngineEntries> {
        if is_empty_range(range) {
            return Ok(Box::new(std::iter::empty()));
        }
        let path = self.path.clone();
        // A range of the keyspace itself would show later commits as it goes on.
        let entries = self.database.snapshot().range(&self.keyspace, range.clone());
        let read = move |entry: fjall::Guard| {
            let (key, value) = entry.into_inner().map_err(|error| failed(&path, "read", error))?;
            Ok((ByteView::from(key), ByteView::from(value)))
        };
        Ok(match direction {
            Direction::Forward => Box::new(entries.map(read)),
            Direction::Reverse => Box::new(entries.rev().map(read)),
        })
    }

    fn approximate_len(&self) -> u64 {
        self.keyspace.approximate_len() as u64
    }

    fn is_empty(&self) -> Result<bool> {
        self.keyspace.is_empty().map_err(|error| failed(&self.path, "read", error))
    }
}

fn failed(path: &Path, what: &str, error: fjall::Error) -> Error {
    Error::state(format!("cannot {what} the state store in {}", path.display())).with_source(error)
}
