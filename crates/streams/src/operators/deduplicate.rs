//! De-duplication by an id within a time.
//!
//! The ids of the records that went on are kept in a window store, each at its record's time, long enough to judge every record that
//! is not too late. A duplicate leaves no trace, so that a stream of duplicates does not keep its id alive for ever.

use super::Outcome;
use crate::processor::TaskContext;
use crate::record::Record;
use crate::serde::SerdeRef;
use crate::state::{StoreToken, WindowStore};
use crate::topology::erased::{Fault, NodeFactory, Output, Port, Receive, node_factory};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// What tells duplicates.
pub(crate) struct Deduplication<I: 'static> {
    pub(crate) id: SerdeRef<I>,
    /// Milliseconds between duplicates, at most.
    pub(crate) within: i64,
    /// Milliseconds behind the stream time, at most.
    pub(crate) grace: i64,
    /// The ids with their times; the value is of no meaning.
    pub(crate) store: StoreToken<WindowStore<I, bool>>,
}

impl<I> Clone for Deduplication<I> {
    fn clone(&self) -> Self {
        Deduplication { id: self.id.clone(), ..*self }
    }
}

struct Deduplicate<K, V, I: 'static, F> {
    name: Arc<str>,
    rule: Deduplication<I>,
    identify: Arc<F>,
    task: Rc<TaskContext>,
    seen: WindowStore<I, bool>,
    /// The highest time of a record so far.
    observed: Rc<Cell<i64>>,
    out: Output<K, V>,
}

impl<K, V, I, F> Receive<K, V> for Deduplicate<K, V, I, F>
where
    K: Clone + 'static,
    V: Clone + 'static,
    I: Clone + 'static,
    F: Fn(&K, &V) -> Outcome<I>,
{
    fn receive(&self, record: Record<K, V>) -> Result<(), Fault> {
        let failed = |error| Fault::at(&self.name, error);
        let id = (self.identify)(&record.key, &record.value).map_err(failed)?;
        if self.rule.id.is_null(&id) {
            return self.out.send(record);
        }
        let (time, within) = (record.timestamp, self.rule.within);
        let observed = self.observed.get().max(time);
        self.observed.set(observed);
        if time < observed.saturating_sub(self.rule.grace) {
            self.task.drop_record(&self.name, "it is too late to tell whether it is a duplicate");
            return Ok(());
        }
        let near = time.saturating_sub(within)..=time.saturating_add(within);
        let seen = self.seen.fetch_range(&id, near).map_err(|error| failed(error.into()))?;
        if seen.into_iter().next().transpose().map_err(|error| failed(error.into()))?.is_some() {
            return Ok(());
        }
        self.seen.put(&id, Some(&true), time).map_err(|error| failed(error.into()))?;
        self.out.send(record)
    }
}

/// Lets the first record of each id pass.
pub(crate) fn deduplicate<K, V, I, F>(rule: Deduplication<I>, identify: F) -> NodeFactory
where
    K: Clone + 'static,
    V: Clone + 'static,
    I: Clone + 'static,
    F: Fn(&K, &V) -> Outcome<I> + Send + Sync + 'static,
{
    let identify = Arc::new(identify);
    node_factory(move |wiring| {
        let task = wiring.task().clone();
        Ok(Rc::new(Deduplicate {
            name: wiring.name().clone(),
            observed: task.observed_time(rule.store.name(), wiring.name()),
            seen: wiring.init_context().store(&rule.store)?,
            rule: rule.clone(),
            identify: identify.clone(),
            out: wiring.output()?,
            task,
        }) as Port<K, V>)
    })
}
