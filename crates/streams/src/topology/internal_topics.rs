//! The topics that the application owns: changelogs and repartition topics, with Java's names and settings.

use crate::state::{StoreKind, StoreSpec};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Java's default for how much longer changelogs keep what windows need: a day, so that clocks need not agree.
const ADDITIONAL_RETENTION_MS: i64 = 86_400_000;

/// A repartition topic of the topology.
#[derive(Debug, Clone, Default)]
pub(crate) struct RepartitionTopic {
    /// The number of partitions, if the user gave one; else the most of its upstream topics.
    pub(crate) partitions: Option<i32>,
}

impl RepartitionTopic {
    /// Java's settings, in the order of their names.
    pub(crate) fn configs() -> BTreeMap<String, String> {
        [
            ("cleanup.policy", "delete"),
            ("message.timestamp.type", "CreateTime"),
            ("retention.ms", "-1"),
            ("segment.bytes", "52428800"),
        ]
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .into()
    }
}

/// The changelog topic of a store.
#[derive(Debug, Clone)]
pub(crate) struct ChangelogTopic {
    /// With the application's prefix.
    pub(crate) name: Arc<str>,
    pub(crate) configs: BTreeMap<String, String>,
}

impl ChangelogTopic {
    /// The changelog of a store, or none if logging is off.
    pub(crate) fn of(application_id: &str, store: &StoreSpec) -> Option<Self> {
        let given = store.logging.as_ref()?;
        let longer = |millis: i64| millis.saturating_add(ADDITIONAL_RETENTION_MS).to_string();
        let mut configs = BTreeMap::from([
            ("cleanup.policy".to_string(), "compact".to_string()),
            ("message.timestamp.type".to_string(), "CreateTime".to_string()),
        ]);
        if let Some(retention) = store.kind.retention() {
            configs.insert("cleanup.policy".to_string(), "compact,delete".to_string());
            configs.insert("retention.ms".to_string(), longer(retention));
        }
        if let StoreKind::Versioned { history, .. } = store.kind {
            configs.insert("min.compaction.lag.ms".to_string(), longer(history));
        }
        configs.extend(given.clone());
        Some(ChangelogTopic { name: changelog_name(application_id, &store.name), configs })
    }
}

/// `<application.id>-<store>-changelog`.
pub(crate) fn changelog_name(application_id: &str, store: &str) -> Arc<str> {
    format!("{application_id}-{store}-changelog").into()
}
