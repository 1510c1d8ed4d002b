//! The end of a stream in user code: all that is left to say is its name.

use super::plan::{PlanId, PlanRef};
use std::fmt;

/// Where a stream ends: what [`super::KStream::for_each`] gives, to name its operator.
pub struct StreamEnd {
    plan: PlanRef,
    node: PlanId,
}

impl StreamEnd {
    pub(super) fn new(plan: PlanRef, node: PlanId) -> Self {
        StreamEnd { plan, node }
    }

    /// Names the operator; without it, operators are numbered.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// let words = builder.stream("words", Consumed::<String, String>::new());
    /// words.for_each(|_, word| println!("{word}")).named("show");
    /// assert!(builder.build()?.describe().contains("Processor: show (stores: [])"));
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    pub fn named(self, name: impl Into<String>) {
        self.plan.rename(self.node, name.into());
    }
}

impl fmt::Debug for StreamEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StreamEnd").field(&self.plan.node_name(self.node)).finish()
    }
}
