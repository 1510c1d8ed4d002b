//! The topologies: together they have every stateful operator.

use kstreams::prelude::*;
use std::sync::Arc;

pub(super) type Text = Option<String>;

/// How the input gets to the test driver, which has one partition, so that the results are those of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Feed {
    /// A driver a partition, in the order in which a task takes the records: they never change the partition.
    ByPartition,
    /// One driver for all: operators behind a repartition topic, whose result does not depend on the order.
    Together,
    /// One driver for all, `b` first: it is a global table, which is filled before anything runs.
    TableFirst,
}

/// A topology and what is known about its results.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) build: fn(&Site) -> Result<Topology>,
    pub(super) feed: Feed,
    /// How many of the two topics count as work.
    pub(super) inputs: usize,
    /// Whether a record cache holds results back; without one, and by partition, each key has the same results in the same order.
    pub(super) cached: bool,
}

impl Case {
    pub(super) fn is_exact(&self) -> bool {
        self.feed == Feed::ByPartition && !self.cached
    }
}

/// Where a topology runs.
pub(super) struct Site {
    pub(super) a: String,
    pub(super) b: String,
    pub(super) out: String,
    /// Called for each record that is read.
    pub(super) tap: Arc<dyn Fn() + Send + Sync>,
}

impl Site {
    fn consumed<V: DefaultSerde>(&self) -> Consumed<String, V> {
        let tap = self.tap.clone();
        Consumed::new().timestamps(move |record| {
            tap();
            record.timestamp
        })
    }

    fn stream(&self, builder: &StreamsBuilder, topic: &str) -> KStream<String, Text> {
        builder.stream(topic, self.consumed())
    }

    fn grouped(&self, builder: &StreamsBuilder, topic: &str) -> KGroupedStream<String, Text> {
        self.stream(builder, topic).group_by_key(Grouped::new())
    }

    fn table(&self, builder: &StreamsBuilder, topic: &str) -> KTable<String, String> {
        builder.table(topic, self.consumed(), Materialized::new())
    }

    /// Writes a table to the output, its keys marked with its name.
    fn show<K, V>(&self, name: &'static str, table: &KTable<K, V>)
    where
        K: Clone + std::fmt::Display + 'static,
        V: Clone + std::fmt::Display + 'static,
    {
        table
            .to_stream_with_key(move |key, _| format!("{name} {key}"))
            .map_values(|value| value.map(|value| value.to_string()))
            .to(self.out.as_str(), Produced::new());
    }

    fn show_stream(&self, name: &'static str, stream: &KStream<String, String>) {
        stream
            .select_key(move |key, _| format!("{name} {key}"))
            .to(self.out.as_str(), Produced::new());
    }
}

pub(super) const CASES: [Case; 13] = [
    case("tumbling", tumbling, Feed::ByPartition, 1, false),
    case("hopping", hopping, Feed::ByPartition, 1, true),
    case("sliding", sliding, Feed::ByPartition, 1, false),
    case("session", session, Feed::ByPartition, 1, false),
    case("cogroup", cogroup, Feed::ByPartition, 2, true),
    case("suppress", suppress, Feed::ByPartition, 2, true),
    case("stream-stream", stream_stream, Feed::ByPartition, 2, false),
    case("self-join", self_join, Feed::ByPartition, 1, false),
    case("stream-table", stream_table, Feed::ByPartition, 2, false),
    case("stream-global", stream_global, Feed::TableFirst, 1, false),
    case("table-table", table_table, Feed::ByPartition, 2, false),
    case("foreign-key", foreign_key, Feed::Together, 2, true),
    case("table-group", table_group, Feed::Together, 1, false),
];

const fn case(
    name: &'static str,
    build: fn(&Site) -> Result<Topology>,
    feed: Feed,
    inputs: usize,
    cached: bool,
) -> Case {
    Case { name, build, feed, inputs, cached }
}

/// Values are `key of the other topic|number`.
fn number(value: &Text) -> i64 {
    let number = value.as_deref().and_then(|value| value.split_once('|')?.1.parse().ok());
    number.unwrap_or(0)
}

fn other_key(value: &str) -> Option<String> {
    value.split_once('|').map(|(key, _)| key.to_string())
}

/// Tells which values came, and in which order.
fn mix(_: &String, all: i64, value: Text) -> i64 {
    all.wrapping_mul(31).wrapping_add(number(&value) + 1)
}

fn merge(_: &String, one: i64, two: i64) -> i64 {
    one.wrapping_mul(31).wrapping_add(two)
}

fn pair(one: Option<&Text>, two: Option<&Text>) -> String {
    let text = |side: Option<&Text>| side.cloned().flatten().unwrap_or_else(|| "null".into());
    format!("{}+{}", text(one), text(two))
}

fn cat(one: Option<&String>, two: Option<&String>) -> String {
    let text = |side: Option<&String>| side.map_or("null", String::as_str).to_string();
    format!("{}+{}", text(one), text(two))
}

fn tumbling(site: &Site) -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let grouped = site.grouped(&builder, &site.a);
    let windowed = grouped.windowed_by(TimeWindows::of(millis(100)).grace(millis(60)));
    site.show("tumbling", &windowed.aggregate(|| 0, mix, Materialized::named("tumbling")));
    let unlimited = grouped.windowed_by(UnlimitedWindows::new());
    site.show("unlimited", &unlimited.count(Materialized::named("unlimited")));
    site.show("folded", &grouped.aggregate(|| 0, mix, Materialized::named("folded")));
    let counted = grouped.count(Materialized::named("counted").in_memory());
    site.show("counted", &counted);
    let in_memory = Materialized::named("windows-in-memory").in_memory();
    let windowed = grouped.windowed_by(TimeWindows::of(millis(200)));
    site.show("in-memory", &windowed.aggregate(|| 0, mix, in_memory));
    builder.build()
}

