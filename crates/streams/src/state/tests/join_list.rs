//! Lists of what waits in a stream-stream join.

use super::{Bench, log_text};
use crate::record::Headers;
use crate::serde::DefaultSerde;
use crate::state::{JoinListStore, JoinSide, StoreToken};

type Lists = JoinListStore<String, String, i64>;

fn token() -> StoreToken<Lists> {
    let key = String::default_serde();
    StoreToken::join_list("s", key, String::default_serde(), i64::default_serde())
}

fn push(bench: &Bench<Lists>, at: i64, key: &str, side: JoinSide<&str, i64>) {
    let (store, key) = (bench.at(at), key.to_string());
    let pushed = match side {
        JoinSide::Left(value) => {
            store.push(at, &key, JoinSide::Left(&value.to_string()), &Headers::new())
        }
        JoinSide::Right(value) => store.push(at, &key, JoinSide::Right(&value), &Headers::new()),
    };
    pushed.expect("pushes");
}

fn all(store: &Lists) -> String {
    let text = |list: crate::error::Result<crate::state::JoinList<String, String, i64>>| {
        let list = list.expect("a list");
        let values = list.values.iter().map(|value| match value {
            JoinSide::Left(value) => format!("l{value}"),
            JoinSide::Right(value) => format!("r{value}"),
        });
        let side = if list.is_left { "left" } else { "right" };
        format!("{}/{side}/{}={}", list.timestamp, list.key, values.collect::<Vec<_>>().join("+"))
    };
    store.all().expect("all").map(text).collect::<Vec<_>>().join(" ")
}

#[test]
fn lists_come_by_time_side_and_key() {
    for token in [token(), token().in_memory()] {
        let mut bench = Bench::open(token);
        push(&bench, 20, "a", JoinSide::Left("1"));
        push(&bench, 10, "b", JoinSide::Left("2"));
        push(&bench, 10, "b", JoinSide::Right(3));
        push(&bench, 10, "a", JoinSide::Left("4"));
        push(&bench, 10, "b", JoinSide::Left("5"));
        let expected = "10/right/b=r3 10/left/a=l4 10/left/b=l2+l5 20/left/a=l1";
        assert_eq!(all(bench.store()), expected);
        bench.commit();
        push(&bench, 15, "c", JoinSide::Right(6));
        push(&bench, 20, "a", JoinSide::Left("7"));
        bench.store().remove_if_present(10, true, &"a".into()).expect("removes");
        bench.store().remove_if_present(11, true, &"a".into()).expect("removes nothing");
        let expected = "10/right/b=r3 10/left/b=l2+l5 15/right/c=r6 20/left/a=l1+l7";
        assert_eq!(all(bench.store()), expected);
        let log = bench.commit();
        let gone = "000000000000000a0161=-@20";
        assert!(log_text(&log).ends_with(gone), "{}", log_text(&log));
        bench.restart();
        assert_eq!(all(bench.store()), expected);
    }
}

/// An emission deletes what it has given, while it goes on.
#[test]
fn lists_can_be_deleted_on_the_way() {
    let mut bench = Bench::open(token());
    for at in 0..10 {
        push(&bench, at, "k", JoinSide::Right(at));
        if at == 4 {
            bench.commit();
        }
    }
    let mut seen = Vec::new();
    for list in bench.store().all().expect("all") {
        let list = list.expect("a list");
        if list.timestamp == 7 {
            break;
        }
        bench.store().remove(list.timestamp, false, &list.key).expect("removes");
        seen.push(list.timestamp);
    }
    assert_eq!(seen, [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(all(bench.store()), "7/right/k=r7 8/right/k=r8 9/right/k=r9");
    bench.commit();
    assert_eq!(all(bench.store()), "7/right/k=r7 8/right/k=r8 9/right/k=r9");
}
