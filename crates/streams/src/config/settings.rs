//! The settings as the runtime reads them: typed and checked together.

use super::{Compatibility, OperatorRules, StreamsConfig, keys};
use crate::error::{Error, Result};
use crate::handlers::{ErrorPolicy, LogAndContinue, LogAndFail};
use crate::processor::Application;
use crate::state::{Budget, StoreBudget};
use crate::task::{DefaultTimestamps, SourceSettings};
use crate::topology::{AutoOffsetReset, check_name};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What `processing.guarantee` promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guarantee {
    AtLeastOnce,
    ExactlyOnce,
}

/// Time between commits with [`Guarantee::ExactlyOnce`]: nobody sees a result before its commit.
const EXACTLY_ONCE_COMMIT_INTERVAL: Duration = Duration::from_millis(100);

/// Checked settings.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The `application.id`, and what else the tasks know of it all.
    pub(crate) application: Arc<Application>,
    pub(crate) bootstrap_servers: Vec<String>,
    /// Host and port at which the instance can be asked.
    pub(crate) application_server: Option<(String, u16)>,
    pub(crate) client_id: Option<String>,
    pub(crate) state_dir: PathBuf,
    pub(crate) stream_threads: usize,
    pub(crate) guarantee: Guarantee,
    /// Unless it is left to the session timeout of the group.
    pub(crate) transaction_timeout: Option<Duration>,
    pub(crate) commit_interval: Duration,
    pub(crate) poll: Duration,
    pub(crate) max_task_idle: Option<Duration>,
    pub(crate) cache_bytes: usize,
    pub(crate) memory_budget: usize,
    pub(crate) uncommitted_bytes: Option<usize>,
    pub(crate) offset_reset: AutoOffsetReset,
    pub(crate) repartition_purge_interval: Duration,
    pub(crate) replication_factor: i16,
    /// Milliseconds.
    pub(crate) changelog_additional_retention: i64,
    pub(crate) state_cleanup_delay: Duration,
    pub(crate) task_timeout: Duration,
    pub(crate) rules: OperatorRules,
    pub(crate) source: SourceSettings,
    pub(crate) errors: ErrorPolicy,
    pub(crate) wire: WireSettings,
}

/// How often Java looks for final results.
const JAVA_EMIT_INTERVAL_MS: i64 = 1000;

impl Settings {
    /// What the stores of one stream thread may take.
    pub(crate) fn store_budget(&self) -> StoreBudget {
        StoreBudget {
            record_cache: Budget::new(self.cache_bytes / self.stream_threads),
            read_cache: Budget::new(self.memory_budget / 2 / self.stream_threads),
        }
    }
}

/// What the client gets as it is.
#[derive(Debug, Clone)]
pub(crate) struct WireSettings {
    pub(crate) batch_size: usize,
    pub(crate) buffer_memory: usize,
    pub(crate) compression: String,
    pub(crate) linger: Duration,
    pub(crate) max_request_size: usize,
    pub(crate) delivery_timeout: Duration,
    pub(crate) fetch_max_bytes: usize,
    pub(crate) fetch_max_wait: Duration,
    pub(crate) partition_max_bytes: usize,
    pub(crate) metadata_max_age: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) retry_backoff: Duration,
    pub(crate) reconnect_backoff: Duration,
    pub(crate) reconnect_backoff_max: Duration,
}

