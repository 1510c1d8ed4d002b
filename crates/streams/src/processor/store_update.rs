//! The processor that keeps a store like a topic.

use super::{Context, ProcessResult, Processor};
use crate::record::Record;
use crate::state::Writable;

/// Puts each record into a store; a null value deletes.
pub(crate) struct StoreUpdate<S>(pub(crate) S);

impl<S: Writable> Processor for StoreUpdate<S> {
    type In = (S::Key, Option<S::Value>);
    type Out = ((), ());

    fn process(
        &mut self,
        record: Record<S::Key, Option<S::Value>>,
        _: &mut Context<Self>,
    ) -> ProcessResult {
        Ok(self.0.write(&record.key, record.value.as_ref(), record.timestamp)?)
    }
}
