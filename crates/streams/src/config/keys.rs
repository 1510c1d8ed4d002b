//! All settings, by name.

use super::key::{ConfigKey, ValueKind};

const fn text(name: &'static str, default: Option<&'static str>, doc: &'static str) -> ConfigKey {
    ConfigKey { name, kind: ValueKind::Text, default, doc }
}

const fn number(
    name: &'static str,
    min: i64,
    max: i64,
    default: &'static str,
    doc: &'static str,
) -> ConfigKey {
    ConfigKey { name, kind: ValueKind::Number { min, max }, default: Some(default), doc }
}

const fn choice(
    name: &'static str,
    words: &'static [&'static str],
    default: &'static str,
    doc: &'static str,
) -> ConfigKey {
    ConfigKey { name, kind: ValueKind::Choice(words), default: Some(default), doc }
}

const MAX: i64 = i64::MAX;
const MAX_INT: i64 = i32::MAX as i64;

const HANDLERS: &[&str] = &["log-and-fail", "log-and-continue"];

/// Java's classes for words of ours.
const CLASSES: &[(&str, &str)] = &[
    ("LogAndFailExceptionHandler", "log-and-fail"),
    ("LogAndContinueExceptionHandler", "log-and-continue"),
    ("LogAndFailProcessingExceptionHandler", "log-and-fail"),
    ("LogAndContinueProcessingExceptionHandler", "log-and-continue"),
    ("DefaultProductionExceptionHandler", "log-and-fail"),
];

/// The word for one of Java's handlers, which Java's settings name by class.
pub(super) fn word_of(value: &str) -> &str {
    let class = value.strip_prefix("org.apache.kafka.streams.errors.");
    let word = class.and_then(|class| CLASSES.iter().find(|(name, _)| *name == class));
    word.map_or(value, |(_, word)| word)
}

