//! A check of a message's bytes before they are decoded: that every length and count in it fits the
//! bytes that are really there.
//!
//! `kafka-protocol` reserves memory for as many items as an array says it has, before it looks for
//! them: a few damaged bytes could ask for hundreds of gigabytes. So whoever takes bytes from a
//! socket walks them here first. The walk knows the fields of all messages of Kafka 4.4 from
//! `shapes.txt`, which `testdata/shapes.py` writes from Kafka's own schemas.
//!
//! A line of `shapes.txt` is a key, a direction, the flexible versions, and the fields. A field is
//! its kind (bytes of a number, `s`tring, `b`ytes, `( fields )`, `*` before an array), `@` and its
//! versions, `?` and the versions in which a struct can be null, `#` tag `#` versions of the tag.

mod table;

use std::fmt;
use table::{Field, Kind, Message};

/// Bytes are not the message they were taken for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(&'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed message: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

/// Checks the body of a request: `body` follows the request's header. Keys that Kafka 4.4 does not
/// know pass.
///
/// # Errors
/// When a length or count does not fit.
pub fn check_request(key: i16, version: i16, body: &[u8]) -> Result<(), Malformed> {
    check(table::message(key, true), version, body)
}

/// Checks the body of a response: `body` follows the response's header. Keys that Kafka 4.4 does
/// not know pass.
///
/// # Errors
/// When a length or count does not fit.
pub fn check_response(key: i16, version: i16, body: &[u8]) -> Result<(), Malformed> {
    check(table::message(key, false), version, body)
}

fn check(message: Option<&Message>, version: i16, body: &[u8]) -> Result<(), Malformed> {
    let Some(message) = message else { return Ok(()) };
    let flexible = message.flexible.contains(version);
    Walk { rest: body, version, flexible }.fields(&message.fields)
}

const CUT: Malformed = Malformed("it ends too early");

struct Walk<'a> {
    rest: &'a [u8],
    version: i16,
    flexible: bool,
}

impl Walk<'_> {
    fn fields(&mut self, fields: &[Field]) -> Result<(), Malformed> {
        for field in fields {
            let tagged = field.tag.is_some_and(|(_, versions)| versions.contains(self.version));
            if !tagged && field.versions.contains(self.version) {
                self.field(field)?;
            }
        }
        if self.flexible { self.tags(fields) } else { Ok(()) }
    }

    fn field(&mut self, field: &Field) -> Result<(), Malformed> {
        if field.array {
            let Some(count) = self.length(4)? else { return Ok(()) };
            if let Kind::Number(size) = field.kind {
                return self.skip(count.checked_mul(size).ok_or(CUT)?);
            }
            // Every item takes at least a byte.
            if count > self.rest.len() {
                return Err(Malformed("an array has more items than bytes"));
            }
            return (0..count).try_for_each(|_| self.item(&field.kind));
        }
        if field.nullable.contains(self.version) {
            let present = self.take(1)?[0] as i8;
            return if present == 1 { self.item(&field.kind) } else { Ok(()) };
        }
        self.item(&field.kind)
    }

    fn item(&mut self, kind: &Kind) -> Result<(), Malformed> {
        match kind {
            Kind::Number(size) => self.skip(*size),
            Kind::Text => self.length(2)?.map_or(Ok(()), |length| self.skip(length)),
            Kind::Bytes => self.length(4)?.map_or(Ok(()), |length| self.skip(length)),
            Kind::Struct(fields) => self.fields(fields),
        }
    }

    /// A length, in `plain` bytes where the message is not flexible; `None` for null.
    fn length(&mut self, plain: usize) -> Result<Option<usize>, Malformed> {
        if self.flexible {
            return Ok(self.varint()?.checked_sub(1).map(|length| length as usize));
        }
        let bytes = self.take(plain)?;
        let length = match bytes {
            [a, b] => i64::from(i16::from_be_bytes([*a, *b])),
            [a, b, c, d] => i64::from(i32::from_be_bytes([*a, *b, *c, *d])),
            _ => return Err(CUT),
        };
        match length {
            -1 => Ok(None),
            length => {
                usize::try_from(length).map(Some).map_err(|_| Malformed("a length is negative"))
            }
        }
    }

    fn tags(&mut self, fields: &[Field]) -> Result<(), Malformed> {
        for _ in 0..self.varint()? {
            let tag = self.varint()?;
            let size = self.varint()? as usize;
            let content = self.take(size)?;
            let known = fields.iter().find(|field| {
                field.tag.is_some_and(|(t, versions)| t == tag && versions.contains(self.version))
            });
            if let Some(field) = known {
                let mut inner = Walk { rest: content, version: self.version, flexible: true };
                inner.field(field)?;
                if !inner.rest.is_empty() {
                    return Err(Malformed("a tagged field is longer than its content"));
                }
            }
        }
        Ok(())
    }

    fn varint(&mut self) -> Result<u32, Malformed> {
        let mut value = 0u32;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.take(1)?[0];
            if shift == 28 && byte > 0x0f {
                return Err(Malformed("a length has more than 32 bits"));
            }
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        Ok(value)
    }

    fn skip(&mut self, size: usize) -> Result<(), Malformed> {
        self.take(size).map(|_| ())
    }
}

impl<'a> Walk<'a> {
    fn take(&mut self, size: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(size).ok_or(CUT)?;
        self.rest = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests;
