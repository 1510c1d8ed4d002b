//! Changes of a table on their way through a repartition topic: Java's `ChangedSerializer`.
//!
//! The last byte says what is there: 0 `old`, 1 `new`, 2 `length of new ‖ new ‖ old`. 3, 4 and 5 are the same with a byte before
//! the last that says whether the change is the latest of its key; they are read, and never written.

use super::Change;
use crate::error::BoxError;
use crate::serde::{At, Presence, Serde, SerdeRef, varint};

const OLD: u8 = 0;
const NEW: u8 = 1;
const BOTH: u8 = 2;
const WITH_LATEST: u8 = 3;

/// Changes of values of a serde.
pub(crate) struct ChangeSerde<V>(pub(crate) SerdeRef<V>);

impl<V: 'static> ChangeSerde<V> {
    /// Appends a value; false if it is null.
    fn write(&self, at: &At, value: Option<&V>, out: &mut Vec<u8>) -> Result<bool, BoxError> {
        match value {
            Some(value) => Ok(self.0.serialize(at, value, out)? == Presence::Value),
            None => Ok(false),
        }
    }
}

impl<V: 'static> Serde<Change<V>> for ChangeSerde<V> {
    fn serialize(
        &self,
        at: &At,
        change: &Change<V>,
        out: &mut Vec<u8>,
    ) -> Result<Presence, BoxError> {
        let start = out.len();
        let has_new = self.write(at, change.new.as_ref(), out)?;
        let new_length = i32::try_from(out.len() - start)?;
        let has_old = self.write(at, change.old.as_ref(), out)?;
        let flag = match (has_new, has_old) {
            (true, true) => {
                let mut length = Vec::with_capacity(5);
                varint::write(new_length, &mut length);
                out.splice(start..start, length);
                BOTH
            }
            (true, false) => NEW,
            (false, true) => OLD,
            (false, false) => return Err("a change from nothing to nothing is none".into()),
        };
        out.push(flag);
        Ok(Presence::Value)
    }

    fn deserialize(&self, at: &At, bytes: &[u8]) -> Result<Change<V>, BoxError> {
        let cut = "the change is cut short";
        let (&flag, mut rest) = bytes.split_last().ok_or(cut)?;
        let mut is_latest = true;
        if flag >= WITH_LATEST {
            let (&latest, values) = rest.split_last().ok_or(cut)?;
            is_latest = match latest {
                0 => false,
                1 => true,
                _ => return Err(format!("a flag is 0 or 1, this is {latest}").into()),
            };
            rest = values;
        }
        let (new, old) = match flag % WITH_LATEST {
            _ if flag > WITH_LATEST + BOTH => {
                return Err(format!("a change has the unknown form {flag}").into());
            }
            OLD => (None, Some(rest)),
            NEW => (Some(rest), None),
            _ => {
                let (length, values) = varint::read(rest).ok_or(cut)?;
                let (new, old) = values.split_at_checked(usize::try_from(length)?).ok_or(cut)?;
                (Some(new), Some(old))
            }
        };
        let read =
            |bytes: Option<&[u8]>| bytes.map(|bytes| self.0.deserialize(at, bytes)).transpose();
        Ok(Change { new: read(new)?, old: read(old)?, is_latest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Headers;
    use crate::serde::DefaultSerde;

    fn change(new: &str, old: &str, is_latest: bool) -> Change<String> {
        let value = |text: &str| (!text.is_empty()).then(|| text.to_string());
        Change { new: value(new), old: value(old), is_latest }
    }

    #[test]
    fn bytes_are_javas() {
        let headers = Headers::new();
        let at = At { topic: "t", headers: &headers, is_key: false };
        let serde = ChangeSerde(String::default_serde());
        let read = |bytes: &[u8]| serde.deserialize(&at, bytes);
        for (written, bytes) in [
            (change("new", "old", true), &b"\x06newold\x02"[..]),
            (change("new", "", true), b"new\x01"),
            (change("", "old", true), b"old\0"),
        ] {
            let mut out = vec![9];
            serde.serialize(&at, &written, &mut out).expect("written");
            assert_eq!(&out[1..], bytes);
            assert_eq!(read(bytes).expect("read"), written);
        }
        assert_eq!(read(b"\x06newold\0\x05").expect("read"), change("new", "old", false));
        assert_eq!(read(b"new\x01\x04").expect("read"), change("new", "", true));
        assert_eq!(read(b"old\0\x03").expect("read"), change("", "old", false));
        for bad in [&b""[..], b"\x06ne\x02", b"x\x06", b"x\x02\x03", b"\x03"] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn nothing_to_nothing_is_not_written() {
        let headers = Headers::new();
        let at = At { topic: "t", headers: &headers, is_key: false };
        let serde = ChangeSerde(String::default_serde());
        assert!(serde.serialize(&at, &change("", "", true), &mut Vec::new()).is_err());
    }
}
