//! A stream joined with a table: each record looks up the table's value of its key. Changes of the table make no results.

use super::table_view::{View, ViewRef};
use super::{Grouping, Outcome};
use crate::processor::TaskContext;
use crate::record::Record;
use crate::state::{JoinBuffer, StoreToken, WaitingRecord};
use crate::topology::erased::{Fault, NodeFactory, Output, Port, Receive, node_factory};
use std::cell::Cell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

/// What a stream's value and what is found in the table make together.
pub(crate) trait LookupJoiner<K, V, T, R>: Send + Sync + 'static {
    fn join(&self, key: &K, value: &V, found: Option<&T>) -> Outcome<R>;
}

impl<K, V, T, R, F> LookupJoiner<K, V, T, R> for F
where
    F: Fn(&K, &V, Option<&T>) -> Outcome<R> + Send + Sync + 'static,
{
    fn join(&self, key: &K, value: &V, found: Option<&T>) -> Outcome<R> {
        self(key, value, found)
    }
}

/// Whether a record that finds nothing has a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// No.
    Inner,
    /// Yes, with nothing; so has a record without a key.
    Left,
}

/// How long records wait for the table to catch up with them.
pub(crate) struct Grace<K: 'static, V: 'static> {
    /// Milliseconds of stream time.
    pub(crate) millis: i64,
    pub(crate) buffer: StoreToken<JoinBuffer<K, V>>,
}

/// The records that wait in a task.
struct Waiting<K, V> {
    millis: i64,
    buffer: JoinBuffer<K, V>,
    stream_time: Rc<Cell<i64>>,
}

struct StreamTableJoin<K, V, T, R, F> {
    name: Arc<str>,
    task: Rc<TaskContext>,
    waiting: Option<Waiting<K, V>>,
    lookup: Lookup,
    nulls: Grouping<K, V>,
    table: ViewRef<K, T>,
    joiner: Arc<F>,
    out: Output<K, R>,
    result: PhantomData<fn(V)>,
}

impl<K, V, T, R, F> Receive<K, V> for StreamTableJoin<K, V, T, R, F>
where
    K: Clone + 'static,
    V: 'static,
    R: Clone,
    F: LookupJoiner<K, V, T, R>,
{
    fn receive(&self, record: Record<K, V>) -> Result<(), Fault> {
        let has_key = !self.nulls.key.is_null(&record.key);
        if (!has_key && self.lookup == Lookup::Inner) || self.nulls.value.is_null(&record.value) {
            self.task.drop_record(&self.name, "its key or value is null");
            return Ok(());
        }
        match &self.waiting {
            Some(waiting) if has_key => self.wait(waiting, record),
            _ => self.look_up(record, has_key),
        }
    }
}

impl<K, V, T, R, F> StreamTableJoin<K, V, T, R, F>
where
    K: Clone + 'static,
    V: 'static,
    R: Clone,
    F: LookupJoiner<K, V, T, R>,
{
    fn look_up(&self, record: Record<K, V>, has_key: bool) -> Result<(), Fault> {
        let found = match has_key {
            true => self.table.get_for(&record.key, record.timestamp),
            false => Ok(None),
        };
        let found = found.map_err(|error| Fault::at(&self.name, error))?.map(|(found, _)| found);
        if found.is_none() && self.lookup == Lookup::Inner {
            return Ok(());
        }
        let joined = self.joiner.join(&record.key, &record.value, found.as_ref());
        let joined = joined.map_err(|error| Fault::at(&self.name, error))?;
        self.out.send(record.with_value(joined))
    }

    /// Joins what has waited long enough, in the order of time. A record that is later than the grace is joined at once.
    fn wait(&self, waiting: &Waiting<K, V>, record: Record<K, V>) -> Result<(), Fault> {
        let failed = |error| Fault::at(&self.name, error);
        let Waiting { millis, buffer, stream_time } = waiting;
        if record.timestamp < stream_time.get() - millis {
            return self.look_up(record, true);
        }
        buffer.put(&record).map_err(failed)?;
        stream_time.set(stream_time.get().max(record.timestamp));
        let until = stream_time.get() - millis;
        while let Some(WaitingRecord { record, context }) =
            buffer.first_until(until).map_err(failed)?
        {
            let current = self.task.record();
            self.task.restore(&context);
            let joined = self.look_up(record, true);
            self.task.restore(&current);
            joined?;
            buffer.remove_first();
        }
        Ok(())
    }
}

/// The join of a stream with a table.
pub(crate) fn stream_table_join<K, V, T, R, F>(
    lookup: Lookup,
    nulls: Grouping<K, V>,
    (table, grace): (View<K, T>, Option<Grace<K, V>>),
    joiner: F,
) -> NodeFactory
where
    K: Clone + 'static,
    V: 'static,
    T: 'static,
    R: Clone + 'static,
    F: LookupJoiner<K, V, T, R>,
{
    let joiner = Arc::new(joiner);
    node_factory(move |wiring| {
        let waiting = match &grace {
            Some(Grace { millis, buffer }) => Some(Waiting {
                millis: *millis,
                stream_time: wiring.task().observed_time(buffer.name(), wiring.name()),
                buffer: wiring.init_context().store(buffer)?,
            }),
            None => None,
        };
        Ok(Rc::new(StreamTableJoin {
            name: wiring.name().clone(),
            task: wiring.task().clone(),
            waiting,
            lookup,
            nulls: nulls.clone(),
            table: (table.open)(&wiring.init_context())?,
            joiner: joiner.clone(),
            out: wiring.output()?,
            result: PhantomData,
        }) as Port<K, V>)
    })
}
