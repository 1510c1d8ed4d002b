//! The topology check.

use kstreams::prelude::*;

/// The findings, a line each: severity, rule, names.
fn check(build: impl Fn(&StreamsBuilder), expected: &str) {
    let builder = StreamsBuilder::new();
    build(&builder);
    let findings = builder.build().expect("builds").lint();
    let lines: Vec<String> = findings
        .iter()
        .map(|finding| {
            let text = finding.to_string();
            let (head, _) = text.split_once(": ").expect("a text");
            format!("{head} {}", finding.names.join(" "))
        })
        .collect();
    let expected: Vec<&str> =
        expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(lines, expected, "{findings:#?}");
}

fn texts(builder: &StreamsBuilder, topic: &str) -> KStream<String, String> {
    builder.stream(topic, Consumed::<String, String>::new())
}

fn latest(_: &String, _: String, value: String) -> String {
    value
}

struct Keeping {
    _store: KeyValueStore<String, String>,
}

impl Processor for Keeping {
    type In = (String, String);
    type Out = ((), ());

    fn process(&mut self, _: Record<String, String>, _: &mut Context<Self>) -> ProcessResult {
        Ok(())
    }
}

fn keep(stream: &KStream<String, String>) {
    let store = Stores::key_value::<String, String>("kept");
    let _ = stream.process(
        move |ctx| Ok(Keeping { _store: ctx.store(&store)? }),
        Processed::named("keeping").store(&store),
    );
}

/// Event sourcing the classic way: events are folded into a table, which commands are joined with.
#[test]
fn a_join_that_feeds_its_own_table() {
    let snapshots = |builder: &StreamsBuilder| {
        texts(builder, "events").group_by_key(Grouped::new()).aggregate(
            String::new,
            latest,
            Materialized::<String, String>::named("users"),
        )
    };
    let events =
        |users: &KTable<String, String>, commands: &KStream<String, String>, topic: &str| {
            commands
                .left_join_table(users, |command, user| format!("{command}{user:?}"), Joined::new())
                .flat_map_values(|event| [event])
                .to(topic, Produced::new());
        };
    check(
        |builder| events(&snapshots(builder), &texts(builder, "commands"), "events"),
        "warning[stale-table-in-a-loop] KSTREAM-LEFTJOIN-0000000003 users KSTREAM-SINK-0000000005 events",
    );
    check(|builder| events(&snapshots(builder), &texts(builder, "commands"), "others"), "");
    // The way through repartition topics is found as well.
    check(
        |builder| {
            let users = snapshots(builder);
            let joined = texts(builder, "commands").join_table(
                &users,
                |_, user| user.clone(),
                Joined::new(),
            );
            joined
                .select_key(|_, value| value.clone())
                .repartition(Repartitioned::named("again"))
                .to("events", Produced::new());
        },
        "warning[stale-table-in-a-loop] KSTREAM-JOIN-0000000003 users KSTREAM-SINK-0000000008 events",
    );
    check(
        |builder| {
            let (a, b) = ("a", "b");
            let table = |topic| {
                builder.table(topic, Consumed::<String, String>::new(), Materialized::named(topic))
            };
            table(a).join(&table(b), |a, b| format!("{a}{b}")).to_stream().to(a, Produced::new());
        },
        "warning[stale-table-in-a-loop] KTABLE-JOINOTHER-0000000006 a KSTREAM-SINK-0000000008 a",
    );
}

#[test]
fn a_global_table_that_is_read_and_written() {
    let build = |builder: &StreamsBuilder, topic: &str| {
        let rooms = builder.global_table(
            "rooms",
            Consumed::<String, String>::new(),
            Materialized::named("rooms-store"),
        );
        texts(builder, "joins")
            .left_join_global(
                &rooms,
                |room, _| room.clone(),
                |user, room| format!("{room:?}{user}"),
                Joined::named("look"),
            )
            .to(topic, Produced::new());
    };
    check(
        |builder| build(builder, "rooms"),
        "warning[stale-global-table-in-a-loop] look rooms-store KSTREAM-SINK-0000000004 rooms",
    );
    check(|builder| build(builder, "elsewhere"), "");
}

#[test]
fn state_by_a_key_that_was_changed() {
    check(
        |builder| keep(&texts(builder, "joins").select_key(|_, value| value.clone())),
        "warning[state-by-a-changed-key] keeping KSTREAM-KEY-SELECT-0000000001",
    );
    check(
        |builder| {
            let joins = texts(builder, "joins").map(|user, room| (room, user));
            let leaves = texts(builder, "leaves").map(|user, room| (room, user));
            keep(&joins.merge(&leaves));
        },
        "warning[state-by-a-changed-key] keeping KSTREAM-MAP-0000000003 KSTREAM-MAP-0000000001
         note[topics-meet-unchecked] keeping joins leaves",
    );
    check(
        |builder| {
            let joins = texts(builder, "joins").map(|user, room| (room, user));
            let leaves = texts(builder, "leaves").map(|user, room| (room, user));
            keep(&joins.merge(&leaves).repartition(Repartitioned::named("by-room")));
        },
        "",
    );
    check(
        |builder| {
            let ids = texts(builder, "in").select_key(|_, value| value.clone());
            ids.deduplicate(
                |key, _| key.clone(),
                Deduplicated::within(seconds(1)).with_name("once"),
            )
            .to("out", Produced::new());
        },
        "warning[state-by-a-changed-key] once KSTREAM-KEY-SELECT-0000000001",
    );
}

#[test]
fn what_has_no_name_and_what_grows() {
    check(
        |builder| {
            let words = texts(builder, "words");
            let _ = words.group_by(|_, word| word.clone(), Grouped::new()).count(Materialized::new());
            let hourly = words.group_by_key(Grouped::new()).windowed_by(TimeWindows::of(hours(1)));
            let _ = hourly.count(Materialized::named("hourly"));
            let graceful = TimeWindows::of(hours(1)).grace(minutes(1));
            let _ = words
                .group_by_key(Grouped::new())
                .windowed_by(graceful)
                .count(Materialized::named("graceful"));
        },
        "warning[unnamed-state] store KSTREAM-AGGREGATE-STATE-STORE-0000000002 with its changelog repartition topic KSTREAM-AGGREGATE-STATE-STORE-0000000002-repartition
         note[only-grows] KSTREAM-AGGREGATE-0000000003
         note[no-grace] KSTREAM-AGGREGATE-0000000007",
    );
}

/// A topology that is right has nothing to be said about.
#[test]
fn decide_needs_no_loop() {
    check(
        |builder| {
            texts(builder, "commands")
                .group_by_key(Grouped::new())
                .decide(
                    |_: Option<&String>, command: &String| Ok::<_, String>(vec![command.clone()]),
                    |_: Option<String>, event: &String| Some(event.clone()),
                    Materialized::named("users"),
                )
                .events()
                .to("events", Produced::new());
        },
        "",
    );
}
