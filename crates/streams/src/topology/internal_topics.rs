//! The topics that the application owns: changelogs and repartition topics, with Java's names and settings.

use crate::state::StoreSpec;
use std::collections::BTreeMap;
use std::sync::Arc;

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
        let mut configs: BTreeMap<String, String> =
            [("cleanup.policy", "compact"), ("message.timestamp.type", "CreateTime")]
                .map(|(key, value)| (key.to_string(), value.to_string()))
                .into();
        configs.extend(given.clone());
        Some(ChangelogTopic { name: changelog_name(application_id, &store.name), configs })
    }
}

/// `<application.id>-<store>-changelog`.
pub(crate) fn changelog_name(application_id: &str, store: &str) -> Arc<str> {
    format!("{application_id}-{store}-changelog").into()
}
