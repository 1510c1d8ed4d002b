//! How the fields of a flexible message stand on the wire, and the macro that makes a message of
//! them.
//!
//! Lengths come from the other side: nothing is reserved for an array beyond what its bytes can
//! hold.

use anyhow::{Result, bail};
use kafka_protocol::protocol::StrBytes;
use kafka_protocol::protocol::buf::{ByteBuf, ByteBufMut};

/// A field that knows its bytes.
pub(crate) trait Field: Sized {
    fn put<B: ByteBufMut>(&self, buf: &mut B, version: i16) -> Result<()>;
    fn size(&self, version: i16) -> Result<usize>;
    fn get<B: ByteBuf>(buf: &mut B, version: i16) -> Result<Self>;
}

macro_rules! number {
    ($($type:ty: $put:ident, $get:ident;)*) => {$(
        impl Field for $type {
            fn put<B: ByteBufMut>(&self, buf: &mut B, _version: i16) -> Result<()> {
                buf.$put(*self);
                Ok(())
            }
            fn size(&self, _version: i16) -> Result<usize> {
                Ok(size_of::<$type>())
            }
            fn get<B: ByteBuf>(buf: &mut B, _version: i16) -> Result<Self> {
                Ok(buf.$get()?)
            }
        }
    )*};
}

number! {
    i8: put_i8, try_get_i8;
    i16: put_i16, try_get_i16;
    u16: put_u16, try_get_u16;
    i32: put_i32, try_get_i32;
    i64: put_i64, try_get_i64;
}

impl Field for bool {
    fn put<B: ByteBufMut>(&self, buf: &mut B, _version: i16) -> Result<()> {
        buf.put_u8(u8::from(*self));
        Ok(())
    }
    fn size(&self, _version: i16) -> Result<usize> {
        Ok(1)
    }
    fn get<B: ByteBuf>(buf: &mut B, _version: i16) -> Result<Self> {
        Ok(buf.try_get_u8()? != 0)
    }
}

impl Field for Option<StrBytes> {
    fn put<B: ByteBufMut>(&self, buf: &mut B, _version: i16) -> Result<()> {
        put_length(buf, self.as_ref().map(|text| text.len()))?;
        buf.put_slice(self.as_ref().map_or(&[], |text| text.as_bytes()));
        Ok(())
    }
    fn size(&self, _version: i16) -> Result<usize> {
        let length = self.as_ref().map(|text| text.len());
        Ok(size_of_length(length)? + length.unwrap_or(0))
    }
    fn get<B: ByteBuf>(buf: &mut B, _version: i16) -> Result<Self> {
        match get_length(buf)? {
            None => Ok(None),
            Some(length) => Ok(Some(StrBytes::from_utf8(buf.try_get_bytes(length)?)?)),
        }
    }
}

impl Field for StrBytes {
    fn put<B: ByteBufMut>(&self, buf: &mut B, _version: i16) -> Result<()> {
        put_length(buf, Some(self.len()))?;
        buf.put_slice(self.as_bytes());
        Ok(())
    }
    fn size(&self, _version: i16) -> Result<usize> {
        Ok(size_of_length(Some(self.len()))? + self.len())
    }
    fn get<B: ByteBuf>(buf: &mut B, version: i16) -> Result<Self> {
        match Option::<StrBytes>::get(buf, version)? {
            Some(text) => Ok(text),
            None => bail!("a string that cannot be null is null"),
        }
    }
}

