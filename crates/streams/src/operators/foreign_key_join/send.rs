//! Left side: what a change of the left table tells the foreign keys of its old and its new value.

use super::ForeignJoin;
use super::murmur3::{Hash, hash128};
use super::subscription::{Instruction, Subscription};
use super::topics::PseudoTopics;
use crate::operators::{Change, Outcome};
use crate::processor::TaskContext;
use crate::record::{Headers, Record};
use crate::serde::{At, SerdeRef};
use crate::topology::erased::{Fault, NodeFactory, Output, Port, Receive, node_factory};
use std::rc::Rc;
use std::sync::Arc;

/// The foreign key of an entry, if it has one.
pub(crate) trait ForeignKeyOf<K, V, KO>: Send + Sync + 'static {
    fn extract(&self, key: &K, value: &V) -> Outcome<Option<KO>>;
}

impl<K, V, KO, F> ForeignKeyOf<K, V, KO> for F
where
    F: Fn(&K, &V) -> Outcome<Option<KO>> + Send + Sync + 'static,
{
    fn extract(&self, key: &K, value: &V) -> Outcome<Option<KO>> {
        self(key, value)
    }
}

/// The serdes that foreign keys are compared by and values are hashed by.
pub(crate) struct SendSerdes<V, KO> {
    pub(crate) value: SerdeRef<V>,
    pub(crate) foreign_key: SerdeRef<KO>,
    pub(crate) topics: PseudoTopics,
}

struct Sender<K, V, KO, F> {
    name: Arc<str>,
    task: Rc<TaskContext>,
    kind: ForeignJoin,
    ignores_past: bool,
    foreign_key_of: Arc<F>,
    serdes: Arc<SendSerdes<V, KO>>,
    out: Output<Option<KO>, Subscription<K>>,
}

impl<K, V, KO, F> Receive<K, Change<V>> for Sender<K, V, KO, F>
where
    K: Clone + 'static,
    V: 'static,
    KO: Clone + 'static,
    F: ForeignKeyOf<K, V, KO>,
{
    fn receive(&self, record: Record<K, Change<V>>) -> Result<(), Fault> {
        let Record { key, value: change, timestamp, headers } = record;
        if self.ignores_past && !change.is_latest {
            self.task.drop_record(&self.name, "it changes the past of a versioned table");
            return Ok(());
        }
        let Change { new, old, .. } = &change;
        let old_key = self.extract(&key, old.as_ref())?;
        let new_key = self.extract(&key, new.as_ref())?;
        let messages = match self.kind {
            ForeignJoin::Left if new.is_none() && old.is_none() => return Ok(()),
            ForeignJoin::Left => self.left(old_key, new_key, &headers)?,
            ForeignJoin::Inner => self.inner((old_key, new_key), new.is_some(), &headers)?,
        };
        let hash = self.hash(new.as_ref(), &headers)?;
        for (foreign_key, instruction) in messages.into_iter().flatten() {
            let partition = Some(self.task.record().partition);
            let value = Subscription { hash, instruction, primary_key: key.clone(), partition };
            let headers = headers.clone();
            self.out.send(Record { key: foreign_key, value, timestamp, headers })?;
        }
        Ok(())
    }
}

/// Up to two messages, in order: to which foreign key, and what it shall do.
type Messages<KO> = [Option<(Option<KO>, Instruction)>; 2];

impl<K, V: 'static, KO: 'static, F: ForeignKeyOf<K, V, KO>> Sender<K, V, KO, F> {
    fn extract(&self, key: &K, value: Option<&V>) -> Result<Option<KO>, Fault> {
        let Some(value) = value else { return Ok(None) };
        let extracted = self.foreign_key_of.extract(key, value);
        let extracted = extracted.map_err(|error| Fault::at(&self.name, error))?;
        Ok(extracted.filter(|key| !self.serdes.foreign_key.is_null(key)))
    }

