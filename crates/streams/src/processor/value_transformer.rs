//! User code that makes a table's values: it keeps state, but cannot forward.

use super::{TaskContext, TaskId};
use crate::error::BoxError;
use crate::record::RecordMetadata;
use std::fmt;
use std::path::PathBuf;

/// Makes a new value for each change of a table (`KTable::transform_values`). Each task has an instance of its own.
///
/// ```
/// use kstreams::prelude::*;
///
/// /// Numbers the versions of each value.
/// struct Versions {
///     seen: KeyValueStore<String, i64>,
/// }
///
/// impl ValueTransformer for Versions {
///     type Key = String;
///     type In = String;
///     type Out = String;
///
///     fn transform(
///         &mut self,
///         key: &String,
///         value: Option<String>,
///         _ctx: &mut ValueContext,
///     ) -> std::result::Result<Option<String>, BoxError> {
///         let version = self.seen.get(key)?.unwrap_or(0) + 1;
///         self.seen.put(key, Some(&version))?;
///         Ok(value.map(|value| format!("{value} v{version}")))
///     }
/// }
///
/// let seen = Stores::key_value::<String, i64>("seen");
/// let builder = StreamsBuilder::new();
/// builder
///     .table("pages", Consumed::<String, String>::new(), Materialized::new())
///     .transform_values(move |ctx| Ok(Versions { seen: ctx.store(&seen)? }), Processed::new().store(&seen))
///     .to_stream()
///     .to("versions", Produced::new());
/// builder.build()?;
/// # Ok::<(), kstreams::Error>(())
/// ```
pub trait ValueTransformer: 'static {
    /// The table's key.
    type Key: Clone + 'static;
    /// The value that comes in.
    type In: Clone + 'static;
    /// The value that goes out.
    type Out: Clone + 'static;

    /// The new value of a key, or `None` if it shall not be in the result. `value` is `None` when the key was deleted.
    ///
    /// # Errors
    /// An error, or a panic, is for the processing handler ([`crate::handlers`]); by default it stops the application, when everything
    /// before the record is committed.
    fn transform(
        &mut self,
        key: &Self::Key,
        value: Option<Self::In>,
        ctx: &mut ValueContext<'_>,
    ) -> Result<Option<Self::Out>, BoxError>;

    /// Called once, when the task is closed cleanly.
    fn close(&mut self) {}
}

/// What code that only makes values sees of its task.
pub struct ValueContext<'a>(&'a TaskContext);

impl<'a> ValueContext<'a> {
    pub(crate) fn new(task: &'a TaskContext) -> Self {
        ValueContext(task)
    }

    /// Topic, partition and offset of the record in hand; `None` outside of a record.
    pub fn metadata(&self) -> Option<RecordMetadata> {
        self.0.metadata()
    }

    /// The highest timestamp that the task has seen, in milliseconds; -1 before the first record.
    pub fn stream_time(&self) -> i64 {
        self.0.stream_time()
    }

    /// The wall clock in milliseconds since the epoch, read once a loop of the stream thread.
    pub fn wall_clock(&self) -> i64 {
        self.0.wall_clock()
    }

    /// The task.
    pub fn task_id(&self) -> TaskId {
        self.0.task_id
    }

    /// The `application.id`.
    pub fn application_id(&self) -> &str {
        &self.0.application.id
    }

    /// As [`Context::app_config`](super::Context::app_config).
    pub fn app_config(&self, key: &str) -> Option<&str> {
        self.0.application.config.get(key)
    }

    /// As [`Context::state_dir`](super::Context::state_dir).
    ///
    /// # Errors
    /// When the directory cannot be made.
    pub fn state_dir(&self) -> crate::error::Result<PathBuf> {
        self.0.application.directory_of(self.0.task_id)
    }
}

impl fmt::Debug for ValueContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ValueContext").field(&self.0.task_id).finish()
    }
}
