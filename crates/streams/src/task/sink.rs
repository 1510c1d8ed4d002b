//! The end of a record's way through a task: serialized and handed to the collector.

use super::collector::{Outgoing, Placement, RecordCollector, TopicHandle};
use crate::error::{BoxError, Error, ErrorKind};
use crate::handlers::WriteProblem;
use crate::processor::{Refusal, Settled, TaskContext, Unwritten};
use crate::record::Record;
use crate::serde::{At, SerdeRef, serialize_nullable};
use crate::topology::erased::{Fault, NodeFactory, Port, Receive, node_factory};
use crate::topology::{RecordToPartition, StreamPartitioner, TopicNameExtractor, TopicTarget};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// What a sink does with records, before there is a task.
pub(crate) struct SinkSpec<K, V> {
    pub(crate) target: TopicTarget<K, V>,
    /// Whether the fixed topic is a repartition topic, which gets the application's prefix.
    pub(crate) internal: bool,
    pub(crate) key: SerdeRef<K>,
    pub(crate) value: SerdeRef<V>,
    pub(crate) partitioner: Option<Arc<dyn StreamPartitioner<K, V>>>,
}

enum Target<K, V> {
    Fixed { name: Arc<str>, handle: TopicHandle },
    Computed(Arc<dyn TopicNameExtractor<K, V>>),
}

struct Sink<K, V> {
    node: Arc<str>,
    /// Whether the topic belongs to the application: nothing that goes there may be missing.
    is_internal: bool,
    target: Target<K, V>,
    key: SerdeRef<K>,
    value: SerdeRef<V>,
    partitioner: Option<Arc<dyn StreamPartitioner<K, V>>>,
    task: Rc<TaskContext>,
    collector: Rc<RefCell<dyn RecordCollector>>,
    scratch: RefCell<(Vec<u8>, Vec<u8>)>,
}

impl<K: 'static, V: 'static> Receive<K, V> for Sink<K, V> {
    fn receive(&self, record: Record<K, V>) -> Result<(), Fault> {
        match &self.target {
            Target::Fixed { name, handle } => self.write(name, *handle, &record),
            Target::Computed(extractor) => {
                let name = extractor.topic(&record, self.task.metadata().as_ref());
                let handle = self.collector.borrow_mut().topic(&name);
                self.write(&name, handle, &record)
            }
        }
    }

    /// A serde, the partitioner or the topic extractor: which one is not known any more.
    fn panicked(&self, _: &Arc<str>, panic: Error) -> Result<(), Fault> {
        let topic = match &self.target {
            Target::Fixed { name, .. } => name,
            Target::Computed(_) => "",
        };
        self.refused(topic, WriteProblem::Value, None, panic.into())
    }
}

impl<K: 'static, V: 'static> Sink<K, V> {
    fn write(&self, topic: &str, handle: TopicHandle, record: &Record<K, V>) -> Result<(), Fault> {
        if record.timestamp < 0 {
            let message = format!("its timestamp {} is negative", record.timestamp);
            return self.refused(topic, WriteProblem::Refused, None, message.into());
        }
        let (key, value) = &mut *self.scratch.borrow_mut();
        let at = |is_key| At { topic, headers: &record.headers, is_key };
        let key = match serialize_nullable(&*self.key, &at(true), &record.key, key) {
            Ok(key) => key,
            Err(error) => return self.refused(topic, WriteProblem::Key, None, error),
        };
        let value = match serialize_nullable(&*self.value, &at(false), &record.value, value) {
            Ok(value) => value,
            Err(error) => return self.refused(topic, WriteProblem::Value, None, error),
        };
        let (timestamp, headers) = (record.timestamp, &record.headers);
        let outgoing = Outgoing { timestamp, key, value, headers };
        if self.task.failures.has_refusals()
            && self.ask_about_refusal(topic, outgoing)? == Settled::LeftOut
        {
            return Ok(());
        }
        self.append(handle, record, outgoing).or_else(|error| {
            let problem = match error.kind() {
                ErrorKind::BadRecord => WriteProblem::TooLarge,
                _ => WriteProblem::Refused,
            };
            self.refused(topic, problem, Some(outgoing.sizes()), error.into())
        })
    }

    /// Brokers refused this write before: the handler is asked now that its record is in hand.
    #[cold]
    fn ask_about_refusal(&self, topic: &str, outgoing: Outgoing<'_>) -> Result<Settled, Fault> {
        let place = self.task.metadata();
        let refusal = place.and_then(|place| self.task.failures.refusal(&place, topic));
        let Some(Refusal { problem, message, .. }) = refusal else { return Ok(Settled::Again) };
        let (key_size, value_size) = outgoing.sizes();
        let write = Unwritten {
            topic,
            problem,
            key_size: Some(key_size),
            value_size: Some(value_size),
            may_pass: true,
        };
        self.task.settle_write(&self.node, self.is_internal, write, message.into())
    }

    fn append(
        &self,
        handle: TopicHandle,
        record: &Record<K, V>,
        outgoing: Outgoing<'_>,
    ) -> Result<(), Error> {
        let mut collector = self.collector.borrow_mut();
        let Some(partitioner) = &self.partitioner else {
            return collector.append(handle, Placement::ByKey, outgoing);
        };
        let count = collector.partitions(handle)?;
        let mut append = |placement| collector.append(handle, placement, outgoing);
        match partitioner.partitions(&record.key, &record.value, count, &record.headers) {
            RecordToPartition::Default => append(Placement::ByKey)?,
            RecordToPartition::One(partition) => append(Placement::Partition(partition))?,
            RecordToPartition::Many(partitions) => {
                for partition in partitions {
                    append(Placement::Partition(partition))?;
                }
            }
        }
        Ok(())
    }

    /// The record cannot be written: the handler is asked.
    #[cold]
    fn refused(
        &self,
        topic: &str,
        problem: WriteProblem,
        sizes: Option<(usize, usize)>,
        error: BoxError,
    ) -> Result<(), Fault> {
        let (key_size, value_size) = sizes.unzip();
        let write = Unwritten { topic, problem, key_size, value_size, may_pass: false };
        self.task.settle_write(&self.node, self.is_internal, write, error).map(|_| ())
    }
}

/// The factory of a sink.
pub(crate) fn sink<K: 'static, V: 'static>(spec: SinkSpec<K, V>) -> NodeFactory {
    node_factory(move |wiring| {
        let task = wiring.task().clone();
        let target = match &spec.target {
            TopicTarget::Fixed(topic) => {
                let name: Arc<str> = match spec.internal {
                    true => format!("{}-{topic}", task.application.id).into(),
                    false => topic.clone(),
                };
                let handle = wiring.collector().borrow_mut().topic(&name);
                Target::Fixed { name, handle }
            }
            TopicTarget::Computed(extractor) => Target::Computed(extractor.clone()),
        };
        Ok(Rc::new(Sink {
            node: wiring.name().clone(),
            is_internal: spec.internal,
            target,
            key: spec.key.clone(),
            value: spec.value.clone(),
            partitioner: spec.partitioner.clone(),
            task,
            collector: wiring.collector().clone(),
            scratch: RefCell::default(),
        }) as Port<K, V>)
    })
}
