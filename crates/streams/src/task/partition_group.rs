//! The input partitions of a task: the record with the lowest time comes first.

use super::source::InputPartition;
use crate::record::RecordMetadata;
use crate::topology::erased::Fault;

/// The partitions that a task reads.
#[derive(Default)]
pub(crate) struct PartitionGroup {
    inputs: Vec<Box<dyn InputPartition>>,
}

impl PartitionGroup {
    pub(crate) fn new(inputs: Vec<Box<dyn InputPartition>>) -> Self {
        PartitionGroup { inputs }
    }

    pub(crate) fn inputs(&self) -> impl Iterator<Item = &dyn InputPartition> {
        self.inputs.iter().map(|input| &**input)
    }

    /// The input of that partition.
    pub(crate) fn input_mut(
        &mut self,
        topic: &str,
        partition: i32,
    ) -> Option<&mut Box<dyn InputPartition>> {
        let is_it = |input: &&mut Box<dyn InputPartition>| {
            input.partition() == partition && **input.topic() == *topic
        };
        self.inputs.iter_mut().find(is_it)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.inputs.iter().all(|input| input.head_time().is_none())
    }

    /// Whether every partition has a record, so that the lowest time is known for sure.
    pub(crate) fn all_buffered(&self) -> bool {
        self.inputs.iter().all(|input| input.head_time().is_some())
    }

    /// The partitions without a record.
    pub(crate) fn empty_inputs(&self) -> impl Iterator<Item = &dyn InputPartition> {
        self.inputs().filter(|input| input.head_time().is_none())
    }

    /// Processes the record with the lowest time; the earlier partition wins among equals. False if there is none.
    pub(crate) fn process_next(&mut self) -> Result<bool, Fault> {
        let Some(input) = self.next() else { return Ok(false) };
        input.process_head()?;
        Ok(true)
    }

    /// Whether the next record is this one.
    pub(crate) fn is_at(&mut self, place: &RecordMetadata) -> bool {
        self.next().is_some_and(|input| {
            *input.topic() == place.topic
                && input.partition() == place.partition
                && input.position().0 == place.offset
        })
    }

    #[inline]
    fn next(&mut self) -> Option<&mut Box<dyn InputPartition>> {
        match &mut self.inputs[..] {
            [only] => only.head_time().is_some().then_some(only),
            inputs => {
                let timed = inputs.iter_mut().filter_map(|input| Some((input.head_time()?, input)));
                timed.min_by_key(|(time, _)| *time).map(|(_, input)| input)
            }
        }
    }
}
