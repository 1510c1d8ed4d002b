//! Right side: a subscription is answered with what the right table has.

use super::response::Response;
use super::subscription::{Instruction, Subscription};
use crate::operators::table_view::{View, ViewRef};
use crate::record::Record;
use crate::topology::erased::{Fault, NodeFactory, Output, Port, Receive, node_factory};
use std::rc::Rc;
use std::sync::Arc;

struct Lookup<K, KO, VO> {
    name: Arc<str>,
    table: ViewRef<KO, VO>,
    out: Output<K, Response<VO>>,
}

impl<K, KO, VO> Receive<Option<KO>, Subscription<K>> for Lookup<K, KO, VO>
where
    K: Clone + 'static,
    VO: Clone + 'static,
{
    fn receive(&self, record: Record<Option<KO>, Subscription<K>>) -> Result<(), Fault> {
        let Record { key, value: subscription, timestamp, headers } = record;
        let Subscription { hash, instruction, primary_key, partition } = subscription;
        let found = key.map(|key| self.table.get(&key)).transpose();
        let (found, time) = found.map_err(|error| Fault::at(&self.name, error))?.flatten().unzip();
        let value = match instruction {
            Instruction::Forget => return Ok(()),
            Instruction::AnswerIfPresent if found.is_none() => return Ok(()),
            Instruction::ForgetAndAnswer => None,
            Instruction::Answer | Instruction::AnswerIfPresent => found,
        };
        let timestamp = time.map_or(timestamp, |time| time.max(timestamp));
        let value = Response { hash, value, partition };
        self.out.send(Record { key: primary_key, value, timestamp, headers })
    }
}

/// Answers subscriptions.
pub(crate) fn lookup<K, KO, VO>(table: View<KO, VO>) -> NodeFactory
where
    K: Clone + 'static,
    KO: 'static,
    VO: Clone + 'static,
{
    node_factory(move |wiring| {
        let lookup: Lookup<K, KO, VO> = Lookup {
            name: wiring.name().clone(),
            table: (table.open)(&wiring.init_context())?,
            out: wiring.output()?,
        };
        Ok(Rc::new(lookup) as Port<Option<KO>, Subscription<K>>)
    })
}
