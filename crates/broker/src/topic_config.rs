//! Topic settings: one table with Kafka's names, types and defaults, and the few that the log obeys.
//! Java: `LogConfig`.

use std::collections::BTreeMap;

use kstreams_protocol::ResponseError;

use crate::error::Refusal;

/// The type of a setting, with the number that DescribeConfigs gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConfigType {
    Boolean = 1,
    String = 2,
    Int = 3,
    Long = 5,
    Double = 6,
    List = 7,
}

/// One setting that a topic can have.
#[derive(Debug)]
pub(crate) struct TopicKey {
    pub(crate) name: &'static str,
    pub(crate) kind: ConfigType,
    pub(crate) default: &'static str,
    /// Allowed values, of all or of each element; empty allows any.
    one_of: &'static [&'static str],
}

const fn key(name: &'static str, kind: ConfigType, default: &'static str) -> TopicKey {
    TopicKey { name, kind, default, one_of: &[] }
}

const fn choice(
    name: &'static str,
    kind: ConfigType,
    default: &'static str,
    one_of: &'static [&'static str],
) -> TopicKey {
    TopicKey { name, kind, default, one_of }
}

const FOREVER: &str = "9223372036854775807";

/// All settings, by name. Those that concern other brokers or the file format are kept and shown,
/// and change nothing here.
pub(crate) const KEYS: &[TopicKey] = &[
    choice("cleanup.policy", ConfigType::List, "delete", &["compact", "delete"]),
    key("compression.gzip.level", ConfigType::Int, "-1"),
    key("compression.lz4.level", ConfigType::Int, "9"),
    choice(
        "compression.type",
        ConfigType::String,
        "producer",
        &["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"],
    ),
    key("compression.zstd.level", ConfigType::Int, "3"),
    key("delete.retention.ms", ConfigType::Long, "86400000"),
    key("file.delete.delay.ms", ConfigType::Long, "60000"),
    key("flush.messages", ConfigType::Long, FOREVER),
    key("flush.ms", ConfigType::Long, FOREVER),
    key("follower.replication.throttled.replicas", ConfigType::List, ""),
    key("index.interval.bytes", ConfigType::Int, "4096"),
    key("leader.replication.throttled.replicas", ConfigType::List, ""),
    key("local.retention.bytes", ConfigType::Long, "-2"),
    key("local.retention.ms", ConfigType::Long, "-2"),
    key("max.compaction.lag.ms", ConfigType::Long, FOREVER),
    key("max.message.bytes", ConfigType::Int, "1048588"),
    key("message.timestamp.after.max.ms", ConfigType::Long, "3600000"),
    key("message.timestamp.before.max.ms", ConfigType::Long, FOREVER),
    choice(
        "message.timestamp.type",
        ConfigType::String,
        "CreateTime",
        &["CreateTime", "LogAppendTime"],
    ),
    key("min.cleanable.dirty.ratio", ConfigType::Double, "0.5"),
    key("min.compaction.lag.ms", ConfigType::Long, "0"),
    key("min.insync.replicas", ConfigType::Int, "1"),
    key("preallocate", ConfigType::Boolean, "false"),
    key("remote.copy.lag.bytes", ConfigType::Long, "0"),
    key("remote.copy.lag.ms", ConfigType::Long, "0"),
    key("remote.log.copy.disable", ConfigType::Boolean, "false"),
    key("remote.log.delete.on.disable", ConfigType::Boolean, "false"),
    key("remote.storage.enable", ConfigType::Boolean, "false"),
    key("retention.bytes", ConfigType::Long, "-1"),
    key("retention.ms", ConfigType::Long, "604800000"),
    key("segment.bytes", ConfigType::Int, "1073741824"),
    key("segment.index.bytes", ConfigType::Int, "10485760"),
    key("segment.jitter.ms", ConfigType::Long, "0"),
    key("segment.ms", ConfigType::Long, "604800000"),
    key("unclean.leader.election.enable", ConfigType::Boolean, "false"),
];

/// Segments in files are cut here even when `segment.bytes` is larger: a start reads them whole.
const FILE_SEGMENT_BYTES: i64 = 64 << 20;

