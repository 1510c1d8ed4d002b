//! The layers of one key-value store, put together.

use super::budget::StoreBudget;
use super::changelog::{Changelog, LogMode, LogRecord};
use super::record_cache::{Flushed, RecordCache};
use super::write_buffer::WriteBuffer;
use super::{FlushListener, StoreLayers, StoreUsage, StoreWrites};
use crate::error::Result;
use crate::processor::RecordContext;
use crate::record::Headers;
use crate::state::engine::{Direction, Engine, EngineEntries, KeyRange, Write};
use crate::state::kind::StoreKind;
use crate::state::spec::StoreSpec;
use byteview::ByteView;
use std::iter::Peekable;
use std::ops::{Bound, RangeBounds};

/// One store of one task, in bytes.
pub(crate) struct KeyValueLayers {
    cache: Option<RecordCache>,
    changelog: Option<Changelog>,
    buffer: WriteBuffer,
    engine: Box<dyn Engine>,
    usage: StoreUsage,
    logs_headers: bool,
    /// Whether a changelog of the last writes is told of a key that came and went since the last commit.
    logs_void: bool,
    /// For stores that are walked from the beginning: no entry has a smaller key. Whoever writes one says so here.
    pub(crate) walked_from: ByteView,
    /// Set by the operator that forwards the store's changes.
    pub(crate) listener: Option<FlushListener>,
    /// Whether a change carries the value before it.
    pub(crate) sends_old_values: bool,
}

impl KeyValueLayers {
    pub(crate) fn new(
        spec: &StoreSpec,
        engine: Box<dyn Engine>,
        log_mode: LogMode,
        budget: &StoreBudget,
    ) -> Result<Self> {
        let cached = spec.caching && spec.kind.may_cache() && !budget.record_cache.is_nothing();
        Ok(KeyValueLayers {
            cache: cached.then(|| RecordCache::new(budget.record_cache.clone())),
            changelog: spec.logging.is_some().then(|| Changelog::new(log_mode, spec.format)),
            buffer: WriteBuffer::new(budget.read_cache.clone(), engine.is_empty()?),
            engine,
            usage: StoreUsage::default(),
            logs_headers: spec.logs_headers,
            logs_void: spec.kind != StoreKind::JoinList,
            walked_from: ByteView::default(),
            listener: None,
            sends_old_values: false,
        })
    }

    /// Whether changes wait for the next flush; else the operator forwards them itself.
    pub(crate) fn is_cached(&self) -> bool {
        self.cache.is_some()
    }

    pub(crate) fn get(&mut self, key: &[u8]) -> Result<Option<ByteView>> {
        self.usage.reads += 1;
        if let Some(value) = self.cache.as_mut().and_then(|cache| cache.get(key)) {
            return Ok(value);
        }
        self.buffer.get(&*self.engine, key)
    }

    /// Writes or deletes. `record` is the context of the record in hand, `headers` are its own.
    pub(crate) fn put(
        &mut self,
        key: &[u8],
        value: Option<ByteView>,
        record: impl FnOnce() -> RecordContext,
        timestamp: i64,
        headers: &Headers,
    ) {
        self.usage.writes += 1;
        match &mut self.cache {
            Some(cache) => cache.put(key, value, None, record(), headers.clone()),
            None => self.write(key, value, timestamp, headers),
        }
    }

    /// The write below the cache.
    fn write(&mut self, key: &[u8], value: Option<ByteView>, timestamp: i64, headers: &Headers) {
        match &mut self.changelog {
            Some(changelog) if self.logs_headers => {
                changelog.note_with_headers(key, value.as_deref(), timestamp, headers);
            }
            Some(changelog) => changelog.note(key, value.as_deref(), timestamp),
            None => {}
        }
        self.buffer.put(key, value, timestamp);
    }

