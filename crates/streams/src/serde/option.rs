//! Null as a value: `Option<T>`.

use super::{At, DefaultSerde, Presence, Serde, SerdeRef};
use crate::error::BoxError;
use std::sync::Arc;

/// `Option<T>`: `None` is null, and so is a null of the inner type.
#[derive(Clone)]
pub struct OptionSerde<T> {
    inner: SerdeRef<T>,
}

impl<T> OptionSerde<T> {
    /// Adds null to the values of `inner`.
    pub fn new(inner: SerdeRef<T>) -> Self {
        OptionSerde { inner }
    }
}

impl<T> std::fmt::Debug for OptionSerde<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OptionSerde")
    }
}

impl<T: 'static> Serde<Option<T>> for OptionSerde<T> {
    fn serialize(
        &self,
        at: &At,
        value: &Option<T>,
        out: &mut Vec<u8>,
    ) -> Result<Presence, BoxError> {
        match value {
            Some(value) => self.inner.serialize(at, value, out),
            None => Ok(Presence::Null),
        }
    }

    fn deserialize(&self, at: &At, bytes: &[u8]) -> Result<Option<T>, BoxError> {
        self.inner.deserialize(at, bytes).map(Some)
    }

    fn null(&self) -> Option<Option<T>> {
        Some(None)
    }

    fn is_null(&self, value: &Option<T>) -> bool {
        value.as_ref().is_none_or(|value| self.inner.is_null(value))
    }
}

impl<T: DefaultSerde> DefaultSerde for Option<T> {
    fn default_serde() -> SerdeRef<Self> {
        Arc::new(OptionSerde::new(T::default_serde()))
    }
}
