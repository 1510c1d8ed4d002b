//! Runs one value transformer, without a topology around it.

use super::test_task::TestTask;
use crate::config::StreamsConfig;
use crate::dsl::Processed;
use crate::error::Result;
use crate::processor::{InitContext, TaskId, ValueContext, ValueTransformer};
use crate::state::{StoreToken, StoreType};
use crate::topology::erased::Fault;
use std::fmt;

/// Runs one [`ValueTransformer`] with its stores, for unit tests.
///
/// ```
/// use kstreams::prelude::*;
/// use kstreams::testing::ValueTransformerTestDriver;
///
/// /// Knows when it was called last.
/// struct Since {
///     last: KeyValueStore<String, i64>,
/// }
///
/// impl ValueTransformer for Since {
///     type Key = String;
///     type In = String;
///     type Out = i64;
///
///     fn transform(
///         &mut self,
///         key: &String,
///         value: Option<String>,
///         ctx: &mut ValueContext,
///     ) -> std::result::Result<Option<i64>, BoxError> {
///         let before = self.last.get(key)?;
///         self.last.put(key, Some(&ctx.stream_time()))?;
///         Ok(value.and(before).map(|before| ctx.stream_time() - before))
///     }
/// }
///
/// let last = Stores::key_value::<String, i64>("last");
/// let supplier = move |ctx: &mut InitContext| Ok(Since { last: ctx.store(&last)? });
/// let mut driver = ValueTransformerTestDriver::new(supplier, Processed::new().store(&last))?;
/// assert_eq!(driver.transform("a", Some("x"), 100)?, None);
/// assert_eq!(driver.transform("a", Some("y"), 130)?, Some(30));
/// # Ok::<(), kstreams::Error>(())
/// ```
pub struct ValueTransformerTestDriver<T: ValueTransformer> {
    transformer: T,
    task: TestTask,
}

impl<T: ValueTransformer> ValueTransformerTestDriver<T> {
    /// The transformer of a supplier, placed as [`Processed`] says: with a name, and with stores.
    ///
    /// # Errors
    /// What the supplier reports.
    pub fn new<F>(supplier: F, processed: Processed) -> Result<Self>
    where
        F: Fn(&mut InitContext) -> Result<T> + Send + Sync + 'static,
    {
        let config = StreamsConfig::new("test", "unused:1");
        ValueTransformerTestDriver::with_config(supplier, processed, &config)
    }

    /// The same with settings of the application.
    ///
    /// # Errors
    /// What the supplier reports, and wrong settings.
    pub fn with_config<F>(supplier: F, processed: Processed, config: &StreamsConfig) -> Result<Self>
    where
        F: Fn(&mut InitContext) -> Result<T> + Send + Sync + 'static,
    {
        let task = TestTask::new(&processed, config, TaskId { subtopology: 0, partition: 0 }, 0)?;
        let transformer = task.caught(|| Ok(supplier(&mut task.init_context())))??;
        Ok(ValueTransformerTestDriver { transformer, task })
    }

    /// The new value of a change of the table at a time, in milliseconds; `None` as the value is a deletion.
    ///
    /// # Errors
    /// What the transformer reports, or that it panicked.
    pub fn transform(
        &mut self,
        key: impl Into<T::Key>,
        value: Option<impl Into<T::In>>,
        timestamp: i64,
    ) -> Result<Option<T::Out>> {
        self.task.enter_record(timestamp);
        let (transformer, task) = (&mut self.transformer, &self.task);
        let mut ctx = ValueContext::new(&task.context);
        task.caught(|| {
            let transformed = transformer.transform(&key.into(), value.map(Into::into), &mut ctx);
            transformed.map_err(|error| Fault::at(&"transformer".into(), error))
        })
    }

    /// A store of the transformer.
    ///
    /// # Errors
    /// When it has no such store.
    pub fn store<S: StoreType>(&self, token: &StoreToken<S>) -> Result<S> {
        self.task.init_context().store(token)
    }

    /// Closes the transformer.
    ///
    /// # Errors
    /// When it panics.
    pub fn close(mut self) -> Result<()> {
        let (transformer, task) = (&mut self.transformer, &self.task);
        task.caught(|| {
            transformer.close();
            Ok(())
        })
    }
}

impl<T: ValueTransformer> fmt::Debug for ValueTransformerTestDriver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ValueTransformerTestDriver").field(&self.task.context.task_id).finish()
    }
}
