//! A table on its way to another grouping: each change goes to where its keys are.
//!
//! If old and new value have the same new key, they go as one change; otherwise the old one goes first, to be taken away, and then
//! the new one, to be added. What has no key or no value in the new grouping is left out.

use super::{Change, Outcome};
use crate::record::Record;
use crate::serde::SerdeRef;
use crate::topology::erased::{Fault, NodeFactory, Output, Port, Receive, node_factory};
use std::rc::Rc;
use std::sync::Arc;

/// What counts as null in the new grouping.
pub(crate) struct GroupSerdes<K, V> {
    pub(crate) key: SerdeRef<K>,
    pub(crate) value: SerdeRef<V>,
}

struct TableGroup<K2, V2, F> {
    name: Arc<str>,
    selector: Arc<F>,
    serdes: Arc<GroupSerdes<K2, V2>>,
    ignores_past: bool,
    out: Output<K2, Change<V2>>,
}

impl<K2: 'static, V2: 'static, F> TableGroup<K2, V2, F> {
    fn select<K, V>(&self, key: &K, value: Option<V>) -> Result<Option<(K2, V2)>, Fault>
    where
        F: Fn(&K, V) -> Outcome<(K2, V2)>,
    {
        let Some(value) = value else { return Ok(None) };
        let selected = (self.selector)(key, value);
        let (key, value) = selected.map_err(|error| Fault::at(&self.name, error))?;
        let is_null = self.serdes.key.is_null(&key) || self.serdes.value.is_null(&value);
        Ok((!is_null).then_some((key, value)))
    }
}

impl<K, V, K2, V2, F> Receive<K, Change<V>> for TableGroup<K2, V2, F>
where
    K2: Clone + PartialEq + 'static,
    V2: Clone + 'static,
    F: Fn(&K, V) -> Outcome<(K2, V2)>,
{
    fn receive(&self, record: Record<K, Change<V>>) -> Result<(), Fault> {
        let Record { key, value: Change { new, old, is_latest }, timestamp, headers } = record;
        if self.ignores_past && !is_latest {
            return Ok(());
        }
        let (new, old) = (self.select(&key, new)?, self.select(&key, old)?);
        let send = |key, new, old, headers| {
            let value = Change { new, old, is_latest };
            self.out.send(Record { key, value, timestamp, headers })
        };
        match (new, old) {
            (Some((key, new)), Some((old_key, old))) if key == old_key => {
                send(key, Some(new), Some(old), headers)
            }
            (Some((key, new)), Some((old_key, old))) => {
                send(old_key, None, Some(old), headers.clone())?;
                send(key, Some(new), None, headers)
            }
            (None, Some((key, old))) => send(key, None, Some(old), headers),
            (Some((key, new)), None) => send(key, Some(new), None, headers),
            (None, None) => Ok(()),
        }
    }
}

/// `group_by` of a table. `ignores_past`: the table is versioned.
pub(crate) fn table_group<K, V, K2, V2, F>(
    selector: F,
    serdes: GroupSerdes<K2, V2>,
    ignores_past: bool,
) -> NodeFactory
where
    K: 'static,
    V: 'static,
    K2: Clone + PartialEq + 'static,
    V2: Clone + 'static,
    F: Fn(&K, V) -> Outcome<(K2, V2)> + Send + Sync + 'static,
{
    let (selector, serdes) = (Arc::new(selector), Arc::new(serdes));
    node_factory(move |wiring| {
        Ok(Rc::new(TableGroup {
            name: wiring.name().clone(),
            selector: selector.clone(),
            serdes: serdes.clone(),
            ignores_past,
            out: wiring.output()?,
        }) as Port<K, Change<V>>)
    })
}
