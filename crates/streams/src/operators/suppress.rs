//! Keeps changes of a table back: until so much time has passed, or until their window is closed and they are final.
//!
//! Only records move the time. A change that comes while one of its key waits takes that one's place, not a later one.

use super::Change;
use super::table_view::{TableView, View, ViewRef};
use crate::config::Compatibility;
use crate::error::Result;
use crate::processor::TaskContext;
use crate::record::Record;
use crate::state::{ChangeBuffer, StoreToken, Waiting};
use crate::topology::erased::{Fault, NodeFactory, Output, Port, Receive, node_factory};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// The time by which a change waits: of its key and of the record.
pub(crate) type BufferTime<K> = Arc<dyn Fn(&K, i64) -> i64 + Send + Sync>;

/// What happens when the buffer has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenFull {
    /// The first changes leave it early.
    Emit,
    /// The task stops.
    ShutDown,
}

/// How changes are kept back.
pub(crate) struct Suppression<K> {
    pub(crate) time: BufferTime<K>,
    /// How long after its time a change waits, in milliseconds of stream time.
    pub(crate) wait: i64,
    /// Whether it goes only when more than that has passed: when exactly that has, its window still takes records. Java 4.4 does not
    /// wait for that, and sends a second result if one comes.
    pub(crate) waits_longer: bool,
    pub(crate) records_max: u64,
    pub(crate) bytes_max: u64,
    pub(crate) when_full: WhenFull,
    /// Whether deletions are left out: of a window whose result is final nothing was sent that could be deleted.
    pub(crate) drops_deletions: bool,
}

impl<K> Clone for Suppression<K> {
    fn clone(&self) -> Self {
        Suppression { time: self.time.clone(), ..*self }
    }
}

struct Suppress<K, V> {
    name: Arc<str>,
    task: Rc<TaskContext>,
    suppression: Suppression<K>,
    stream_time: Rc<Cell<i64>>,
    buffer: ChangeBuffer<K, V>,
    out: Output<K, Change<V>>,
}

impl<K: Clone + 'static, V: Clone + 'static> Receive<K, Change<V>> for Suppress<K, V> {
    fn receive(&self, record: Record<K, Change<V>>) -> Result<(), Fault> {
        let Record { key, value: Change { new, old, .. }, timestamp, headers } = record;
        self.stream_time.set(self.stream_time.get().max(timestamp));
        let time = (self.suppression.time)(&key, timestamp);
        let change = (new.as_ref(), old.as_ref());
        let put = self.buffer.put(time, &key, change, (timestamp, &headers));
        put.map_err(|error| Fault::at(&self.name, error))?;
        let ripe = self.stream_time.get().saturating_sub(self.suppression.wait);
        while self.buffer.first_time().is_some_and(|first| first <= ripe) {
            self.release()?;
        }
        self.make_room()
    }
}

impl<K: Clone + 'static, V: Clone + 'static> Suppress<K, V> {
    fn is_full(&self) -> bool {
        self.buffer.len() > self.suppression.records_max
            || self.buffer.bytes() > self.suppression.bytes_max
    }

    fn make_room(&self) -> Result<(), Fault> {
        match self.suppression.when_full {
            WhenFull::Emit => {
                while self.is_full() {
                    self.release()?;
                }
                Ok(())
            }
            WhenFull::ShutDown if self.is_full() => {
                let Suppression { records_max, bytes_max, .. } = self.suppression;
                let limit = |max: u64, what| (max < u64::MAX).then(|| format!("{max} {what}"));
                let limits = [limit(records_max, "records"), limit(bytes_max, "bytes")];
                let message = format!(
                    "the buffer is full: it has {} records and {} bytes, at most {} are allowed",
                    self.buffer.len(),
                    self.buffer.bytes(),
                    limits.into_iter().flatten().collect::<Vec<_>>().join(" and ")
                );
                Err(Fault::at(&self.name, message))
            }
            WhenFull::ShutDown => Ok(()),
        }
    }

    /// Sends the first change on, as the record that made it.
    fn release(&self) -> Result<(), Fault> {
        let first = self.buffer.first().map_err(|error| Fault::at(&self.name, error))?;
        let Some(Waiting { key, new, old, record, headers }) = first else { return Ok(()) };
        if new.is_some() || !self.suppression.drops_deletions {
            let (current, timestamp) = (self.task.record(), record.timestamp);
            let value = Change::latest(new, old);
            self.task.restore(&record);
            let sent = self.out.send(Record { key, value, timestamp, headers });
            self.task.restore(&current);
            sent?;
        }
        // Not before: those behind the buffer must not see the change earlier than they hear of it.
        self.buffer.remove_first();
        Ok(())
    }
}

/// `suppress` with the buffer of `token`.
pub(crate) fn suppress<K, V>(
    suppression: Suppression<K>,
    token: StoreToken<ChangeBuffer<K, V>>,
) -> NodeFactory
where
    K: Clone + 'static,
    V: Clone + 'static,
{
    node_factory(move |wiring| {
        let mut suppression = suppression.clone();
        if suppression.waits_longer && wiring.task().rules.compatibility == Compatibility::Correct {
            suppression.wait = suppression.wait.saturating_add(1);
        }
        Ok(Rc::new(Suppress {
            name: wiring.name().clone(),
            task: wiring.task().clone(),
            suppression,
            stream_time: wiring.task().observed_time(&token.spec.name, wiring.name()),
            buffer: wiring.init_context().store(&token)?,
            out: wiring.output()?,
        }) as Port<K, Change<V>>)
    })
}

/// What those behind the buffer know already.
struct SuppressView<K, V> {
    parent: ViewRef<K, V>,
    buffer: ChangeBuffer<K, V>,
}

impl<K: 'static, V: 'static> TableView<K, V> for SuppressView<K, V> {
    fn get(&self, key: &K) -> Result<Option<(V, i64)>> {
        match self.buffer.prior(key)? {
            Some(prior) => Ok(prior.map(|value| (value, -1))),
            None => self.parent.get(key),
        }
    }
}

/// The view of a suppressed table: a change that waits is not there yet.
pub(crate) fn suppress_view<K, V>(
    parent: View<K, V>,
    token: StoreToken<ChangeBuffer<K, V>>,
) -> View<K, V>
where
    K: 'static,
    V: 'static,
{
    let mut stores = vec![token.spec.name.clone()];
    stores.extend(parent.stores);
    let open = parent.open;
    View {
        stores,
        open: Arc::new(move |ctx| {
            Ok(Rc::new(SuppressView { parent: open(ctx)?, buffer: ctx.store(&token)? }))
        }),
    }
}
