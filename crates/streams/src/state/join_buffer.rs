//! What waits before a stream is joined with a versioned table: records in the order of their times.
//!
//! Keys are Java's: `0 ‖ time (8) ‖ key ‖ number (4)`, so that records of the same time and key do not replace each other. Values
//! are those of suppression buffers.

use super::codec::{Codec, KeyValueSerdes};
use super::engine::Direction;
use super::layers::KeyValueLayers;
use super::layout::buffer_value::BufferValue;
use super::spec::sealed::Open;
use super::spec::{StoreToken, StoreType};
use crate::error::{Error, Result};
use crate::processor::{InitContext, RecordContext, TaskContext};
use crate::record::{Headers, Record};
use byteview::ByteView;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Bound;
use std::rc::Rc;

const TIME_FIRST: u8 = 0;
const TIME: usize = 8;
const NUMBER: usize = 4;

/// The time of a record that gets it when it is sent.
const NO_TIMESTAMP: i64 = -1;

static NO_HEADERS: Headers = Headers::new();

/// The buffer of one task.
pub(crate) struct JoinBuffer<K, V> {
    codec: Codec<K, V>,
    layers: Rc<RefCell<KeyValueLayers>>,
    task: Rc<TaskContext>,
    /// The keys of what waits, in order.
    waiting: RefCell<BTreeSet<ByteView>>,
    last_number: Cell<i32>,
}

/// A record that waits, and where it was read.
pub(crate) struct WaitingRecord<K, V> {
    pub(crate) record: Record<K, V>,
    pub(crate) context: RecordContext,
}

impl<K: 'static, V: 'static> JoinBuffer<K, V> {
    /// Adds the record in hand.
    pub(crate) fn put(&self, record: &Record<K, V>) -> Result<()> {
        let number = self.last_number.get().wrapping_add(1) & i32::MAX;
        self.last_number.set(number);
        let mut key = vec![TIME_FIRST];
        key.extend_from_slice(&record.timestamp.to_be_bytes());
        self.codec.write_key(&record.key, &mut key)?;
        key.extend_from_slice(&number.to_be_bytes());
        let mut scratch = Vec::new();
        let new = self.codec.value_bytes(Some(&record.value), None, &mut scratch)?;
        let context = RecordContext { timestamp: record.timestamp, ..self.task.record() };
        let headers = record.headers.clone();
        let value = BufferValue { context, headers, prior: None, old: None, new };
        scratch.clear();
        value.write(0, &mut scratch);
        self.write(&key, Some(ByteView::from(&scratch[..])));
        self.waiting.borrow_mut().insert(key.into());
        Ok(())
    }

    /// The first record that waits, if its time is not after `time`.
    pub(crate) fn first_until(&self, time: i64) -> Result<Option<WaitingRecord<K, V>>> {
        let waiting = self.waiting.borrow();
        let Some((timestamp, bytes, key)) = waiting.first().and_then(|key| split(key)) else {
            return Ok(None);
        };
        if timestamp > time {
            return Ok(None);
        }
        let stored = self.layers.borrow_mut().get(key)?;
        let damaged = || Error::state(format!("store {}: a record is damaged", self.codec.name));
        let (stored, _) =
            stored.and_then(|stored| BufferValue::read(&stored)).ok_or_else(damaged)?;
        let BufferValue { context, headers, new, .. } = stored;
        let key = self.codec.read_key(bytes)?;
        let value = self.codec.read_value(&new.ok_or_else(damaged)?)?;
        let record = Record { key, value, timestamp: context.timestamp, headers };
        Ok(Some(WaitingRecord { record, context }))
    }

    /// Takes the first record out.
    pub(crate) fn remove_first(&self) {
        if let Some(key) = self.waiting.borrow_mut().pop_first() {
            self.write(&key, None);
        }
    }

    fn write(&self, key: &[u8], value: Option<ByteView>) {
        let record = || self.task.record();
        self.layers.borrow_mut().put(key, value, record, NO_TIMESTAMP, &NO_HEADERS);
    }
}

/// Time and key of the record behind a buffer's key, and the buffer's key.
fn split(key: &ByteView) -> Option<(i64, &[u8], &[u8])> {
    let (time, rest) = key.get(1..)?.split_first_chunk::<TIME>()?;
    let (record_key, _) = rest.split_last_chunk::<NUMBER>()?;
    Some((i64::from_be_bytes(*time), record_key, key))
}

impl<K: 'static, V: 'static> StoreType for JoinBuffer<K, V> {}

impl<K: 'static, V: 'static> Open for JoinBuffer<K, V> {
    type Serdes = KeyValueSerdes<K, V>;

    fn open(token: &StoreToken<Self>, ctx: &InitContext<'_>) -> Result<Self> {
        let name = &token.spec.name;
        let layers = ctx.stores.key_value(name)?;
        let all = (Bound::Unbounded, Bound::Unbounded);
        let mut waiting = BTreeSet::new();
        let mut last_number = 0;
        for entry in layers.borrow_mut().range(&all, Direction::Forward)? {
            let (key, _) = entry?;
            if let Some(number) = key.last_chunk::<NUMBER>() {
                last_number = last_number.max(i32::from_be_bytes(*number));
            }
            waiting.insert(key);
        }
        let topic = ctx.stores.serde_topic(name);
        Ok(JoinBuffer {
            codec: Codec::new(name.clone(), topic, token.serdes.clone()),
            layers,
            task: ctx.task.clone(),
            waiting: RefCell::new(waiting),
            last_number: Cell::new(last_number),
        })
    }
}
