//! Windowed keys in topics, with the bytes of Java's `WindowedSerdes`: `key ‖ start` for time windows, `key ‖ end ‖ start` for
//! sessions, times as 8 bytes, big-endian.

use super::{At, DefaultSerde, Presence, Serde, SerdeRef};
use crate::error::BoxError;
use crate::windowed::{SessionWindowed, TimeWindowed, Window};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Keys in time windows of one size. The end is not among the bytes, so the size has to be known.
///
/// ```
/// use kstreams::prelude::*;
/// use kstreams::serde::TimeWindowedSerde;
/// use std::time::Duration;
///
/// let serde = TimeWindowedSerde::new(String::default_serde(), Duration::from_secs(60)).shared();
/// let produced = Produced::with(serde, i64::default_serde());
/// ```
pub struct TimeWindowedSerde<K> {
    inner: SerdeRef<K>,
    /// Milliseconds.
    size: i64,
}

impl<K: 'static> TimeWindowedSerde<K> {
    /// Keys of `inner` in windows of this size.
    pub fn new(inner: SerdeRef<K>, size: Duration) -> Self {
        TimeWindowedSerde::of_millis(inner, i64::try_from(size.as_millis()).unwrap_or(i64::MAX))
    }

    pub(crate) fn of_millis(inner: SerdeRef<K>, size: i64) -> Self {
        TimeWindowedSerde { inner, size }
    }

    /// Behind a pointer, as options take it.
    pub fn shared(self) -> SerdeRef<TimeWindowed<K>> {
        Arc::new(self)
    }
}

impl<K: 'static> Serde<TimeWindowed<K>> for TimeWindowedSerde<K> {
    fn serialize(
        &self,
        at: &At,
        value: &TimeWindowed<K>,
        out: &mut Vec<u8>,
    ) -> Result<Presence, BoxError> {
        let presence = self.inner.serialize(at, &value.key, out)?;
        if presence == Presence::Value {
            out.extend_from_slice(&value.window.start.to_be_bytes());
        }
        Ok(presence)
    }

    fn deserialize(&self, at: &At, bytes: &[u8]) -> Result<TimeWindowed<K>, BoxError> {
        let (key, start) =
            bytes.split_last_chunk().ok_or("the key of a time window is too short")?;
        let start = i64::from_be_bytes(*start);
        let window = Window::new(start, start.saturating_add(self.size));
        Ok(TimeWindowed { key: self.inner.deserialize(at, key)?, window })
    }

    fn is_null(&self, value: &TimeWindowed<K>) -> bool {
        self.inner.is_null(&value.key)
    }
}

/// Keys in sessions.
pub struct SessionWindowedSerde<K> {
    inner: SerdeRef<K>,
}

impl<K: 'static> SessionWindowedSerde<K> {
    /// Keys of `inner` in sessions.
    pub fn new(inner: SerdeRef<K>) -> Self {
        SessionWindowedSerde { inner }
    }

    /// Behind a pointer, as options take it.
    pub fn shared(self) -> SerdeRef<SessionWindowed<K>> {
        Arc::new(self)
    }
}

impl<K: 'static> Serde<SessionWindowed<K>> for SessionWindowedSerde<K> {
    fn serialize(
        &self,
        at: &At,
        value: &SessionWindowed<K>,
        out: &mut Vec<u8>,
    ) -> Result<Presence, BoxError> {
        let presence = self.inner.serialize(at, &value.key, out)?;
        if presence == Presence::Value {
            out.extend_from_slice(&value.window.end.to_be_bytes());
            out.extend_from_slice(&value.window.start.to_be_bytes());
        }
        Ok(presence)
    }

    fn deserialize(&self, at: &At, bytes: &[u8]) -> Result<SessionWindowed<K>, BoxError> {
        let times = bytes.split_last_chunk().and_then(|(rest, start)| {
            let (key, end) = rest.split_last_chunk()?;
            Some((key, Window::new(i64::from_be_bytes(*start), i64::from_be_bytes(*end))))
        });
        let (key, window) = times.ok_or("the key of a session is too short")?;
        Ok(SessionWindowed { key: self.inner.deserialize(at, key)?, window })
    }

    fn is_null(&self, value: &SessionWindowed<K>) -> bool {
        self.inner.is_null(&value.key)
    }
}

impl<K: DefaultSerde> DefaultSerde for SessionWindowed<K> {
    fn default_serde() -> SerdeRef<Self> {
        SessionWindowedSerde::new(K::default_serde()).shared()
    }
}

impl<K> fmt::Debug for TimeWindowedSerde<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimeWindowedSerde").field("size", &self.size).finish_non_exhaustive()
    }
}

impl<K> fmt::Debug for SessionWindowedSerde<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionWindowedSerde")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Headers;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn bytes_are_javas() {
        let headers = Headers::new();
        let at = At { topic: "t", headers: &headers, is_key: true };
        let time = TimeWindowedSerde::new(String::default_serde(), Duration::from_millis(10));
        let key = TimeWindowed { key: "k".to_string(), window: Window::new(10, 20) };
        let mut bytes = Vec::new();
        time.serialize(&at, &key, &mut bytes).expect("writes");
        assert_eq!(hex(&bytes), "6b000000000000000a");
        assert_eq!(time.deserialize(&at, &bytes).expect("reads"), key);
        assert_eq!(key.to_string(), "[k@10/20]");

        let session = SessionWindowed::<String>::default_serde();
        let key = SessionWindowed { key: "k".to_string(), window: Window::new(3, 258) };
        bytes.clear();
        session.serialize(&at, &key, &mut bytes).expect("writes");
        assert_eq!(hex(&bytes), "6b00000000000001020000000000000003");
        assert_eq!(session.deserialize(&at, &bytes).expect("reads"), key);
        assert!(session.deserialize(&at, &bytes[..10]).is_err());
        assert!(time.deserialize(&at, &bytes[..7]).is_err());
    }

    /// A window without an end stays one, whatever its start is.
    #[test]
    fn an_unlimited_window_ends_at_the_last_millisecond() {
        let headers = Headers::new();
        let at = At { topic: "t", headers: &headers, is_key: true };
        let serde = TimeWindowedSerde::new(i32::default_serde(), Duration::MAX);
        let read = serde.deserialize(&at, &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 20]).expect("reads");
        assert_eq!(read.window, Window::new(20, i64::MAX));
    }

    #[test]
    fn a_null_key_is_a_null() {
        let headers = Headers::new();
        let at = At { topic: "t", headers: &headers, is_key: true };
        let serde = SessionWindowed::<Option<String>>::default_serde();
        let key = SessionWindowed { key: None, window: Window::new(0, 0) };
        let mut bytes = Vec::new();
        let presence = serde.serialize(&at, &key, &mut bytes).expect("writes");
        assert_eq!((presence, bytes.len(), serde.is_null(&key)), (Presence::Null, 0, true));
    }
}
