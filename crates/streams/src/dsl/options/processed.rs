//! How a processor is placed in a stream.

use crate::state::{StoreSpec, StoreToken, StoreType};

/// Options of `process`: the node's name and the stores that the processor may use.
#[derive(Debug, Clone, Default)]
pub struct Processed {
    pub(crate) name: Option<String>,
    pub(crate) stores: Vec<&'static StoreSpec>,
}

impl Processed {
    /// Without a name and without stores.
    pub fn new() -> Self {
        Processed::default()
    }

    /// For a node of that name.
    pub fn named(name: impl Into<String>) -> Self {
        Processed { name: Some(name.into()), stores: Vec::new() }
    }

    /// Gives the processor access to a store, which is made if it is new.
    #[must_use]
    pub fn store<S: StoreType>(mut self, token: &StoreToken<S>) -> Self {
        self.stores.push(token.spec);
        self
    }
}
