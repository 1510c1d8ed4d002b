//! Final results: which windows have closed since the last time, for aggregations that emit on close.
//!
//! How far it is stands in the task's progress under the store's name, so that after a restart no window is emitted again and none
//! is left out. Windows are emitted before the record that closed them is aggregated: that record may move the store's clock past
//! what is to be emitted (P25); Java 4.4 aggregates first. How often it looks is a setting, `emit.interval.ms` (P26).

use crate::config::Compatibility;
use crate::processor::TaskContext;
use std::cell::Cell;
use std::rc::Rc;

pub(super) struct CloseEmitter {
    task: Rc<TaskContext>,
    /// Everything that closed before that time is emitted; -1 at first.
    emitted: Rc<Cell<i64>>,
    /// When to look again, in wall-clock time.
    next: Cell<i64>,
}

impl CloseEmitter {
    pub(super) fn new(task: &Rc<TaskContext>, store: &str) -> Self {
        let (task, emitted) = (task.clone(), task.progress.time(store));
        CloseEmitter { task, emitted, next: Cell::new(0) }
    }

    /// Whether windows are emitted before the record in hand is aggregated.
    pub(super) fn comes_first(&self) -> bool {
        self.task.rules.compatibility == Compatibility::Correct
    }

    /// The time of the last emission (-1: none), if something may have closed since.
    pub(super) fn due(&self, close_time: i64) -> Option<i64> {
        let now = self.task.wall_clock();
        if now < self.next.get() {
            return None;
        }
        self.next.set(now.saturating_add(self.task.rules.emit_interval));
        let last = self.emitted.get();
        (last < close_time).then_some(last)
    }

    pub(super) fn emitted(&self, close_time: i64) {
        self.emitted.set(close_time);
    }
}
