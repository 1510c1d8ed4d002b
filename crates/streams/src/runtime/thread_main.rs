//! The OS thread of a stream thread: turns and sleeps.

use super::clock::Clock;
use super::shared::Shared;
use super::thread::{StreamThread, ThreadParts, Turn};
use crate::error::{Error, ErrorKind, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Runs a stream thread until it is asked to close or fails; reports each change of its state.
pub(super) fn run(index: usize, parts: ThreadParts, shared: &Arc<Shared>, clock: &dyn Clock) {
    let mut thread = StreamThread::new(parts, clock.now());
    let turns = AssertUnwindSafe(|| turn_until_closed(index, &mut thread, shared, clock));
    // User code is guarded where it is called; this is for faults of our own, which must not pass in silence.
    let result = catch_unwind(turns).unwrap_or_else(|_| {
        Err(Error::new(ErrorKind::Processing, "the stream thread panicked: please report it"))
    });
    if let Err(error) = result {
        tracing::error!("stream thread failed: {error}");
        shared.thread_failed(error);
        thread.abandon();
    }
    shared.thread_state(index, thread.state());
}

fn turn_until_closed(
    index: usize,
    thread: &mut StreamThread,
    shared: &Arc<Shared>,
    clock: &dyn Clock,
) -> Result<()> {
    loop {
        let now = clock.now();
        if shared.is_closing() {
            thread.request_close(now);
        }
        let turn = thread.run_once(now)?;
        shared.thread_state(index, thread.state());
        match turn {
            Turn::Again => {}
            Turn::Wait(timeout) => thread.wait(timeout),
            Turn::Finished => return Ok(()),
        }
    }
}