fn hopping(site: &Site) -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let grouped = site.grouped(&builder, &site.a);
    let windows = TimeWindows::of(millis(120)).advance_by(millis(40)).grace(millis(50));
    let reduced = grouped.windowed_by(windows).reduce(
        |one, two| if number(&one) < number(&two) { two } else { one },
        Materialized::new(),
    );
    let shown = reduced.map_values(Option::unwrap_or_default);
    site.show("hopping", &shown);
    let on_close = grouped.windowed_by(windows).emit_strategy(EmitStrategy::OnWindowClose);
    site.show("closed", &on_close.aggregate(|| 0, mix, Materialized::named("closed")));
    builder.build()
}

fn sliding(site: &Site) -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let grouped = site.grouped(&builder, &site.a);
    let windows = SlidingWindows::of(millis(80)).grace(millis(60));
    let windowed = grouped.windowed_by(windows);
    site.show("sliding", &windowed.aggregate(|| 0, mix, Materialized::named("sliding")));
    let on_close = grouped.windowed_by(windows).emit_strategy(EmitStrategy::OnWindowClose);
    site.show("closed", &on_close.count(Materialized::named("closed")));
    builder.build()
}

fn session(site: &Site) -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let grouped = site.grouped(&builder, &site.a);
    let windows = SessionWindows::of(millis(60)).grace(millis(60));
    let windowed = grouped.windowed_by(windows);
    site.show("session", &windowed.aggregate(|| 0, mix, merge, Materialized::named("session")));
    let on_close = windowed.emit_strategy(EmitStrategy::OnWindowClose);
    site.show("closed", &on_close.count(Materialized::named("closed")));
    let in_memory = Materialized::named("in-memory").in_memory();
    let windowed = grouped.windowed_by(SessionWindows::of(millis(40)));
    site.show("in-memory", &windowed.count(in_memory));
    builder.build()
}

fn cogroup(site: &Site) -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let other = |key: &String, all: i64, value: Text| mix(key, all, value).wrapping_mul(7);
    let both = site
        .grouped(&builder, &site.a)
        .cogroup(mix)
        .cogroup(&site.grouped(&builder, &site.b), other);
    site.show("all", &both.aggregate(|| 0, Materialized::named("all")));
    let tumbling = both.windowed_by(TimeWindows::of(millis(100)).grace(millis(40)));
    site.show("tumbling", &tumbling.aggregate(|| 0, Materialized::named("tumbling")));
    let sliding = both.windowed_by(SlidingWindows::of(millis(50)).grace(millis(40)));
    site.show("sliding", &sliding.aggregate(|| 0, Materialized::named("sliding")));
    let sessions = both.windowed_by(SessionWindows::of(millis(50)).grace(millis(40)));
    site.show("session", &sessions.aggregate(|| 0, merge, Materialized::named("session")));
    builder.build()
}

fn suppress(site: &Site) -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let grouped = site.grouped(&builder, &site.a);
    let windows = TimeWindows::of(millis(100)).grace(millis(60));
    let counted = grouped.windowed_by(windows).aggregate(|| 0, mix, Materialized::named("time"));
    site.show("time", &counted.suppress(Suppressed::until_window_closes()));
    let windows = SessionWindows::of(millis(60)).grace(millis(60));
    let counted = grouped.windowed_by(windows).count(Materialized::named("session"));
    site.show("session", &counted.suppress(Suppressed::until_window_closes()));
    let limit = Suppressed::until_time_limit(std::time::Duration::from_millis(70));
    site.show("limit", &site.table(&builder, &site.b).suppress(limit.max_records(10)));
    builder.build()
}