    /// The entries of a range as they are now: a snapshot that later writes do not change.
    pub(crate) fn range(
        &mut self,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<EngineEntries> {
        self.usage.reads += 1;
        let mut overlay = self.buffer.uncommitted_in(range);
        if let Some(cache) = &mut self.cache {
            let selects = |key: &[u8]| {
                let (from, to) =
                    (range.0.as_ref().map(|b| &b[..]), range.1.as_ref().map(|b| &b[..]));
                RangeBounds::<[u8]>::contains(&(from, to), key)
            };
            overlay = overlaid(overlay, cache.changes_in(selects));
        }
        let below = self.engine.range(range, direction)?;
        if direction == Direction::Reverse {
            overlay.reverse();
        }
        Ok(Box::new(Overlaid::new(below, overlay, direction)))
    }

    /// What is committed, in the order of keys; what is written since then, [`Self::uncommitted_after`] tells. For stores without a
    /// record cache that are walked from the beginning again and again, and seldom far.
    pub(crate) fn committed(&self) -> Result<EngineEntries> {
        let from = Bound::Included(self.walked_from.clone());
        self.engine.range(&(from, Bound::Unbounded), Direction::Forward)
    }

    /// The first write since the last commit whose key comes after this one.
    pub(crate) fn uncommitted_after(&mut self, key: Option<&ByteView>) -> Option<Write> {
        self.buffer.uncommitted_after(key)
    }

    pub(crate) fn approximate_len(&self) -> u64 {
        self.engine.approximate_len()
    }
}

impl StoreLayers for KeyValueLayers {
    fn is_cache_full(&mut self) -> bool {
        self.cache.as_mut().is_some_and(RecordCache::is_full)
    }

    fn has_cached_changes(&self) -> bool {
        self.cache.as_ref().is_some_and(RecordCache::has_changes)
    }

    /// A key that was absent and is absent again is no change.
    fn flush_cache(&mut self) -> Result<Vec<Flushed>> {
        let Some(cache) = &mut self.cache else { return Ok(Vec::new()) };
        let changes = cache.take_changes();
        let mut flushed = Vec::with_capacity(changes.len());
        for change in changes {
            let needs_old =
                self.listener.is_some() && (self.sends_old_values || change.value.is_none());
            let old = if needs_old { self.buffer.get(&*self.engine, &change.key)? } else { None };
            if self.listener.is_some() && change.value.is_none() && old.is_none() {
                continue;
            }
            let timestamp = change.record.timestamp;
            self.write(&change.key, change.value.clone(), timestamp, &change.headers);
            flushed.push(Flushed {
                key: change.key,
                new: change.value,
                old: old.filter(|_| self.sends_old_values),
                record: change.record,
                headers: change.headers,
            });
        }
        Ok(flushed)
    }

    fn listener(&self) -> Option<FlushListener> {
        self.listener.clone()
    }

    fn drain_changelog(&mut self, append: &mut dyn FnMut(LogRecord) -> Result<()>) -> Result<()> {
        let Some(changelog) = &mut self.changelog else { return Ok(()) };
        if changelog.mode == LogMode::LastPerCommit {
            let headers = Headers::new();
            let tells = self.logs_void;
            for write in self.buffer.uncommitted().filter(|write| tells || !write.is_void) {
                let value = write.value.map(|value| &value[..]);
                let (value, timestamp) = changelog.record(value, write.timestamp);
                append(LogRecord { key: write.key, value, timestamp, headers: &headers })?;
            }
        }
        changelog.drain(append)
    }

    fn usage(&self) -> StoreUsage {
        StoreUsage { entries: self.approximate_len(), ..self.usage }
    }

    fn uncommitted_bytes(&self) -> usize {
        let pending = self.changelog.as_ref().map_or(0, Changelog::pending_bytes);
        self.buffer.uncommitted_bytes() + pending
    }

