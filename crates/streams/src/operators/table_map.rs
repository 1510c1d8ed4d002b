//! A table made value by value from another: `filter` and `map_values`.
//!
//! The function never sees a deletion. What it gives nothing for is not in the result.

use super::table_store::{TableOutput, TableOwnStore};
use super::table_view::{TableView, View, ViewRef};
use super::{Change, Outcome};
use crate::error::{Error, ErrorKind, Result};
use crate::record::Record;
use crate::topology::erased::{Fault, NodeFactory, Port, Receive, node_factory};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

/// What becomes of a value.
pub(crate) trait TableMapping<K, V, V2>: Send + Sync + 'static {
    fn map(&self, key: &K, value: V) -> Outcome<Option<V2>>;
}

impl<K, V, V2, F> TableMapping<K, V, V2> for F
where
    F: Fn(&K, V) -> Outcome<Option<V2>> + Send + Sync + 'static,
{
    fn map(&self, key: &K, value: V) -> Outcome<Option<V2>> {
        self(key, value)
    }
}

struct TableMap<K, V, V2, F> {
    name: Arc<str>,
    mapping: Arc<F>,
    /// Whether a change from nothing to nothing ends here: what `filter` does where it can tell.
    ends_nothing: bool,
    out: TableOutput<K, V2>,
    input: PhantomData<fn(V)>,
}

impl<K, V, V2, F: TableMapping<K, V, V2>> TableMap<K, V, V2, F> {
    fn map(&self, key: &K, value: Option<V>) -> Result<Option<V2>, Fault> {
        let Some(value) = value else { return Ok(None) };
        self.mapping.map(key, value).map_err(|error| Fault::at(&self.name, error))
    }
}

impl<K, V, V2, F> Receive<K, Change<V>> for TableMap<K, V, V2, F>
where
    K: Clone + 'static,
    V2: Clone + 'static,
    F: TableMapping<K, V, V2>,
{
    fn receive(&self, record: Record<K, Change<V>>) -> Result<(), Fault> {
        let Record { key, value: change, timestamp, headers } = record;
        let new = self.map(&key, change.new)?;
        let old = match &self.out {
            TableOutput::Forward { sends_old_values: true, .. } => self.map(&key, change.old)?,
            TableOutput::Store(writer)
                if writer.needs_old_value() || (self.ends_nothing && new.is_none()) =>
            {
                writer.get(&key)?.map(|(old, _)| old)
            }
            _ => None,
        };
        if self.ends_nothing && self.out.sends_old_values() && new.is_none() && old.is_none() {
            return Ok(());
        }
        let value = Change { new, old, is_latest: change.is_latest };
        self.out.send(Record { key, value, timestamp, headers })
    }
}

/// `map_values`, and `filter` with `ends_nothing`.
pub(crate) fn table_map<K, V, V2, F>(
    mapping: Arc<F>,
    ends_nothing: bool,
    own: TableOwnStore<K, V2>,
) -> NodeFactory
where
    K: Clone + 'static,
    V: 'static,
    V2: Clone + 'static,
    F: TableMapping<K, V, V2>,
{
    node_factory(move |wiring| {
        Ok(Rc::new(TableMap {
            name: wiring.name().clone(),
            mapping: mapping.clone(),
            ends_nothing,
            out: TableOutput::open(wiring, &own)?,
            input: PhantomData,
        }) as Port<K, Change<V>>)
    })
}

struct MapView<K, V, F> {
    parent: ViewRef<K, V>,
    mapping: Arc<F>,
}

impl<K, V, F> MapView<K, V, F> {
    fn mapped<V2>(&self, key: &K, found: Option<(V, i64)>) -> Result<Option<(V2, i64)>>
    where
        F: TableMapping<K, V, V2>,
    {
        let Some((value, timestamp)) = found else { return Ok(None) };
        let mapped = self.mapping.map(key, value).map_err(|error| {
            Error::new(ErrorKind::Processing, "the table's function failed").with_source(error)
        })?;
        Ok(mapped.map(|value| (value, timestamp)))
    }
}

impl<K, V, V2, F: TableMapping<K, V, V2>> TableView<K, V2> for MapView<K, V, F> {
    fn get(&self, key: &K) -> Result<Option<(V2, i64)>> {
        self.mapped(key, self.parent.get(key)?)
    }

    fn get_for(&self, key: &K, timestamp: i64) -> Result<Option<(V2, i64)>> {
        self.mapped(key, self.parent.get_for(key, timestamp)?)
    }
}

/// The view of a mapped table without a store.
pub(crate) fn map_view<K, V, V2, F>(parent: View<K, V>, mapping: Arc<F>) -> View<K, V2>
where
    K: 'static,
    V: 'static,
    V2: 'static,
    F: TableMapping<K, V, V2>,
{
    let open = parent.open;
    View {
        stores: parent.stores,
        open: Arc::new(move |ctx| {
            Ok(Rc::new(MapView { parent: open(ctx)?, mapping: mapping.clone() }))
        }),
    }
}
