//! What the broker knows besides records, kept in a file: topics, settings, log starts, committed
//! offsets, groups. A map from keys to values, written as a log of record batches like a partition
//! of a compacted topic, and read back whole at the start.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use kstreams_protocol::batch::{BatchHead, BatchWriter};

use crate::error::BrokerError;
use crate::segment::Segment;

/// The journal is not rewritten before it has this size.
const SMALL: usize = 1 << 20;

/// The map and its file; without a directory, only the map's name.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    file: Option<JournalFile>,
}

#[derive(Debug)]
struct JournalFile {
    path: PathBuf,
    segment: Segment,
    live: BTreeMap<Vec<u8>, Bytes>,
    next_offset: i64,
    live_bytes: usize,
    /// Held as long as the broker runs.
    _lock: File,
}

/// A key made of its parts, which must not contain NUL.
pub(crate) fn key(parts: &[&str]) -> Vec<u8> {
    parts.join("\0").into_bytes()
}

impl Journal {
    /// Opens or makes the journal of `directory`, and locks it against other brokers.
    pub(crate) fn open(directory: &Path) -> Result<Self, BrokerError> {
        let failed = |source| BrokerError::Storage { path: directory.to_owned(), source };
        fs::create_dir_all(directory).map_err(failed)?;
        let lock = File::create(directory.join("lock")).map_err(failed)?;
        if lock.try_lock().is_err() {
            return Err(BrokerError::DirectoryInUse { path: directory.to_owned() });
        }
        let path = directory.join("journal.log");
        if !path.exists() {
            File::create(&path).map_err(failed)?;
        }
        let mut live = BTreeMap::new();
        let segment = Segment::open(path.clone(), 0, |batch| {
            let Ok(mut records) = batch.clone().into_records() else { return };
            while let Ok(Some(record)) = records.next_record() {
                let key = record.key.unwrap_or_default().to_vec();
                match record.value {
                    Some(value) => live.insert(key, Bytes::copy_from_slice(value)),
                    None => live.remove(&key),
                };
            }
        })
        .map_err(failed)?;
        let next_offset = segment.next_offset().unwrap_or(0);
        let live_bytes = live.iter().map(|(k, v)| k.len() + v.len() + 80).sum();
        let file = JournalFile { path, segment, live, next_offset, live_bytes, _lock: lock };
        Ok(Self { file: Some(file) })
    }

    /// Whether what is put lasts.
    pub(crate) fn is_kept(&self) -> bool {
        self.file.is_some()
    }

    /// All that was put under keys that begin with `part`: the other parts of the key, and the
    /// value.
    pub(crate) fn under(&self, part: &str) -> Vec<(Vec<String>, Bytes)> {
        let Some(file) = &self.file else { return Vec::new() };
        let first = key(&[part, ""]);
        file.live
            .range(first.clone()..)
            .take_while(|(key, _)| key.starts_with(&first))
            .map(|(key, value)| {
                let rest = String::from_utf8_lossy(&key[first.len()..]).into_owned();
                (rest.split('\0').map(str::to_owned).collect(), value.clone())
            })
            .collect()
    }

    /// Puts or removes a value. A write that fails is logged: the broker goes on in memory.
    pub(crate) fn put(&mut self, key: Vec<u8>, value: Option<&[u8]>) {
        if let Some(file) = &mut self.file
            && let Err(error) = file.put(key, value)
        {
            tracing::error!(path = %file.path.display(), %error, "the journal could not be written");
        }
    }

    /// Removes all that was put under keys that begin with `parts`.
    pub(crate) fn remove_under(&mut self, parts: &[&str]) {
        let mut first = key(parts);
        first.push(0);
        let Some(file) = &mut self.file else { return };
        let keys: Vec<Vec<u8>> = file
            .live
            .range(first.clone()..)
            .map(|(key, _)| key.clone())
            .take_while(|key| key.starts_with(&first))
            .collect();
        for key in keys {
            self.put(key, None);
        }
    }
}

impl JournalFile {
    fn put(&mut self, key: Vec<u8>, value: Option<&[u8]>) -> std::io::Result<()> {
        let batch = batch(self.next_offset, &[(&key[..], value)])?;
        self.segment.append(&batch)?;
        self.next_offset = batch.next_offset();
        let size = key.len() + value.map_or(0, <[u8]>::len) + 80;
        let before = match value {
            Some(value) => {
                self.live.insert(key, Bytes::copy_from_slice(value)).map(|old| old.len())
            }
            None => self.live.remove(&key).map(|old| old.len()),
        };
        if value.is_some() && before.is_none() {
            self.live_bytes += size;
        }
        if self.segment.size() > SMALL && self.segment.size() > 4 * self.live_bytes {
            self.rewrite()?;
        }
        Ok(())
    }

    fn rewrite(&mut self) -> std::io::Result<()> {
        let mut kept = Vec::with_capacity(self.live.len());
        self.live_bytes = 0;
        let mut offset = 0;
        for (key, value) in &self.live {
            let batch = batch(offset, &[(key, Some(value))])?;
            offset = batch.next_offset();
            self.live_bytes += batch.bytes().len();
            kept.push(batch);
        }
        self.segment.replace(&kept)?;
        self.next_offset = offset;
        Ok(())
    }
}

fn batch(
    base_offset: i64,
    entries: &[(&[u8], Option<&[u8]>)],
) -> std::io::Result<kstreams_protocol::batch::Batch> {
    let mut writer = BatchWriter::new();
    for (key, value) in entries {
        writer.append(0, Some(key), *value, &[]);
    }
    writer
        .seal(&BatchHead { base_offset, ..BatchHead::default() })
        .and_then(kstreams_protocol::batch::Batch::new)
        .map_err(std::io::Error::other)
}