/// What the log obeys, read from a topic's settings.
#[derive(Debug, Clone)]
pub(crate) struct TopicConfig {
    pub(crate) compact: bool,
    pub(crate) delete: bool,
    pub(crate) delete_retention_ms: i64,
    pub(crate) max_message_bytes: usize,
    pub(crate) timestamp_after_max_ms: i64,
    pub(crate) timestamp_before_max_ms: i64,
    pub(crate) log_append_time: bool,
    pub(crate) min_compaction_lag_ms: i64,
    pub(crate) retention_bytes: i64,
    pub(crate) retention_ms: i64,
    pub(crate) segment_bytes: usize,
    pub(crate) segment_ms: i64,
}

impl TopicConfig {
    /// Checks `set` and completes it with the defaults.
    pub(crate) fn new(set: &BTreeMap<String, String>) -> Result<Self, Refusal> {
        for (name, value) in set {
            check(name, value)?;
        }
        let text = |name: &str| value_of(set, name);
        let number = |name: &str| text(name).parse::<i64>().unwrap_or(0);
        let policies = text("cleanup.policy");
        let has = |policy: &str| policies.split(',').any(|p| p.trim() == policy);
        Ok(Self {
            compact: has("compact"),
            delete: has("delete"),
            delete_retention_ms: number("delete.retention.ms"),
            max_message_bytes: usize::try_from(number("max.message.bytes")).unwrap_or(0),
            timestamp_after_max_ms: number("message.timestamp.after.max.ms"),
            timestamp_before_max_ms: number("message.timestamp.before.max.ms"),
            log_append_time: text("message.timestamp.type") == "LogAppendTime",
            min_compaction_lag_ms: number("min.compaction.lag.ms"),
            retention_bytes: number("retention.bytes"),
            retention_ms: number("retention.ms"),
            segment_bytes: usize::try_from(number("segment.bytes").min(FILE_SEGMENT_BYTES))
                .unwrap_or(0),
            segment_ms: number("segment.ms"),
        })
    }
}

/// The key of that name.
pub(crate) fn find(name: &str) -> Option<&'static TopicKey> {
    KEYS.iter().find(|key| key.name == name)
}

/// What a topic with the settings `set` has for `name`.
pub(crate) fn value_of<'a>(set: &'a BTreeMap<String, String>, name: &str) -> &'a str {
    set.get(name).map_or_else(|| find(name).map_or("", |key| key.default), String::as_str)
}

fn check(name: &str, value: &str) -> Result<(), Refusal> {
    let invalid = |message: String| Err(Refusal::new(ResponseError::InvalidConfig, message));
    let Some(key) = find(name) else {
        return invalid(format!("Unknown topic config name: {name}"));
    };
    let parses = match key.kind {
        ConfigType::Boolean => matches!(value, "true" | "false"),
        ConfigType::Int => value.parse::<i32>().is_ok(),
        ConfigType::Long => value.parse::<i64>().is_ok(),
        ConfigType::Double => value.parse::<f64>().is_ok(),
        ConfigType::String | ConfigType::List => true,
    };
    let allowed = key.one_of.is_empty()
        || match key.kind {
            ConfigType::List => {
                let mut all = value.split(',').filter(|v| !v.is_empty());
                all.all(|v| key.one_of.contains(&v.trim()))
            }
            _ => key.one_of.contains(&value),
        };
    if parses && allowed {
        return Ok(());
    }
    invalid(format!("Invalid value {value} for configuration {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn all_defaults_are_valid() {
        let all = KEYS.iter().map(|key| (key.name.to_owned(), key.default.to_owned())).collect();
        let config = TopicConfig::new(&all).unwrap();
        assert!(config.delete && !config.compact && !config.log_append_time);
        assert_eq!(config.max_message_bytes, 1_048_588);
    }

    #[test]
    fn both_policies_can_be_set() {
        let config = TopicConfig::new(&set(&[("cleanup.policy", "compact,delete")])).unwrap();
        assert!(config.compact && config.delete);
    }

    #[test]
    fn unknown_names_and_wrong_values_are_refused() {
        for pair in [
            ("no.such.thing", "1"),
            ("retention.ms", "long"),
            ("cleanup.policy", "keep"),
            ("message.timestamp.type", "Never"),
        ] {
            let refusal = TopicConfig::new(&set(&[pair])).unwrap_err();
            assert_eq!(refusal.error, ResponseError::InvalidConfig, "{pair:?}");
        }
    }
}
