//! What a suppression buffer keeps of a key: Java's `BufferValue` with its time.
//!
//! `timestamp (8) ‖ offset (8) ‖ topic ‖ partition (4) ‖ number of headers (4) ‖ headers (name ‖ value)… ‖ prior value ‖ old value
//! ‖ new value ‖ buffer time (8)`, where a text or value is `length (4) ‖ bytes`, a null value has the length -1, and an old value
//! that is the prior one has the length -2. That is version 3, which a changelog record says in its header `v`; versions 0 to 2 are
//! read.

use crate::processor::RecordContext;
use crate::record::{Header, Headers};
use byteview::ByteView;

const NULL: i32 = -1;
const SAME_AS_PRIOR: i32 = -2;

/// The header that tells the version, and the version that is written.
pub(in crate::state) const VERSION_HEADER: &str = "v";
pub(in crate::state) const VERSION: u8 = 3;

/// A change that waits.
#[derive(Debug, Clone)]
pub(in crate::state) struct BufferValue {
    /// The record that made the change.
    pub(in crate::state) context: RecordContext,
    pub(in crate::state) headers: Headers,
    /// The value before the first change that the buffer took for the key.
    pub(in crate::state) prior: Option<ByteView>,
    /// The value before the last one.
    pub(in crate::state) old: Option<ByteView>,
    pub(in crate::state) new: Option<ByteView>,
}

impl BufferValue {
    /// Java's estimate of the memory that it takes.
    pub(in crate::state) fn size(&self) -> usize {
        let length = |value: &Option<ByteView>| value.as_ref().map_or(0, ByteView::len);
        let old = if self.old == self.prior { 0 } else { length(&self.old) };
        let text = |text: &str| text.encode_utf16().count();
        let headers = self.headers.iter().map(|header| {
            text(&header.name) + header.value.as_ref().map_or(0, |value| value.len())
        });
        let context = 8 + 8 + text(&self.context.topic) + 4 + headers.sum::<usize>();
        length(&self.prior) + old + length(&self.new) + context
    }

    /// Appends version 3.
    pub(in crate::state) fn write(&self, buffer_time: i64, out: &mut Vec<u8>) {
        let RecordContext { topic, partition, offset, timestamp } = &self.context;
        out.extend_from_slice(&timestamp.to_be_bytes());
        out.extend_from_slice(&offset.to_be_bytes());
        put(Some(topic.as_bytes()), out);
        out.extend_from_slice(&partition.to_be_bytes());
        out.extend_from_slice(&(self.headers.len() as i32).to_be_bytes());
        for header in &self.headers {
            put(Some(header.name.as_bytes()), out);
            put(header.value.as_deref(), out);
        }
        put(self.prior.as_deref(), out);
        match &self.old {
            Some(old) if self.prior.as_ref() == Some(old) => {
                out.extend_from_slice(&SAME_AS_PRIOR.to_be_bytes());
            }
            old => put(old.as_deref(), out),
        }
        put(self.new.as_deref(), out);
        out.extend_from_slice(&buffer_time.to_be_bytes());
    }

    /// Reads version 3: the value and its buffer time.
    pub(in crate::state) fn read(mut bytes: &[u8]) -> Option<(Self, i64)> {
        let rest = &mut bytes;
        let (context, headers) = context(rest)?;
        let prior = value(rest)?;
        let old = match int(rest)? {
            SAME_AS_PRIOR => prior.clone(),
            length => sized(length, rest)?,
        };
        let new = value(rest)?;
        let time = long(rest)?;
        Some((BufferValue { context, headers, prior, old, new }, time))
    }

    /// Reads a record of a changelog, whatever its version is. `record` is where the changelog record stands; `prior` is the prior
    /// value of the key in the buffer, which old versions do not tell.
    pub(in crate::state) fn read_version(
        version: Option<u8>,
        mut bytes: &[u8],
        record: RecordContext,
        headers: &Headers,
        prior: Option<ByteView>,
    ) -> Option<(Self, i64)> {
        match version {
            Some(VERSION) => BufferValue::read(bytes),
            // There were two formats of that number.
            Some(2) => BufferValue::read_v2(bytes).or_else(|| BufferValue::read(bytes)),
            Some(1) => {
                let rest = &mut bytes;
                let time = long(rest)?;
                let (context, headers) = context(rest)?;
                let (old, new) = change(value(rest)?)?;
                let prior = prior.or_else(|| old.clone());
                Some((BufferValue { context, headers, prior, old, new }, time))
            }
            None => {
                let rest = &mut bytes;
                let time = long(rest)?;
                let (old, new) = change(Some(ByteView::from(*rest)))?;
                let (prior, headers) = (prior.or_else(|| old.clone()), headers.clone());
                Some((BufferValue { context: record, headers, prior, old, new }, time))
            }
            Some(_) => None,
        }
    }

    fn read_v2(mut bytes: &[u8]) -> Option<(Self, i64)> {
        let rest = &mut bytes;
        let (context, headers) = context(rest)?;
        let (old, new) = change(value(rest)?)?;
        let prior = value(rest)?;
        let time = long(rest)?;
        rest.is_empty().then_some((BufferValue { context, headers, prior, old, new }, time))
    }
}

