//! Engines keep committed bytes. A backend is the engines of one task that commit together, atomically.

mod disk;
mod memory;
mod sorted_map;

use crate::error::Result;
use byteview::ByteView;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

pub(crate) use self::disk::{DiskBackend, delete as delete_database};
pub(crate) use self::memory::MemoryBackend;

/// A range of keys in byte order.
pub(crate) type KeyRange = (Bound<ByteView>, Bound<ByteView>);

/// Which end of a range comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Reverse,
}

/// Entries of an engine: a snapshot that owns what it needs.
pub(crate) type EngineEntries = Box<dyn Iterator<Item = Result<(ByteView, ByteView)>> + Send>;

/// The committed content of one store.
pub(crate) trait Engine: Send {
    fn get(&self, key: &[u8]) -> Result<Option<ByteView>>;

    fn range(&self, range: &KeyRange, direction: Direction) -> Result<EngineEntries>;

    /// About how many entries there are.
    fn approximate_len(&self) -> u64;

    /// Whether there are none, for certain.
    fn is_empty(&self) -> Result<bool>;
}

/// What the last commit left in one store, for other threads than the task's.
pub(crate) trait CommittedStore: Send + Sync {
    /// The store at this moment. It never waits for the task, and the task never for it.
    fn snapshot(&self) -> Result<Box<dyn StoreSnapshot>>;
}

/// One store at one moment.
pub(crate) trait StoreSnapshot: Engine {
    /// An offset of the same commit.
    fn offset(&self, name: &str) -> Result<Option<i64>>;
}

/// One change of a store; `None` deletes.
pub(crate) type Write = (ByteView, Option<ByteView>);

/// What one commit changes: the writes of each store, sorted by key, and how far each changelog is in them.
#[derive(Debug, Default)]
pub(crate) struct CommitBatch {
    pub(crate) writes: Vec<(Arc<str>, Vec<Write>)>,
    /// Stores whose rows with keys below this one are expired. They need not be gone at once, nor all of them: nobody reads them.
    pub(crate) expired: Vec<(Arc<str>, ByteView)>,
    /// Changelog topic to the offset after the last record that the store holds.
    pub(crate) offsets: BTreeMap<Arc<str>, i64>,
}

impl CommitBatch {
    /// Whether it changes nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.offsets.is_empty() && self.expired.is_empty()
    }
}

/// The engines of one task. It is `Send`: restoring happens wherever there is time.
pub(crate) trait Backend: Send {
    /// The engine of a store; made if there is none.
    fn engine(&mut self, store: &str) -> Result<Box<dyn Engine>>;

    /// The committed content of a store, for other threads.
    fn committed_store(&mut self, store: &str) -> Result<Arc<dyn CommittedStore>>;

    /// The offsets of the last commit.
    fn offsets(&self) -> Result<BTreeMap<Arc<str>, i64>>;

    /// Applies a batch: all of it or, after a crash, nothing.
    fn commit(&mut self, batch: CommitBatch) -> Result<()>;

    /// Adds many writes, sorted by key, each key once. After a crash they may be there although no offset says so.
    fn load(&mut self, store: &Arc<str>, writes: &mut dyn Iterator<Item = Write>) -> Result<()>;
}

/// Whether a range can hold no key at all.
pub(crate) fn is_empty_range((from, to): &KeyRange) -> bool {
    match (from, to) {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from), Bound::Excluded(to))
        | (Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => from >= to,
        _ => false,
    }
}