impl<T: Field> Field for Option<Vec<T>> {
    fn put<B: ByteBufMut>(&self, buf: &mut B, version: i16) -> Result<()> {
        put_length(buf, self.as_ref().map(Vec::len))?;
        self.iter().flatten().try_for_each(|item| item.put(buf, version))
    }
    fn size(&self, version: i16) -> Result<usize> {
        let mut size = size_of_length(self.as_ref().map(Vec::len))?;
        for item in self.iter().flatten() {
            size += item.size(version)?;
        }
        Ok(size)
    }
    fn get<B: ByteBuf>(buf: &mut B, version: i16) -> Result<Self> {
        let Some(length) = get_length(buf)? else { return Ok(None) };
        // Every item takes at least one byte.
        if length > buf.remaining() {
            bail!("an array claims {length} items in {} bytes", buf.remaining());
        }
        let mut items = Vec::with_capacity(length.min(1024));
        for _ in 0..length {
            items.push(T::get(buf, version)?);
        }
        Ok(Some(items))
    }
}

impl<T: Field> Field for Vec<T> {
    fn put<B: ByteBufMut>(&self, buf: &mut B, version: i16) -> Result<()> {
        put_length(buf, Some(self.len()))?;
        self.iter().try_for_each(|item| item.put(buf, version))
    }
    fn size(&self, version: i16) -> Result<usize> {
        let mut size = size_of_length(Some(self.len()))?;
        for item in self {
            size += item.size(version)?;
        }
        Ok(size)
    }
    fn get<B: ByteBuf>(buf: &mut B, version: i16) -> Result<Self> {
        match Option::<Vec<T>>::get(buf, version)? {
            Some(items) => Ok(items),
            None => bail!("an array that cannot be null is null"),
        }
    }
}

/// Writes a compact length: one more than it is, 0 for null.
fn put_length<B: ByteBufMut>(buf: &mut B, length: Option<usize>) -> Result<()> {
    put_varint(buf, compact(length)?);
    Ok(())
}

fn compact(length: Option<usize>) -> Result<u32> {
    match length {
        None => Ok(0),
        Some(length) => Ok(u32::try_from(length)?.checked_add(1).ok_or(TooLong)?),
    }
}

#[derive(Debug, Clone, Copy)]
struct TooLong;

impl std::fmt::Display for TooLong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a string or array has over four billion items")
    }
}

impl std::error::Error for TooLong {}

fn size_of_length(length: Option<usize>) -> Result<usize> {
    Ok(varint_size(compact(length)?))
}

fn get_length<B: ByteBuf>(buf: &mut B) -> Result<Option<usize>> {
    Ok(get_varint(buf)?.checked_sub(1).map(|length| length as usize))
}

