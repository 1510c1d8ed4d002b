//! Wrong topologies: what `build` says.

use kstreams::prelude::*;

fn check(builder: &StreamsBuilder, expected: &str) {
    let error = builder.build().expect_err("a mistake");
    assert_eq!(error.kind(), ErrorKind::InvalidTopology);
    let text = error.to_string();
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("mistakes.rs:"), "the line of the program is missing: {text}");
}

#[test]
fn two_nodes_of_one_name() {
    let builder = StreamsBuilder::new();
    let stream = builder.stream("in", Consumed::<String, String>::named("same"));
    stream.to("out", Produced::named("same"));
    check(&builder, "there are two nodes with the name same (at");
}

#[test]
fn a_name_with_odd_characters() {
    let builder = StreamsBuilder::new();
    let stream = builder.stream("in", Consumed::<String, String>::new());
    let _ = stream.group_by_key(Grouped::new()).count(Materialized::named("my counts"));
    check(&builder, "the store name \"my counts\" has the character ' '");
}

#[test]
fn one_topic_with_two_types() {
    let builder = StreamsBuilder::new();
    builder.stream("in", Consumed::<String, String>::new()).to("one", Produced::new());
    builder.stream("in", Consumed::<String, i64>::new()).to("two", Produced::new());
    let error = builder.build().expect_err("a mistake").to_string();
    assert!(error.contains("KSTREAM-SOURCE-0000000000 gives (alloc::string::String, "), "{error}");
    assert!(
        error.contains("its child KSTREAM-SINK-0000000003 takes (alloc::string::String, i64)"),
        "{error}"
    );
}

#[test]
fn one_store_name_with_two_types() {
    let mut topology = TopologyBuilder::new();
    let source = topology.add_source("source", "in", Consumed::<String, String>::new());
    let one = Stores::key_value::<String, i64>("store");
    let two = Stores::key_value::<String, String>("store");
    topology.connect_store(&one, &source);
    topology.connect_store(&two, &source);
    let error = topology.build().expect_err("a mistake").to_string();
    assert!(
        error.starts_with("store store is used as a store of (alloc::string::String, i64) and of"),
        "{error}"
    );
}

#[test]
fn one_store_name_for_two_tables() {
    let builder = StreamsBuilder::new();
    let stream = builder.stream("in", Consumed::<String, String>::new());
    let _ = stream.group_by_key(Grouped::new()).count(Materialized::named("counts"));
    let _ = stream.group_by_key(Grouped::new()).count(Materialized::named("counts"));
    check(
        &builder,
        "store counts is used by two nodes, KSTREAM-AGGREGATE-0000000001 and KSTREAM-AGGREGATE-0000000002",
    );
}

#[test]
fn a_topic_with_odd_characters() {
    let builder = StreamsBuilder::new();
    let stream = builder.stream("in", Consumed::<String, String>::new());
    stream.to("out/1", Produced::new());
    check(&builder, "the topic name \"out/1\" has the character '/'");
}

#[test]
fn an_empty_topology_is_refused_at_the_start() {
    let topology = StreamsBuilder::new().build().expect("builds");
    let error = KafkaStreams::start(topology, StreamsConfig::new("app", "unused:1"));
    assert!(error.expect_err("refused").to_string().contains("reads no topic"));
}

#[test]
fn a_topic_that_leads_to_itself_ends_with_an_error() {
    let builder = StreamsBuilder::new();
    builder.stream("in", Consumed::<String, String>::new()).to("in", Produced::new());
    let mut driver = TopologyTestDriver::new(builder.build().expect("builds")).expect("a driver");
    let error = driver.pipe_bytes("in", Some(b"k"), Some(b"v"), 0, &Headers::new());
    assert!(error.expect_err("a circle").to_string().contains("read a topic that it writes"));
}

#[test]
fn no_serde_anywhere() {
    #[derive(Clone)]
    struct Opaque;
    let builder = StreamsBuilder::new();
    builder
        .stream("in", Consumed::<String, String>::new())
        .map_values(|_| Opaque)
        .to("out", Produced::carried());
    check(&builder, "has no serde for its key or value, and the stream carries none");
}

#[test]
fn a_hand_built_topology_with_a_topic_read_twice() {
    let mut topology = TopologyBuilder::new();
    topology.add_source("one", "in", Consumed::<String, String>::new());
    topology.add_source("two", "in", Consumed::<String, String>::new());
    let error = topology.build().expect_err("a mistake").to_string();
    assert!(error.contains("topic in is read by two sources, one and two"), "{error}");
}

#[test]
fn a_handle_of_another_topology() {
    let mut other = TopologyBuilder::new();
    other.add_source("a", "a", Consumed::<String, String>::new());
    let foreign = other.add_source("b", "b", Consumed::<String, String>::new());
    let mut topology = TopologyBuilder::new();
    topology.add_sink("sink", "out", Produced::new(), &[&foreign]);
    let error = topology.build().expect_err("a mistake").to_string();
    assert!(error.contains("a parent of node sink is of another topology"), "{error}");
}

#[test]
fn names_can_be_required() {
    let required = || {
        let config = StreamsConfig::new("app", "unused:1");
        config.set("ensure.explicit.internal.resource.naming", "true").expect("a setting")
    };
    let builder = StreamsBuilder::new();
    let (l, r) = (
        builder.stream("l", Consumed::<String, String>::new()),
        builder.stream("r", Consumed::<String, String>::new()),
    );
    let windows = JoinWindows::of(seconds(1));
    let joined = l.left_join(&r, |l, _| l.clone(), windows, StreamJoined::new());
    let counted = joined.group_by(|_, v| v.clone(), Grouped::new());
    counted.count(Materialized::named("named")).to_stream().to("out", Produced::new());
    let error = builder.build_with(&required()).expect_err("not named").to_string();
    for name in
        ["JOINTHIS-0000000004-store", "OUTEROTHER-0000000005-store", "OUTERSHARED-0000000004"]
    {
        assert!(error.contains(name), "{error}");
    }
    assert!(!error.contains("named-"), "{error}");
    assert!(builder.build().is_ok());
}
