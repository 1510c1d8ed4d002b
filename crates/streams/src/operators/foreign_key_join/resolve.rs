//! Left side: an answer makes a result if it is to the left value of this moment.

use super::ForeignJoin;
use super::response::Response;
use super::send::hash_of;
use super::topics::PseudoTopics;
use crate::operators::Outcome;
use crate::operators::table_view::{View, ViewRef};
use crate::processor::TaskContext;
use crate::record::Record;
use crate::serde::{At, SerdeRef};
use crate::topology::erased::{Fault, NodeFactory, Output, Port, Receive, node_factory};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

/// What a left value and a right one make together; nothing is not in the result.
pub(crate) trait ForeignJoiner<V, VO, R>: Send + Sync + 'static {
    fn join(&self, value: &V, foreign: Option<&VO>) -> Outcome<Option<R>>;
}

impl<V, VO, R, F> ForeignJoiner<V, VO, R> for F
where
    F: Fn(&V, Option<&VO>) -> Outcome<Option<R>> + Send + Sync + 'static,
{
    fn join(&self, value: &V, foreign: Option<&VO>) -> Outcome<Option<R>> {
        self(value, foreign)
    }
}

struct Resolve<K, V, VO, R, F> {
    name: Arc<str>,
    task: Rc<TaskContext>,
    kind: ForeignJoin,
    table: ViewRef<K, V>,
    value: SerdeRef<V>,
    topics: PseudoTopics,
    joiner: Arc<F>,
    out: Output<K, Option<R>>,
    input: PhantomData<fn(VO)>,
}

impl<K, V, VO, R, F> Receive<K, Response<VO>> for Resolve<K, V, VO, R, F>
where
    K: Clone + 'static,
    V: 'static,
    R: Clone + 'static,
    F: ForeignJoiner<V, VO, R>,
{
    fn receive(&self, record: Record<K, Response<VO>>) -> Result<(), Fault> {
        let Record { key, value: response, timestamp, headers } = record;
        let failed = |error| Fault::at(&self.name, error);
        let current = self.table.get(&key).map_err(|error| Fault::at(&self.name, error))?;
        let current = current.map(|(value, _)| value);
        let at = At { topic: &self.name, headers: &headers, is_key: false };
        let hash = hash_of(&self.value, &self.topics, current.as_ref(), &at).map_err(failed)?;
        if hash != response.hash {
            self.task.drop_record(&self.name, "it answers a value that has changed since");
            return Ok(());
        }
        let foreign = response.value.as_ref();
        let value = match current {
            Some(current) if foreign.is_some() || self.kind == ForeignJoin::Left => {
                self.joiner.join(&current, foreign).map_err(failed)?
            }
            _ => None,
        };
        self.out.send(Record { key, value, timestamp, headers })
    }
}

/// Takes answers.
pub(crate) fn resolve<K, V, VO, R, F>(
    kind: ForeignJoin,
    (table, value): (View<K, V>, SerdeRef<V>),
    topics: PseudoTopics,
    joiner: F,
) -> NodeFactory
where
    K: Clone + 'static,
    V: 'static,
    VO: 'static,
    R: Clone + 'static,
    F: ForeignJoiner<V, VO, R>,
{
    let joiner = Arc::new(joiner);
    node_factory(move |wiring| {
        topics.open(wiring.task());
        Ok(Rc::new(Resolve {
            name: wiring.name().clone(),
            task: wiring.task().clone(),
            kind,
            table: (table.open)(&wiring.init_context())?,
            value: value.clone(),
            topics: topics.clone(),
            joiner: joiner.clone(),
            out: wiring.output()?,
            input: PhantomData,
        }) as Port<K, Response<VO>>)
    })
}
