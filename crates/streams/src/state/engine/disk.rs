//! Stores on disk: one fjall database a task, one keyspace a store, and one for the changelog offsets.
//!
//! fjall writes a batch over several keyspaces to its journal at once, so after kill -9 a commit is there as a whole or not at all.
//! A database that is being made, or deleted, is not: a mark in its directory says that it is whole, and without the mark the
//! directory counts for nothing. It is set after everything was made, and goes before anything is deleted.

use super::{
    Backend, CommitBatch, CommittedStore, Direction, Engine, EngineEntries, KeyRange,
    StoreSnapshot, Write, is_empty_range,
};
use crate::error::{Error, Result};
use byteview::ByteView;
use fjall::{
    AbstractTree, Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

/// The keyspace of the offsets; no store can have this name, `.` alone is not enough to be one.
const OFFSETS: &str = "__offsets";
/// The file that says that the database is whole.
const WHOLE: &str = ".whole";
/// Prefix of the keyspaces of stores.
const STORE: &str = "store.";
/// One task writes in one thread; a small memtable keeps a process with many tasks small.
const WORKERS: usize = 1;
const BLOCK_CACHE_BYTES: u64 = 8 << 20;
const MEMTABLE_BYTES: u64 = 8 << 20;
const JOURNAL_BYTES_MAX: u64 = 64 << 20;

/// The databases that are open in this process. One stays open as long as somebody reads a snapshot of it: the task may be closed
/// meanwhile, and opened again, and then finds it here.
static OPEN: (Mutex<BTreeMap<PathBuf, Weak<OpenDatabase>>>, Condvar) =
    (Mutex::new(BTreeMap::new()), Condvar::new());

fn open_databases() -> MutexGuard<'static, BTreeMap<PathBuf, Weak<OpenDatabase>>> {
    OPEN.0.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Deletes the database in `path`. Who still reads it does so from files without a name.
pub(crate) fn delete(path: &Path) -> std::io::Result<()> {
    if path.try_exists()? {
        clear(path)?;
        std::fs::remove_dir_all(path)?;
        open_databases().remove(path);
    }
    Ok(())
}

/// Empties a directory, its mark first; true if there was anything.
fn clear(path: &Path) -> std::io::Result<bool> {
    let whole = path.join(WHOLE);
    if whole.try_exists()? {
        std::fs::remove_file(whole)?;
        sync_directory(path)?;
    }
    let mut any = false;
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        any = true;
        match entry.file_type()?.is_dir() {
            true => std::fs::remove_dir_all(entry.path())?,
            false => std::fs::remove_file(entry.path())?,
        }
    }
    Ok(any)
}

fn mark_whole(path: &Path) -> std::io::Result<()> {
    std::fs::File::create(path.join(WHOLE))?.sync_all()?;
    sync_directory(path)
}

/// Makes sure that what was made and deleted in a directory is so after a loss of power.
#[cfg(unix)]
fn sync_directory(path: &Path) -> std::io::Result<()> {
    std::fs::File::open(path)?.sync_all()
}

#[cfg(not(unix))]
fn sync_directory(_: &Path) -> std::io::Result<()> {
    Ok(())
}

/// A database with what belongs to it.
struct OpenDatabase {
    path: PathBuf,
    database: Database,
    offsets: Keyspace,
    /// The last field: the others are gone when it goes.
    _closed: Closed,
}

/// Tells who waits for the directory that it is free.
struct Closed(PathBuf);

impl Drop for Closed {
    fn drop(&mut self) {
        let mut open = open_databases();
        // Another one may have taken the place of a directory that was deleted.
        if open.get(&self.0).is_some_and(|database| database.strong_count() == 0) {
            open.remove(&self.0);
        }
        OPEN.1.notify_all();
    }
}