fn stream_stream(site: &Site) -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let (a, b) = (site.stream(&builder, &site.a), site.stream(&builder, &site.b));
    let windows = JoinWindows::of(millis(40)).grace(millis(60));
    let inner = a.join(&b, |a, b| pair(Some(a), Some(b)), windows, StreamJoined::new());
    site.show_stream("inner", &inner);
    let left = a.left_join(&b, |a, b| pair(Some(a), b), windows, StreamJoined::new());
    site.show_stream("left", &left);
    let windows = JoinWindows::between(-10, 50).grace(millis(30));
    let outer = a.outer_join(&b, pair, windows, StreamJoined::named("outer"));
    site.show_stream("outer", &outer);
    let outer = a.outer_join(&b, pair, windows, StreamJoined::named("memory").in_memory());
    let counted = outer.group_by_key(Grouped::new()).count(Materialized::named("counted"));
    site.show("counted", &counted);
    builder.build()
}

fn self_join(site: &Site) -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let a = site.stream(&builder, &site.a);
    let windows = JoinWindows::of(millis(50)).grace(millis(60));
    let joined = a.join(&a, |a, b| pair(Some(a), Some(b)), windows, StreamJoined::new());
    site.show_stream("self", &joined);
    builder.build_with(&StreamsConfig::new("any", "any:1").set("topology.optimization", "all")?)
}

fn stream_table(site: &Site) -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let a = site.stream(&builder, &site.a);
    let history = Materialized::versioned("history", std::time::Duration::from_secs(1));
    let b = builder.table(site.b.as_str(), site.consumed::<String>(), history);
    let joiner = |a: &Text, b: Option<&String>| cat(a.as_ref(), b);
    site.show_stream("left", &a.left_join_table(&b, joiner, Joined::new()));
    let waiting = Joined::named("waiting").grace(millis(50));
    site.show_stream("waiting", &a.left_join_table(&b, joiner, waiting));
    builder.build()
}

fn stream_global(site: &Site) -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let global = builder.global_table::<String, String>(
        site.b.as_str(),
        Consumed::new(),
        Materialized::new(),
    );
    let joined = site.stream(&builder, &site.a).left_join_global(
        &global,
        |_, value| value.as_deref().and_then(other_key),
        |a, found| cat(a.as_ref(), found),
        Joined::new(),
    );
    site.show_stream("global", &joined);
    let counted = joined.group_by_key(Grouped::new()).count(Materialized::named("counted"));
    site.show("counted", &counted);
    builder.build()
}

fn table_table(site: &Site) -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let (a, b) = (site.table(&builder, &site.a), site.table(&builder, &site.b));
    site.show("inner", &a.join(&b, |a, b| cat(Some(a), Some(b))));
    let left = a.left_join(&b, |a, b| cat(Some(a), b)).materialized(Materialized::named("left"));
    site.show("left", &left);
    let odd = b.filter(|_, value| number(&Some(value.clone())) % 2 == 1);
    site.show("outer", &a.outer_join(&odd, cat).materialized(Materialized::named("outer")));
    // Read from its topic when the directory is gone.
    builder.build_with(&StreamsConfig::new("any", "any:1").set("topology.optimization", "all")?)
}

fn foreign_key(site: &Site) -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let (a, b) = (site.table(&builder, &site.a), site.table(&builder, &site.b));
    let key = |value: &String| other_key(value);
    let inner =
        a.join_foreign_key(&b, key, |a, b| cat(Some(a), Some(b)), TableJoined::named("inner"));
    site.show("inner", &inner.materialized(Materialized::named("inner-results")));
    let left = a.left_join_foreign_key(&b, key, |a, b| cat(Some(a), b), TableJoined::named("left"));
    site.show("left", &left.materialized(Materialized::named("left-results")));
    builder.build()
}

fn table_group(site: &Site) -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let numbers = site.table(&builder, &site.a).group_by(
        |_, value| (other_key(&value).unwrap_or_default(), number(&Some(value))),
        Grouped::named("by-other"),
    );
    site.show("count", &numbers.count(Materialized::named("count")));
    let add = |sum: i64, value: i64| sum + value;
    let subtract = |sum: i64, value: i64| sum - value;
    site.show("reduce", &numbers.reduce(add, subtract, Materialized::named("reduce")));
    let squares = numbers.aggregate(
        || 0,
        |_, sum, value: i64| sum + value * value,
        |_, sum, value: i64| sum - value * value,
        Materialized::<String, i64>::named("squares"),
    );
    site.show("squares", &squares);
    builder.build()
}
