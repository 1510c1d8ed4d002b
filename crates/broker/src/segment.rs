//! A stretch of a partition's log: whole record batches one behind the other, in memory or in a
//! file, and where each of them lies.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};
use kstreams_protocol::batch::{Batch, batches};

/// Segments in memory are cut here: a sealed one is read without a copy.
const MEMORY_SEGMENT_BYTES: usize = 1 << 20;

/// Where a batch lies and what it covers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placed {
    pub(crate) base_offset: i64,
    pub(crate) last_offset: i64,
    pub(crate) max_timestamp: i64,
    position: usize,
    size: usize,
}

impl Placed {
    fn of(batch: &Batch, position: usize) -> Self {
        Self {
            base_offset: batch.base_offset(),
            last_offset: batch.last_offset(),
            max_timestamp: batch.max_timestamp(),
            position,
            size: batch.bytes().len(),
        }
    }
}

/// Batches of ascending offsets.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) base_offset: i64,
    /// When the segment was begun, ms.
    pub(crate) created: i64,
    /// When compaction first went over it, ms.
    pub(crate) cleaned: Option<i64>,
    batches: Vec<Placed>,
    size: usize,
    data: Data,
}

#[derive(Debug)]
enum Data {
    Open(BytesMut),
    Sealed(Bytes),
    File { file: File, path: PathBuf },
}

impl Segment {
    pub(crate) fn create(directory: Option<&Path>, base_offset: i64, now: i64) -> io::Result<Self> {
        let data = match directory {
            None => Data::Open(BytesMut::new()),
            Some(directory) => {
                let path = directory.join(file_name(base_offset));
                let file = open_file(&path)?;
                file.set_len(0)?;
                Data::File { file, path }
            }
        };
        Ok(Self { base_offset, created: now, cleaned: None, batches: Vec::new(), size: 0, data })
    }

    /// Opens a segment's file and shows each batch to `seen`. What follows the last whole batch (a
    /// torn write) is cut off.
    pub(crate) fn open(path: PathBuf, now: i64, mut seen: impl FnMut(&Batch)) -> io::Result<Self> {
        let base_offset = base_offset_of(&path).unwrap_or(0);
        let bytes = Bytes::from(fs::read(&path)?);
        let mut segment = Self {
            base_offset,
            created: now,
            cleaned: None,
            batches: Vec::new(),
            size: 0,
            data: Data::File { file: open_file(&path)?, path },
        };
        for batch in batches(&bytes) {
            let Ok(batch) = batch else { break };
            let next = segment.batches.last().map_or(base_offset, |last| last.last_offset + 1);
            if batch.verify_checksum().is_err() || batch.base_offset() < next {
                break;
            }
            segment.batches.push(Placed::of(&batch, segment.size));
            segment.size += batch.bytes().len();
            seen(&batch);
        }
        if segment.size < bytes.len()
            && let Data::File { file, path } = &segment.data
        {
            tracing::warn!(path = %path.display(), from = segment.size, to = bytes.len(), "cut a torn tail");
            file.set_len(segment.size as u64)?;
        }
        Ok(segment)
    }

    pub(crate) fn append(&mut self, batch: &Batch) -> io::Result<()> {
        let bytes = batch.bytes();
        match &mut self.data {
            Data::Open(open) => open.extend_from_slice(bytes),
            Data::Sealed(_) => return Err(io::Error::other("the segment is sealed")),
            Data::File { file, .. } => {
                if let Err(error) = file.write_all(bytes) {
                    // Half a batch must not stay between whole ones.
                    file.set_len(self.size as u64)?;
                    return Err(error);
                }
            }
        }
        self.batches.push(Placed::of(batch, self.size));
        self.size += bytes.len();
        Ok(())
    }

    /// Whether `more` bytes would make it larger than a segment should be.
    pub(crate) fn is_full(&self, more: usize, segment_bytes: usize) -> bool {
        let limit = match self.data {
            Data::File { .. } => segment_bytes,
            _ => segment_bytes.min(MEMORY_SEGMENT_BYTES),
        };
        self.size > 0 && self.size + more > limit
    }

