//! The answer to a subscription: `version (7 bits, the high bit: there is no hash) ‖ [hash (16)] ‖ foreign value`.
//!
//! No bytes mean no value: a value of no bytes is not told apart from one that is not there, as in Java.

use super::murmur3::Hash;
use crate::error::BoxError;
use crate::serde::{At, Presence, Serde, SerdeRef};

const VERSION: u8 = 0;
const NO_HASH: u8 = 0x80;
const HASH: usize = 16;

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Response<V> {
    /// The hash of the left value that it answers.
    pub(super) hash: Option<Hash>,
    pub(super) value: Option<V>,
    /// Where it shall go; it is not part of the message.
    pub(crate) partition: Option<i32>,
}

/// Reads and writes answers.
pub(crate) struct ResponseSerde<V>(pub(crate) SerdeRef<V>);

impl<V: 'static> Serde<Response<V>> for ResponseSerde<V> {
    fn serialize(
        &self,
        at: &At,
        response: &Response<V>,
        out: &mut Vec<u8>,
    ) -> Result<Presence, BoxError> {
        out.push(VERSION | if response.hash.is_none() { NO_HASH } else { 0 });
        out.extend_from_slice(response.hash.as_ref().map_or(&[], |hash| &hash[..]));
        if let Some(value) = &response.value {
            self.0.serialize(at, value, out)?;
        }
        Ok(Presence::Value)
    }

    fn deserialize(&self, at: &At, bytes: &[u8]) -> Result<Response<V>, BoxError> {
        let cut = "an answer is cut short";
        let (&head, mut rest) = bytes.split_first().ok_or(cut)?;
        let version = head & !NO_HASH;
        if version != VERSION {
            return Err(format!("an answer has the unknown version {version}").into());
        }
        let mut hash = None;
        if head & NO_HASH == 0 {
            let (first, behind) = rest.split_first_chunk::<HASH>().ok_or(cut)?;
            (hash, rest) = (Some(*first), behind);
        }
        let value = (!rest.is_empty()).then(|| self.0.deserialize(at, rest)).transpose()?;
        Ok(Response { hash, value, partition: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Headers;
    use crate::serde::DefaultSerde;

    #[test]
    fn bytes_are_javas() {
        let serde = ResponseSerde(String::default_serde());
        let headers = Headers::new();
        let at = At { topic: "t", headers: &headers, is_key: false };
        let response = |hash, value: Option<&str>| Response {
            hash,
            value: value.map(str::to_string),
            partition: None,
        };
        for (written, bytes) in [
            (
                response(Some([7; 16]), Some("v")),
                &b"\0\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07v"[..],
            ),
            (response(None, None), b"\x80"),
            (response(None, Some("v")), b"\x80v"),
        ] {
            let mut out = Vec::new();
            serde.serialize(&at, &written, &mut out).expect("written");
            assert_eq!(out, bytes);
            assert_eq!(serde.deserialize(&at, bytes).expect("read"), written);
        }
        for bad in [&b""[..], b"\0short", b"\x81v"] {
            assert!(serde.deserialize(&at, bad).is_err(), "{bad:?}");
        }
    }
}
