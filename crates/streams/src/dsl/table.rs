//! `KTable`: the latest value of each key.

use super::plan::{PlanId, PlanKind, PlanRef, prefix};
use super::stream::KStream;
use crate::operators::{Change, table_to_stream};
use crate::serde::{OptionSerde, SerdeRef};
use crate::topology::operator_kind;
use std::fmt;
use std::sync::Arc;

/// A table: the latest value of each key. It holds no nulls; a key that was deleted is not there.
#[must_use = "a table is of use when it is read or turned into a stream"]
pub struct KTable<K, V> {
    plan: PlanRef,
    node: PlanId,
    key: Option<SerdeRef<K>>,
    value: Option<SerdeRef<V>>,
}

impl<K, V> fmt::Debug for KTable<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KTable").field(&self.plan.node_name(self.node)).finish()
    }
}

impl<K, V> KTable<K, V> {
    pub(super) fn new(
        plan: PlanRef,
        node: PlanId,
        key: Option<SerdeRef<K>>,
        value: Option<SerdeRef<V>>,
    ) -> Self {
        KTable { plan, node, key, value }
    }
}

impl<K: Clone + 'static, V: Clone + 'static> KTable<K, V> {
    /// The changes of the table: each new value, and `None` for a deletion.
    #[track_caller]
    pub fn to_stream(&self) -> KStream<K, Option<V>> {
        let name = self.plan.name(None, prefix::TO_STREAM);
        let kind = operator_kind::<(K, Change<V>), (K, Option<V>)>(table_to_stream::<K, V>());
        let node = self.plan.add(name, PlanKind::Node(kind), vec![self.node]);
        let value = self
            .value
            .clone()
            .map(|value| Arc::new(OptionSerde::new(value)) as SerdeRef<Option<V>>);
        KStream::new(self.plan.clone(), node, self.key.clone(), value)
    }
}
