//! `decide` and `deduplicate`.

use super::{check, check_results};
use kstreams::prelude::*;

type Version = i64;

/// Commands `register`, `rename`, `rename*N` (N events) and `close`; events carry their version.
fn users() -> Topology {
    let builder = StreamsBuilder::new();
    let decisions = builder
        .stream("commands", Consumed::<String, String>::new())
        .group_by_key(Grouped::new())
        .decide(
            |version: Option<&Version>, command: &String| match (version, command.as_str()) {
                (None, "register") => Ok(vec!["registered 0".to_string()]),
                (Some(version), "rename") => Ok(vec![format!("renamed {}", version + 1)]),
                (Some(version), "twice") => {
                    Ok((1..=2).map(|n| format!("renamed {}", version + n)).collect())
                }
                (Some(version), "close") => Ok(vec![format!("closed {}", version + 1)]),
                (Some(_), "nothing") => Ok(vec![]),
                (version, command) => Err(format!("{command} of {version:?}")),
            },
            |version: Option<Version>, event: &String| {
                let (kind, number) = event.split_once(' ')?;
                let next = version.map_or(0, |version| version + 1);
                assert_eq!(number.parse(), Ok(next));
                (kind != "closed").then_some(next)
            },
            Materialized::named("users"),
        );
    decisions.events().to("events", Produced::new());
    decisions.rejections().to("rejected", Produced::new());
    decisions.snapshots().to_stream().to("snapshots", Produced::new());
    builder.build().expect("builds")
}

#[test]
fn commands_see_what_the_ones_before_them_did() {
    check(
        users(),
        "commands (a,rename)@5 -> rejected (a,rename of None)@5
         commands (a,register)@6 {by=x} -> app-users-changelog (a,0)@6; events (a,registered 0)@6 {by=x}; snapshots (a,0)@6 {by=x}
         commands (a,rename)@7 -> app-users-changelog (a,1)@7; events (a,renamed 1)@7; snapshots (a,1)@7
         commands (a,twice)@7 -> app-users-changelog (a,3)@7; events (a,renamed 2)@7; events (a,renamed 3)@7; snapshots (a,3)@7
         commands (a,register)@8 -> rejected (a,register of Some(3))@8
         commands (a,nothing)@9 -> -
         commands (b,rename)@9 -> rejected (b,rename of None)@9
         commands (a,rename)@3 -> app-users-changelog (a,4)@7; events (a,renamed 4)@3; snapshots (a,4)@7
         commands (a,close)@9 -> app-users-changelog (a,null)@9; events (a,closed 5)@9; snapshots (a,null)@9
         commands (a,register)@9 -> app-users-changelog (a,0)@9; events (a,registered 0)@9; snapshots (a,0)@9",
    );
}

/// Snapshots can be joined as any table can, and see the events of the record before.
#[test]
fn snapshots_are_a_table() {
    let builder = StreamsBuilder::new();
    let decisions = builder
        .stream("commands", Consumed::<String, i64>::new())
        .group_by(|_, amount| format!("k{}", amount % 2), Grouped::named("by-rest"))
        .decide(
            |_: Option<&i64>, amount: &i64| Ok::<_, String>(vec![*amount]),
            |sum: Option<i64>, amount: &i64| Some(sum.unwrap_or(0) + amount),
            Materialized::named("sums"),
        );
    decisions
        .events()
        .join_table(&decisions.snapshots(), |event, sum| format!("{event} of {sum}"), Joined::new())
        .to("out", Produced::new());
    let topology = builder.build().expect("builds");
    assert!(topology.describe().contains("by-rest-repartition"));
    let mut driver = TopologyTestDriver::new(topology).expect("a driver");
    let mut commands = driver.input::<String, i64>("commands");
    for amount in [1, 3, 2, 5] {
        commands.pipe_key_value_at(&mut driver, 0, "any", amount).expect("piped");
    }
    let out = driver.output::<String, String>("out").read_values(&mut driver).expect("read");
    assert_eq!(out, ["1 of 1", "3 of 4", "2 of 2", "5 of 9"]);
}

fn once(deduplicated: Deduplicated<Option<String>>) -> Topology {
    let builder = StreamsBuilder::new();
    builder
        .stream("in", Consumed::<String, Option<String>>::new())
        .deduplicate(|_, value| value.clone(), deduplicated)
        .to("out", Produced::new());
    builder.build().expect("builds")
}

#[test]
fn one_record_of_each_id_passes() {
    check_results(
        once(Deduplicated::within(millis(10)).with_name("once")),
        "in (k,a)@100 -> out (k,a)@100
         in (k,a)@100 -> -
         in (j,b)@101 -> out (j,b)@101
         in (k,a)@110 -> -
         in (k,a)@111 -> out (k,a)@111
         in (k,null)@111 -> out (k,null)@111
         in (k,null)@111 -> out (k,null)@111
         in (k,b)@121 -> out (k,b)@121
         in (k,c)@111 -> out (k,c)@111
         in (k,a)@111 -> -
         in (k,d)@110 -> -
         in (k,c)@101 -> -",
    );
}

#[test]
fn the_grace_says_what_is_too_late() {
    check_results(
        once(Deduplicated::within(millis(10)).grace(millis(100)).in_memory().with_name("once")),
        "in (k,a)@200 -> out (k,a)@200
         in (k,b)@100 -> out (k,b)@100
         in (k,b)@110 -> -
         in (k,a)@190 -> -
         in (k,a)@189 -> out (k,a)@189
         in (k,c)@99 -> -",
    );
}

/// The bounds of what can be said are no mistake.
#[test]
fn duplicates_may_be_any_time_apart() {
    for within in [std::time::Duration::ZERO, std::time::Duration::MAX] {
        check_results(
            once(Deduplicated::within(within).with_name("once")),
            "in (k,a)@100 -> out (k,a)@100
             in (k,a)@100 -> -
             in (k,b)@100 -> out (k,b)@100",
        );
    }
}
