//! Punctuators: user code that runs when time has come, not when a record has.
//!
//! A schedule fires at most once a check: what it has missed is skipped, and it stays on its grid. Stream time is checked after each
//! record, and before the first; the wall clock once a turn of the thread. A walk that a schedule has begun ([`super::walk`]) does a
//! piece a turn.

use super::walk::Walk;
use super::{Context, KeyOf, ProcessResult, Processor, TaskContext, ValueOf};
use crate::error::BoxError;
use crate::topology::erased::{Fault, Output, catch_panic};
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
#[derive(Clone, Default)]
pub struct Cancellable(Rc<Cell<bool>>);

impl Cancellable {
    /// The punctuator is not called any more. It may cancel itself.
    pub fn cancel(&self) {
        self.0.set(true);
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.0.get()
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

/// When a schedule fires.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timing {
    pub(super) kind: PunctuationType,
    pub(super) interval: Duration,
    /// A point of its grid; without one Java's default.
    pub(super) anchor: Option<i64>,
}

impl Timing {
    fn interval(&self) -> i64 {
        i64::try_from(self.interval.as_millis()).unwrap_or(i64::MAX).max(1)
    }

    /// The first time: the anchor, or if that has gone by, the next point of its grid.
    fn first(&self, task: &TaskContext) -> i64 {
        let now = match self.kind {
            PunctuationType::StreamTime => task.stream_time(),
            PunctuationType::WallClockTime => task.wall_clock(),
        };
        match (self.anchor, self.kind) {
            (Some(anchor), _) if anchor < now => next_point(anchor, self.interval(), now),
            (Some(anchor), _) => anchor,
            (None, PunctuationType::StreamTime) => 0,
            (None, PunctuationType::WallClockTime) => now.saturating_add(self.interval()),
        }
    }
}

/// The first point of a grid after `now`, which is not before the point that is known.
fn next_point(point: i64, interval: i64, now: i64) -> i64 {
    let missed = now.saturating_sub(point) / interval;
    point.saturating_add(missed.saturating_add(1).saturating_mul(interval))
}

/// The schedules of one processor.
pub(crate) struct Schedules<P: Processor + ?Sized> {
    schedules: RefCell<Vec<Schedule<P>>>,
    /// What schedules may begin.
    walks: RefCell<Vec<Rc<dyn Walk<P>>>>,
}

impl<P: Processor + ?Sized> Schedules<P> {
    pub(super) fn new() -> Self {
        Schedules { schedules: RefCell::default(), walks: RefCell::default() }
    }

    pub(super) fn add(
        &self,
        task: &TaskContext,
        timing: Timing,
        callback: Rc<Callback<P>>,
    ) -> Cancellable {
        self.add_cancellable(task, timing, callback, Cancellable::default())
    }

    fn add_cancellable(
        &self,
        task: &TaskContext,
        timing: Timing,
        callback: Rc<Callback<P>>,
        cancellable: Cancellable,
    ) -> Cancellable {
        let (kind, interval, next) = (timing.kind, timing.interval(), timing.first(task));
        task.expect_punctuation(kind, next);
        let cancelled = cancellable.0.clone();
        self.schedules.borrow_mut().push(Schedule { kind, interval, next, cancelled, callback });
        cancellable
    }

    /// Schedules the beginning of a walk; one that is under way is not begun again.
    pub(super) fn add_walk(
        &self,
        task: &TaskContext,
        timing: Timing,
        walk: Rc<dyn Walk<P>>,
    ) -> Cancellable
    where
        P: 'static,
    {
        let mut walks = self.walks.borrow_mut();
        walks.retain(|walk| !walk.cancellable().is_cancelled());
        walks.push(walk.clone());
        drop(walks);
        let cancellable = walk.cancellable();
        let begin = move |_: &mut P, now, ctx: &mut Context<'_, P>| {
            walk.begin(now);
            ctx.task().begin_walk();
            Ok(())
        };
        self.add_cancellable(task, timing, Rc::new(begin), cancellable)
    }

    fn walks(&self) -> Vec<Rc<dyn Walk<P>>> {
        self.walks.borrow().clone()
    }

    /// Takes the callbacks that are due, the earliest first, and moves their schedules on.
    fn take_due(&self, kind: PunctuationType, now: i64) -> Vec<Due<P>> {
        let mut schedules = self.schedules.borrow_mut();
        schedules.retain(|schedule| !schedule.cancelled.get());
        let mut due = Vec::new();
        for schedule in schedules.iter_mut() {
            if schedule.kind != kind || schedule.next > now {
                continue;
            }
            let (callback, cancelled) = (schedule.callback.clone(), schedule.cancelled.clone());
            due.push(Due { at: schedule.next, callback, cancelled });
            schedule.next = next_point(schedule.next, schedule.interval, now);
        }
        due.sort_by_key(|due| due.at);
        due
    }

    fn next(&self, kind: PunctuationType) -> Option<i64> {
        let schedules = self.schedules.borrow();
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

    /// A piece of each walk that is under way; whether one goes on.
    fn walk(&self) -> Result<bool, Fault>;
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
            self.guard(|ctx| callback(&mut self.processor.borrow_mut(), now, ctx))?;
        }
        Ok(())
    }

    pub(super) fn next(&self, kind: PunctuationType) -> Option<i64> {
        self.schedules.next(kind)
    }

    pub(super) fn walk(&self) -> Result<bool, Fault> {
        let mut goes_on = false;
        for walk in self.schedules.walks() {
            // A walk goes on behind an entry that is left out.
            let stepped = self.guard(|ctx| walk.step(&mut self.processor.borrow_mut(), ctx))?;
            goes_on |= stepped.unwrap_or(true);
        }
        Ok(goes_on)
    }

    /// Calls user code outside of a record; `None` if it failed and the handler lets it pass.
    fn guard<T>(
        &self,
        call: impl FnOnce(&mut Context<'_, P>) -> Result<T, BoxError>,
    ) -> Result<Option<T>, Fault> {
        let mut ctx = Context::new(self.task, self.out, self.schedules);
        let called = catch_panic(|| call(&mut ctx)).unwrap_or_else(|panic| Err(panic.into()));
        match called {
            Ok(value) => Ok(Some(value)),
            Err(error) => self.task.settle(Fault::at(self.name, error)).map(|()| None),
        }
    }
}