/// `length ‖ bytes`.
fn put(value: Option<&[u8]>, out: &mut Vec<u8>) {
    match value {
        Some(value) => {
            out.extend_from_slice(&(value.len() as i32).to_be_bytes());
            out.extend_from_slice(value);
        }
        None => out.extend_from_slice(&NULL.to_be_bytes()),
    }
}

fn int(rest: &mut &[u8]) -> Option<i32> {
    let (bytes, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(i32::from_be_bytes(*bytes))
}

fn long(rest: &mut &[u8]) -> Option<i64> {
    let (bytes, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(i64::from_be_bytes(*bytes))
}

/// A value of that length; `Some(None)` is null.
fn sized(length: i32, rest: &mut &[u8]) -> Option<Option<ByteView>> {
    if length == NULL {
        return Some(None);
    }
    let (value, behind) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    *rest = behind;
    Some(Some(value.into()))
}

fn value(rest: &mut &[u8]) -> Option<Option<ByteView>> {
    let length = int(rest)?;
    sized(length, rest)
}

fn text(rest: &mut &[u8]) -> Option<String> {
    String::from_utf8(value(rest)??.to_vec()).ok()
}

/// Where and when the record of a change was read, and its headers.
fn context(rest: &mut &[u8]) -> Option<(RecordContext, Headers)> {
    let (timestamp, offset) = (long(rest)?, long(rest)?);
    let topic = text(rest)?.into();
    let partition = int(rest)?;
    let count = int(rest)?.max(0);
    let header = |rest: &mut &[u8]| {
        let name = text(rest)?.into();
        Some(Header { name, value: value(rest)?.map(|value| value.to_vec().into()) })
    };
    let headers = (0..count).map(|_| header(rest)).collect::<Option<Headers>>()?;
    Some((RecordContext { topic, partition, offset, timestamp }, headers))
}

/// Old and new value in old versions: `length ‖ old ‖ length ‖ new` (Java's `FullChangeSerde`).
fn change(bytes: Option<ByteView>) -> Option<(Option<ByteView>, Option<ByteView>)> {
    let Some(bytes) = bytes else { return Some((None, None)) };
    let mut rest = &bytes[..];
    let old = value(&mut rest)?;
    let new = value(&mut rest)?;
    Some((old, new))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context() -> RecordContext {
        RecordContext { topic: "t".into(), partition: 2, offset: 3, timestamp: 4 }
    }

    fn value(prior: Option<&str>, old: Option<&str>, new: Option<&str>) -> BufferValue {
        let bytes = |text: Option<&str>| text.map(|text| ByteView::from(text.as_bytes()));
        let mut headers = Headers::new();
        headers.add("h", "x");
        headers.add_null("n");
        BufferValue {
            context: context(),
            headers,
            prior: bytes(prior),
            old: bytes(old),
            new: bytes(new),
        }
    }

    fn shown((value, time): (BufferValue, i64)) -> String {
        format!("{value:?} {time}")
    }

    #[test]
    fn version_3_is_javas() {
        let mut bytes = Vec::new();
        value(Some("p"), Some("p"), None).write(9, &mut bytes);
        let expected = [
            &b"\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x03\0\0\0\x01t\0\0\0\x02\0\0\0\x02"[..],
            b"\0\0\0\x01h\0\0\0\x01x\0\0\0\x01n\xff\xff\xff\xff",
            b"\0\0\0\x01p\xff\xff\xff\xfe\xff\xff\xff\xff\0\0\0\0\0\0\0\x09",
        ]
        .concat();
        assert_eq!(bytes, expected);
        for written in [
            value(Some("p"), Some("p"), None),
            value(Some("p"), Some("o"), Some("new")),
            value(None, None, Some("")),
        ] {
            let mut bytes = Vec::new();
            written.write(7, &mut bytes);
            let read = BufferValue::read(&bytes).expect("reads");
            assert_eq!(shown(read), shown((written, 7)));
            for cut in 0..bytes.len() {
                assert!(BufferValue::read(&bytes[..cut]).is_none(), "{cut} bytes");
            }
        }
    }

    #[test]
    fn old_versions_are_read() {
        let change = b"\0\0\0\x01o\0\0\0\x01n";
        let mut written = Vec::new();
        value(None, None, None).write(0, &mut written);
        // The context, up to where the values begin.
        let head = &written[..written.len() - 20];
        let contextual = [head, &14i32.to_be_bytes()[..], change].concat();
        let contextual =
            [&contextual[..head.len()], &(change.len() as i32).to_be_bytes()[..], change].concat();
        let time = 7i64.to_be_bytes();
        let prior = Some(ByteView::from(&b"p"[..]));
        let expected = value(Some("p"), Some("o"), Some("n"));
        let headers = expected.headers.clone();
        let v0 = [&time[..], change].concat();
        let v1 = [&time[..], &contextual].concat();
        let v2 = [&contextual[..], b"\0\0\0\x01p", &time].concat();
        let mut v3 = Vec::new();
        expected.write(7, &mut v3);
        for (version, bytes) in
            [(None, v0), (Some(1), v1), (Some(2), v2), (Some(2), v3.clone()), (Some(3), v3)]
        {
            let read =
                BufferValue::read_version(version, &bytes, context(), &headers, prior.clone());
            assert_eq!(shown(read.expect("reads")), shown((expected.clone(), 7)), "{version:?}");
        }
        assert!(BufferValue::read_version(Some(4), &[], context(), &headers, None).is_none());
    }
}
