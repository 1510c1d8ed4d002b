//! The topics that the application owns: changelogs and repartition topics, with Java's names and settings.

use crate::state::{StoreKind, StoreSpec};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How much longer than its history the changelog of a versioned store is safe from compaction: a day, whatever the settings say.
const VERSIONED_ADDITIONAL_LAG_MS: i64 = 86_400_000;

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
    /// The changelog of a store, or none if logging is off. Those of windows and sessions are kept for the store's retention and
    /// `additional_retention`, in milliseconds; what the user has set for the topic comes last.
    pub(crate) fn of(
        application_id: &str,
        store: &StoreSpec,
        additional_retention: i64,
    ) -> Option<Self> {
        let given = store.logging.as_ref()?;
        let mut configs = BTreeMap::new();
        let mut set = |key: &str, value: &str| configs.insert(key.to_string(), value.to_string());
        set("cleanup.policy", "compact");
        set("message.timestamp.type", "CreateTime");
        if let Some(retention) = store.kind.retention() {
            set("cleanup.policy", "compact,delete");
            set("retention.ms", &retention.saturating_add(additional_retention).to_string());
        }
        if let StoreKind::Versioned { history, .. } = store.kind {
            let lag = history.saturating_add(VERSIONED_ADDITIONAL_LAG_MS);
            set("min.compaction.lag.ms", &lag.to_string());
        }
        configs.extend(given.clone());
        Some(ChangelogTopic { name: changelog_name(application_id, &store.name), configs })
    }

    /// The name of a store's changelog, if it has one.
    pub(crate) fn name_of(application_id: &str, store: &StoreSpec) -> Option<Arc<str>> {
        let own = || store.logging.as_ref().map(|_| changelog_name(application_id, &store.name));
        store.source_topic.clone().or_else(own)
    }
}

/// `<application.id>-<store>-changelog`.
pub(crate) fn changelog_name(application_id: &str, store: &str) -> Arc<str> {
    format!("{application_id}-{store}-changelog").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Stores;
    use std::time::Duration;

    fn configs(spec: &StoreSpec) -> String {
        let topic = ChangelogTopic::of("app", spec, 1_000).expect("a changelog");
        let shown = topic.configs.iter().map(|(key, value)| format!("{key}={value}"));
        format!("{}: {}", topic.name, shown.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn settings_follow_from_the_kind_of_the_store_as_in_java() {
        let (day, hour) = (Duration::from_secs(86_400), Duration::from_secs(3_600));
        let plain = "message.timestamp.type=CreateTime";
        let key_value = Stores::key_value::<String, String>("k").spec;
        assert_eq!(configs(key_value), format!("app-k-changelog: cleanup.policy=compact {plain}"));
        let window = Stores::window::<String, String>("w", day, hour);
        let kept = format!("cleanup.policy=compact,delete {plain} retention.ms=86401000");
        assert_eq!(configs(window.spec), format!("app-w-changelog: {kept}"));
        let session = Stores::session::<String, String>("s", day).spec;
        assert_eq!(configs(session), format!("app-s-changelog: {kept}"));
        let unlimited = Stores::window::<String, String>("u", Duration::MAX, Duration::MAX).spec;
        assert!(configs(unlimited).ends_with("retention.ms=9223372036854775807"));
        let versioned = Stores::versioned_key_value::<String, String>("v", hour).spec;
        let lag = format!("cleanup.policy=compact {plain} min.compaction.lag.ms=90000000");
        assert_eq!(configs(versioned), format!("app-v-changelog: {lag}"));
        let join = window.changelog_setting("cleanup.policy", "delete");
        let join = join.changelog_setting("retention.ms", "5").spec;
        let given = format!("cleanup.policy=delete {plain} retention.ms=5");
        assert_eq!(configs(join), format!("app-w-changelog: {given}"));
        assert!(ChangelogTopic::of("app", window.logging_disabled().spec, 0).is_none());
    }
}
