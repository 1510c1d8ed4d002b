//! The operators of the DSL.

use super::{check, check_with};
use kstreams::prelude::*;

fn strings(builder: &StreamsBuilder) -> KStream<String, String> {
    builder.stream("in", Consumed::new())
}

#[test]
fn stateless_operators_keep_time_and_headers() {
    let builder = StreamsBuilder::new();
    strings(&builder)
        .filter(|_, value| value != "no")
        .map_values_with_key(|key, value| format!("{key}:{value}"))
        .flat_map_values(|value| [value.clone(), value.to_uppercase()])
        .map(|key, value| (value, key))
        .to("out", Produced::new());
    check(
        builder.build().expect("builds"),
        "in (a,b)@7 {h=1} -> out (a:b,a)@7 {h=1}; out (A:B,a)@7 {h=1}
         in (a,no)@8 -> -",
    );
}

#[test]
fn a_stream_used_twice_goes_both_ways_and_a_topic_read_twice_has_one_source() {
    let builder = StreamsBuilder::new();
    let stream = strings(&builder);
    stream.map_values(|value| value + "1").to("one", Produced::new());
    strings(&builder).map_values(|value| value + "2").to("two", Produced::new());
    stream.to("zero", Produced::new());
    let topology = builder.build().expect("builds");
    assert_eq!(topology.describe().matches("Source:").count(), 1);
    check(topology, "in (a,x)@1 -> one (a,x1)@1; two (a,x2)@1; zero (a,x)@1");
}

#[test]
fn peek_and_for_each_see_every_record() {
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let (peeked, done) = (seen.clone(), seen.clone());
    let builder = StreamsBuilder::new();
    strings(&builder)
        .peek(move |key, value| peeked.lock().unwrap().push(format!("peek {key} {value}")))
        .for_each(move |key, value| done.lock().unwrap().push(format!("done {key} {value}")));
    check(builder.build().expect("builds"), "in (a,x)@1 -> -");
    assert_eq!(*seen.lock().unwrap(), ["peek a x", "done a x"]);
}

#[test]
fn counts_have_the_latest_time_of_their_records() {
    let builder = StreamsBuilder::new();
    strings(&builder)
        .group_by_key(Grouped::new())
        .count(Materialized::named("counts"))
        .to_stream()
        .to("out", Produced::new());
    check(
        builder.build().expect("builds"),
        "in (a,x)@9 -> app-counts-changelog (a,1)@9; out (a,1)@9
         in (a,x)@3 -> app-counts-changelog (a,2)@9; out (a,2)@9
         in (b,x)@3 {h=1} -> app-counts-changelog (b,1)@3; out (b,1)@3 {h=1}",
    );
}

#[test]
fn null_keys_and_values_are_dropped_by_aggregations() {
    let builder = StreamsBuilder::new();
    builder
        .stream("in", Consumed::<Option<String>, Option<String>>::new())
        .group_by_key(Grouped::new())
        .count(Materialized::named("counts"))
        .to_stream()
        .to("out", Produced::new());
    let topology = builder.build().expect("builds");
    let mut driver = TopologyTestDriver::new(topology).expect("a driver");
    for (key, value) in [(None, Some("x")), (Some("a"), None), (Some("a"), Some("x"))] {
        let mut topic = driver.input::<Option<String>, Option<String>>("in");
        topic
            .pipe(&mut driver, key.map(str::to_string), value.map(str::to_string))
            .expect("processed");
    }
    assert_eq!(driver.dropped_records(), 2);
    let mut counts = driver.output::<String, i64>("out");
    assert_eq!(counts.read_table(&mut driver).expect("a table"), table! { "a" => 1 });
}

/// P49: a repartition topic keeps time and headers, and a record without a key does not get there.
#[test]
fn p49_repartitioning_keeps_time_and_headers() {
    let builder = StreamsBuilder::new();
    builder
        .stream("in", Consumed::<String, Option<String>>::new())
        .group_by(|_, value| value.clone(), Grouped::named("by-value"))
        .count(Materialized::named("counts").logging_disabled())
        .to_stream()
        .to("out", Produced::new());
    check(
        builder.build().expect("builds"),
        "in (a,v1)@7 {h=hh} -> app-by-value-repartition (v1,v1)@7 {h=hh}; out (v1,1)@7 {h=hh}
         in (a,null)@8 -> -",
    );
}

#[test]
fn an_aggregate_may_delete_its_key() {
    let topology = |materialized: Materialized<String, i64>| {
        let builder = StreamsBuilder::new();
        builder
            .stream("in", Consumed::<String, String>::new())
            .group_by_key(Grouped::new())
            .aggregate(
                || 0i64,
                |_, stock, change| {
                    Some(stock + change.parse::<i64>().unwrap_or(0)).filter(|stock| *stock > 0)
                },
                materialized.with_name("stock"),
            )
            .to_stream()
            .to("out", Produced::new());
        builder.build().expect("builds")
    };
    check(
        topology(Materialized::new()),
        "in (a,0)@1 -> -
         in (a,2)@2 -> app-stock-changelog (a,2)@2; out (a,2)@2
         in (a,-2)@3 -> app-stock-changelog (a,null)@3; out (a,null)@3",
    );
    // Without a record cache a deletion is forwarded even if there was nothing.
    check(
        topology(Materialized::new().caching_disabled()),
        "in (a,0)@1 -> app-stock-changelog (a,null)@1; out (a,null)@1
         in (a,2)@2 -> app-stock-changelog (a,2)@2; out (a,2)@2",
    );
}

#[test]
fn java_mode_logs_every_write_and_the_default_the_last_one_of_a_commit() {
    let topology = || {
        let store = Stores::key_value::<String, String>("both");
        let builder = StreamsBuilder::new();
        let _ = strings(&builder).process(
            move |ctx| Ok(super::processors::PutTwice { store: ctx.store(&store)? }),
            Processed::new().store(&store),
        );
        builder.build().expect("builds")
    };
    check(topology(), "in (a,x)@1 -> app-both-changelog (a,x2)@1");
    let java = StreamsConfig::new("app", "unused:1").set("compatibility", "java-4.4");
    check_with(
        topology(),
        java.expect("a setting"),
        "in (a,x)@1 -> app-both-changelog (a,x1)@1; app-both-changelog (a,x2)@1",
    );
}

#[test]
fn an_explicit_group_name_is_repartitioned_once() {
    let builder = StreamsBuilder::new();
    let by_value = strings(&builder).group_by(|_, value| value.clone(), Grouped::named("g"));
    by_value.count(Materialized::named("c")).to_stream().to("counts", Produced::new());
    by_value
        .reduce(|a, b| a + &b, Materialized::named("r"))
        .to_stream()
        .to("reduced", Produced::new());
    let text = builder.build().expect("builds").describe();
    assert_eq!(text.matches("Sink: g-repartition-sink").count(), 1, "{text}");
    assert!(text.contains("Processor: g (stores: [])"), "{text}");
}
