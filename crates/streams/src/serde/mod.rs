//! Serdes: how keys and values become bytes, and what counts as null.

mod bytes;
mod numbers;
mod option;
mod string;
mod text;
pub(crate) mod varint;
mod windowed;

use crate::error::BoxError;
use crate::record::Headers;
use std::sync::Arc;

pub use self::bytes::{BytesSerde, RawKey, UnitSerde, VecSerde};
pub use self::numbers::{BoolSerde, F32Serde, F64Serde, I32Serde, I64Serde};
pub use self::option::OptionSerde;
pub use self::string::StringSerde;
pub use self::text::TextSerde;
pub use self::windowed::{SessionWindowedSerde, TimeWindowedSerde};

/// A serde behind a pointer, shared by all tasks.
pub type SerdeRef<T> = Arc<dyn Serde<T>>;

/// Where the bytes go to or come from.
#[derive(Debug, Clone, Copy)]
pub struct At<'a> {
    /// The topic; for a state store its changelog topic.
    pub topic: &'a str,
    /// The headers of the record.
    pub headers: &'a Headers,
    /// Whether it is the key (else: the value).
    pub is_key: bool,
}

/// Whether something was written, or the value is null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// The bytes appended are the value.
    Value,
    /// The value is null; nothing was appended.
    Null,
}

/// Turns values of `T` into bytes and back.
///
/// A serde for keys has to give the same bytes for the same value every time: stores find entries by their bytes.
///
/// ```
/// use kstreams::prelude::*;
///
/// struct Celsius;
///
/// impl Serde<f64> for Celsius {
///     fn serialize(&self, _: &At, value: &f64, out: &mut Vec<u8>) -> Result<Presence, BoxError> {
///         out.extend_from_slice(format!("{value} C").as_bytes());
///         Ok(Presence::Value)
///     }
///     fn deserialize(&self, _: &At, bytes: &[u8]) -> Result<f64, BoxError> {
///         Ok(std::str::from_utf8(bytes)?.trim_end_matches(" C").parse()?)
///     }
/// }
/// ```
pub trait Serde<T>: Send + Sync + 'static {
    /// Appends the bytes of `value` to `out`.
    ///
    /// # Errors
    /// When the value has no bytes; the record then goes to the handler of the place that asked.
    fn serialize(&self, at: &At, value: &T, out: &mut Vec<u8>) -> Result<Presence, BoxError>;

    /// Reads a value. Never called for null: see [`Serde::null`].
    ///
    /// # Errors
    /// When the bytes are not a `T`; the record then goes to the deserialization handler.
    fn deserialize(&self, at: &At, bytes: &[u8]) -> Result<T, BoxError>;

    /// The value that a null stands for, for types that have one.
    fn null(&self) -> Option<T> {
        None
    }

    /// Whether this value is written as null.
    fn is_null(&self, _value: &T) -> bool {
        false
    }
}

/// Types with a serde of their own, used where no other is given.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no default serde",
    label = "no serde for `{Self}`",
    note = "give one with `with(key_serde, value_serde)` on the options (Consumed, Grouped, Materialized, Produced)",
    note = "or implement `DefaultSerde` for `{Self}`",
    note = "or use `carried()` where the stream already carries a serde for it"
)]
pub trait DefaultSerde: Sized + 'static {
    /// The serde.
    fn default_serde() -> SerdeRef<Self>;
}

/// Which serde an options struct asks for.
pub(crate) enum SerdeChoice<T> {
    /// The one the stream carries, else this one.
    CarriedOr(SerdeRef<T>),
    /// This one.
    Given(SerdeRef<T>),
    /// The one the stream carries.
    Carried,
}

impl<T: DefaultSerde> SerdeChoice<T> {
    pub(crate) fn default_for_type() -> Self {
        SerdeChoice::CarriedOr(T::default_serde())
    }
}

impl<T> SerdeChoice<T> {
    pub(crate) fn resolve(&self, carried: Option<&SerdeRef<T>>) -> Option<SerdeRef<T>> {
        match self {
            SerdeChoice::CarriedOr(default) => Some(carried.unwrap_or(default).clone()),
            SerdeChoice::Given(serde) => Some(serde.clone()),
            SerdeChoice::Carried => carried.cloned(),
        }
    }
}

impl<T> Clone for SerdeChoice<T> {
    fn clone(&self) -> Self {
        match self {
            SerdeChoice::CarriedOr(serde) => SerdeChoice::CarriedOr(serde.clone()),
            SerdeChoice::Given(serde) => SerdeChoice::Given(serde.clone()),
            SerdeChoice::Carried => SerdeChoice::Carried,
        }
    }
}

/// Writes a value that may be null with `serde` into `out`, in place of what is there.
pub(crate) fn serialize_nullable<'a, T: 'static>(
    serde: &dyn Serde<T>,
    at: &At,
    value: &T,
    out: &'a mut Vec<u8>,
) -> Result<Option<&'a [u8]>, BoxError> {
    out.clear();
    let presence = serde.serialize(at, value, out)?;
    Ok((presence == Presence::Value).then_some(out))
}

/// Reads bytes that may be null with `serde`.
pub(crate) fn deserialize_nullable<T: 'static>(
    serde: &dyn Serde<T>,
    at: &At,
    bytes: Option<&[u8]>,
) -> Result<T, BoxError> {
    match bytes {
        Some(bytes) => serde.deserialize(at, bytes),
        None => serde.null().ok_or_else(|| {
            let part = if at.is_key { "key" } else { "value" };
            format!(
                "the {part} is null and its type has no null: read the topic with \
                 Option<…> as its {part} type, or with Consumed::values() if keys do not matter"
            )
            .into()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    fn check<T: DefaultSerde + PartialEq + Debug>(value: T, hex: Option<&str>) {
        let serde = T::default_serde();
        let headers = Headers::new();
        let at = At { topic: "t", headers: &headers, is_key: false };
        let mut bytes = Vec::new();
        let presence = serde.serialize(&at, &value, &mut bytes).expect("serializes");
        let written: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!((presence == Presence::Value).then_some(written.as_str()), hex);
        assert_eq!(serde.is_null(&value), presence == Presence::Null);
        let read = deserialize_nullable(&*serde, &at, hex.map(|_| &bytes[..])).expect("reads");
        assert_eq!(read, value);
    }

    #[test]
    fn bytes_are_javas() {
        check("añ".to_string(), Some("61c3b1"));
        check(-2i32, Some("fffffffe"));
        check(258i64, Some("0000000000000102"));
        check(1.5f32, Some("3fc00000"));
        check(1.5f64, Some("3ff8000000000000"));
        check(true, Some("01"));
        check(vec![1u8, 2], Some("0102"));
        check(Some(1i32), Some("00000001"));
        check(None::<i32>, None);
        check((), None);
    }

    #[test]
    fn wrong_bytes_are_errors() {
        let headers = Headers::new();
        let at = At { topic: "t", headers: &headers, is_key: true };
        let error = i64::default_serde().deserialize(&at, &[1, 2]).expect_err("too short");
        assert_eq!(error.to_string(), "a 64-bit integer has 8 bytes, these are 2");
        let error = String::default_serde().deserialize(&at, &[0xff]).expect_err("not UTF-8");
        assert!(error.to_string().contains("invalid utf-8"), "{error}");
        let error =
            deserialize_nullable::<i64>(&*i64::default_serde(), &at, None).expect_err("null");
        assert!(error.to_string().starts_with("the key is null and its type has no null"));
    }
}
