//! What moves along the edges of a topology: a key, a value, a timestamp and headers.

use std::fmt;

/// A record between two operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record<K, V> {
    /// The key.
    pub key: K,
    /// The value.
    pub value: V,
    /// Milliseconds since the epoch.
    pub timestamp: i64,
    /// The headers, in order; names may repeat.
    pub headers: Headers,
}

impl<K, V> Record<K, V> {
    /// A record without headers. `timestamp` is in milliseconds since the epoch.
    pub fn new(key: K, value: V, timestamp: i64) -> Self {
        Record { key, value, timestamp, headers: Headers::new() }
    }

    /// The same record with another key.
    pub fn with_key<K2>(self, key: K2) -> Record<K2, V> {
        Record { key, value: self.value, timestamp: self.timestamp, headers: self.headers }
    }

    /// The same record with another value.
    pub fn with_value<V2>(self, value: V2) -> Record<K, V2> {
        Record { key: self.key, value, timestamp: self.timestamp, headers: self.headers }
    }

    /// The same record at another time, in milliseconds since the epoch.
    #[must_use]
    pub fn with_timestamp(self, timestamp: i64) -> Self {
        Record { timestamp, ..self }
    }

    /// The same record with other headers.
    #[must_use]
    pub fn with_headers(self, headers: Headers) -> Self {
        Record { headers, ..self }
    }
}

/// The headers of a record. An empty set allocates nothing.
#[derive(Clone, Default, PartialEq, Eq)]
#[expect(
    clippy::box_collection,
    reason = "one word in every record, which moves with it at each step"
)]
pub struct Headers(Option<Box<Vec<Header>>>);

/// One header: a name and an optional value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The name; it may occur several times in one record.
    pub name: Box<str>,
    /// The value, if it has one.
    pub value: Option<Box<[u8]>>,
}

impl Headers {
    /// No headers.
    pub const fn new() -> Self {
        Headers(None)
    }

    /// Appends a header.
    pub fn add(&mut self, name: impl Into<Box<str>>, value: impl AsRef<[u8]>) {
        self.push(Header { name: name.into(), value: Some(value.as_ref().into()) });
    }

    /// Appends a header without a value.
    pub fn add_null(&mut self, name: impl Into<Box<str>>) {
        self.push(Header { name: name.into(), value: None });
    }

    fn push(&mut self, header: Header) {
        self.0.get_or_insert_default().push(header);
    }

    fn as_slice(&self) -> &[Header] {
        self.0.as_ref().map_or(&[], |headers| headers)
    }

    /// The value of the last header of that name; `None` if there is none or it has no value.
    pub fn last(&self, name: &str) -> Option<&[u8]> {
        self.as_slice().iter().rev().find(|header| &*header.name == name)?.value.as_deref()
    }

    /// Removes all headers of that name.
    pub fn remove(&mut self, name: &str) {
        if let Some(headers) = &mut self.0 {
            headers.retain(|header| &*header.name != name);
            // No headers are always the same, so that they are equal.
            self.0.take_if(|headers| headers.is_empty());
        }
    }

    /// The headers in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Header> {
        self.as_slice().iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl<'a> IntoIterator for &'a Headers {
    type Item = &'a Header;
    type IntoIter = std::slice::Iter<'a, Header>;

    fn into_iter(self) -> Self::IntoIter {
        self.as_slice().iter()
    }
}

impl FromIterator<Header> for Headers {
    fn from_iter<I: IntoIterator<Item = Header>>(headers: I) -> Self {
        let headers: Vec<Header> = headers.into_iter().collect();
        Headers((!headers.is_empty()).then(|| Box::new(headers)))
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |header: &Header| {
            header.value.as_deref().map(|value| String::from_utf8_lossy(value).into_owned())
        };
        f.debug_map().entries(self.iter().map(|header| (&header.name, text(header)))).finish()
    }
}

/// Where the record in hand was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordMetadata {
    /// The topic.
    pub topic: std::rc::Rc<str>,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_keep_order_and_the_last_of_a_name_wins() {
        let mut headers = Headers::new();
        headers.add("a", "1");
        headers.add_null("b");
        headers.add("a", "2");
        assert_eq!(headers.last("a"), Some(&b"2"[..]));
        assert_eq!(headers.last("b"), None);
        assert_eq!(format!("{headers:?}"), r#"{"a": Some("1"), "b": None, "a": Some("2")}"#);
        headers.remove("a");
        assert_eq!(headers.len(), 1);
        headers.remove("b");
        assert_eq!((headers.len(), headers.is_empty()), (0, true));
        assert_eq!(headers, Headers::new());
        assert_eq!(headers, std::iter::empty().collect());
    }
}
