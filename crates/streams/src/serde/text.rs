//! Types that can be written as text and read again.

use super::{At, Presence, Serde};
use crate::error::BoxError;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

/// Writes a type as its text (`Display`) and reads it by `FromStr`, in UTF-8. [`crate::text_serde`] makes it a type's own serde.
pub struct TextSerde<T>(PhantomData<fn() -> T>);

impl<T> TextSerde<T> {
    /// The serde.
    pub const fn new() -> Self {
        TextSerde(PhantomData)
    }
}

impl<T> Default for TextSerde<T> {
    fn default() -> Self {
        TextSerde::new()
    }
}

impl<T> fmt::Debug for TextSerde<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TextSerde")
    }
}

impl<T> Serde<T> for TextSerde<T>
where
    T: fmt::Display + FromStr<Err: Into<BoxError>> + 'static,
{
    fn serialize(&self, _: &At, value: &T, out: &mut Vec<u8>) -> Result<Presence, BoxError> {
        use std::io::Write;
        write!(out, "{value}")?;
        Ok(Presence::Value)
    }

    fn deserialize(&self, _: &At, bytes: &[u8]) -> Result<T, BoxError> {
        std::str::from_utf8(bytes)?.parse().map_err(Into::into)
    }
}

/// Makes text the own serde of a type that has `Display` and `FromStr`.
///
/// ```
/// use kstreams::prelude::*;
/// use std::net::IpAddr;
///
/// #[derive(Clone, PartialEq, Debug)]
/// struct Host(IpAddr);
///
/// impl std::fmt::Display for Host {
///     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
///         self.0.fmt(f)
///     }
/// }
///
/// impl std::str::FromStr for Host {
///     type Err = std::net::AddrParseError;
///
///     fn from_str(text: &str) -> Result<Self, Self::Err> {
///         Ok(Host(text.parse()?))
///     }
/// }
///
/// kstreams::text_serde!(Host);
///
/// let builder = StreamsBuilder::new();
/// builder
///     .stream("requests", Consumed::<Host, i64>::new())
///     .group_by_key(Grouped::new())
///     .count(Materialized::named("requests"))
///     .to_stream()
///     .to("requests-by-host", Produced::new());
/// builder.build()?;
/// # Ok::<(), kstreams::Error>(())
/// ```
#[macro_export]
macro_rules! text_serde {
    ($type:ty) => {
        impl $crate::serde::DefaultSerde for $type {
            fn default_serde() -> $crate::serde::SerdeRef<Self> {
                ::std::sync::Arc::new($crate::serde::TextSerde::<$type>::new())
            }
        }
    };
}
