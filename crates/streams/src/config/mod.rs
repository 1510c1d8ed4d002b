//! Settings: Java's keys, checked when they are set.

mod compatibility;
mod key;
mod keys;
mod nearest;
mod settings;

use crate::error::{Error, Result};
use crate::handlers::{DeserializationHandler, ProcessingHandler, ProductionHandler};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use self::compatibility::{Compatibility, OperatorRules};
pub use self::key::{ConfigKey, ValueKind};
pub use self::keys::KEYS;
pub(crate) use self::settings::{Guarantee, Settings};

/// The settings of an application.
///
/// ```
/// use kstreams::prelude::*;
/// use std::time::Duration;
///
/// let config = StreamsConfig::new("word-count", "localhost:9092")
///     .stream_threads(2)
///     .commit_interval(Duration::from_secs(1))
///     .set("auto.offset.reset", "latest")?;
/// assert_eq!(config.get("num.stream.threads"), Some("2"));
///
/// let error = StreamsConfig::new("word-count", "localhost:9092").set("commit.interval", "1000").unwrap_err();
/// assert!(error.to_string().contains("did you mean commit.interval.ms?"));
/// # Ok::<(), kstreams::Error>(())
/// ```
#[derive(Clone)]
pub struct StreamsConfig {
    values: BTreeMap<&'static str, String>,
    handlers: Handlers,
}

/// Handlers of the user's own.
#[derive(Clone, Default)]
struct Handlers {
    deserialization: Option<Arc<dyn DeserializationHandler>>,
    processing: Option<Arc<dyn ProcessingHandler>>,
    production: Option<Arc<dyn ProductionHandler>>,
}

impl StreamsConfig {
    /// The settings of an application with defaults for the rest. `application_id` is the name of the group, and the prefix of
    /// topics and directories; `bootstrap_servers` is a list `host:port,host:port`.
    pub fn new(application_id: impl Into<String>, bootstrap_servers: impl Into<String>) -> Self {
        let values = [
            ("application.id", application_id.into()),
            ("bootstrap.servers", bootstrap_servers.into()),
        ];
        StreamsConfig { values: values.into(), handlers: Handlers::default() }
    }

    /// Sets a key of [`KEYS`].
    ///
    /// # Errors
    /// When the key is unknown (the text names the nearest one) or the value does not fit.
    pub fn set(mut self, key: &str, value: impl Into<String>) -> Result<Self> {
        let Some(known) = keys::find(key) else {
            let nearest = nearest::nearest(key, KEYS.iter().map(|known| known.name));
            let hint = nearest.map_or(String::new(), |known| format!(", did you mean {known}?"));
            return Err(Error::config(format!("there is no setting {key}{hint}")));
        };
        let value = keys::word_of(&value.into()).to_string();
        known.check(&value)?;
        self.values.insert(known.name, value);
        Ok(self)
    }

    /// The value of a key: the one that was set, else the default.
    pub fn get(&self, key: &str) -> Option<&str> {
        let known = keys::find(key)?;
        self.values.get(known.name).map(String::as_str).or(known.default)
    }

