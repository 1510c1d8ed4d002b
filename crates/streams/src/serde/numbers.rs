//! Numbers, big-endian as Java writes them.

use super::{At, DefaultSerde, Presence, Serde, SerdeRef};
use crate::error::BoxError;
use std::sync::Arc;

macro_rules! number_serde {
    ($type:ty, $serde:ident, $words:literal) => {
        #[doc = concat!("`", stringify!($type), "`: ", $words, ", big-endian.")]
        #[derive(Debug, Clone, Copy, Default)]
        pub struct $serde;

        impl Serde<$type> for $serde {
            fn serialize(
                &self,
                _: &At,
                value: &$type,
                out: &mut Vec<u8>,
            ) -> Result<Presence, BoxError> {
                out.extend_from_slice(&value.to_be_bytes());
                Ok(Presence::Value)
            }

            fn deserialize(&self, _: &At, bytes: &[u8]) -> Result<$type, BoxError> {
                const SIZE: usize = size_of::<$type>();
                let bytes: [u8; SIZE] = bytes.try_into().map_err(|_| {
                    format!("{} has {SIZE} bytes, these are {}", $words, bytes.len())
                })?;
                Ok(<$type>::from_be_bytes(bytes))
            }
        }

        impl DefaultSerde for $type {
            fn default_serde() -> SerdeRef<Self> {
                Arc::new($serde)
            }
        }
    };
}

number_serde!(i32, I32Serde, "a 32-bit integer");
number_serde!(i64, I64Serde, "a 64-bit integer");
number_serde!(f32, F32Serde, "a 32-bit floating-point number");
number_serde!(f64, F64Serde, "a 64-bit floating-point number");

/// `bool`: one byte, 1 or 0.
#[derive(Debug, Clone, Copy, Default)]
pub struct BoolSerde;

impl Serde<bool> for BoolSerde {
    fn serialize(&self, _: &At, value: &bool, out: &mut Vec<u8>) -> Result<Presence, BoxError> {
        out.push(u8::from(*value));
        Ok(Presence::Value)
    }

    fn deserialize(&self, _: &At, bytes: &[u8]) -> Result<bool, BoxError> {
        match bytes {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err("a boolean is one byte, 0 or 1".into()),
        }
    }
}

impl DefaultSerde for bool {
    fn default_serde() -> SerdeRef<Self> {
        Arc::new(BoolSerde)
    }
}
