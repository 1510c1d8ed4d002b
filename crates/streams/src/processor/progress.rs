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
    /// What was committed under names that no operator has asked for yet.
    found: RefCell<BTreeMap<String, i64>>,
    /// Times that nodes of the task share, but that end with it.
    passing: RefCell<Times>,
}

type Times = BTreeMap<Arc<str>, Rc<Cell<i64>>>;

impl Progress {
    /// The time of that name: an operator moves it, a commit writes it.
    pub(crate) fn time(&self, name: &str) -> Rc<Cell<i64>> {
        let found = self.found.borrow_mut().remove(name).unwrap_or(-1);
        let mut times = self.committed.borrow_mut();
        times.entry(name.into()).or_insert_with(|| Rc::new(Cell::new(found))).clone()
    }

    /// The time of an operator's own, under a short name: brokers take 4096 bytes of metadata with an offset, for all operators.
    pub(crate) fn own_time(&self, operator: &str) -> Rc<Cell<i64>> {
        self.time(&format!("t:{:016x}", fnv1a(operator.as_bytes())))
    }

    /// A time that all nodes which ask for that name share, but no commit writes.
    pub(crate) fn passing_time(&self, name: &str, first: i64) -> Rc<Cell<i64>> {
        let mut times = self.passing.borrow_mut();
        times.entry(name.into()).or_insert_with(|| Rc::new(Cell::new(first))).clone()
    }

    /// Goes on from what was committed: times never go back.
    pub(crate) fn reach(&self, committed: &BTreeMap<String, i64>) {
        let (times, mut found) = (self.committed.borrow(), self.found.borrow_mut());
        for (name, time) in committed {
            match times.get(&**name) {
                Some(own) => own.set(own.get().max(*time)),
                None => {
                    let known = found.entry(name.clone()).or_insert(-1);
                    *known = (*known).max(*time);
                }
            }
        }
    }

    /// The times to commit: those of operators that there are.
    pub(crate) fn times(&self) -> BTreeMap<String, i64> {
        let times = self.committed.borrow();
        let known = times.iter().filter(|(_, time)| time.get() >= 0);
        known.map(|(name, time)| (name.to_string(), time.get())).collect()
    }
}

/// A hash that is the same for ever: names in committed metadata are made of it.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
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
        // Nobody has asked for the join: it may be gone from the topology.
        let known = [("windows".to_string(), 7)].into();
        assert_eq!((windows.get(), progress.times()), (7, known));
        assert_eq!(progress.time("join").get(), 3);
        assert_eq!(progress.times(), committed);
        windows.set(9);
        progress.reach(&[("windows".to_string(), 8)].into());
        assert_eq!((windows.get(), progress.time("join").get()), (9, 3));
    }

    #[test]
    fn an_operators_own_name_is_short_and_always_the_same() {
        let progress = Progress::default();
        progress.own_time("KSTREAM-AGGREGATE-STATE-STORE-0000000002").set(5);
        let times: Vec<String> = progress.times().into_keys().collect();
        assert_eq!(times, ["t:02b610468424145d"]);
    }
}
