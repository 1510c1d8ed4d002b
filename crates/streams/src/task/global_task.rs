//! The processor in front of a global store, on one partition of the store's topic: a task without a group, stores and commits.

use super::collector::Nowhere;
use super::stream_task::{StreamTask, TaskPlan};
use crate::error::{Error, Result};
use crate::processor::{PunctuationType, TaskId};
use crate::state::{Budget, StoreBudget, TaskBackends};
use std::cell::RefCell;
use std::rc::Rc;

impl StreamTask {
    /// Builds the task of a partition.
    ///
    /// # Errors
    /// As [`StreamTask::build`], and when a processor has punctuators: there is no commit that would follow them.
    pub(crate) fn build_global(plan: &TaskPlan, id: TaskId, wall_clock: i64) -> Result<Self> {
        let backends = TaskBackends::new(None);
        let budget = StoreBudget { record_cache: Budget::new(0), read_cache: Budget::new(0) };
        let collector = Rc::new(RefCell::new(Nowhere));
        let task = StreamTask::build(plan, id, backends, &budget, collector, wall_clock, |_| true)?;
        let clocks = [PunctuationType::StreamTime, PunctuationType::WallClockTime];
        if clocks.into_iter().any(|clock| task.context().next_punctuation(clock).is_some()) {
            let message = "the processor of a global store cannot have punctuators";
            return Err(Error::topology(message));
        }
        Ok(task)
    }
}
