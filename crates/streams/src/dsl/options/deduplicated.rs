//! How duplicates are told.

use crate::serde::{DefaultSerde, SerdeRef};
use std::fmt;
use std::time::Duration;

/// Options of `deduplicate`: within which time records of one id are duplicates. A name names the store.
pub struct Deduplicated<I> {
    pub(crate) name: Option<String>,
    pub(crate) id: SerdeRef<I>,
    pub(crate) within: Duration,
    pub(crate) grace: Duration,
    pub(crate) persistent: bool,
}

impl<I> Deduplicated<I> {
    /// Duplicates are within that time of each other, by their timestamps.
    pub fn within(within: Duration) -> Self
    where
        I: DefaultSerde,
    {
        Deduplicated::with(I::default_serde(), within)
    }

    /// The same with this serde for ids.
    pub fn with(id: SerdeRef<I>, within: Duration) -> Self {
        Deduplicated { name: None, id, within, grace: within, persistent: true }
    }

    /// The name of the operator and its store.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How far a record may be behind the stream time; default: as far as duplicates are apart.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Keeps the ids in memory only; they are read from their changelog at each start.
    #[must_use]
    pub fn in_memory(mut self) -> Self {
        self.persistent = false;
        self
    }
}

impl<I> fmt::Debug for Deduplicated<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Deduplicated");
        text.field("name", &self.name).field("within", &self.within).finish()
    }
}
