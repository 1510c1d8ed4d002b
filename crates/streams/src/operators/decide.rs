//! Event sourcing: commands become events, checked against the latest snapshot.
//!
//! Deciding and applying happen in one step of the task that owns the key: the next command sees the snapshot that the events of
//! this one have made, whatever waits in caches, topics or commits. Events, snapshot and the command's offset are committed together.

use super::table_store::TableStore;
use super::{Change, Grouping, Outcome, TableToken};
use crate::processor::TaskContext;
use crate::record::Record;
use crate::topology::erased::{Fault, NodeFactory, Output, Port, Receive, node_factory};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

/// What comes of a command, piece by piece.
#[derive(Debug, Clone)]
pub(crate) enum Decision<S, E, R> {
    Event(E),
    Rejection(R),
    /// The snapshot after all events of the command.
    Snapshot(Change<S>),
}

/// The user's two functions.
pub(crate) trait Decide<C, S, E, R>: Send + Sync + 'static {
    /// The events that a command leads to, or why it is rejected.
    fn handle(&self, snapshot: Option<&S>, command: &C) -> Outcome<Result<Vec<E>, R>>;

    /// The snapshot after an event.
    fn apply(&self, snapshot: Option<S>, event: &E) -> Outcome<Option<S>>;
}

impl<C, S, E, R, H, A> Decide<C, S, E, R> for (H, A)
where
    H: Fn(Option<&S>, &C) -> Result<Vec<E>, R> + Send + Sync + 'static,
    A: Fn(Option<S>, &E) -> Option<S> + Send + Sync + 'static,
{
    fn handle(&self, snapshot: Option<&S>, command: &C) -> Outcome<Result<Vec<E>, R>> {
        Ok(self.0(snapshot, command))
    }

    fn apply(&self, snapshot: Option<S>, event: &E) -> Outcome<Option<S>> {
        Ok(self.1(snapshot, event))
    }
}

struct Decider<K, C, S, E, R, D> {
    name: Arc<str>,
    grouping: Grouping<K, C>,
    rules: Arc<D>,
    task: Rc<TaskContext>,
    store: TableStore<K, S>,
    out: Output<K, Decision<S, E, R>>,
    command: PhantomData<fn(C)>,
}

impl<K, C, S, E, R, D> Receive<K, C> for Decider<K, C, S, E, R, D>
where
    K: Clone + 'static,
    C: 'static,
    S: Clone + 'static,
    E: Clone + 'static,
    R: Clone + 'static,
    D: Decide<C, S, E, R>,
{
    fn receive(&self, record: Record<K, C>) -> Result<(), Fault> {
        let Record { key, value: command, timestamp, headers } = record;
        if self.grouping.key.is_null(&key) || self.grouping.value.is_null(&command) {
            self.task.drop_record(&self.name, "its key or value is null");
            return Ok(());
        }
        let failed = |error| Fault::at(&self.name, error);
        let (before, stored_time) = self.store.get(&key).map_err(|e| failed(e.into()))?.unzip();
        let decided = self.rules.handle(before.as_ref(), &command).map_err(failed)?;
        let events = match decided {
            Ok(events) if events.is_empty() => return Ok(()),
            Ok(events) => events,
            Err(rejection) => {
                let value = Decision::Rejection(rejection);
                return self.out.send(Record { key, value, timestamp, headers });
            }
        };
        let mut snapshot = before.clone();
        for event in &events {
            snapshot = self.rules.apply(snapshot, event).map_err(failed)?;
        }
        let time = stored_time.map_or(timestamp, |stored| stored.max(timestamp));
        let stored = self.store.put(&key, snapshot.as_ref(), time, &headers);
        stored.map_err(|error| failed(error.into()))?;
        for event in events {
            let (key, headers) = (key.clone(), headers.clone());
            self.out.send(Record { key, value: Decision::Event(event), timestamp, headers })?;
        }
        let value = Decision::Snapshot(Change::latest(snapshot, before));
        self.out.send(Record { key, value, timestamp: time, headers })
    }
}

/// The node that decides, with its snapshots in the store of `token`.
pub(crate) fn decide<K, C, S, E, R, D>(
    grouping: Grouping<K, C>,
    rules: D,
    token: TableToken<K, S>,
) -> NodeFactory
where
    K: Clone + 'static,
    C: 'static,
    S: Clone + 'static,
    E: Clone + 'static,
    R: Clone + 'static,
    D: Decide<C, S, E, R>,
{
    let rules = Arc::new(rules);
    node_factory(move |wiring| {
        Ok(Rc::new(Decider {
            name: wiring.name().clone(),
            grouping: grouping.clone(),
            rules: rules.clone(),
            task: wiring.task().clone(),
            store: TableStore::open(&token, &wiring.init_context())?,
            out: wiring.output()?,
            command: PhantomData,
        }) as Port<K, C>)
    })
}

struct Select<V, K, S, E, R> {
    select: fn(Decision<S, E, R>) -> Option<V>,
    out: Output<K, V>,
}

impl<V: Clone, K: Clone, S, E, R> Receive<K, Decision<S, E, R>> for Select<V, K, S, E, R> {
    fn receive(&self, record: Record<K, Decision<S, E, R>>) -> Result<(), Fault> {
        let Record { key, value, timestamp, headers } = record;
        match (self.select)(value) {
            Some(value) => self.out.send(Record { key, value, timestamp, headers }),
            None => Ok(()),
        }
    }
}

/// The node that passes on one kind of piece.
pub(crate) fn select<V, K, S, E, R>(select: fn(Decision<S, E, R>) -> Option<V>) -> NodeFactory
where
    V: Clone + 'static,
    K: Clone + 'static,
    S: 'static,
    E: 'static,
    R: 'static,
{
    node_factory(move |wiring| {
        Ok(Rc::new(Select { select, out: wiring.output()? }) as Port<K, Decision<S, E, R>>)
    })
}
