//! Writes to a store from any thread, through the topic that the topology reads them from.
//!
//! Callers put updates into a queue; one thread takes all that wait, writes them idempotently, and tells each caller when Kafka has
//! confirmed. So updates keep their order, many callers share a request, and none of them touches a stream thread.

use super::clock::{Clock, SystemClock};
use crate::error::{Error, ErrorKind, Result};
use crate::record::Headers;
use crate::serde::{At, OptionSerde, Presence, Serde, SerdeRef};
use crate::state::Writable;
use crate::task::partition_for_key;
use kstreams_client::{Client, Producer, ProducerConfig, TopicPartition};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

static NO_HEADERS: Headers = Headers::new();

/// Writes to the store of a topology: made by [`super::KafkaStreams::store_writer`], for any thread. The task that owns the key
/// applies updates in the order in which they were put. Cloning gives another handle of the same queue.
pub struct StoreWriter<S: Writable> {
    updates: Arc<Updates>,
    key: SerdeRef<S::Key>,
    value: Arc<OptionSerde<S::Value>>,
}

impl<S: Writable> Clone for StoreWriter<S> {
    fn clone(&self) -> Self {
        let StoreWriter { updates, key, value } = self;
        StoreWriter { updates: updates.clone(), key: key.clone(), value: value.clone() }
    }
}

impl<S: Writable> fmt::Debug for StoreWriter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreWriter").field("topic", &self.updates.topic).finish()
    }
}

impl<S: Writable> StoreWriter<S> {
    pub(super) fn new(
        updates: Arc<Updates>,
        key: SerdeRef<S::Key>,
        value: SerdeRef<S::Value>,
    ) -> Self {
        StoreWriter { updates, key, value: Arc::new(OptionSerde::new(value)) }
    }

    /// Sets the value of a key. The update is on its way when this returns; [`Update::wait`] tells when Kafka has it. Blocks while
    /// too much waits already.
    ///
    /// # Errors
    /// When key or value cannot be serialized, when the application is closed, or when the brokers take nothing for longer than
    /// `delivery.timeout.ms`.
    pub fn put(&self, key: impl Into<S::Key>, value: impl Into<S::Value>) -> Result<Update> {
        self.write(&key.into(), Some(value.into()))
    }

    /// Deletes a key, as [`Self::put`].
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn delete(&self, key: impl Into<S::Key>) -> Result<Update> {
        self.write(&key.into(), None)
    }

    fn write(&self, key: &S::Key, value: Option<S::Value>) -> Result<Update> {
        let key = self.bytes(&*self.key, key, true)?.ok_or_else(|| {
            Error::new(
                ErrorKind::BadRecord,
                "an update of a null key: keys of stores are never null",
            )
        })?;
        let value = self.bytes(&*self.value, &value, false)?;
        self.updates.add(key, value)
    }

    fn bytes<T: 'static>(
        &self,
        serde: &dyn Serde<T>,
        value: &T,
        is_key: bool,
    ) -> Result<Option<Vec<u8>>> {
        let topic = &self.updates.topic;
        let at = At { topic, headers: &NO_HEADERS, is_key };
        let mut bytes = Vec::new();
        let presence = serde.serialize(&at, value, &mut bytes).map_err(|error| {
            let what = if is_key { "key" } else { "value" };
            let message = format!("cannot write the {what} of an update for topic {topic}");
            Error::new(ErrorKind::BadRecord, message).with_source(error)
        })?;
        Ok((presence == Presence::Value).then_some(bytes))
    }
}

/// An update on its way.
#[derive(Debug)]
#[must_use = "the update is on its way; wait() tells whether Kafka has it"]
pub struct Update(Arc<Confirmation>);

impl Update {
    /// Waits until Kafka has the update; the owning task applies it a moment later.
    ///
    /// # Errors
    /// When Kafka did not confirm it: it may have the update nevertheless, so an update that is put again may be applied twice.
    pub fn wait(self) -> Result<()> {
        let waited = self.0.given.wait_while(self.0.lock(), |outcome| outcome.is_none());
        match waited.unwrap_or_else(PoisonError::into_inner).take() {
            Some(Err(message)) => Err(Error::new(ErrorKind::Broker, message)),
            Some(Ok(())) | None => Ok(()),
        }
    }
}

/// Whether Kafka has an update, once that is known.
#[derive(Debug, Default)]
struct Confirmation {
    outcome: Mutex<Option<Result<(), String>>>,
    given: Condvar,
}

