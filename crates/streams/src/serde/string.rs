//! UTF-8 text.

use super::{At, DefaultSerde, Presence, Serde, SerdeRef};
use crate::error::BoxError;
use std::sync::Arc;

/// `String` as UTF-8. Bytes that are not UTF-8 are an error (Java replaces them silently).
#[derive(Debug, Clone, Copy, Default)]
pub struct StringSerde;

impl Serde<String> for StringSerde {
    fn serialize(&self, _: &At, value: &String, out: &mut Vec<u8>) -> Result<Presence, BoxError> {
        out.extend_from_slice(value.as_bytes());
        Ok(Presence::Value)
    }

    fn deserialize(&self, _: &At, bytes: &[u8]) -> Result<String, BoxError> {
        Ok(std::str::from_utf8(bytes)?.to_owned())
    }
}

impl DefaultSerde for String {
    fn default_serde() -> SerdeRef<Self> {
        Arc::new(StringSerde)
    }
}
