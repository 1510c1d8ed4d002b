//! Suppression buffers: changes of a table that wait for their time, one a key.

use super::codec::{Codec, KeyValueSerdes};
use super::layers::ChangeBufferLayers;
use super::layout::buffer_value::BufferValue;
use super::spec::sealed::Open;
use super::spec::{StoreToken, StoreType};
use crate::error::Result;
use crate::processor::{InitContext, RecordContext, TaskContext};
use crate::record::Headers;
use byteview::ByteView;
use std::cell::RefCell;
use std::rc::Rc;

/// The buffer of one task.
pub(crate) struct ChangeBuffer<K, V> {
    codec: Codec<K, V>,
    layers: Rc<RefCell<ChangeBufferLayers>>,
    task: Rc<TaskContext>,
}

/// A change that waits, with the record that made it.
pub(crate) struct Waiting<K, V> {
    pub(crate) key: K,
    pub(crate) new: Option<V>,
    pub(crate) old: Option<V>,
    pub(crate) record: RecordContext,
    pub(crate) headers: Headers,
}

impl<K: 'static, V: 'static> ChangeBuffer<K, V> {
    /// Adds a change of the record in hand: from old to new value, at the record's time. If a change of its key waits already, it
    /// takes that one's place, however early or late `time` is.
    pub(crate) fn put(
        &self,
        time: i64,
        key: &K,
        (new, old): (Option<&V>, Option<&V>),
        (timestamp, headers): (i64, &Headers),
    ) -> Result<()> {
        let key = self.codec.key_bytes(key)?;
        let mut scratch = Vec::new();
        let mut bytes = |value: Option<&V>| self.codec.value_bytes(value, None, &mut scratch);
        let (new, old) = (bytes(new)?, bytes(old)?);
        let mut layers = self.layers.borrow_mut();
        let prior = layers.get(&key).map_or_else(|| old.clone(), |waiting| waiting.prior.clone());
        let context = RecordContext { timestamp, ..self.task.record() };
        let change = BufferValue { context, headers: headers.clone(), prior, old, new };
        layers.put(time, key, change);
        Ok(())
    }

    /// How many changes wait.
    pub(crate) fn len(&self) -> u64 {
        self.layers.borrow().len() as u64
    }

    /// About how many bytes they take.
    pub(crate) fn bytes(&self) -> u64 {
        self.layers.borrow().bytes() as u64
    }

    /// The time of the first one.
    pub(crate) fn first_time(&self) -> Option<i64> {
        self.layers.borrow().first_time()
    }

    /// The first change.
    pub(crate) fn first(&self) -> Result<Option<Waiting<K, V>>> {
        let layers = self.layers.borrow();
        let Some((key, change)) = layers.first() else { return Ok(None) };
        let read = |bytes: &Option<ByteView>| {
            bytes.as_ref().map(|bytes| self.codec.read_value(bytes)).transpose()
        };
        Ok(Some(Waiting {
            key: self.codec.read_key(key)?,
            new: read(&change.new)?,
            old: read(&change.old)?,
            record: change.context.clone(),
            headers: change.headers.clone(),
        }))
    }

    /// Takes the first change out.
    pub(crate) fn remove_first(&self) {
        self.layers.borrow_mut().remove_first();
    }

    /// What the table behind the buffer has of a key that waits: the value before the first change in the buffer. `None` if no
    /// change of the key waits.
    pub(crate) fn prior(&self, key: &K) -> Result<Option<Option<V>>> {
        let key = self.codec.key_bytes(key)?;
        let layers = self.layers.borrow();
        let Some(waiting) = layers.get(&key) else { return Ok(None) };
        let prior = waiting.prior.as_ref().map(|bytes| self.codec.read_value(bytes));
        Ok(Some(prior.transpose()?))
    }
}

impl<K: 'static, V: 'static> StoreType for ChangeBuffer<K, V> {}

impl<K: 'static, V: 'static> Open for ChangeBuffer<K, V> {
    type Serdes = KeyValueSerdes<K, V>;

    fn open(token: &StoreToken<Self>, ctx: &InitContext<'_>) -> Result<Self> {
        let name = &token.spec.name;
        let topic = ctx.stores.serde_topic(name);
        Ok(ChangeBuffer {
            codec: Codec::new(name.clone(), topic, token.serdes.clone()),
            layers: ctx.stores.change_buffer(name)?,
            task: ctx.task.clone(),
        })
    }
}