/// The keys that begin with `prefix`. The upper bound is the next prefix of the same length or shorter: a prefix of 0xFF bytes
/// only has none, and the range is open.
pub(crate) fn prefix_range(prefix: &[u8]) -> KeyRange {
    let kept = prefix.iter().rposition(|&byte| byte != 0xff).map_or(0, |last| last + 1);
    let mut next = prefix[..kept].to_vec();
    let to = match next.last_mut() {
        Some(last) => {
            *last += 1;
            Bound::Excluded(next.into())
        }
        None => Bound::Unbounded,
    };
    (Bound::Included(ByteView::from(prefix)), to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_of_ff_has_no_upper_bound() {
        let bound = |bytes: &'static [u8]| ByteView::from(bytes);
        for (prefix, to) in [
            (&b"a"[..], Bound::Excluded(bound(b"b"))),
            (b"a\xff", Bound::Excluded(bound(b"b"))),
            (b"\xfe\xff\xff", Bound::Excluded(bound(b"\xff"))),
            (b"\xff", Bound::Unbounded),
            (b"\xff\xff", Bound::Unbounded),
            (b"", Bound::Unbounded),
        ] {
            let range = prefix_range(prefix);
            assert_eq!(range, (Bound::Included(ByteView::from(prefix)), to));
        }
    }

    #[test]
    fn backends_agree() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        check(&mut MemoryBackend::default());
        check(&mut DiskBackend::open(dir.path()).expect("opens"));
        let reopened = DiskBackend::open(dir.path()).expect("opens again");
        assert_eq!(reopened.offsets().expect("offsets"), BTreeMap::from([("log".into(), 7)]));
    }

    fn check(backend: &mut dyn Backend) {
        let engine = backend.engine("s").expect("engine");
        let write = |key: &'static str, value: Option<&'static str>| {
            (ByteView::from(key), value.map(ByteView::from))
        };
        let mut commit = |writes, offset| {
            let offsets = BTreeMap::from([("log".into(), offset)]);
            let batch = CommitBatch {
                writes: vec![("s".into(), writes)],
                offsets,
                ..CommitBatch::default()
            };
            backend.commit(batch).expect("commits");
        };
        assert!(engine.is_empty().expect("known"));
        commit(vec![write("a", Some("1")), write("b", Some("2")), write("c", Some("3"))], 3);
        assert!(!engine.is_empty().expect("known"));
        let all = (Bound::Unbounded, Bound::Unbounded);
        let snapshot = engine.range(&all, Direction::Reverse).expect("range");
        commit(vec![write("b", None), write("c", Some("4"))], 7);
        let text = shown;
        assert_eq!(text(snapshot), "c3 b2 a1");
        assert_eq!(shown(engine.range(&all, Direction::Forward).expect("range")), "a1 c4");
        let from_b = (Bound::Excluded("a".into()), Bound::Unbounded);
        assert_eq!(text(engine.range(&from_b, Direction::Forward).expect("range")), "c4");
        assert_eq!(engine.get(b"b").expect("get"), None);
        assert_eq!(engine.get(b"c").expect("get"), Some("4".into()));
        assert_eq!(backend.offsets().expect("offsets").get("log"), Some(&7));
        let mut loaded = vec![write("a", None), write("c", Some("5")), write("d", Some("6"))];
        backend.load(&"s".into(), &mut loaded.drain(..)).expect("loads");
        backend.load(&"s".into(), &mut loaded.drain(..)).expect("loads nothing");
        assert_eq!(shown(engine.range(&all, Direction::Forward).expect("range")), "c5 d6");
        assert_eq!(engine.get(b"a").expect("get"), None);
    }

    fn shown(entries: EngineEntries) -> String {
        let show = |entry: Result<(ByteView, ByteView)>| {
            let (key, value) = entry.expect("an entry");
            format!("{}{}", String::from_utf8_lossy(&key), String::from_utf8_lossy(&value))
        };
        entries.map(show).collect::<Vec<_>>().join(" ")
    }

    /// What is expired may go, and nothing else; who is reading it reads on.
    #[test]
    fn expired_rows_go_with_their_tables() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut backend = DiskBackend::open(dir.path()).expect("opens");
        check_expiry(&mut MemoryBackend::default(), "b2 c3 d4");
        check_expiry(&mut backend, "b2 c3 d4");
        drop(backend);
        let mut reopened = DiskBackend::open(dir.path()).expect("opens again");
        let engine = reopened.engine("s").expect("engine");
        let all = (Bound::Unbounded, Bound::Unbounded);
        assert_eq!(shown(engine.range(&all, Direction::Forward).expect("range")), "b2 c3 d4");
    }

    fn check_expiry(backend: &mut dyn Backend, left: &str) {
        let engine = backend.engine("s").expect("engine");
        let all = (Bound::Unbounded, Bound::Unbounded);
        for (key, value) in [("a", "1"), ("b", "2"), ("c", "3")] {
            // Each load is a table.
            let mut write = [(ByteView::from(key), Some(ByteView::from(value)))].into_iter();
            backend.load(&"s".into(), &mut write).expect("loads");
        }
        let reader = engine.range(&all, Direction::Forward).expect("range");
        let writes = vec![("s".into(), vec![("d".into(), Some("4".into()))])];
        let expired = vec![("s".into(), ByteView::from("b"))];
        backend.commit(CommitBatch { writes, expired, ..CommitBatch::default() }).expect("commits");
        assert_eq!(shown(engine.range(&all, Direction::Forward).expect("range")), left);
        assert_eq!(engine.get(b"a").expect("get"), None);
        assert_eq!(shown(reader), "a1 b2 c3");
    }

    /// After a crash a load wins over the commits before it, and loses against those after it.
    #[test]
    fn what_was_loaded_keeps_its_turn_after_a_crash() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut backend = DiskBackend::open(dir.path()).expect("opens");
        let engine = backend.engine("s").expect("engine");
        let commit = |backend: &mut DiskBackend, value: &'static str| {
            let writes = ["k", value].map(|key| (ByteView::from(key), Some(ByteView::from(value))));
            let batch =
                CommitBatch { writes: vec![("s".into(), writes.into())], ..CommitBatch::default() };
            backend.commit(batch).expect("commits");
        };
        commit(&mut backend, "1");
        let loaded = [("k", "2"), ("l", "2")].map(|(key, value)| (key.into(), Some(value.into())));
        backend.load(&"s".into(), &mut loaded.into_iter()).expect("loads");
        assert_eq!(engine.get(b"k").expect("get"), Some("2".into()));
        let crashed = tempfile::tempdir().expect("a temporary directory");
        let reopened = |to: &std::path::Path| {
            copy(dir.path(), to);
            DiskBackend::open(to).expect("opens").engine("s").expect("engine")
        };
        let engine = reopened(&crashed.path().join("1"));
        assert_eq!(engine.get(b"k").expect("get"), Some("2".into()));
        assert_eq!(engine.get(b"1").expect("get"), Some("1".into()));
        commit(&mut backend, "3");
        let engine = reopened(&crashed.path().join("2"));
        assert_eq!(engine.get(b"k").expect("get"), Some("3".into()));
        assert_eq!(engine.get(b"l").expect("get"), Some("2".into()));
    }

    /// A directory as kill -9 leaves it: what was written, with nothing closed.
    fn copy(from: &std::path::Path, to: &std::path::Path) {
        std::fs::create_dir_all(to).expect("made");
        for entry in std::fs::read_dir(from).expect("a directory") {
            let entry = entry.expect("an entry");
            let to = to.join(entry.file_name());
            match entry.file_type().expect("a type").is_dir() {
                true => copy(&entry.path(), &to),
                false => drop(std::fs::copy(entry.path(), to).expect("copied")),
            }
        }
    }
}