impl Confirmation {
    fn give(&self, outcome: Result<(), String>) {
        *self.lock() = Some(outcome);
        self.given.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Option<Result<(), String>>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An update in the queue. Dropped, it is given up.
struct Waiting {
    key: Vec<u8>,
    value: Option<Vec<u8>>,
    confirmation: Arc<Confirmation>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let outcome = &mut *self.confirmation.lock();
        outcome.get_or_insert_with(|| Err("the writer ended before the update was written".into()));
        self.confirmation.given.notify_all();
    }
}

impl Waiting {
    fn size(&self) -> usize {
        self.key.len() + self.value.as_ref().map_or(0, Vec::len)
    }
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Waiting>,
    bytes: usize,
    closed: bool,
    /// Its thread has nothing more to do.
    ended: bool,
}

/// The updates of one topic that no request has taken yet.
pub(super) struct Updates {
    topic: Arc<str>,
    partitions: i32,
    /// Bytes that may wait.
    most: usize,
    /// How long callers and requests wait for the brokers.
    patience: Duration,
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Updates {
    pub(super) fn new(topic: Arc<str>, partitions: i32, most: usize, patience: Duration) -> Self {
        let (queue, changed) = (Mutex::default(), Condvar::new());
        Updates { topic, partitions, most, patience, queue, changed }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, key: Vec<u8>, value: Option<Vec<u8>>) -> Result<Update> {
        let confirmation = Arc::<Confirmation>::default();
        let update = Waiting { key, value, confirmation: confirmation.clone() };
        let is_full = |queue: &mut Queue| queue.bytes > self.most && !queue.closed;
        let waited = self.changed.wait_timeout_while(self.lock(), self.patience, is_full);
        let mut queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        if queue.closed {
            let message = format!("the application is closed: no update for topic {}", self.topic);
            return Err(Error::new(ErrorKind::InvalidState, message));
        }
        if is_full(&mut queue) {
            let (topic, bytes) = (&self.topic, queue.bytes);
            let message =
                format!("{bytes} bytes of updates wait for topic {topic}: the brokers take none");
            return Err(Error::new(ErrorKind::Timeout, message));
        }
        queue.bytes += update.size();
        queue.waiting.push(update);
        self.changed.notify_all();
        Ok(Update(confirmation))
    }

    /// What waits, once something does; nothing when the writer is closed and all is taken.
    fn take(&self) -> Vec<Waiting> {
        let idle = |queue: &mut Queue| queue.waiting.is_empty() && !queue.closed;
        let waited = self.changed.wait_while(self.lock(), idle);
        let mut queue = waited.unwrap_or_else(PoisonError::into_inner);
        queue.bytes = 0;
        self.changed.notify_all();
        std::mem::take(&mut queue.waiting)
    }

    /// Takes no more updates; those that wait are still written.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Waits until everything that was put is written or given up, at most `timeout`.
    pub(super) fn wait_closed(&self, timeout: Duration) {
        let running = |queue: &mut Queue| !queue.ended;
        drop(self.changed.wait_timeout_while(self.lock(), timeout, running));
    }

    /// Writes updates until the writer is closed.
    pub(super) fn run(&self, mut client: Client, config: &ProducerConfig) {
        let clock = SystemClock::default();
        let mut producer = client.producer(config.clone());
        loop {
            let updates = self.take();
            if updates.is_empty() {
                self.lock().ended = true;
                self.changed.notify_all();
                return;
            }
            let now = clock.now().wall;
            let (taken, refused): (Vec<Waiting>, Vec<Waiting>) =
                updates.into_iter().partition(|update| self.append(&mut producer, update, now));
            drop(refused);
            let written = producer.flush().wait(self.patience).map(drop);
            let written = written.map_err(|error| format!("topic {}: {error}", self.topic));
            if let Err(why) = &written {
                tracing::warn!(topic = &*self.topic, updates = taken.len(), "{why}");
                // Its sequence numbers may have a gap: the next one begins anew.
                std::mem::replace(&mut producer, client.producer(config.clone())).discard();
            }
            taken.iter().for_each(|update| update.confirmation.give(written.clone()));
        }
    }

    /// Adds an update to the open batches; if that cannot be, its caller hears why.
    fn append(&self, producer: &mut Producer, update: &Waiting, now: i64) -> bool {
        let Waiting { key, value, confirmation } = update;
        let partition = partition_for_key(key, self.partitions);
        let handle = producer.partition(&TopicPartition::new(self.topic.clone(), partition));
        match producer.append(handle, now, Some(key), value.as_deref(), &[]) {
            Ok(()) => true,
            Err(error) => {
                let place = format!("topic {}, partition {partition}", self.topic);
                confirmation.give(Err(format!("{place}: {error}")));
                false
            }
        }
    }
}