impl Settings {
    pub(super) fn of(config: &StreamsConfig) -> Result<Self> {
        let values = Values(config);
        for (key, value) in &config.values {
            if let Some(key) = keys::find(key) {
                key.check(value)?;
            }
        }
        let application_id = values.text("application.id")?;
        check_name("application", application_id).map_err(|e| Error::config(e.to_string()))?;
        let guarantee = match values.text("processing.guarantee")? {
            "exactly_once_v2" => Guarantee::ExactlyOnce,
            _ => Guarantee::AtLeastOnce,
        };
        let state_dir = config
            .get("state.dir")
            .map_or_else(|| std::env::temp_dir().join("kafka-streams"), PathBuf::from);
        let application = Application {
            id: application_id.into(),
            config: config.clone(),
            state_dir: state_dir.join(application_id),
        };
        Ok(Settings {
            application: Arc::new(application),
            bootstrap_servers: bootstrap(values.text("bootstrap.servers")?)?,
            application_server: config.get("application.server").map(server).transpose()?,
            client_id: config.get("client.id").map(str::to_string),
            state_dir,
            stream_threads: values.size("num.stream.threads")?,
            guarantee,
            transaction_timeout: transaction_timeout(config)?,
            commit_interval: match guarantee {
                Guarantee::ExactlyOnce if !config.is_set("commit.interval.ms") => {
                    EXACTLY_ONCE_COMMIT_INTERVAL
                }
                _ => values.time("commit.interval.ms")?,
            },
            poll: values.time("poll.ms")?,
            max_task_idle: match values.number("max.task.idle.ms")? {
                -1 => None,
                ms => Some(Duration::from_millis(ms.unsigned_abs())),
            },
            cache_bytes: values.size("statestore.cache.max.bytes")?,
            memory_budget: values.size("memory.budget")?,
            uncommitted_bytes: usize::try_from(values.number("statestore.uncommitted.max.bytes")?)
                .ok(),
            offset_reset: match values.text("auto.offset.reset")? {
                "latest" => AutoOffsetReset::Latest,
                "none" => AutoOffsetReset::None,
                _ => AutoOffsetReset::Earliest,
            },
            repartition_purge_interval: values.time("repartition.purge.interval.ms")?,
            replication_factor: values.number("replication.factor")? as i16,
            changelog_additional_retention: values
                .number("windowstore.changelog.additional.retention.ms")?,
            state_cleanup_delay: values.time("state.cleanup.delay.ms")?,
            task_timeout: values.time("task.timeout.ms")?,
            rules: operator_rules(&values)?,
            source: source_settings(&values)?,
            errors: error_policy(&values)?,
            wire: wire_settings(&values)?,
        })
    }
}

fn operator_rules(values: &Values<'_>) -> Result<OperatorRules> {
    let compatibility = match values.text("compatibility")? {
        "java-4.4" => Compatibility::Java44,
        _ => Compatibility::Correct,
    };
    let emit_interval = match compatibility {
        Compatibility::Java44 if !values.0.is_set("emit.interval.ms") => JAVA_EMIT_INTERVAL_MS,
        _ => values.number("emit.interval.ms")?,
    };
    Ok(OperatorRules { compatibility, emit_interval })
}

fn transaction_timeout(config: &StreamsConfig) -> Result<Option<Duration>> {
    let given = config.is_set("transaction.timeout.ms");
    given.then(|| Values(config).time("transaction.timeout.ms")).transpose()
}

fn source_settings(values: &Values<'_>) -> Result<SourceSettings> {
    let timestamps = match values.text("default.timestamp.extractor")? {
        "log-and-skip-on-invalid" => DefaultTimestamps::LogAndSkipOnInvalid,
        "use-partition-time-on-invalid" => DefaultTimestamps::UsePartitionTimeOnInvalid,
        "wallclock" => DefaultTimestamps::Wallclock,
        _ => DefaultTimestamps::FailOnInvalid,
    };
    Ok(SourceSettings { timestamps })
}

fn error_policy(values: &Values<'_>) -> Result<ErrorPolicy> {
    let own = values.0.handlers.clone();
    let continues = |key| Ok::<_, Error>(values.text(key)? == "log-and-continue");
    Ok(ErrorPolicy {
        deserialization: match own.deserialization {
            Some(handler) => handler,
            None if continues("deserialization.exception.handler")? => Arc::new(LogAndContinue),
            None => Arc::new(LogAndFail),
        },
        processing: match own.processing {
            Some(handler) => handler,
            None if continues("processing.exception.handler")? => Arc::new(LogAndContinue),
            None => Arc::new(LogAndFail),
        },
        production: match own.production {
            Some(handler) => handler,
            None if continues("production.exception.handler")? => Arc::new(LogAndContinue),
            None => Arc::new(LogAndFail),
        },
        dead_letters: values.0.get("errors.dead.letter.queue.topic.name").map(Into::into),
    })
}

