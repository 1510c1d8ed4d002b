//! Punctuators: user code that runs when time has come, not when a record has.
//!
//! A schedule fires at most once a check: what it has missed is skipped, and it stays on its grid. Stream time is checked after each
//! record, and before the first; the wall clock once a turn of the thread.

use super::{Context, KeyOf, ProcessResult, Processor, TaskContext, ValueOf};
use crate::topology::erased::{Fault, Output};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Which clock a punctuator goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PunctuationType {
    /// The highest timestamp that the task has seen. It stands still without records.
    StreamTime,
    /// The clock on the wall, whether there are records or not.
    WallClockTime,
}

/// Ends a schedule.
#[derive(Clone)]
pub struct Cancellable(Rc<Cell<bool>>);

impl Cancellable {
    /// The punctuator is not called any more. It may cancel itself.
    pub fn cancel(&self) {
        self.0.set(true);
    }
}

impl fmt::Debug for Cancellable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancellable").field("cancelled", &self.0.get()).finish()
    }
}

type Callback<P> = dyn Fn(&mut P, i64, &mut Context<'_, P>) -> ProcessResult;

/// One schedule of a processor.
struct Schedule<P: Processor + ?Sized> {
    kind: PunctuationType,
    interval: i64,
    next: i64,
    cancelled: Rc<Cell<bool>>,
    callback: Rc<Callback<P>>,
}

/// A punctuator whose time has come.
struct Due<P: Processor + ?Sized> {
    at: i64,
    callback: Rc<Callback<P>>,
    cancelled: Rc<Cell<bool>>,
}

/// The schedules of one processor.
pub(crate) struct Schedules<P: Processor + ?Sized>(RefCell<Vec<Schedule<P>>>);

impl<P: Processor + ?Sized> Schedules<P> {
    pub(super) fn new() -> Self {
        Schedules(RefCell::default())
    }

    pub(super) fn add(
        &self,
        task: &TaskContext,
        interval: Duration,
        kind: PunctuationType,
        callback: Rc<Callback<P>>,
    ) -> Cancellable {
        let interval = i64::try_from(interval.as_millis()).unwrap_or(i64::MAX).max(1);
        let next = match kind {
            PunctuationType::StreamTime => 0,
            PunctuationType::WallClockTime => task.wall_clock().saturating_add(interval),
        };
        task.expect_punctuation(kind, next);
        let cancelled = Rc::new(Cell::new(false));
        let schedule = Schedule { kind, interval, next, cancelled: cancelled.clone(), callback };
        self.0.borrow_mut().push(schedule);
        Cancellable(cancelled)
    }

    /// Takes the callbacks that are due, the earliest first, and moves their schedules on.
    fn take_due(&self, kind: PunctuationType, now: i64) -> Vec<Due<P>> {
        let mut schedules = self.0.borrow_mut();
        schedules.retain(|schedule| !schedule.cancelled.get());
        let mut due = Vec::new();
        for schedule in schedules.iter_mut() {
            if schedule.kind != kind || schedule.next > now {
                continue;
            }
            let (callback, cancelled) = (schedule.callback.clone(), schedule.cancelled.clone());
            due.push(Due { at: schedule.next, callback, cancelled });
            let missed = (now - schedule.next) / schedule.interval;
            let steps = missed.saturating_add(1).saturating_mul(schedule.interval);
            schedule.next = schedule.next.saturating_add(steps);
        }
        due.sort_by_key(|due| due.at);
        due
    }

    fn next(&self, kind: PunctuationType) -> Option<i64> {
        let schedules = self.0.borrow();
        let of_kind = schedules.iter().filter(|s| s.kind == kind && !s.cancelled.get());
        of_kind.map(|schedule| schedule.next).min()
    }
}

/// A node with punctuators, as its task knows it.
pub(crate) trait Punctuate {
    /// Calls what is due.
    fn punctuate(&self, kind: PunctuationType, now: i64) -> Result<(), Fault>;

    /// When something is due next.
    fn next(&self, kind: PunctuationType) -> Option<i64>;
}

/// What a node needs to call its punctuators.
pub(super) struct Punctuated<'a, P: Processor> {
    pub(super) name: &'a Arc<str>,
    pub(super) processor: &'a RefCell<P>,
    pub(super) task: &'a TaskContext,
    pub(super) out: &'a Output<KeyOf<P::Out>, ValueOf<P::Out>>,
    pub(super) schedules: &'a Schedules<P>,
}

impl<P: Processor> Punctuated<'_, P> {
    pub(super) fn punctuate(&self, kind: PunctuationType, now: i64) -> Result<(), Fault> {
        for Due { callback, cancelled, .. } in self.schedules.take_due(kind, now) {
            if cancelled.get() {
                continue;
            }
            self.task.enter_punctuation(now);
            let mut ctx = Context::new(self.task, self.out, self.schedules);
            let done = callback(&mut self.processor.borrow_mut(), now, &mut ctx);
            done.map_err(|error| Fault::at(self.name, error))?;
        }
        Ok(())
    }

    pub(super) fn next(&self, kind: PunctuationType) -> Option<i64> {
        self.schedules.next(kind)
    }
}
