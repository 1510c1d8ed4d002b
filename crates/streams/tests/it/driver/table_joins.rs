//! Joins with tables.

use super::{check_results, check_topics};
use kstreams::prelude::*;

type Table = KTable<String, String>;

fn tables(builder: &StreamsBuilder) -> (Table, Table) {
    let table = |topic| builder.table(topic, Consumed::new(), Materialized::named(topic));
    (table("l"), table("r"))
}

fn out(builder: StreamsBuilder, table: &Table) -> Topology {
    table.to_stream().to("out", Produced::new());
    builder.build().expect("builds")
}

fn text(value: Option<&String>) -> &str {
    value.map_or("null", String::as_str)
}

const P16: [&str; 9] = [
    "l (a,A)@10",
    "r (a,null)@11",
    "r (a,R)@5",
    "l (a,A2)@7",
    "l (a,null)@12",
    "l (a,null)@13",
    "r (a,R2)@14",
    "r (a,null)@15",
    "l (null,x)@16",
];

fn p16(topology: Topology, results: [&str; 9]) {
    let lines = P16.iter().zip(results).map(|(input, result)| format!("{input} -> {result}"));
    check_results(topology, &lines.collect::<Vec<_>>().join("\n"));
}

/// P16: no tombstones for what was never there, and the later time of both sides.
#[test]
fn p16_joins_of_two_tables() {
    let rest = ["-", "out (a,A+R)@10", "out (a,A2+R)@7", "out (a,null)@12", "-", "-", "-", "-"];
    let builder = StreamsBuilder::new();
    let (l, r) = tables(&builder);
    let inner = l.join(&r, |l, r| format!("{l}+{r}"));
    let first =
        |first| std::array::from_fn(|place| if place == 0 { first } else { rest[place - 1] });
    p16(out(builder, &inner), first("-"));
    let builder = StreamsBuilder::new();
    let (l, r) = tables(&builder);
    let left = l.left_join(&r, |l, r| format!("{l}+{}", text(r)));
    p16(out(builder, &left), first("out (a,A+null)@10"));
    let builder = StreamsBuilder::new();
    let (l, r) = tables(&builder);
    let outer = l.outer_join(&r, |l, r| format!("{}+{}", text(l), text(r)));
    p16(
        out(builder, &outer),
        [
            "out (a,A+null)@10",
            "-",
            "out (a,A+R)@10",
            "out (a,A2+R)@7",
            "out (a,null+R)@12",
            "-",
            "out (a,null+R2)@14",
            "out (a,null)@15",
            "-",
        ],
    );
}

/// P15: both sides come from one table, so that a deletion there leaves neither side anything to look up.
#[test]
fn p15_a_row_of_one_table_with_itself_is_deleted() {
    let twice = || {
        let builder = StreamsBuilder::new();
        let table: Table = builder.table("n", Consumed::new(), Materialized::new());
        let x = table.map_values(|v| format!("x{v}"));
        let joined = x.join(&table.map_values(|v| format!("y{v}")), |x, y| format!("{x}{y}"));
        out(builder, &joined)
    };
    check_results(
        twice(),
        "n (a,1)@0 -> out (a,x1y1)@0; out (a,x1y1)@0
         n (a,2)@1 -> out (a,x2y2)@1; out (a,x2y2)@1
         n (a,null)@2 -> out (a,null)@2; out (a,null)@2",
    );
    let java = StreamsConfig::new("app", "unused:1").set("compatibility", "java-4.4").expect("set");
    let script = "n (a,1)@0 -> out (a,x1y1)@0; out (a,x1y1)@0
                  n (a,null)@2 -> -";
    check_topics(twice(), java, script, |topic| topic == "out");
}

#[test]
fn p15_variant_one_side_leaves_rows_out() {
    let builder = StreamsBuilder::new();
    let table: Table = builder.table("n", Consumed::new(), Materialized::new());
    let even = table.filter_map_values(|v| (v.len() % 2 == 0).then_some(v));
    check_results(
        out(builder, &even.join(&table, |e, t| format!("{e}/{t}"))),
        "n (a,22)@0 -> out (a,22/22)@0; out (a,22/22)@0
         n (a,333)@1 -> out (a,null)@1
         n (a,66)@2 -> out (a,66/66)@2; out (a,66/66)@2
         n (a,null)@3 -> out (a,null)@3; out (a,null)@3",
    );
}

