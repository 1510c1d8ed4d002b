//! Memory that the stores of a thread share.

use std::cell::Cell;
use std::rc::Rc;

/// A number of bytes that all stores of a thread may take together for one purpose. Whoever takes more than there is gives up
/// what it can do without.
#[derive(Debug, Clone)]
pub(crate) struct Budget(Rc<(usize, Cell<usize>)>);

impl Budget {
    pub(crate) fn new(bytes: usize) -> Self {
        Budget(Rc::new((bytes, Cell::new(0))))
    }

    pub(in crate::state) fn is_nothing(&self) -> bool {
        self.0.0 == 0
    }

    pub(in crate::state) fn is_exceeded(&self) -> bool {
        self.0.1.get() > self.0.0
    }

    pub(in crate::state) fn take(&self, bytes: usize) {
        self.0.1.set(self.0.1.get() + bytes);
    }

    pub(in crate::state) fn give(&self, bytes: usize) {
        self.0.1.set(self.0.1.get() - bytes);
    }
}

/// What stores may take.
#[derive(Debug, Clone)]
pub(crate) struct StoreBudget {
    /// For changes that wait to be forwarded; nothing: they are forwarded at once.
    pub(crate) record_cache: Budget,
    /// For what was read or written lately.
    pub(crate) read_cache: Budget,
}
