//! Walks over a store in chunks. Where a walk is, is a key of the store: nothing is kept open from one chunk to the next.

use super::{Cancellable, Context, ProcessResult, Processor};
use crate::error::BoxError;
use crate::state::Walkable;
use byteview::ByteView;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Tells how much time has gone by since some moment.
#[derive(Clone)]
pub(crate) struct Elapsed(Arc<dyn Fn() -> Duration + Send + Sync>);

impl Elapsed {
    pub(crate) fn by(clock: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Elapsed(Arc::new(clock))
    }

    /// For where no time goes by.
    pub(crate) fn none() -> Self {
        Elapsed::by(|| Duration::ZERO)
    }

    pub(super) fn read(&self) -> Duration {
        (self.0)()
    }
}

impl fmt::Debug for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Elapsed")
    }
}

/// How much of a walk is done before the thread turns to other work: the bound that is met first. At least one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    entries: usize,
    time: Duration,
}

impl Chunk {
    /// So many entries.
    pub const fn entries(entries: usize) -> Self {
        Chunk { entries, time: Duration::MAX }
    }

    /// No longer than `time`, as far as single entries allow it.
    #[must_use]
    pub const fn time(self, time: Duration) -> Self {
        Chunk { time, ..self }
    }
}

/// A thousand entries, and no more than 5 ms.
impl Default for Chunk {
    fn default() -> Self {
        Chunk::entries(1_000).time(Duration::from_millis(5))
    }
}

/// A walk of a processor, as its schedules know it.
pub(super) trait Walk<P: Processor + ?Sized> {
    /// Begins, at the time of the schedule, unless it is under way.
    fn begin(&self, now: i64);

    /// The next chunk, if it is under way; whether it goes on.
    fn step(&self, processor: &mut P, ctx: &mut Context<'_, P>) -> Result<bool, BoxError>;

    fn cancellable(&self) -> Cancellable;
}

/// How far a walk is.
struct Position {
    /// The last key that was met.
    key: Option<ByteView>,
    /// When it began, by its schedule.
    began: i64,
}

pub(super) struct ChunkedWalk<S, F> {
    store: S,
    chunk: Chunk,
    punctuator: F,
    cancellable: Cancellable,
    position: RefCell<Option<Position>>,
}

impl<S, F> ChunkedWalk<S, F> {
    pub(super) fn new(store: S, chunk: Chunk, punctuator: F) -> Self {
        let (cancellable, position) = (Cancellable::default(), RefCell::default());
        ChunkedWalk { store, chunk, punctuator, cancellable, position }
    }

    fn advance(&self, key: ByteView) {
        if let Some(position) = &mut *self.position.borrow_mut() {
            position.key = Some(key);
        }
    }
}

impl<P, S, F> Walk<P> for ChunkedWalk<S, F>
where
    P: Processor,
    S: Walkable,
    F: Fn(&mut P, i64, (S::Key, S::Value), &mut Context<'_, P>) -> ProcessResult + 'static,
{
    fn begin(&self, now: i64) {
        self.position.borrow_mut().get_or_insert(Position { key: None, began: now });
    }

    fn step(&self, processor: &mut P, ctx: &mut Context<'_, P>) -> Result<bool, BoxError> {
        let Some((key, began)) =
            self.position.borrow().as_ref().map(|position| (position.key.clone(), position.began))
        else {
            return Ok(false);
        };
        let since = ctx.task().elapsed();
        for (met, entry) in self.store.walk(key.as_ref())?.enumerate() {
            if self.cancellable.is_cancelled() {
                break;
            }
            let is_time_up = || ctx.task().elapsed().saturating_sub(since) >= self.chunk.time;
            // One is met in any case: opening the store, and passing what was deleted, may take all the time.
            if met > 0 && (met >= self.chunk.entries || is_time_up()) {
                return Ok(true);
            }
            let (position, entry) = entry?;
            // First: an entry that cannot be read, or that fails, and is left out is not met again.
            self.advance(position);
            ctx.task().enter_punctuation(began);
            (self.punctuator)(processor, began, entry?, ctx)?;
        }
        self.position.replace(None);
        Ok(false)
    }

    fn cancellable(&self) -> Cancellable {
        self.cancellable.clone()
    }
}