/// P09: the table is looked up when a record arrives; its changes make no results.
#[test]
fn p09_a_stream_looks_a_table_up() {
    let run = |left: bool, script: &str| {
        let builder = StreamsBuilder::new();
        let table = builder.table::<String, String>("t", Consumed::new(), Materialized::named("t"));
        let stream = builder.stream("s", Consumed::<String, String>::new());
        let joined = match left {
            true => {
                stream.left_join_table(&table, |s, t| format!("{s}+{}", text(t)), Joined::new())
            }
            false => stream.join_table(&table, |s, t| format!("{s}+{t}"), Joined::new()),
        };
        joined.to("out", Produced::new());
        check_results(builder.build().expect("builds"), script);
    };
    run(
        true,
        "s (a,1)@0 {h=1} -> out (a,1+null)@0 {h=1}
         t (a,T)@5 {h=t} -> -
         s (a,2)@1 -> out (a,2+T)@1
         t (a,null)@8 -> -
         s (a,3)@9 -> out (a,3+null)@9",
    );
    run(
        false,
        "s (a,1)@0 -> -
         t (a,T)@5 -> -
         s (a,2)@1 -> out (a,2+T)@1
         t (a,null)@8 -> -
         s (a,3)@9 -> -",
    );
}

/// P10: with a versioned table a record sees the value of its own time.
#[test]
fn p10_a_stream_sees_the_table_as_it_was() {
    let run = |history, left: bool, script: &str| {
        let builder = StreamsBuilder::new();
        let versioned = Materialized::versioned("t", millis(history));
        let table = builder.table::<String, String>("t", Consumed::new(), versioned);
        let stream = builder.stream("s", Consumed::<String, String>::new());
        let joined = match left {
            true => {
                stream.left_join_table(&table, |s, t| format!("{s}+{}", text(t)), Joined::new())
            }
            false => stream.join_table(&table, |s, t| format!("{s}+{t}"), Joined::new()),
        };
        joined.to("out", Produced::new());
        check_results(builder.build().expect("builds"), script);
    };
    run(
        1000,
        false,
        "t (a,b0)@0 -> -
         s (a,a1)@1 -> out (a,a1+b0)@1
         t (a,b3)@3 -> -
         s (a,a4)@4 -> out (a,a4+b3)@4
         s (a,a2)@2 -> out (a,a2+b0)@2
         t (a,b2)@2 -> -
         s (a,a5)@5 -> out (a,a5+b3)@5
         t (a,null)@6 -> -
         s (a,a7)@7 -> -
         s (a,a5b)@5 -> out (a,a5b+b3)@5",
    );
    run(
        100,
        true,
        "t (a,v1000)@1000 -> -
         t (a,v500)@500 -> -
         t (a,v950)@950 -> -
         s (a,s)@960 -> out (a,s+v950)@960
         s (a,s)@400 -> out (a,s+null)@400
         s (a,s)@1000 -> out (a,s+v1000)@1000",
    );
}

/// The text before the bar; `null` is none.
fn foreign_key(value: &str) -> Option<String> {
    value.split_once('|').map(|(key, _)| key.to_string()).filter(|key| key != "null")
}

/// P12: foreign keys that change, are null, or go.
#[test]
fn p12_foreign_keys_inner() {
    let builder = StreamsBuilder::new();
    let (l, r) = tables(&builder);
    let joiner = |l: &String, r: &String| format!("{l}+{r}");
    let joined = l.join_foreign_key(&r, |v| foreign_key(v), joiner, TableJoined::new());
    check_results(
        out(builder, &joined.materialized(Materialized::named("j"))),
        "r (f1,X)@0 -> -
         r (f2,Y)@1 -> -
         l (k,f1|a)@2 {h=l} -> out (k,f1|a+X)@2 {h=l}
         l (k,f2|a)@3 -> out (k,f2|a+Y)@3
         l (k,f9|a)@4 -> out (k,null)@4
         l (k,null|a)@5 -> -
         l (k,f1|b)@6 -> out (k,f1|b+X)@6
         l (k,null)@7 -> out (k,null)@7
         l (k,null)@8 -> -
         l (k,f1|c)@9 -> out (k,f1|c+X)@9
         r (f1,null)@10 -> out (k,null)@10
         r (f1,null)@11 -> -
         r (f1,Z)@12 {h=r} -> out (k,f1|c+Z)@12 {h=r}
         l (null,f1|d)@13 -> -
         r (null,W)@14 -> -",
    );
}

