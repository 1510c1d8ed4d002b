//! A subscription: a left entry tells a foreign key that it wants to know its value.
//!
//! `version (7 bits, the high bit: there is no hash) ‖ instruction ‖ [hash (16)] ‖ primary key`, and since version 1
//! `‖ primary partition (4)`. Version 0 is read, and written if Java's `upgrade.from` would ask for it.

use super::murmur3::Hash;
use super::topics::PseudoTopics;
use crate::error::BoxError;
use crate::serde::{At, Presence, Serde, SerdeRef};
use crate::state::{StoreToken, TimestampedKeyValueStore};

const VERSION: u8 = 1;
const NO_HASH: u8 = 0x80;
const HASH: usize = 16;
const PARTITION: usize = 4;

/// What the foreign key shall do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Instruction {
    /// Forget the subscription.
    Forget,
    /// Forget it, and answer with nothing.
    ForgetAndAnswer,
    /// Remember it and answer, with nothing if there is no value.
    Answer,
    /// Remember it and answer if there is a value.
    AnswerIfPresent,
}

/// A left entry's subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subscription<K> {
    /// The hash of the left value; none if it was deleted.
    pub(super) hash: Option<Hash>,
    pub(super) instruction: Instruction,
    pub(super) primary_key: K,
    /// The partition that the left entry is on; none in version 0.
    pub(super) partition: Option<i32>,
}

/// The token of the subscription store: `length of the foreign key (4) ‖ foreign key ‖ primary key` to the subscription.
pub(crate) type SubscriptionToken<K> =
    StoreToken<TimestampedKeyValueStore<Vec<u8>, Subscription<K>>>;

/// Reads and writes subscriptions.
pub(crate) struct SubscriptionSerde<K> {
    pub(crate) key: SerdeRef<K>,
    pub(crate) topics: PseudoTopics,
}

impl Instruction {
    fn byte(self) -> u8 {
        match self {
            Instruction::Forget => 0,
            Instruction::ForgetAndAnswer => 1,
            Instruction::Answer => 2,
            Instruction::AnswerIfPresent => 3,
        }
    }

    fn from_byte(byte: u8) -> Result<Self, BoxError> {
        match byte {
            0 => Ok(Instruction::Forget),
            1 => Ok(Instruction::ForgetAndAnswer),
            2 => Ok(Instruction::Answer),
            3 => Ok(Instruction::AnswerIfPresent),
            _ => Err(format!("a subscription has the unknown instruction {byte}").into()),
        }
    }
}

impl<K: 'static> Serde<Subscription<K>> for SubscriptionSerde<K> {
    fn serialize(
        &self,
        at: &At,
        subscription: &Subscription<K>,
        out: &mut Vec<u8>,
    ) -> Result<Presence, BoxError> {
        let version = if subscription.partition.is_some() { VERSION } else { 0 };
        out.push(version | if subscription.hash.is_none() { NO_HASH } else { 0 });
        out.push(subscription.instruction.byte());
        out.extend_from_slice(subscription.hash.as_ref().map_or(&[], |hash| &hash[..]));
        let at = self.topics.primary_key(at);
        if self.key.serialize(&at, &subscription.primary_key, out)? == Presence::Null {
            return Err("the primary key of a subscription is null".into());
        }
        if let Some(partition) = subscription.partition {
            out.extend_from_slice(&partition.to_be_bytes());
        }
        Ok(Presence::Value)
    }

    fn deserialize(&self, at: &At, bytes: &[u8]) -> Result<Subscription<K>, BoxError> {
        let cut = "a subscription is cut short";
        let (&[head, instruction], mut rest) = bytes.split_first_chunk().ok_or(cut)?;
        let version = head & !NO_HASH;
        if version > VERSION {
            return Err(format!("a subscription has the unknown version {version}").into());
        }
        let mut hash = None;
        if head & NO_HASH == 0 {
            let (first, behind) = rest.split_first_chunk::<HASH>().ok_or(cut)?;
            (hash, rest) = (Some(*first), behind);
        }
        let mut partition = None;
        if version > 0 {
            let (before, last) = rest.split_last_chunk::<PARTITION>().ok_or(cut)?;
            (partition, rest) = (Some(i32::from_be_bytes(*last)), before);
        }
        let primary_key = self.key.deserialize(&self.topics.primary_key(at), rest)?;
        let instruction = Instruction::from_byte(instruction)?;
        Ok(Subscription { hash, instruction, primary_key, partition })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Headers;
    use crate::serde::DefaultSerde;

    #[test]
    fn bytes_are_javas() {
        let topics = PseudoTopics::new("t".into());
        let serde = SubscriptionSerde { key: String::default_serde(), topics };
        let headers = Headers::new();
        let at = At { topic: "t", headers: &headers, is_key: false };
        let subscription = |hash, instruction, partition| Subscription {
            hash,
            instruction,
            primary_key: "k".to_string(),
            partition,
        };
        for (written, bytes) in [
            (
                subscription(Some([7; 16]), Instruction::Answer, Some(258)),
                &b"\x01\x02\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07k\0\0\x01\x02"
                    [..],
            ),
            (subscription(None, Instruction::Forget, Some(1)), b"\x81\0k\0\0\0\x01"),
            (subscription(None, Instruction::ForgetAndAnswer, None), b"\x80\x01k"),
        ] {
            let mut out = Vec::new();
            serde.serialize(&at, &written, &mut out).expect("written");
            assert_eq!(out, bytes);
            assert_eq!(serde.deserialize(&at, bytes).expect("read"), written);
        }
        for bad in [
            &b""[..],
            b"\x81",
            b"\x81\0k",
            b"\x01\0k\0\0\0\x01",
            b"\x82\0k\0\0\0\x01",
            b"\x80\x04k",
        ] {
            assert!(serde.deserialize(&at, bad).is_err(), "{bad:?}");
        }
    }
}