    /// No batch will be appended any more.
    pub(crate) fn seal(&mut self) {
        if let Data::Open(open) = &mut self.data {
            // The copy gives back the room that the buffer grew for.
            let sealed = if open.len() * 4 < open.capacity() * 3 {
                Bytes::copy_from_slice(open)
            } else {
                std::mem::take(open).freeze()
            };
            self.data = Data::Sealed(sealed);
            self.batches.shrink_to_fit();
        }
    }

    /// Batches from the one that holds `offset` (or the next one) on, as many as begin before
    /// `limit` and fit `max_bytes`; at least one if `at_least_one`.
    pub(crate) fn read(
        &mut self,
        offset: i64,
        limit: i64,
        max_bytes: usize,
        at_least_one: bool,
    ) -> io::Result<Bytes> {
        let first = self.batches.partition_point(|batch| batch.last_offset < offset);
        let mut size = 0;
        for batch in &self.batches[first..] {
            let fits = size + batch.size <= max_bytes || (size == 0 && at_least_one);
            if batch.base_offset >= limit || !fits {
                break;
            }
            size += batch.size;
        }
        match self.batches.get(first) {
            Some(batch) if size > 0 => {
                let position = batch.position;
                self.bytes(position, size)
            }
            _ => Ok(Bytes::new()),
        }
    }

    pub(crate) fn read_batch(&mut self, placed: Placed) -> io::Result<Batch> {
        let bytes = self.bytes(placed.position, placed.size)?;
        Batch::new(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    fn bytes(&mut self, position: usize, size: usize) -> io::Result<Bytes> {
        match &mut self.data {
            Data::Open(open) => Ok(Bytes::copy_from_slice(&open[position..position + size])),
            Data::Sealed(sealed) => Ok(sealed.slice(position..position + size)),
            Data::File { file, .. } => {
                let mut bytes = vec![0; size];
                file.seek(SeekFrom::Start(position as u64))?;
                file.read_exact(&mut bytes)?;
                Ok(bytes.into())
            }
        }
    }

    pub(crate) fn batches(&self) -> &[Placed] {
        &self.batches
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Bytes of the batches that hold `offset` or come after it.
    pub(crate) fn size_from(&self, offset: i64) -> usize {
        let first = self.batches.partition_point(|batch| batch.last_offset < offset);
        self.batches.get(first).map_or(0, |batch| self.size - batch.position)
    }

    pub(crate) fn next_offset(&self) -> Option<i64> {
        self.batches.last().map(|batch| batch.last_offset + 1)
    }

    pub(crate) fn max_timestamp(&self) -> Option<i64> {
        self.batches.iter().map(|batch| batch.max_timestamp).max()
    }

    /// Puts `batches` in the place of what the segment holds; on disk in one rename.
    pub(crate) fn replace(&mut self, batches: &[Batch]) -> io::Result<()> {
        let mut bytes = BytesMut::new();
        let mut placed = Vec::with_capacity(batches.len());
        for batch in batches {
            placed.push(Placed::of(batch, bytes.len()));
            bytes.extend_from_slice(batch.bytes());
        }
        let size = bytes.len();
        match &mut self.data {
            Data::File { file, path } => {
                let cleaned = path.with_extension("cleaned");
                fs::write(&cleaned, &bytes)?;
                fs::rename(&cleaned, &*path)?;
                *file = open_file(path)?;
            }
            other => *other = Data::Sealed(bytes.freeze()),
        }
        self.batches = placed;
        self.size = size;
        Ok(())
    }

    /// Removes the segment's file, if it has one.
    pub(crate) fn delete(self) -> io::Result<()> {
        match self.data {
            Data::File { path, .. } => fs::remove_file(path),
            _ => Ok(()),
        }
    }
}

fn file_name(base_offset: i64) -> String {
    format!("{base_offset:020}.log")
}

/// The base offset that a segment's file name tells; `None` for other files.
pub(crate) fn base_offset_of(path: &Path) -> Option<i64> {
    let name = path.file_name()?.to_str()?;
    name.strip_suffix(".log")?.parse().ok()
}

/// Appends go to the end wherever the last read was.
fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).open(path)
}