impl OpenDatabase {
    fn open(path: &Path) -> Result<Arc<Self>> {
        let mut open = open_databases();
        loop {
            match open.get(path).map(Weak::upgrade) {
                Some(Some(database)) => return Ok(database),
                // Its last reader closes it right now.
                Some(None) => open = OPEN.1.wait(open).unwrap_or_else(PoisonError::into_inner),
                None => break,
            }
        }
        // Opening reads the journal; other tasks need not wait for that. Nobody else opens this one: its task has one owner.
        drop(open);
        let failed = |error| failed(path, "open", error);
        let on_files = |error: std::io::Error| failed(error.into());
        std::fs::create_dir_all(path).map_err(on_files)?;
        let is_whole = path.join(WHOLE).try_exists().map_err(on_files)?;
        if !is_whole && clear(path).map_err(on_files)? {
            let path = path.display();
            tracing::warn!(%path, "the state store was not made to its end: it begins anew");
        }
        let database = Database::builder(path)
            .worker_threads(WORKERS)
            .cache_size(BLOCK_CACHE_BYTES)
            .max_journaling_size(JOURNAL_BYTES_MAX)
            .open()
            .map_err(failed)?;
        let offsets = database.keyspace(OFFSETS, KeyspaceCreateOptions::default).map_err(failed)?;
        if !is_whole {
            mark_whole(path).map_err(on_files)?;
        }
        let opened = Arc::new(OpenDatabase {
            path: path.into(),
            database,
            offsets,
            _closed: Closed(path.into()),
        });
        open_databases().insert(path.into(), Arc::downgrade(&opened));
        Ok(opened)
    }

    fn failed(&self, what: &str, error: fjall::Error) -> Error {
        failed(&self.path, what, error)
    }

    fn offset_of(&self, bytes: &[u8]) -> Result<i64> {
        let bytes = <[u8; 8]>::try_from(bytes).map_err(|_| damaged(&self.path))?;
        Ok(i64::from_be_bytes(bytes))
    }
}

/// The stores of one task in its directory.
pub(crate) struct DiskBackend {
    stores: BTreeMap<Arc<str>, Keyspace>,
    open: Arc<OpenDatabase>,
}

impl DiskBackend {
    /// Opens or makes the database in `path`.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Ok(DiskBackend { stores: BTreeMap::new(), open: OpenDatabase::open(path)? })
    }

    fn keyspace(&mut self, store: &str) -> Result<Keyspace> {
        if let Some(keyspace) = self.stores.get(store) {
            return Ok(keyspace.clone());
        }
        let options = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES);
        let keyspace = self.open.database.keyspace(&format!("{STORE}{store}"), options);
        let keyspace = keyspace.map_err(|error| self.open.failed("open", error))?;
        self.stores.insert(store.into(), keyspace.clone());
        Ok(keyspace)
    }
}

impl Backend for DiskBackend {
    fn engine(&mut self, store: &str) -> Result<Box<dyn Engine>> {
        let keyspace = self.keyspace(store)?;
        Ok(Box::new(DiskEngine { keyspace, open: self.open.clone() }))
    }

    fn committed_store(&mut self, store: &str) -> Result<Arc<dyn CommittedStore>> {
        let keyspace = self.keyspace(store)?;
        Ok(Arc::new(DiskEngine { keyspace, open: self.open.clone() }))
    }

    fn offsets(&self) -> Result<BTreeMap<Arc<str>, i64>> {
        let mut offsets = BTreeMap::new();
        for entry in self.open.offsets.iter() {
            let (topic, offset) =
                entry.into_inner().map_err(|error| self.open.failed("read", error))?;
            let topic = std::str::from_utf8(&topic).map_err(|_| damaged(&self.open.path))?;
            offsets.insert(topic.into(), self.open.offset_of(&offset)?);
        }
        Ok(offsets)
    }

    fn commit(&mut self, commit: CommitBatch) -> Result<()> {
        let mut batch = self.open.database.batch();
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
            batch.insert(&self.open.offsets, topic.as_bytes(), offset.to_be_bytes());
        }
        batch.commit().map_err(|error| self.open.failed("write", error))?;
        for (store, end) in commit.expired {
            // Tables of nothing but expired rows are unlinked. What lies in others goes with them, some day.
            let keyspace = self.keyspace(&store)?;
            let tables = keyspace.tree.current_version();
            if tables.iter_tables().any(|table| **table.metadata.key_range.max() < *end) {
                let dropped = keyspace.tree.drop_range(..end);
                dropped.map_err(|error| self.open.failed("clean", error.into()))?;
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
        load().map_err(|error| self.open.failed("write", error))
    }
}

impl Drop for DiskBackend {
    fn drop(&mut self) {
        if let Err(error) = self.open.database.persist(PersistMode::Buffer) {
            let path = self.open.path.display();
            tracing::warn!(%path, "cannot persist the state store: {error}");
        }
    }
}

/// One store, as its task sees it.
struct DiskEngine {
    keyspace: Keyspace,
    open: Arc<OpenDatabase>,
}

impl DiskEngine {
    fn at(&self, snapshot: &Snapshot, range: &KeyRange, direction: Direction) -> EngineEntries {
        if is_empty_range(range) {
            return Box::new(std::iter::empty());
        }
        let open = self.open.clone();
        let entries = snapshot.range(&self.keyspace, range.clone());
        let read = move |entry: fjall::Guard| {
            let (key, value) = entry.into_inner().map_err(|error| open.failed("read", error))?;
            Ok((ByteView::from(key), ByteView::from(value)))
        };
        match direction {
            Direction::Forward => Box::new(entries.map(read)),
            Direction::Reverse => Box::new(entries.rev().map(read)),
        }
    }
}

impl Engine for DiskEngine {
    fn get(&self, key: &[u8]) -> Result<Option<ByteView>> {
        let value = self.keyspace.get(key).map_err(|error| self.open.failed("read", error))?;
        Ok(value.map(ByteView::from))
    }

