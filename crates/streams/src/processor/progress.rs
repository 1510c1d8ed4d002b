//! How far in time operators are: committed with the offsets, so that what was closed stays closed after a restart or elsewhere.
//!
//! Each operator that closes something (a window, a join's look-back) has a time under a name of its own. All times of a task stand
//! behind the partition time in the metadata of its committed offsets, where Java 4.4 keeps those of windows that are emitted on close.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// Times by name; -1 for none yet.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    committed: RefCell<Times>,
    /// Times that nodes of the task share, but that end with it.
    passing: RefCell<Times>,
}

type Times = BTreeMap<Arc<str>, Rc<Cell<i64>>>;

impl Progress {
    /// The time of that name: an operator moves it, a commit writes it.
    pub(crate) fn time(&self, name: &str) -> Rc<Cell<i64>> {
        let mut times = self.committed.borrow_mut();
        times.entry(name.into()).or_insert_with(|| Rc::new(Cell::new(-1))).clone()
    }

    /// A time that all nodes which ask for that name share, but no commit writes.
    pub(crate) fn passing_time(&self, name: &str, first: i64) -> Rc<Cell<i64>> {
        let mut times = self.passing.borrow_mut();
        times.entry(name.into()).or_insert_with(|| Rc::new(Cell::new(first))).clone()
    }

    /// Goes on from what was committed: times never go back.
    pub(crate) fn reach(&self, committed: &BTreeMap<String, i64>) {
        for (name, time) in committed {
            let own = self.time(name);
            own.set(own.get().max(*time));
        }
    }

    /// The times to commit.
    pub(crate) fn times(&self) -> BTreeMap<String, i64> {
        let times = self.committed.borrow();
        let known = times.iter().filter(|(_, time)| time.get() >= 0);
        known.map(|(name, time)| (name.to_string(), time.get())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_go_on_from_what_was_committed_and_never_back() {
        let progress = Progress::default();
        let windows = progress.time("windows");
        assert_eq!((windows.get(), progress.times()), (-1, BTreeMap::new()));
        let committed = [("windows".to_string(), 7), ("join".to_string(), 3)].into();
        progress.reach(&committed);
        assert_eq!((windows.get(), progress.times()), (7, committed));
        windows.set(9);
        progress.reach(&[("windows".to_string(), 8)].into());
        assert_eq!((windows.get(), progress.time("join").get()), (9, 3));
    }
}