/// All settings.
pub const KEYS: &[ConfigKey] = &[
    text(
        "application.id",
        None,
        "Name of the group, prefix of internal topics and of the state directory.",
    ),
    text(
        "application.server",
        None,
        "host:port at which this instance can be asked for its stores; the others of the group are told.",
    ),
    choice(
        "auto.offset.reset",
        &["earliest", "latest", "none"],
        "earliest",
        "Where to start on a partition without a committed offset.",
    ),
    number(
        "batch.size",
        1,
        MAX_INT,
        "262144",
        "Bytes of a batch of records that is written to one partition.",
    ),
    text("bootstrap.servers", None, "Brokers to begin with: host:port,host:port."),
    number(
        "buffer.memory",
        1 << 20,
        MAX,
        "33554432",
        "Bytes of written records that may wait for the brokers, a thread.",
    ),
    text(
        "client.id",
        None,
        "Prefix of the names of threads and clients; default: application.id and the process id.",
    ),
    number(
        "commit.interval.ms",
        0,
        MAX,
        "30000",
        "Time between commits in ms; default with exactly_once_v2: 100.",
    ),
    choice(
        "compatibility",
        &["correct", "java-4.4"],
        "correct",
        "Whether operators give the right results or those of Java 4.4 where they differ.",
    ),
    choice(
        "compression.type",
        &["none", "gzip", "snappy", "lz4", "zstd"],
        "none",
        "Compression of written batches.",
    ),
    choice(
        "default.timestamp.extractor",
        &[
            "fail-on-invalid",
            "log-and-skip-on-invalid",
            "use-partition-time-on-invalid",
            "wallclock",
        ],
        "fail-on-invalid",
        "How sources without an extractor of their own take the time of a record.",
    ),
    number(
        "delivery.timeout.ms",
        1,
        MAX_INT,
        "120000",
        "Time in ms after which a record that no broker has confirmed is an error.",
    ),
    choice(
        "deserialization.exception.handler",
        HANDLERS,
        "log-and-fail",
        "What happens to a record that cannot be read.",
    ),
    number(
        "emit.interval.ms",
        0,
        MAX,
        "0",
        "Least time in ms of the wall clock between two looks for final results of windows and joins; default with compatibility = java-4.4: 1000.",
    ),
    choice(
        "ensure.explicit.internal.resource.naming",
        &["true", "false"],
        "false",
        "Whether StreamsBuilder::build_with refuses stores and internal topics that were not given a name.",
    ),
    text(
        "errors.dead.letter.queue.topic.name",
        None,
        "Topic for records that handlers leave out or stop at; it has to exist.",
    ),
    number("fetch.max.bytes", 1 << 10, MAX_INT, "52428800", "Bytes that one fetch may bring."),
    number(
        "fetch.max.wait.ms",
        0,
        MAX_INT,
        "500",
        "Time in ms that a broker may wait for new records.",
    ),
    choice(
        "group.protocol",
        &["streams"],
        "streams",
        "The protocol of the group; classic is not there yet.",
    ),
    number("linger.ms", 0, MAX_INT, "100", "Time in ms that a batch may wait to grow."),
    number(
        "max.partition.fetch.bytes",
        1 << 10,
        MAX_INT,
        "1048576",
        "Bytes that one fetch may bring of one partition.",
    ),
    number(
        "max.request.size",
        1 << 10,
        MAX_INT,
        "1048576",
        "Bytes of the largest record, and of one request.",
    ),
    number(
        "max.task.idle.ms",
        -1,
        MAX,
        "0",
        "Time in ms that a task waits for records of an empty partition once it is known to be empty; -1 never waits.",
    ),
    number(
        "memory.budget",
        16 << 20,
        MAX,
        "268435456",
        "Bytes that caches, buffers and queues of the process may take together.",
    ),
    number(
        "metadata.max.age.ms",
        0,
        MAX,
        "300000",
        "Time in ms after which metadata is asked for again.",
    ),
    number("num.stream.threads", 1, 1024, "1", "Stream threads of this instance."),
    number("poll.ms", 0, MAX_INT, "100", "Longest time in ms that an idle stream thread sleeps."),
    choice(
        "processing.exception.handler",
        HANDLERS,
        "log-and-fail",
        "What happens to a record on which user code fails.",
    ),
    choice(
        "processing.guarantee",
        &["at_least_once", "exactly_once_v2"],
        "at_least_once",
        "The processing guarantee.",
    ),
    choice(
        "production.exception.handler",
        HANDLERS,
        "log-and-fail",
        "What happens to a record that cannot be written to the topic of a sink.",
    ),
    number(
        "reconnect.backoff.max.ms",
        0,
        MAX_INT,
        "1000",
        "Longest time in ms before a broker is connected to again.",
    ),
    number(
        "reconnect.backoff.ms",
        0,
        MAX_INT,
        "50",
        "Time in ms before a broker is connected to again; it doubles each time.",
    ),
    number(
        "repartition.purge.interval.ms",
        0,
        MAX,
        "30000",
        "Least time in ms between two purges of repartition topics.",
    ),
    number(
        "replication.factor",
        -1,
        i16::MAX as i64,
        "-1",
        "Replication of internal topics; -1 is the brokers' default.",
    ),
    number(
        "request.timeout.ms",
        1,
        MAX_INT,
        "40000",
        "Time in ms after which a request without an answer is given up.",
    ),
    number("retry.backoff.ms", 0, MAX_INT, "100", "Time in ms before a request is tried again."),
    number(
        "state.cleanup.delay.ms",
        0,
        MAX,
        "600000",
        "Age in ms at which the directory of a task that is not here any more is deleted.",
    ),
    text(
        "state.dir",
        None,
        "Directory of all local state; default: kafka-streams in the temporary directory.",
    ),
    number(
        "statestore.cache.max.bytes",
        0,
        MAX,
        "10485760",
        "Bytes of the record caches; 0 forwards each change at once.",
    ),
    number(
        "statestore.uncommitted.max.bytes",
        -1,
        MAX,
        "67108864",
        "Bytes of uncommitted writes at which a commit comes early; -1 is no limit.",
    ),
    number(
        "task.timeout.ms",
        0,
        MAX,
        "300000",
        "Time in ms that a task may wait for the brokers, or go without a commit that succeeds, before it fails.",
    ),
    ConfigKey {
        name: "topology.optimization",
        kind: ValueKind::Choices(&[
            "none",
            "all",
            "merge.repartition.topics",
            "reuse.ktable.source.topics",
            "single.store.self.join",
        ]),
        default: Some("none"),
        doc: "Optimizations of the topology, for StreamsBuilder::build_with.",
    },
    ConfigKey {
        name: "transaction.timeout.ms",
        kind: ValueKind::Number { min: 1, max: MAX_INT },
        default: None,
        doc: "Time in ms after which a transaction without an end is aborted; default: 10000, or half of the group's session timeout if that is less.",
    },
    number(
        "windowstore.changelog.additional.retention.ms",
        0,
        MAX,
        "86400000",
        "Time in ms that changelogs of windows and sessions are kept beyond the store's own retention, so that clocks need not agree.",
    ),
];

pub(super) fn find(name: &str) -> Option<&'static ConfigKey> {
    let place = KEYS.binary_search_by(|key| key.name.cmp(name)).ok()?;
    KEYS.get(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_and_their_defaults_fit() {
        assert!(KEYS.is_sorted_by(|a, b| a.name < b.name));
        for key in KEYS {
            if let Some(default) = key.default {
                key.check(default).expect(key.name);
            }
        }
    }
}
