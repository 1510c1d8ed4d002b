//! The join of two tables by key: inner, left and outer.
//!
//! Each table has a side: a node that looks its changes up in the other table. Both sides send what they find to one node, which
//! has the result's store, if it has one. The time of a result is the later of both.

use super::table_store::{TableOutput, TableOwnStore};
use super::table_view::{TableView, View, ViewRef};
use super::{Change, Outcome};
use crate::error::{Error, ErrorKind, Result};
use crate::processor::TaskContext;
use crate::record::Record;
use crate::topology::erased::{Fault, NodeFactory, Output, Port, Receive, node_factory};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

/// What two values make together. It gives nothing where the kind of the join wants a value that is not there.
pub(crate) trait Joiner<V1, V2, R>: Send + Sync + 'static {
    fn join(&self, left: Option<&V1>, right: Option<&V2>) -> Outcome<Option<R>>;
}

impl<V1, V2, R, F> Joiner<V1, V2, R> for F
where
    F: Fn(Option<&V1>, Option<&V2>) -> Outcome<Option<R>> + Send + Sync + 'static,
{
    fn join(&self, left: Option<&V1>, right: Option<&V2>) -> Outcome<Option<R>> {
        self(left, right)
    }
}

/// How one side of a join behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JoinSide {
    /// Whether there is no result without the other table's value.
    pub(crate) needs_other: bool,
    /// Whether changes of the past are left out: the table of this side is versioned.
    pub(crate) ignores_past: bool,
    /// Whether both tables come from the same one. Then a deletion there is a deletion here and there at once, and neither side finds
    /// the other's value any more: the result is deleted all the same. Java 4.4 leaves it there.
    pub(crate) shares_origin: bool,
}

/// One side of a join in a task.
struct Side<K, V1, V2, R, F> {
    name: Arc<str>,
    task: Rc<TaskContext>,
    side: JoinSide,
    deletes_alone: bool,
    other: ViewRef<K, V2>,
    joiner: Arc<F>,
    sends_old_values: bool,
    out: Output<K, Change<R>>,
    input: PhantomData<fn(V1)>,
}

impl<K, V1, V2, R, F> Side<K, V1, V2, R, F>
where
    F: Joiner<V1, V2, R>,
{
    fn join(&self, mine: Option<&V1>, other: Option<&V2>) -> Result<Option<R>, Fault> {
        self.joiner.join(mine, other).map_err(|error| Fault::at(&self.name, error))
    }
}

impl<K, V1, V2, R, F> Receive<K, Change<V1>> for Side<K, V1, V2, R, F>
where
    K: Clone,
    R: Clone,
    F: Joiner<V1, V2, R>,
{
    fn receive(&self, record: Record<K, Change<V1>>) -> Result<(), Fault> {
        let Record { key, value: change, timestamp, headers } = record;
        if self.side.ignores_past && !change.is_latest {
            self.task.drop_record(&self.name, "it changes the past of a versioned table");
            return Ok(());
        }
        let other = self.other.get(&key).map_err(|error| Fault::at(&self.name, error))?;
        let Change { new, old, is_latest } = change;
        let says_nothing = match self.side.needs_other {
            true => other.is_none() && !(new.is_none() && self.deletes_alone),
            false => other.is_none() && new.is_none() && old.is_none(),
        };
        if says_nothing {
            return Ok(());
        }
        let (other, other_time) = other.unzip();
        let new = self.join(new.as_ref(), other.as_ref())?;
        let old = match self.sends_old_values {
            true => self.join(old.as_ref(), other.as_ref())?,
            false => None,
        };
        let timestamp = other_time.map_or(timestamp, |time| time.max(timestamp));
        self.out.send(Record { key, value: Change { new, old, is_latest }, timestamp, headers })
    }
}

/// One side of a join.
pub(crate) fn table_join<K, V1, V2, R, F>(
    side: JoinSide,
    other: View<K, V2>,
    joiner: Arc<F>,
) -> NodeFactory
where
    K: Clone + 'static,
    V1: 'static,
    V2: 'static,
    R: Clone + 'static,
    F: Joiner<V1, V2, R>,
{
    node_factory(move |wiring| {
        Ok(Rc::new(Side {
            name: wiring.name().clone(),
            task: wiring.task().clone(),
            side,
            deletes_alone: side.shares_origin && !wiring.task().is_java_4_4(),
            other: (other.open)(&wiring.init_context())?,
            joiner: joiner.clone(),
            sends_old_values: wiring.sends_old_values(),
            out: wiring.output()?,
            input: PhantomData,
        }) as Port<K, Change<V1>>)
    })
}

/// The node where both sides meet.
struct Joined<K, R>(TableOutput<K, R>);

impl<K: Clone + 'static, R: Clone + 'static> Receive<K, Change<R>> for Joined<K, R> {
    fn receive(&self, record: Record<K, Change<R>>) -> Result<(), Fault> {
        self.0.send(record)
    }
}

/// The node where both sides of a join meet.
pub(crate) fn merge_joined<K, R>(own: TableOwnStore<K, R>) -> NodeFactory
where
    K: Clone + 'static,
    R: Clone + 'static,
{
    node_factory(move |wiring| {
        Ok(Rc::new(Joined(TableOutput::open(wiring, &own)?)) as Port<K, Change<R>>)
    })
}

struct JoinView<K, V1, V2, F> {
    left: ViewRef<K, V1>,
    right: ViewRef<K, V2>,
    joiner: Arc<F>,
}

impl<K, V1, V2, R, F: Joiner<V1, V2, R>> TableView<K, R> for JoinView<K, V1, V2, F> {
    fn get(&self, key: &K) -> Result<Option<(R, i64)>> {
        let (left, left_time) = self.left.get(key)?.unzip();
        let (right, right_time) = self.right.get(key)?.unzip();
        if left.is_none() && right.is_none() {
            return Ok(None);
        }
        let joined = self.joiner.join(left.as_ref(), right.as_ref()).map_err(|error| {
            Error::new(ErrorKind::Processing, "the join's function failed").with_source(error)
        })?;
        Ok(joined.map(|joined| (joined, left_time.max(right_time).unwrap_or(-1))))
    }
}

/// The view of a join without a store.
pub(crate) fn table_join_view<K, V1, V2, R, F>(
    left: View<K, V1>,
    right: View<K, V2>,
    joiner: Arc<F>,
) -> View<K, R>
where
    K: 'static,
    V1: 'static,
    V2: 'static,
    R: 'static,
    F: Joiner<V1, V2, R>,
{
    let mut stores = left.stores;
    stores.extend(
        right.stores.iter().filter(|store| !stores.contains(store)).cloned().collect::<Vec<_>>(),
    );
    let (open_left, open_right) = (left.open, right.open);
    View {
        stores,
        open: Arc::new(move |ctx| {
            let (left, right) = (open_left(ctx)?, open_right(ctx)?);
            Ok(Rc::new(JoinView { left, right, joiner: joiner.clone() }))
        }),
    }
}
