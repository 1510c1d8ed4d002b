//! Keys of window and session stores, as Java's changelogs have them: `key ‖ start (8) ‖ sequence (4)` and
//! `key ‖ end (8) ‖ start (8)`, big-endian. In the engine the number of the time segment comes before that.

const TIME: usize = 8;

/// A row of a window or session store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowKey<'a> {
    pub(crate) key: &'a [u8],
    /// The start of a window, the end of a session: what decides how long the row is kept.
    pub(crate) time: i64,
    /// The number among duplicates of a window, the start of a session.
    pub(crate) minor: i64,
}

/// Whose keys they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::state) enum KeyLayout {
    Window,
    Session,
}

impl KeyLayout {
    /// Appends Java's key.
    pub(in crate::state) fn write(self, row: &RowKey, out: &mut Vec<u8>) {
        out.extend_from_slice(row.key);
        out.extend_from_slice(&row.time.to_be_bytes());
        match self {
            KeyLayout::Window => out.extend_from_slice(&(row.minor as u32).to_be_bytes()),
            KeyLayout::Session => out.extend_from_slice(&row.minor.to_be_bytes()),
        }
    }

    /// Reads Java's key; `None` when it is too short to be one.
    pub(in crate::state) fn split(self, bytes: &[u8]) -> Option<RowKey<'_>> {
        let (rest, minor) = match self {
            KeyLayout::Window => {
                let (rest, minor) = bytes.split_last_chunk()?;
                (rest, i64::from(u32::from_be_bytes(*minor)))
            }
            KeyLayout::Session => {
                let (rest, minor) = bytes.split_last_chunk()?;
                (rest, i64::from_be_bytes(*minor))
            }
        };
        let (key, time) = rest.split_last_chunk()?;
        Some(RowKey { key, time: i64::from_be_bytes(*time), minor })
    }

    /// Appends the engine's key: the segment, then Java's key.
    pub(in crate::state) fn write_engine_key(self, segment: i64, row: &RowKey, out: &mut Vec<u8>) {
        out.extend_from_slice(&segment.to_be_bytes());
        self.write(row, out);
    }

    /// Reads the engine's key without its segment.
    pub(in crate::state) fn split_engine_key(self, bytes: &[u8]) -> Option<RowKey<'_>> {
        self.split(bytes.get(TIME..)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_javas() {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let row = RowKey { key: b"k", time: 258, minor: 3 };
        for (layout, expected) in [
            (KeyLayout::Window, "6b000000000000010200000003"),
            (KeyLayout::Session, "6b00000000000001020000000000000003"),
        ] {
            let mut bytes = Vec::new();
            layout.write(&row, &mut bytes);
            assert_eq!(hex(&bytes), expected);
            assert_eq!(layout.split(&bytes), Some(row));
            assert_eq!(layout.split(&bytes[2..]), None);
            bytes.clear();
            layout.write_engine_key(7, &row, &mut bytes);
            assert_eq!(hex(&bytes), format!("0000000000000007{expected}"));
            assert_eq!(layout.split_engine_key(&bytes), Some(row));
        }
    }
}
