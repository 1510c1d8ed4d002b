//! Right side: subscriptions are remembered, or forgotten.

use super::subscription::{Instruction, Subscription, SubscriptionToken};
use super::topics::PseudoTopics;
use crate::operators::Outcome;
use crate::processor::TaskContext;
use crate::record::{Headers, Record};
use crate::serde::{At, SerdeRef};
use crate::state::TimestampedKeyValueStore;
use crate::topology::erased::{Fault, NodeFactory, Output, Port, Receive, node_factory};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// `length of the foreign key (4) ‖ foreign key`: what all subscriptions of a foreign key begin with.
pub(super) fn write_prefix<KO: 'static>(
    serde: &SerdeRef<KO>,
    at: &At<'_>,
    key: &KO,
    out: &mut Vec<u8>,
) -> Outcome<()> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    serde.serialize(at, key, out)?;
    let length = i32::try_from(out.len() - start - 4)?;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

struct ReceiveSubscription<K, KO> {
    name: Arc<str>,
    task: Rc<TaskContext>,
    foreign_key: SerdeRef<KO>,
    primary_key: SerdeRef<K>,
    topics: PseudoTopics,
    store: TimestampedKeyValueStore<Vec<u8>, Subscription<K>>,
    out: Output<Option<KO>, Subscription<K>>,
    scratch: RefCell<Vec<u8>>,
}

impl<K, KO> ReceiveSubscription<K, KO>
where
    K: Clone + 'static,
    KO: Clone + 'static,
{
    fn remember(
        &self,
        foreign_key: &KO,
        subscription: &Subscription<K>,
        timestamp: i64,
        headers: &Headers,
    ) -> Outcome<()> {
        let key = &mut *self.scratch.borrow_mut();
        key.clear();
        let at = At { topic: &self.name, headers, is_key: true };
        write_prefix(&self.foreign_key, &self.topics.foreign_key(&at), foreign_key, key)?;
        let at = self.topics.primary_key(&at);
        self.primary_key.serialize(&at, &subscription.primary_key, key)?;
        let kept = match subscription.instruction {
            Instruction::Forget | Instruction::ForgetAndAnswer => None,
            Instruction::Answer | Instruction::AnswerIfPresent => Some(subscription),
        };
        Ok(self.store.put_at(key, kept, timestamp, headers)?)
    }
}

impl<K, KO> Receive<Option<KO>, Subscription<K>> for ReceiveSubscription<K, KO>
where
    K: Clone + 'static,
    KO: Clone + 'static,
{
    fn receive(&self, record: Record<Option<KO>, Subscription<K>>) -> Result<(), Fault> {
        match &record.key {
            Some(key) => {
                let (timestamp, headers) = (record.timestamp, &record.headers);
                let remembered = self.remember(key, &record.value, timestamp, headers);
                remembered.map_err(|error| Fault::at(&self.name, error))?;
            }
            None if record.value.instruction == Instruction::Answer => {}
            None => {
                self.task.drop_record(&self.name, "its foreign key is null");
                return Ok(());
            }
        }
        self.out.send(record)
    }
}

/// Takes subscriptions.
pub(crate) fn receive<K, KO>(
    foreign_key: SerdeRef<KO>,
    primary_key: SerdeRef<K>,
    topics: PseudoTopics,
    token: SubscriptionToken<K>,
) -> NodeFactory
where
    K: Clone + 'static,
    KO: Clone + 'static,
{
    node_factory(move |wiring| {
        topics.open(wiring.task());
        Ok(Rc::new(ReceiveSubscription {
            name: wiring.name().clone(),
            task: wiring.task().clone(),
            foreign_key: foreign_key.clone(),
            primary_key: primary_key.clone(),
            topics: topics.clone(),
            store: wiring.init_context().store(&token)?,
            out: wiring.output()?,
            scratch: RefCell::default(),
        }) as Port<Option<KO>, Subscription<K>>)
    })
}