    pub(crate) fn is_set(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    fn put(mut self, key: &'static str, value: impl ToString) -> Self {
        self.values.insert(key, value.to_string());
        self
    }

    /// `num.stream.threads`
    #[must_use]
    pub fn stream_threads(self, threads: usize) -> Self {
        self.put("num.stream.threads", threads)
    }

    /// `commit.interval.ms`
    #[must_use]
    pub fn commit_interval(self, interval: Duration) -> Self {
        self.put("commit.interval.ms", interval.as_millis())
    }

    /// `processing.guarantee=exactly_once_v2`: what is read, what is written and what the stores hold is committed together,
    /// or not at all. Readers of the output have to read committed records (`isolation.level=read_committed`). Commits come
    /// every 100 ms, if [`Self::commit_interval`] does not say otherwise; it has to be less than `transaction.timeout.ms`, and
    /// that less than the session timeout of the group.
    #[must_use]
    pub fn exactly_once(self) -> Self {
        self.put("processing.guarantee", "exactly_once_v2")
    }

    /// `state.dir`
    #[must_use]
    pub fn state_dir(self, path: impl AsRef<Path>) -> Self {
        self.put("state.dir", path.as_ref().display())
    }

    /// `statestore.cache.max.bytes`: 0 forwards each change of a table at once.
    #[must_use]
    pub fn cache_max_bytes(self, bytes: u64) -> Self {
        self.put("statestore.cache.max.bytes", bytes)
    }

    /// A handler of the user's own for records that cannot be read, in place of those that
    /// `deserialization.exception.handler` names. It sees each record as it was on the wire.
    ///
    /// ```
    /// use kstreams::handlers::{BadRecord, DeserializationHandler, HandlerResponse};
    /// use kstreams::prelude::*;
    ///
    /// /// Leaves out what says of itself that it is a test.
    /// struct SkipTests;
    ///
    /// impl DeserializationHandler for SkipTests {
    ///     fn handle(&self, record: &BadRecord<'_>, _: &BoxError) -> HandlerResponse {
    ///         match record.headers.last("test") {
    ///             Some(_) => HandlerResponse::resume(),
    ///             None => HandlerResponse::fail(),
    ///         }
    ///     }
    /// }
    ///
    /// let config = StreamsConfig::new("orders", "localhost:9092").deserialization_handler(SkipTests);
    /// ```
    #[must_use]
    pub fn deserialization_handler(mut self, handler: impl DeserializationHandler) -> Self {
        self.handlers.deserialization = Some(Arc::new(handler));
        self
    }

    /// A handler of the user's own for records on which user code fails, in place of those that `processing.exception.handler`
    /// names; see [`ProcessingHandler`].
    #[must_use]
    pub fn processing_handler(mut self, handler: impl ProcessingHandler) -> Self {
        self.handlers.processing = Some(Arc::new(handler));
        self
    }

    /// A handler of the user's own for records that cannot be written to the topic of a sink, in place of those that
    /// `production.exception.handler` names.
    ///
    /// ```
    /// use kstreams::handlers::{FailedWrite, ProductionHandler, ProductionResponse, WriteProblem};
    /// use kstreams::prelude::*;
    ///
    /// /// Leaves out what is too large, and keeps its source elsewhere.
    /// struct SkipLarge;
    ///
    /// impl ProductionHandler for SkipLarge {
    ///     fn handle(&self, write: &FailedWrite<'_>, error: &BoxError) -> ProductionResponse {
    ///         match write.problem {
    ///             WriteProblem::TooLarge => ProductionResponse::resume()
    ///                 .with_dead_letters([write.dead_letter_to("too-large", error)]),
    ///             _ => ProductionResponse::fail(),
    ///         }
    ///     }
    /// }
    ///
    /// let config = StreamsConfig::new("orders", "localhost:9092").production_handler(SkipLarge);
    /// ```
    #[must_use]
    pub fn production_handler(mut self, handler: impl ProductionHandler) -> Self {
        self.handlers.production = Some(Arc::new(handler));
        self
    }

    /// `errors.dead.letter.queue.topic.name`
    #[must_use]
    pub fn dead_letter_topic(self, topic: impl Into<String>) -> Self {
        self.put("errors.dead.letter.queue.topic.name", topic.into())
    }

    /// `memory.budget`: bytes that caches, buffers and queues of the process may take together.
    #[must_use]
    pub fn memory_budget(self, bytes: u64) -> Self {
        self.put("memory.budget", bytes)
    }

    /// The checked settings.
    pub(crate) fn resolve(&self) -> Result<Settings> {
        Settings::of(self)
    }
}

impl fmt::Debug for StreamsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(&self.values).finish()
    }
}