fn put_varint<B: ByteBufMut>(buf: &mut B, mut value: u32) {
    while value >= 0x80 {
        buf.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    buf.put_u8(value as u8);
}

fn varint_size(value: u32) -> usize {
    (38 - (value | 1).leading_zeros() as usize) / 7
}

fn get_varint<B: ByteBuf>(buf: &mut B) -> Result<u32> {
    let mut value = 0u32;
    for shift in [0, 7, 14, 21, 28] {
        let byte = buf.try_get_u8()?;
        if shift == 28 && byte > 0x0f {
            bail!("a length has more than 32 bits");
        }
        value |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    Ok(value)
}

/// Ends a struct: none of ours has tagged fields.
pub(crate) fn put_no_tags<B: ByteBufMut>(buf: &mut B) {
    buf.put_u8(0);
}

/// Leaves out the tagged fields of later versions.
pub(crate) fn skip_tags<B: ByteBuf>(buf: &mut B) -> Result<()> {
    for _ in 0..get_varint(buf)? {
        get_varint(buf)?;
        let size = get_varint(buf)? as usize;
        buf.try_get_bytes(size)?;
    }
    Ok(())
}

/// Declares a struct of a flexible message: `field: type = default, versions;`.
macro_rules! message {
    ($(#[$doc:meta])* pub struct $name:ident ($min:literal..=$max:literal) {
        $($(#[$field_doc:meta])* $field:ident: $type:ty = $default:expr, $versions:expr;)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl $crate::streams_group::wire::Field for $name {
            fn put<B: ::kafka_protocol::protocol::buf::ByteBufMut>(&self, buf: &mut B, version: i16) -> ::anyhow::Result<()> {
                $(if ($versions).contains(&version) { $crate::streams_group::wire::Field::put(&self.$field, buf, version)?; })*
                $crate::streams_group::wire::put_no_tags(buf);
                Ok(())
            }
            fn size(&self, version: i16) -> ::anyhow::Result<usize> {
                let mut size = 1;
                $(if ($versions).contains(&version) { size += $crate::streams_group::wire::Field::size(&self.$field, version)?; })*
                Ok(size)
            }
            fn get<B: ::kafka_protocol::protocol::buf::ByteBuf>(buf: &mut B, version: i16) -> ::anyhow::Result<Self> {
                $(let $field: $type = if ($versions).contains(&version) {
                    $crate::streams_group::wire::Field::get(buf, version)?
                } else {
                    $default
                };)*
                $crate::streams_group::wire::skip_tags(buf)?;
                Ok(Self { $($field,)* })
            }
        }

        impl $crate::streams_group::wire::Field for Option<$name> {
            fn put<B: ::kafka_protocol::protocol::buf::ByteBufMut>(&self, buf: &mut B, version: i16) -> ::anyhow::Result<()> {
                match self {
                    Some(value) => {
                        buf.put_i8(1);
                        value.put(buf, version)
                    }
                    None => {
                        buf.put_i8(-1);
                        Ok(())
                    }
                }
            }
            fn size(&self, version: i16) -> ::anyhow::Result<usize> {
                Ok(1 + self.as_ref().map_or(Ok(0), |value| value.size(version))?)
            }
            fn get<B: ::kafka_protocol::protocol::buf::ByteBuf>(buf: &mut B, version: i16) -> ::anyhow::Result<Self> {
                match buf.try_get_i8()? {
                    1 => <$name>::get(buf, version).map(Some),
                    -1 => Ok(None),
                    other => ::anyhow::bail!("{other} says neither that a struct is there nor that it is null"),
                }
            }
        }

        impl ::kafka_protocol::protocol::Encodable for $name {
            fn encode<B: ::kafka_protocol::protocol::buf::ByteBufMut>(&self, buf: &mut B, version: i16) -> ::anyhow::Result<()> {
                if !($min..=$max).contains(&version) {
                    ::anyhow::bail!(concat!(stringify!($name), " has no version {}"), version);
                }
                $crate::streams_group::wire::Field::put(self, buf, version)
            }
            fn compute_size(&self, version: i16) -> ::anyhow::Result<usize> {
                $crate::streams_group::wire::Field::size(self, version)
            }
        }

        impl ::kafka_protocol::protocol::Decodable for $name {
            fn decode<B: ::kafka_protocol::protocol::buf::ByteBuf>(buf: &mut B, version: i16) -> ::anyhow::Result<Self> {
                if !($min..=$max).contains(&version) {
                    ::anyhow::bail!(concat!(stringify!($name), " has no version {}"), version);
                }
                $crate::streams_group::wire::Field::get(buf, version)
            }
        }

        impl ::kafka_protocol::protocol::Message for $name {
            const VERSIONS: ::kafka_protocol::protocol::VersionRange =
                ::kafka_protocol::protocol::VersionRange { min: $min, max: $max };
            const DEPRECATED_VERSIONS: Option<::kafka_protocol::protocol::VersionRange> = None;
        }
    };
}

/// Ties a request to its key and response.
macro_rules! request {
    ($request:ident, $response:ident, $key:expr) => {
        impl ::kafka_protocol::protocol::HeaderVersion for $request {
            fn header_version(_version: i16) -> i16 {
                2
            }
        }
        impl ::kafka_protocol::protocol::HeaderVersion for $response {
            fn header_version(_version: i16) -> i16 {
                1
            }
        }
        impl ::kafka_protocol::protocol::Request for $request {
            const KEY: i16 = $key;
            type Response = $response;
        }
    };
}
