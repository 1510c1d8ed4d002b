//! Whatever the order of changes is, a joined table ends as the join of both tables' last rows.

use kstreams::prelude::*;
use std::collections::BTreeMap;

type Rows = BTreeMap<String, String>;
type Strings = KTable<String, String>;

/// A small generator of numbers: the same ones for the same seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// A kind of join: how it is built, and what it gives for the rows of both tables.
struct Join {
    build: fn(&Strings, &Strings) -> Strings,
    model: fn(&Rows, &Rows) -> Rows,
    caches: bool,
}

fn row(left: Option<&String>, right: Option<&String>) -> String {
    let text = |value: Option<&String>| value.map_or("-", String::as_str).to_string();
    format!("{}/{}", text(left), text(right))
}

fn check(join: &Join, seed: u64) {
    let builder = StreamsBuilder::new();
    let table =
        |topic: &str| builder.table(topic, Consumed::<String, String>::new(), Materialized::new());
    (join.build)(&table("l"), &table("r")).to_stream().to("out", Produced::new());
    let cache = if join.caches { 1 << 20 } else { 0 };
    let config = StreamsConfig::new("app", "unused:1").cache_max_bytes(cache);
    let topology = builder.build().expect("builds");
    let mut driver = TopologyTestDriver::with_config(topology, &config).expect("a driver");
    let mut out = driver.output::<String, Option<String>>("out");
    let (mut rows, mut joined) = ([Rows::new(), Rows::new()], Rows::new());
    let mut numbers = Numbers(seed);
    for step in 0..200 {
        let side = numbers.below(2) as usize;
        let key = format!("k{}", numbers.below(4));
        let value = (numbers.below(4) > 0).then(|| format!("k{}", numbers.below(5)));
        let time = step + numbers.below(50) as i64;
        match &value {
            Some(value) => rows[side].insert(key.clone(), value.clone()),
            None => rows[side].remove(&key),
        };
        let mut input = driver.input::<String, Option<String>>(["l", "r"][side]);
        input.pipe_key_value_at(&mut driver, time, key, value).expect("piped");
        for record in out.read_all(&mut driver).expect("read") {
            match record.value {
                Some(value) => joined.insert(record.key, value),
                None => joined.remove(&record.key),
            };
        }
        let expected = (join.model)(&rows[0], &rows[1]);
        assert_eq!(joined, expected, "seed {seed}, step {step}");
    }
}

fn check_all(join: &Join) {
    for seed in 0..20 {
        check(join, seed);
    }
}

#[test]
fn inner_joins() {
    check_all(&Join {
        build: |l, r| l.join(r, |l, r| row(Some(l), Some(r))),
        model: |l, r| {
            let both =
                l.iter().filter_map(|(k, l)| Some((k.clone(), row(Some(l), Some(r.get(k)?)))));
            both.collect()
        },
        caches: false,
    });
}

#[test]
fn left_joins_of_mapped_tables_with_caches() {
    check_all(&Join {
        build: |l, r| {
            let r = r.filter(|_, v| v != "k0");
            l.left_join(&r, |l, r| row(Some(l), r)).materialized(Materialized::named("j"))
        },
        model: |l, r| {
            let found = |k| r.get(k).filter(|v| *v != "k0");
            l.iter().map(|(k, l)| (k.clone(), row(Some(l), found(k)))).collect()
        },
        caches: true,
    });
}

#[test]
fn outer_joins() {
    check_all(&Join {
        build: |l, r| l.outer_join(r, row),
        model: |l, r| {
            l.keys().chain(r.keys()).map(|k| (k.clone(), row(l.get(k), r.get(k)))).collect()
        },
        caches: false,
    });
}

/// P15: a table with itself, one side without some of its rows.
#[test]
fn p15_joins_of_a_table_with_itself() {
    check_all(&Join {
        build: |l, _| {
            let some = l.filter(|_, v| v != "k0");
            some.join(&l.map_values(|v| v + "'"), |l, r| row(Some(l), Some(r)))
        },
        model: |l, _| {
            let some = l.iter().filter(|(_, v)| *v != "k0");
            some.map(|(k, v)| (k.clone(), row(Some(v), Some(&format!("{v}'"))))).collect()
        },
        caches: false,
    });
}

#[test]
fn joins_of_joins() {
    check_all(&Join {
        build: |l, r| {
            let inner = l.join(r, |l, r| row(Some(l), Some(r)));
            l.left_join(&inner, |l, inner| row(Some(l), inner))
        },
        model: |l, r| {
            let inner = |k: &String| Some(row(Some(l.get(k)?), Some(r.get(k)?)));
            l.iter().map(|(k, v)| (k.clone(), row(Some(v), inner(k).as_ref()))).collect()
        },
        caches: false,
    });
}

#[test]
fn foreign_key_joins() {
    check_all(&Join {
        build: |l, r| {
            let key = |v: &String| Some(v.clone()).filter(|key| key != "k4");
            l.join_foreign_key(r, key, |l, r| row(Some(l), Some(r)), TableJoined::new())
        },
        model: |l, r| {
            let found = |v: &String| r.get(v).filter(|_| v != "k4");
            l.iter().filter_map(|(k, v)| Some((k.clone(), row(Some(v), Some(found(v)?))))).collect()
        },
        caches: false,
    });
    check_all(&Join {
        build: |l, r| {
            let key = |v: &String| Some(v.clone()).filter(|key| key != "k4");
            l.left_join_foreign_key(r, key, |l, r| row(Some(l), r), TableJoined::new())
        },
        model: |l, r| {
            let found = |v: &String| r.get(v).filter(|_| v != "k4");
            l.iter().map(|(k, v)| (k.clone(), row(Some(v), found(v)))).collect()
        },
        caches: true,
    });
}

/// Groups: each value adds to the group that it names and leaves it again.
#[test]
fn groups() {
    check_all(&Join {
        build: |l, _| {
            l.group_by(|k, v| (v, k.clone()), Grouped::new())
                .count(Materialized::new())
                .filter(|_, count| *count > 0)
                .map_values(|count| count.to_string())
        },
        model: |l, _| {
            let mut counts: BTreeMap<String, i64> = BTreeMap::new();
            for v in l.values() {
                *counts.entry(v.clone()).or_default() += 1;
            }
            counts.into_iter().map(|(k, count)| (k, count.to_string())).collect()
        },
        caches: true,
    });
}
