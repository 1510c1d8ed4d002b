//! How much is restored, and how long it takes: heard from the library's log, which tells when a store begins and when a task
//! is done.

use crate::measure::Failure;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// What was restored so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Restored {
    pub(crate) records: u64,
    /// From the begin of the first store to the end of the last task.
    pub(crate) time: Duration,
}

#[derive(Debug, Default)]
struct Heard {
    begin: Option<Instant>,
    restored: Restored,
}

/// Where to ask for it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Listener(Arc<Mutex<Heard>>);

impl Listener {
    pub(crate) fn take(&self) -> Restored {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).restored
    }
}

/// Listens from now on, for the whole process. Warnings go to standard error.
pub(crate) fn listen() -> Result<Listener, Failure> {
    let listener = Listener::default();
    tracing::subscriber::set_global_default(listener.clone())?;
    Ok(listener)
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO && metadata.is_event()
    }

    #[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
    fn event(&self, event: &Event<'_>) {
        let mut words = Words::default();
        event.record(&mut words);
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match (words.message.as_str(), heard.begin) {
            ("restoring a store", None) => heard.begin = Some(Instant::now()),
            ("task restored", Some(begin)) => {
                heard.restored.records += words.restored;
                heard.restored.time = begin.elapsed();
            }
            _ if *event.metadata().level() <= Level::WARN => eprintln!("{}", words.message),
            _ => {}
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Words {
    message: String,
    restored: u64,
}

impl Visit for Words {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "restored" {
            self.restored = value;
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        }
    }
}
