//! The OS thread that keeps the global tables of a process up to date.

use super::global_reader::GlobalReader;
use super::shared::Shared;
use crate::error::{Error, ErrorKind, Result};
use crate::task::TaskPlan;
use kstreams_client::Client;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// How long it sleeps if nobody wakes it.
const NAP: Duration = Duration::from_millis(100);

/// Runs until the application closes; a failure stops the application.
pub(super) fn run(client: Client, plan: TaskPlan, shared: &Shared) {
    let turns = AssertUnwindSafe(|| -> Result<()> {
        let mut reader = GlobalReader::new(client, plan);
        while !shared.is_closing() {
            reader.run_once()?;
            reader.client().wait(NAP);
        }
        Ok(())
    });
    // Serdes are user code, they may panic.
    let result = catch_unwind(turns).unwrap_or_else(|_| {
        Err(Error::new(ErrorKind::Processing, "the thread of the global tables panicked"))
    });
    if let Err(error) = result {
        tracing::error!("global tables cannot be read: {error}");
        // It is told like any other; there is no replacement for this thread, and the others cannot do without.
        shared.response_to(&error);
        shared.thread_failed(error);
    }
}