    fn range(&self, range: &KeyRange, direction: Direction) -> Result<EngineEntries> {
        // A range of the keyspace itself would show later commits as it goes on.
        Ok(self.at(&self.open.database.snapshot(), range, direction))
    }

    fn approximate_len(&self) -> u64 {
        self.keyspace.approximate_len() as u64
    }

    fn is_empty(&self) -> Result<bool> {
        self.keyspace.is_empty().map_err(|error| self.open.failed("read", error))
    }
}

impl CommittedStore for DiskEngine {
    fn snapshot(&self) -> Result<Box<dyn StoreSnapshot>> {
        let snapshot = self.open.database.snapshot();
        let store = DiskEngine { keyspace: self.keyspace.clone(), open: self.open.clone() };
        Ok(Box::new(DiskSnapshot { snapshot, store }))
    }
}

/// One store as a commit left it.
struct DiskSnapshot {
    snapshot: Snapshot,
    store: DiskEngine,
}

impl Engine for DiskSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<ByteView>> {
        let value = self.snapshot.get(&self.store.keyspace, key);
        let value = value.map_err(|error| self.store.open.failed("read", error))?;
        Ok(value.map(ByteView::from))
    }

    fn range(&self, range: &KeyRange, direction: Direction) -> Result<EngineEntries> {
        Ok(self.store.at(&self.snapshot, range, direction))
    }

    fn approximate_len(&self) -> u64 {
        self.store.approximate_len()
    }

    fn is_empty(&self) -> Result<bool> {
        self.store.is_empty()
    }
}

impl StoreSnapshot for DiskSnapshot {
    fn offset(&self, name: &str) -> Result<Option<i64>> {
        let open = &self.store.open;
        let offset = self.snapshot.get(&open.offsets, name);
        let offset = offset.map_err(|error| open.failed("read", error))?;
        offset.map(|bytes| open.offset_of(&bytes)).transpose()
    }
}

fn damaged(path: &Path) -> Error {
    Error::state(format!(
        "the offsets in {} are damaged: delete the directory, \
         the state is read from the changelogs again",
        path.display()
    ))
}

fn failed(path: &Path, what: &str, error: fjall::Error) -> Error {
    Error::state(format!("cannot {what} the state store in {}", path.display())).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(path: &Path) -> BTreeMap<Arc<str>, i64> {
        DiskBackend::open(path).expect("opens").offsets().expect("offsets")
    }

    fn commit(path: &Path, offset: i64) {
        let mut backend = DiskBackend::open(path).expect("opens");
        backend.engine("s").expect("a store");
        let offsets = BTreeMap::from([("log".into(), offset)]);
        backend.commit(CommitBatch { offsets, ..CommitBatch::default() }).expect("commits");
    }

    /// As kill -9 leaves it while it is made: fjall would trip over its own journal.
    #[test]
    fn a_database_that_was_not_made_to_its_end_begins_anew() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("kstreams");
        std::fs::create_dir_all(path.join("keyspaces/0")).expect("made");
        std::fs::write(path.join("0.jnl"), [0; 1000]).expect("made");
        assert_eq!(offsets(&path), BTreeMap::new());
        commit(&path, 7);
        assert_eq!(offsets(&path), BTreeMap::from([("log".into(), 7)]));
    }

    /// As kill -9 leaves it while it is deleted: the mark goes first, what is left of the rest does not count.
    #[test]
    fn a_database_that_was_not_deleted_to_its_end_begins_anew() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("kstreams");
        commit(&path, 7);
        std::fs::remove_file(path.join(WHOLE)).expect("deleted");
        assert_eq!(offsets(&path), BTreeMap::new());
        delete(&path).expect("deleted");
        assert!(!path.exists());
        delete(&path).expect("nothing to delete");
    }
}