/// P13: each change has exactly one result.
#[test]
fn p13_foreign_keys_left() {
    let builder = StreamsBuilder::new();
    let (l, r) = tables(&builder);
    let joiner = |l: &String, r: Option<&String>| format!("{l}+{}", text(r));
    let joined = l.left_join_foreign_key(&r, |v| foreign_key(v), joiner, TableJoined::new());
    check_results(
        out(builder, &joined.materialized(Materialized::named("j"))),
        "r (f1,X)@0 -> -
         r (f2,Y)@1 -> -
         l (k,f1|a)@2 -> out (k,f1|a+X)@2
         l (k,f2|a)@3 -> out (k,f2|a+Y)@3
         l (k,f9|a)@4 -> out (k,f9|a+null)@4
         l (k,null|a)@5 -> out (k,null|a+null)@5
         l (k,f1|b)@6 -> out (k,f1|b+X)@6
         l (k,null)@7 -> out (k,null)@7
         l (k,null)@8 -> -
         l (k,f1|c)@9 -> out (k,f1|c+X)@9
         r (f1,null)@10 -> out (k,f1|c+null)@10
         r (f1,null)@11 -> -
         r (f1,Z)@12 -> out (k,f1|c+Z)@12",
    );
}

#[test]
fn global_tables_are_looked_up_by_any_key() {
    let builder = StreamsBuilder::new();
    let names = builder.global_table::<i64, String>("g", Consumed::new(), Materialized::new());
    builder
        .stream("s", Consumed::<Option<String>, Option<String>>::new())
        .try_join_global(
            &names,
            |_, value| Ok(value.as_ref().map(|value| value.len() as i64)),
            |(key, id), value, name| Ok(format!("{key:?} {id} {value:?} {name}")),
            Joined::new(),
        )
        .to("out", Produced::new());
    let mut driver = TopologyTestDriver::new(builder.build().expect("builds")).expect("a driver");
    let mut names = driver.input::<i64, Option<String>>("g");
    names.pipe_key_value_at(&mut driver, 0, 2, Some("two".to_string())).expect("piped");
    let mut stream = driver.input::<Option<String>, Option<String>>("s");
    for value in [Some("ab"), Some("abc"), None] {
        let value = value.map(str::to_string);
        stream.pipe_key_value_at(&mut driver, 1, None, value).expect("piped");
    }
    names.pipe_key_value_at(&mut driver, 2, 2, None).expect("piped");
    stream.pipe_key_value_at(&mut driver, 3, None, Some("ab".to_string())).expect("piped");
    let mut out = driver.output::<Option<String>, String>("out");
    assert_eq!(out.read_values(&mut driver).expect("values"), [r#"None 2 Some("ab") two"#]);
    assert_eq!(driver.dropped_records(), 1);
}

#[test]
fn joined_repartition_topics_have_one_number_of_partitions() {
    let builder = StreamsBuilder::new();
    let repartitioned = |topic: &str, partitions| {
        let stream = builder.stream(topic, Consumed::<String, String>::new());
        stream.repartition(Repartitioned::named(topic).number_of_partitions(partitions))
    };
    let table = repartitioned("b", 3).to_table(Materialized::<String, String>::named("t"));
    let joined = repartitioned("a", 2).join_table(&table, |a, b| format!("{a}{b}"), Joined::new());
    joined.to("out", Produced::new());
    let error = builder.build().expect_err("refused").to_string();
    assert!(error.contains("a stream and the table that it is joined with"), "{error}");
    assert!(error.contains("a-repartition has 2, b-repartition has 3"), "{error}");
}
