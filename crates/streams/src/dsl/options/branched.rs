//! What becomes of a branch.

use crate::dsl::KStream;
use std::fmt;

/// Options of a branch of `split`: its name, and what is done with it on the spot.
pub struct Branched<K, V> {
    pub(crate) name: Option<String>,
    pub(crate) use_of: BranchUse<K, V>,
}

type Chain<K, V> = Box<dyn FnOnce(KStream<K, V>) -> Option<KStream<K, V>>>;

pub(crate) enum BranchUse<K, V> {
    /// The branch is among the results.
    Kept,
    /// What the function makes of it is, if it makes anything.
    Chained(Chain<K, V>),
}

impl<K, V> Branched<K, V> {
    /// A branch that is named after its place: the first is 1, the default branch 0.
    #[expect(clippy::new_without_default, reason = "options are made by name, as in Java")]
    pub fn new() -> Self {
        Branched { name: None, use_of: BranchUse::Kept }
    }

    /// A branch of that name; the split's name stands before it.
    pub fn named(name: impl Into<String>) -> Self {
        Branched { name: Some(name.into()), use_of: BranchUse::Kept }
    }

    /// Puts what `function` makes of the branch among the results; nothing, if it gives `None`.
    #[must_use]
    pub fn function<F>(self, function: F) -> Self
    where
        F: FnOnce(KStream<K, V>) -> Option<KStream<K, V>> + 'static,
    {
        Branched { use_of: BranchUse::Chained(Box::new(function)), ..self }
    }

    /// Hands the branch to `consumer`; it is not among the results.
    #[must_use]
    pub fn consumer(self, consumer: impl FnOnce(KStream<K, V>) + 'static) -> Self {
        self.function(move |branch| {
            consumer(branch);
            None
        })
    }
}

impl<K, V> fmt::Debug for Branched<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Branched").field("name", &self.name).finish()
    }
}