    /// A left value is never without an answer, whether it has a foreign key or not.
    fn left(
        &self,
        old: Option<KO>,
        new: Option<KO>,
        headers: &Headers,
    ) -> Result<Messages<KO>, Fault> {
        let forgets = old.is_some() && self.differ(old.as_ref(), new.as_ref(), headers)?;
        let forget = old.filter(|_| forgets).map(|old| (Some(old), Instruction::Forget));
        Ok([forget, Some((new, Instruction::Answer))])
    }

    fn inner(
        &self,
        keys: (Option<KO>, Option<KO>),
        is_there: bool,
        headers: &Headers,
    ) -> Result<Messages<KO>, Fault> {
        if is_there && keys.1.is_none() {
            self.task.drop_record(&self.name, "its foreign key is null");
        }
        Ok(match keys {
            (Some(old), Some(new)) if self.differ(Some(&old), Some(&new), headers)? => {
                [Some((Some(old), Instruction::Forget)), Some((Some(new), Instruction::Answer))]
            }
            (_, Some(new)) => [Some((Some(new), Instruction::AnswerIfPresent)), None],
            (Some(old), None) => [Some((Some(old), Instruction::ForgetAndAnswer)), None],
            (None, None) => [None, None],
        })
    }

    fn at<'a>(&'a self, headers: &'a Headers) -> At<'a> {
        At { topic: &self.name, headers, is_key: true }
    }

    /// Foreign keys are the same if their bytes are.
    fn differ(&self, a: Option<&KO>, b: Option<&KO>, headers: &Headers) -> Result<bool, Fault> {
        let bytes = |key: Option<&KO>| -> Outcome<Option<Vec<u8>>> {
            let mut bytes = Vec::new();
            if let Some(key) = key {
                let at = self.at(headers);
                self.serdes.foreign_key.serialize(
                    &self.serdes.topics.foreign_key(&at),
                    key,
                    &mut bytes,
                )?;
            }
            Ok(key.map(|_| bytes))
        };
        let failed = |error| Fault::at(&self.name, error);
        Ok(bytes(a).map_err(failed)? != bytes(b).map_err(failed)?)
    }

    fn hash(&self, value: Option<&V>, headers: &Headers) -> Result<Option<Hash>, Fault> {
        let hash = hash_of(&self.serdes.value, &self.serdes.topics, value, &self.at(headers));
        hash.map_err(|error| Fault::at(&self.name, error))
    }
}

/// The hash of a left value.
pub(super) fn hash_of<V: 'static>(
    serde: &SerdeRef<V>,
    topics: &PseudoTopics,
    value: Option<&V>,
    at: &At<'_>,
) -> Outcome<Option<Hash>> {
    let Some(value) = value else { return Ok(None) };
    let mut bytes = Vec::new();
    serde.serialize(&topics.value_hash(at), value, &mut bytes)?;
    Ok(Some(hash128(&bytes)))
}

/// The left side. `ignores_past`: the left table is versioned.
pub(crate) fn send<K, V, KO, F>(
    kind: ForeignJoin,
    ignores_past: bool,
    foreign_key_of: F,
    serdes: SendSerdes<V, KO>,
) -> NodeFactory
where
    K: Clone + 'static,
    V: 'static,
    KO: Clone + 'static,
    F: ForeignKeyOf<K, V, KO>,
{
    let (foreign_key_of, serdes) = (Arc::new(foreign_key_of), Arc::new(serdes));
    node_factory(move |wiring| {
        serdes.topics.open(wiring.task());
        let send: Sender<K, V, KO, F> = Sender {
            name: wiring.name().clone(),
            task: wiring.task().clone(),
            kind,
            ignores_past,
            foreign_key_of: foreign_key_of.clone(),
            serdes: serdes.clone(),
            out: wiring.output()?,
        };
        Ok(Rc::new(send) as Port<K, Change<V>>)
    })
}