    fn take_writes(&mut self) -> StoreWrites {
        StoreWrites { writes: self.buffer.take_writes(), ..StoreWrites::default() }
    }
}

/// Two sorted lists as one; the second wins.
fn overlaid(below: Vec<Write>, above: Vec<Write>) -> Vec<Write> {
    if above.is_empty() {
        return below;
    }
    let mut merged: std::collections::BTreeMap<ByteView, Option<ByteView>> =
        below.into_iter().collect();
    merged.extend(above);
    merged.into_iter().collect()
}

/// Committed entries with the writes of the running transaction over them.
pub(super) struct Overlaid {
    below: Peekable<EngineEntries>,
    above: Peekable<std::vec::IntoIter<Write>>,
    direction: Direction,
}

impl Overlaid {
    /// Both in the order of `direction`.
    pub(super) fn new(below: EngineEntries, above: Vec<Write>, direction: Direction) -> Self {
        Overlaid { below: below.peekable(), above: above.into_iter().peekable(), direction }
    }
}

impl Iterator for Overlaid {
    type Item = Result<(ByteView, ByteView)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some((above, _)) = self.above.peek() else { return self.below.next() };
            if let Some(Ok((below, _))) = self.below.peek() {
                let order = match self.direction {
                    Direction::Forward => below.cmp(above),
                    Direction::Reverse => above.cmp(below),
                };
                match order {
                    std::cmp::Ordering::Less => return self.below.next(),
                    std::cmp::Ordering::Equal => drop(self.below.next()),
                    std::cmp::Ordering::Greater => {}
                }
            } else if self.below.peek().is_some() {
                return self.below.next();
            }
            if let Some((key, Some(value))) = self.above.next() {
                return Some(Ok((key, value)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::engine::{Backend, CommitBatch, MemoryBackend, prefix_range};
    use crate::state::layers::budget::Budget;
    use crate::state::spec::StoreFormat;
    use std::rc::Rc;

    /// A cached store of plain values, and the backend below it.
    fn cached() -> (KeyValueLayers, MemoryBackend) {
        let mut backend = MemoryBackend::default();
        let engine = backend.engine("s").expect("engine");
        let spec = StoreSpec { caching: true, ..StoreSpec::new::<(), ()>("s", StoreFormat::Plain) };
        let budget =
            StoreBudget { record_cache: Budget::new(1 << 20), read_cache: Budget::new(1 << 20) };
        let layers = KeyValueLayers::new(&spec, engine, LogMode::EveryWrite, &budget);
        let mut layers = layers.expect("layers");
        layers.listener = Some(Rc::new(|_| Ok(())));
        (layers, backend)
    }

    fn put(layers: &mut KeyValueLayers, key: &[u8], value: Option<&'static str>, timestamp: i64) {
        let topic: Rc<str> = "t".into();
        let record = || RecordContext { topic, partition: 0, offset: timestamp, timestamp };
        layers.put(key, value.map(ByteView::from), record, timestamp, &Headers::new());
    }

    fn keys(layers: &mut KeyValueLayers, range: &KeyRange) -> Vec<Vec<u8>> {
        let entries = layers.range(range, Direction::Forward).expect("a range");
        entries.map(|entry| entry.expect("an entry").0.to_vec()).collect()
    }

    /// P60: a prefix of 0xFF bytes has no upper bound, in a cached store neither.
    #[test]
    fn p60_prefix_scan_sees_cache_buffer_and_engine() {
        let (mut layers, mut backend) = cached();
        put(&mut layers, &[0xfe], Some("1"), 1);
        put(&mut layers, &[0xff], Some("2"), 2);
        layers.flush_cache().expect("flushed");
        let writes = vec![("s".into(), layers.take_writes().writes)];
        backend.commit(CommitBatch { writes, ..CommitBatch::default() }).expect("committed");
        put(&mut layers, &[0xff, 0], Some("3"), 3);
        layers.flush_cache().expect("flushed");
        put(&mut layers, &[0xff, 1], Some("4"), 4);
        let prefix = prefix_range(&[0xff]);
        assert_eq!(keys(&mut layers, &prefix), [vec![0xff], vec![0xff, 0], vec![0xff, 1]]);
        put(&mut layers, &[0xff], None, 5);
        assert_eq!(keys(&mut layers, &prefix), [vec![0xff, 0], vec![0xff, 1]]);
    }

    /// Only the last change of a key leaves the cache, with the record that made it; an absence that stays one is no change.
    #[test]
    fn a_flush_forwards_and_logs_the_last_change_of_each_key() {
        let (mut layers, _backend) = cached();
        for (key, value, timestamp) in
            [("a", Some("1"), 1), ("b", Some("1"), 2), ("a", Some("2"), 3), ("c", None, 4)]
        {
            put(&mut layers, key.as_bytes(), value, timestamp);
        }
        let flushed = layers.flush_cache().expect("flushed");
        let shown: Vec<String> = flushed
            .iter()
            .map(|change| {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let new = change.new.as_ref().map(|new| text(new));
                format!("{}={new:?}@{}", text(&change.key), change.record.offset)
            })
            .collect();
        assert_eq!(shown, [r#"b=Some("1")@2"#, r#"a=Some("2")@3"#]);
        let mut logged = Vec::new();
        let log = layers.drain_changelog(&mut |LogRecord { key, value, timestamp, .. }| {
            logged.push((key.to_vec(), value.map(<[u8]>::to_vec), timestamp));
            Ok(())
        });
        log.expect("logged");
        let expected =
            [(b"b".to_vec(), Some(b"1".to_vec()), 2), (b"a".to_vec(), Some(b"2".to_vec()), 3)];
        assert_eq!(logged, expected);
        assert!(layers.flush_cache().expect("flushed").is_empty());
    }
}
