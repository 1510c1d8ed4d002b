//! Rows of a versioned store. The latest value of a key is `timestamp (8) ‖ value`. The values before it lie in segments of time,
//! a row a key: `next (8) ‖ first (8) ‖ (timestamp (8) ‖ length (4))* ‖ values`, newest first, the values in the order of the
//! records from behind. `next` is where the validity of the newest ends, `first` the oldest timestamp; a length of -1 is a
//! tombstone. Where both are equal the row says only that there is a tombstone at that time.

use byteview::ByteView;

const HEAD: usize = 16;

/// Appends the row of a latest value.
pub(in crate::state) fn write_latest(timestamp: i64, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&timestamp.to_be_bytes());
    out.extend_from_slice(value);
}

/// Timestamp and value of a latest row.
pub(in crate::state) fn split_latest(row: &[u8]) -> Option<(i64, &[u8])> {
    let (timestamp, value) = row.split_first_chunk()?;
    Some((i64::from_be_bytes(*timestamp), value))
}

/// `next` and `first` of a segment row, without reading the rest.
pub(in crate::state) fn bounds(row: &[u8]) -> Option<(i64, i64)> {
    let (next, rest) = row.split_first_chunk()?;
    let (first, _) = rest.split_first_chunk()?;
    Some((i64::from_be_bytes(*next), i64::from_be_bytes(*first)))
}

/// A version of a value in a segment row.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Version {
    timestamp: i64,
    /// `None`: a tombstone.
    value: Option<ByteView>,
}

/// A value and the span in which it is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VersionBytes {
    pub(crate) value: ByteView,
    pub(crate) from: i64,
    /// `None`: it is the latest.
    pub(crate) to: Option<i64>,
}

/// A version that was looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::state) struct Found {
    pub(in crate::state) index: usize,
    pub(in crate::state) from: i64,
    pub(in crate::state) to: i64,
    pub(in crate::state) value: Option<ByteView>,
}

/// A segment row that is read. Newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::state) struct SegmentRow {
    next: i64,
    first: i64,
    versions: Vec<Version>,
}

impl SegmentRow {
    /// A row with one version, valid from `from` to `to`. An empty validity is a row that only marks a tombstone.
    pub(in crate::state) fn with_record(value: Option<ByteView>, from: i64, to: i64) -> Self {
        let mut row = SegmentRow { next: to, first: from, versions: Vec::new() };
        if from < to {
            row.versions.push(Version { timestamp: from, value });
        }
        row
    }

    fn is_mark(&self) -> bool {
        self.versions.is_empty()
    }

    /// Reads a row; `None` when it is damaged.
    pub(in crate::state) fn read(row: &[u8]) -> Option<Self> {
        let (next, first) = bounds(row)?;
        let mut parsed = SegmentRow { next, first, versions: Vec::new() };
        if next == first {
            return Some(parsed);
        }
        let (mut entries, mut end) = (row.get(HEAD..)?, row.len());
        loop {
            let (timestamp, rest) = entries.split_first_chunk()?;
            let (length, rest) = rest.split_first_chunk()?;
            let (timestamp, length) = (i64::from_be_bytes(*timestamp), i32::from_be_bytes(*length));
            let value = match usize::try_from(length) {
                Ok(length) => {
                    let begin = end.checked_sub(length)?;
                    let value = row.get(begin..end)?;
                    end = begin;
                    Some(ByteView::from(value))
                }
                Err(_) => None,
            };
            parsed.versions.push(Version { timestamp, value });
            entries = rest;
            if timestamp <= first {
                return Some(parsed);
            }
        }
    }

