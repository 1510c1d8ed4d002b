//! Operators that remember nothing.

use super::{Case, Text, stream, text};
use crate::processors::AddSeen;
use kstreams::prelude::*;
use kstreams::topology::TopicNameExtractor;

pub(super) fn cases() -> Vec<Case> {
    vec![
        text("map_chain", map_chain),
        text("flat_map", flat_map),
        text("branch", branch),
        text("merge", merge),
        text("dynamic_topic", dynamic_topic),
        text("repartition", repartition),
        text("headers", headers),
    ]
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

fn branch() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let branches = stream(&builder, "a")
        .split()
        .named("s-")
        .branch(|_, v| v.is_none(), Branched::named("null"))
        .branch(
            |_, v| v.as_ref().is_some_and(|v| v.encode_utf16().count() % 2 == 0),
            Branched::new(),
        )
        .default_branch(Branched::new());
    for (name, branch) in branches {
        branch
            .map_values(move |v| format!("{name}={}", v.as_deref().unwrap_or("null")))
            .to("out", Produced::new());
    }
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

fn repartition() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    stream(&builder, "a")
        .select_key(|_, v| v.clone())
        .repartition(Repartitioned::named("rp").number_of_partitions(3))
        .to("out", Produced::new());
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
