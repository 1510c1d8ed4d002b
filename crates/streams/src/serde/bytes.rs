//! Raw bytes, and the type without content.

use super::{At, DefaultSerde, Presence, Serde, SerdeRef};
use crate::error::BoxError;
use bytes::Bytes;
use std::sync::Arc;

/// A key that is kept as it was read: bytes, or null.
pub type RawKey = Option<Bytes>;

/// `Bytes` as they are.
#[derive(Debug, Clone, Copy, Default)]
pub struct BytesSerde;

impl Serde<Bytes> for BytesSerde {
    fn serialize(&self, _: &At, value: &Bytes, out: &mut Vec<u8>) -> Result<Presence, BoxError> {
        out.extend_from_slice(value);
        Ok(Presence::Value)
    }

    fn deserialize(&self, _: &At, bytes: &[u8]) -> Result<Bytes, BoxError> {
        Ok(Bytes::copy_from_slice(bytes))
    }
}

impl DefaultSerde for Bytes {
    fn default_serde() -> SerdeRef<Self> {
        Arc::new(BytesSerde)
    }
}

/// `Vec<u8>` as it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct VecSerde;

impl Serde<Vec<u8>> for VecSerde {
    fn serialize(&self, _: &At, value: &Vec<u8>, out: &mut Vec<u8>) -> Result<Presence, BoxError> {
        out.extend_from_slice(value);
        Ok(Presence::Value)
    }

    fn deserialize(&self, _: &At, bytes: &[u8]) -> Result<Vec<u8>, BoxError> {
        Ok(bytes.to_vec())
    }
}

impl DefaultSerde for Vec<u8> {
    fn default_serde() -> SerdeRef<Self> {
        Arc::new(VecSerde)
    }
}

/// `()`: written as null, and whatever is read is ignored.
#[derive(Debug, Clone, Copy, Default)]
pub struct UnitSerde;

impl Serde<()> for UnitSerde {
    fn serialize(&self, _: &At, _: &(), _: &mut Vec<u8>) -> Result<Presence, BoxError> {
        Ok(Presence::Null)
    }

    fn deserialize(&self, _: &At, _: &[u8]) -> Result<(), BoxError> {
        Ok(())
    }

    fn null(&self) -> Option<()> {
        Some(())
    }

    fn is_null(&self, (): &()) -> bool {
        true
    }
}

impl DefaultSerde for () {
    fn default_serde() -> SerdeRef<Self> {
        Arc::new(UnitSerde)
    }
}