    /// Appends the row's bytes.
    pub(in crate::state) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.next.to_be_bytes());
        out.extend_from_slice(&self.first.to_be_bytes());
        for version in &self.versions {
            out.extend_from_slice(&version.timestamp.to_be_bytes());
            let length = version.value.as_ref().map_or(-1, |value| value.len() as i32);
            out.extend_from_slice(&length.to_be_bytes());
        }
        for value in self.versions.iter().rev().filter_map(|version| version.value.as_ref()) {
            out.extend_from_slice(value);
        }
    }

    /// The version at a time that is in the row.
    pub(in crate::state) fn find(&self, timestamp: i64) -> Option<Found> {
        let index = self.versions.iter().position(|version| version.timestamp <= timestamp)?;
        let version = self.versions.get(index)?;
        let newer = index.checked_sub(1).and_then(|newer| self.versions.get(newer));
        let to = newer.map_or(self.next, |newer| newer.timestamp);
        Some(Found { index, from: version.timestamp, to, value: version.value.clone() })
    }

    /// The values with the spans of their validity, newest first.
    pub(in crate::state) fn values(&self) -> impl Iterator<Item = VersionBytes> + use<'_> {
        let ends = std::iter::once(self.next).chain(self.versions.iter().map(|v| v.timestamp));
        self.versions.iter().zip(ends).filter_map(|(version, end)| {
            let value = version.value.clone()?;
            Some(VersionBytes { value, from: version.timestamp, to: Some(end) })
        })
    }

    /// Adds a version behind all that are there, valid from `from` to `to`. A gap before it becomes a tombstone.
    pub(in crate::state) fn insert_as_latest(
        &mut self,
        from: i64,
        to: i64,
        value: Option<ByteView>,
    ) {
        if from < self.next {
            // After a write that failed half-way: what comes later is void.
            self.truncate_to(from);
        }
        if from == self.next {
            if self.is_mark() {
                *self = SegmentRow::with_record(value, from, to);
                return;
            }
        } else if self.is_mark() {
            *self = SegmentRow::with_record(None, self.next, from);
        } else {
            self.versions.insert(0, Version { timestamp: self.next, value: None });
        }
        self.versions.insert(0, Version { timestamp: from, value });
        self.next = to;
    }

    fn truncate_to(&mut self, timestamp: i64) {
        self.versions.retain(|version| version.timestamp < timestamp);
        if timestamp <= self.first {
            self.first = timestamp;
        }
        self.next = timestamp;
    }

    /// Adds a version before all that are there.
    pub(in crate::state) fn insert_as_earliest(&mut self, timestamp: i64, value: Option<ByteView>) {
        if self.is_mark() {
            *self = SegmentRow::with_record(value, timestamp, self.next);
            return;
        }
        self.versions.push(Version { timestamp, value });
        self.first = timestamp;
    }

    /// Adds a version before the one at `index`, in time behind it.
    pub(in crate::state) fn insert(
        &mut self,
        timestamp: i64,
        value: Option<ByteView>,
        index: usize,
    ) {
        self.versions.insert(index, Version { timestamp, value });
    }

    /// Replaces the version at `index`.
    pub(in crate::state) fn update(
        &mut self,
        timestamp: i64,
        value: Option<ByteView>,
        index: usize,
    ) {
        if index + 1 == self.versions.len() {
            self.first = timestamp;
        }
        if let Some(version) = self.versions.get_mut(index) {
            *version = Version { timestamp, value };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(row: &SegmentRow) -> Vec<u8> {
        let mut bytes = Vec::new();
        row.write(&mut bytes);
        bytes
    }

    fn value(text: &str) -> Option<ByteView> {
        Some(ByteView::from(text))
    }

    #[test]
    fn rows_are_javas() {
        let mut row = SegmentRow::with_record(value("a"), 10, 20);
        row.insert_as_latest(20, 30, None);
        row.insert_as_latest(30, 40, value("cc"));
        let hex: String = bytes(&row).iter().map(|byte| format!("{byte:02x}")).collect();
        let expected = [
            "0000000000000028",
            "000000000000000a",
            "000000000000001e00000002",
            "0000000000000014ffffffff",
            "000000000000000a00000001",
            "616363",
        ];
        assert_eq!(hex, expected.concat());
        assert_eq!(SegmentRow::read(&bytes(&row)), Some(row.clone()));
        let found = row.find(35).expect("there");
        assert_eq!((found.index, found.from, found.to, found.value), (0, 30, 40, value("cc")));
        assert_eq!(
            row.find(20).map(|found| (found.from, found.to, found.value)),
            Some((20, 30, None))
        );
        assert!(row.find(9).is_none());
        assert!(SegmentRow::read(&bytes(&row)[..30]).is_none());
    }

    #[test]
    fn a_gap_becomes_a_tombstone() {
        let mut row = SegmentRow::with_record(value("a"), 10, 20);
        row.insert_as_latest(25, 30, value("b"));
        assert_eq!(
            row.find(22).map(|found| (found.from, found.to, found.value)),
            Some((20, 25, None))
        );
        row.insert_as_earliest(5, value("z"));
        assert_eq!(row.find(7).map(|found| (found.index, found.to)), Some((3, 10)));
        row.update(4, value("y"), 3);
        assert_eq!(bounds(&bytes(&row)), Some((30, 4)));
        let mut mark = SegmentRow::with_record(None, 10, 10);
        assert_eq!(bytes(&mark).len(), HEAD);
        assert_eq!(SegmentRow::read(&bytes(&mark)), Some(mark.clone()));
        mark.insert_as_latest(12, 15, value("c"));
        assert_eq!(bytes(&mark).len(), HEAD + 2 * 12 + 1);
    }
}