fn wire_settings(values: &Values<'_>) -> Result<WireSettings> {
    Ok(WireSettings {
        batch_size: values.size("batch.size")?,
        buffer_memory: values.size("buffer.memory")?,
        compression: values.text("compression.type")?.to_string(),
        linger: values.time("linger.ms")?,
        max_request_size: values.size("max.request.size")?,
        delivery_timeout: values.time("delivery.timeout.ms")?,
        fetch_max_bytes: values.size("fetch.max.bytes")?,
        fetch_max_wait: values.time("fetch.max.wait.ms")?,
        partition_max_bytes: values.size("max.partition.fetch.bytes")?,
        metadata_max_age: values.time("metadata.max.age.ms")?,
        request_timeout: values.time("request.timeout.ms")?,
        retry_backoff: values.time("retry.backoff.ms")?,
        reconnect_backoff: values.time("reconnect.backoff.ms")?,
        reconnect_backoff_max: values.time("reconnect.backoff.max.ms")?,
    })
}

/// Reads values by key.
struct Values<'a>(&'a StreamsConfig);

impl<'a> Values<'a> {
    fn text(&self, key: &str) -> Result<&'a str> {
        self.0.get(key).ok_or_else(|| Error::config(format!("{key} is not set")))
    }

    fn number(&self, key: &str) -> Result<i64> {
        let text = self.text(key)?;
        text.parse().map_err(|_| Error::config(format!("{key} cannot be {text:?}")))
    }

    fn size(&self, key: &str) -> Result<usize> {
        let number = self.number(key)?;
        usize::try_from(number).map_err(|_| Error::config(format!("{key} cannot be {number}")))
    }

    fn time(&self, key: &str) -> Result<Duration> {
        Ok(Duration::from_millis(self.size(key)? as u64))
    }
}

fn server(text: &str) -> Result<(String, u16)> {
    let wrong = || Error::config(format!("application.server cannot be {text:?}: write host:port"));
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
    if host.is_empty() { Err(wrong()) } else { Ok((host.to_string(), port)) }
}

fn bootstrap(list: &str) -> Result<Vec<String>> {
    let servers: Vec<String> = list.split(',').map(|server| server.trim().to_string()).collect();
    for server in &servers {
        let port = server.rsplit_once(':').filter(|(host, _)| !host.is_empty());
        if port.and_then(|(_, port)| port.parse::<u16>().ok()).is_none() {
            let message = format!("bootstrap.servers has {server:?}: write host:port,host:port");
            return Err(Error::config(message));
        }
    }
    Ok(servers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_named() {
        let check = |config: StreamsConfig, text: &str| {
            let error = config.resolve().expect_err("refused").to_string();
            assert!(error.contains(text), "{error}");
        };
        check(StreamsConfig::new("a b", "h:1"), "has the character ' '");
        let served = |server| StreamsConfig::new("a", "h:1").set("application.server", server);
        for server in ["h", ":1", "h:0", "h:x"] {
            check(served(server).expect("a text"), "write host:port");
        }
        let settings = served("[::1]:7").expect("a text").resolve().expect("settings");
        assert_eq!(settings.application_server, Some(("::1".to_string(), 7)));
        check(StreamsConfig::new("a", "h"), "has \"h\": write host:port");
        check(
            StreamsConfig::new("a", "h:1").stream_threads(0),
            "num.stream.threads cannot be \"0\"",
        );
        let error = StreamsConfig::new("a", "h:1").set("processing.guarantee", "exactly_once");
        assert!(error.expect_err("refused").to_string().contains("takes one of at_least_once"));
    }
}
