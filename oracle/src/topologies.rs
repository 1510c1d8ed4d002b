//! The topologies of `tests/java/Oracle.java`, written with kstreams.

use crate::lines::Kind;
use crate::processors::{AddSeen, Dedup, Route};
use crate::tables;
use kstreams::prelude::*;
use kstreams::topology::TopicNameExtractor;

pub(crate) type Text = Option<String>;

/// A topology: its name, how its output values are shown, and how it is built.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) value: Kind,
    pub(crate) build: fn() -> Result<Topology>,
}

pub(crate) fn find(name: &str) -> std::result::Result<Case, String> {
    let found = all().into_iter().find(|case| case.name == name);
    found.ok_or_else(|| format!("there is no topology {name}: `oracle list` shows them"))
}

pub(crate) fn all() -> Vec<Case> {
    let text = |name, build| Case { name, value: Kind::Text, build };
    let long = |name, build| Case { name, value: Kind::Long, build };
    let mut cases = vec![
        text("map_chain", map_chain),
        text("flat_map", flat_map),
        text("merge", merge),
        text("dynamic_topic", dynamic_topic),
        text("headers", headers),
        long("count", count),
        long("count_by", count_by),
        text("reduce", reduce),
        text("aggregate_delete", aggregate_delete),
        text("papi_dedup", papi_dedup),
        text("papi_children", papi_children),
    ];
    cases.extend(tables::all());
    cases
}

pub(crate) fn stream(builder: &StreamsBuilder, topic: &str) -> KStream<Text, Text> {
    builder.stream(topic, Consumed::new())
}

pub(crate) fn first(value: &Text) -> Text {
    value.as_ref().map(|value| value.chars().take(1).collect())
}

fn map_chain() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    stream(&builder, "a")
        .filter(|_, v| v.as_ref().is_some_and(|v| !v.starts_with('x')))
        .filter_not(|_, v| v.as_ref().is_some_and(|v| v.ends_with('z')))
        .map_values(|v| v.unwrap_or_default().to_uppercase())
        .flat_map_values(|v| [v.clone(), v + "!"])
        .select_key(|_, v| v.chars().take(1).collect::<String>())
        .to("out", Produced::new());
    builder.build()
}

fn flat_map() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    stream(&builder, "a")
        .flat_map(|k, v| match v {
            None => Vec::new(),
            Some(_) => vec![(k.clone(), v.clone()), (v, k)],
        })
        .to("out", Produced::new());
    builder.build()
}

fn merge() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let marked = |topic: &'static str| {
        stream(&builder, topic)
            .map_values(move |v| format!("{topic}{}", v.as_deref().unwrap_or("null")))
    };
    let a = marked("a");
    a.merge(&marked("b")).to("out", Produced::new());
    builder.build()
}

/// `out-0` or `out-1`, by the lowest bit of the key's Java hash.
struct ByHash;

impl TopicNameExtractor<Text, Text> for ByHash {
    fn topic(&self, record: &Record<Text, Text>, _: Option<&RecordMetadata>) -> String {
        let key = record.key.as_deref().unwrap_or_default();
        let hash = key
            .encode_utf16()
            .fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(unit.into()));
        format!("out-{}", hash & 1)
    }

    fn name(&self) -> String {
        "by-hash".into()
    }
}

fn dynamic_topic() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    stream(&builder, "a")
        .filter(|k, _| k.is_some())
        .to(TopicTarget::extracted(ByHash), Produced::new());
    builder.build()
}

fn headers() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    stream(&builder, "a")
        .process(|_| Ok(AddSeen), Processed::new())
        .map_values(|v| format!("{}.", v.as_deref().unwrap_or("null")))
        .to("out", Produced::new());
    builder.build()
}

fn count() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    stream(&builder, "a")
        .group_by_key(Grouped::new())
        .count(Materialized::named("c"))
        .to_stream()
        .to("out", Produced::new());
    builder.build()
}

fn count_by() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    stream(&builder, "a")
        .group_by(|_, v| first(v), Grouped::new())
        .count(Materialized::new())
        .to_stream()
        .to("out", Produced::new());
    builder.build()
}

fn reduce() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let cat = |a: Text, b: Text| Some(a.unwrap_or_default() + "+" + &b.unwrap_or_default());
    stream(&builder, "a")
        .group_by_key(Grouped::new())
        .reduce(cat, Materialized::named("r"))
        .to_stream()
        .to("out", Produced::new());
    builder.build()
}

fn aggregate_delete() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    stream(&builder, "a")
        .group_by_key(Grouped::new())
        .aggregate(
            String::new,
            |_, all, v| {
                let v = v.unwrap_or_default();
                (!v.starts_with('x')).then(|| all + &v)
            },
            Materialized::named("g"),
        )
        .to_stream()
        .to("out", Produced::new());
    builder.build()
}

fn papi_dedup() -> Result<Topology> {
    let seen = Stores::key_value::<String, Text>("seen");
    let mut topology = TopologyBuilder::new();
    let source = topology.add_source("src", "a", Consumed::<Text, Text>::new());
    let dedup = move |ctx: &mut InitContext| Ok(Dedup { seen: ctx.store(&seen)? });
    let dedup = topology.add_processor("dedup", dedup, &[&source]);
    topology.connect_store(&seen, &dedup);
    topology.add_sink("snk", "out", Produced::new(), &[&dedup]);
    topology.build()
}

fn papi_children() -> Result<Topology> {
    let mut topology = TopologyBuilder::new();
    let source = topology.add_source("src", "a", Consumed::<Text, Text>::new());
    let route = topology.add_processor("route", |_| Ok(Route), &[&source]);
    topology.add_sink("long", "out-long", Produced::new(), &[&route]);
    topology.add_sink("short", "out-short", Produced::new(), &[&route]);
    topology.build()
}
