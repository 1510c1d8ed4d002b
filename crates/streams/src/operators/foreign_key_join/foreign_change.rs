//! Right side: a change of the right table is told to all who have subscribed to its key.

use super::receive::write_prefix;
use super::response::Response;
use super::subscription::{Subscription, SubscriptionToken};
use super::topics::PseudoTopics;
use crate::operators::Change;
use crate::processor::TaskContext;
use crate::record::Record;
use crate::serde::{At, SerdeRef};
use crate::state::TimestampedKeyValueStore;
use crate::topology::erased::{Fault, NodeFactory, Output, Port, Receive, node_factory};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

struct ForeignChange<K, KO, VO> {
    name: Arc<str>,
    task: Rc<TaskContext>,
    ignores_past: bool,
    foreign_key: SerdeRef<KO>,
    topics: PseudoTopics,
    store: TimestampedKeyValueStore<Vec<u8>, Subscription<K>>,
    out: Output<K, Response<VO>>,
    input: PhantomData<fn(KO)>,
}

impl<K, KO, VO> Receive<KO, Change<VO>> for ForeignChange<K, KO, VO>
where
    K: Clone + 'static,
    KO: 'static,
    VO: Clone + 'static,
{
    fn receive(&self, record: Record<KO, Change<VO>>) -> Result<(), Fault> {
        let Record { key, value: change, timestamp, headers } = record;
        if self.ignores_past && !change.is_latest {
            self.task.drop_record(&self.name, "it changes the past of a versioned table");
            return Ok(());
        }
        let mut prefix = Vec::new();
        let at = At { topic: &self.name, headers: &headers, is_key: true };
        write_prefix(&self.foreign_key, &self.topics.foreign_key(&at), &key, &mut prefix)
            .map_err(|error| Fault::at(&self.name, error))?;
        let failed = |error| Fault::at(&self.name, error);
        for entry in self.store.prefix_scan(&prefix).map_err(failed)? {
            let (_, (subscription, _)) = entry.map_err(failed)?;
            let Subscription { hash, primary_key, partition, .. } = subscription;
            let value = Response { hash, value: change.new.clone(), partition };
            let headers = headers.clone();
            self.out.send(Record { key: primary_key, value, timestamp, headers })?;
        }
        Ok(())
    }
}

/// Tells changes of the right table to those who have subscribed. `ignores_past`: the right table is versioned.
pub(crate) fn foreign_change<K, KO, VO>(
    ignores_past: bool,
    foreign_key: SerdeRef<KO>,
    topics: PseudoTopics,
    token: SubscriptionToken<K>,
) -> NodeFactory
where
    K: Clone + 'static,
    KO: 'static,
    VO: Clone + 'static,
{
    node_factory(move |wiring| {
        topics.open(wiring.task());
        let change: ForeignChange<K, KO, VO> = ForeignChange {
            name: wiring.name().clone(),
            task: wiring.task().clone(),
            ignores_past,
            foreign_key: foreign_key.clone(),
            topics: topics.clone(),
            store: wiring.init_context().store(&token)?,
            out: wiring.output()?,
            input: PhantomData,
        };
        Ok(Rc::new(change) as Port<KO, Change<VO>>)
    })
}
