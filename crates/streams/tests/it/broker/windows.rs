//! Windows and stream-stream joins over restarts: what is closed stays closed, and what waits is there again.

use super::app::{config, start};
use crate::kafka::{Kafka, PATIENCE, Written, unique, wall_clock};
use kstreams::prelude::*;
use std::path::PathBuf;

/// What the next start finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Restart {
    /// The state directory as it was.
    Kept,
    /// Nothing but the changelogs.
    Deleted,
}

const BOTH: [Restart; 2] = [Restart::Kept, Restart::Deleted];

/// One application on topics `l` and `r` of one partition, started once a round.
struct Rounds {
    kafka: Kafka,
    application: String,
    topics: [String; 2],
    out: String,
    dir: tempfile::TempDir,
    base: i64,
    /// How many records were written.
    written: i64,
    starts: usize,
    restart: Restart,
}

impl Rounds {
    fn new(restart: Restart) -> Self {
        let mut kafka = Kafka::shared();
        Rounds {
            application: unique("rounds"),
            topics: ["l", "r"].map(|topic| kafka.topic(topic, 1)),
            out: kafka.topic("out", 1),
            dir: tempfile::tempdir().expect("a directory"),
            // Brokers delete what is too old.
            base: wall_clock() / 1_000_000 * 1_000_000 - 1_000_000,
            kafka,
            written: 0,
            starts: 0,
            restart,
        }
    }

    /// Starts the application, gives it records, `topic key value time` one a line, stops it when they are processed.
    fn round(&mut self, build: impl Fn(&StreamsBuilder, &[String; 2]) -> Results, records: &str) {
        for record in records.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words: Vec<&str> = record.split(' ').collect();
            let [topic, key, value, time] = words[..] else { panic!("{record}") };
            let topic = &self.topics[usize::from(topic == "r")];
            let time = self.base + time.parse::<i64>().expect("a time");
            let written = Written { partition: 0, time, key, value: Some(value) };
            self.kafka.write_records(topic, [written]);
            self.written += 1;
        }
        let builder = StreamsBuilder::new();
        build(&builder, &self.topics).to(self.out.as_str(), Produced::new());
        let settings = config(&self.application, &self.kafka.bootstrap, &self.state());
        let running = start(builder.build().expect("builds"), settings);
        let written = self.written;
        let committed =
            |offsets: &std::collections::BTreeMap<_, i64>| offsets.values().sum::<i64>() >= written;
        self.kafka.committed_until(&self.application, committed);
        running.close(PATIENCE).expect("closes");
        self.starts += 1;
    }

    fn state(&self) -> PathBuf {
        match self.restart {
            Restart::Kept => self.dir.path().join("kept"),
            Restart::Deleted => self.dir.path().join(self.starts.to_string()),
        }
    }

    /// All results so far; times count from the base.
    fn check(&mut self, expected: &str) {
        let read = self.kafka.read_all(&self.out, 1);
        let text = |value: Vec<u8>| String::from_utf8(value).expect("text");
        let results: Vec<String> = read
            .into_iter()
            .map(|read| format!("{}={}", read.key, read.value.map_or("null".into(), text)))
            .collect();
        let expected = expected.lines().map(str::trim).filter(|line| !line.is_empty());
        let expected: Vec<&str> = expected.collect();
        assert_eq!(results, expected, "after {} starts, {:?}", self.starts, self.restart);
    }
}

type Results = KStream<String, Option<String>>;

fn grouped(builder: &StreamsBuilder, topics: &[String; 2]) -> KGroupedStream<String, String> {
    builder
        .stream(topics[0].as_str(), Consumed::<String, String>::new())
        .group_by_key(Grouped::new())
}

/// The windows' start, from the base on.
fn shown<K: Clone + WindowedKey + KeyText + 'static>(table: &KTable<K, i64>) -> Results {
    table
        .to_stream_with_key(|key, _| format!("{}@{}", key.text(), key.window().start % 1_000_000))
        .map_values(|count| count.map(|count| count.to_string()))
}

trait KeyText {
    fn text(&self) -> &str;
}

impl KeyText for TimeWindowed<String> {
    fn text(&self) -> &str {
        &self.key
    }
}

impl KeyText for SessionWindowed<String> {
    fn text(&self) -> &str {
        &self.key
    }
}

/// P19: a window that was closed takes nothing after a restart.
#[test]
fn p19_closed_windows_stay_closed() {
    for restart in BOTH {
        let mut rounds = Rounds::new(restart);
        let topology = |builder: &StreamsBuilder, topics: &[String; 2]| {
            let windowed = grouped(builder, topics).windowed_by(TimeWindows::of(millis(10)));
            shown(&windowed.count(Materialized::named("windows")))
        };
        rounds.round(topology, "l a v 5\n l b v 12\n l a v 6");
        rounds.check("a@0=1\n b@10=1");
        rounds.round(topology, "l a v 7");
        rounds.check("a@0=1\n b@10=1");
        rounds.round(topology, "l a v 8\n l b v 13");
        rounds.check("a@0=1\n b@10=1\n b@10=2");
    }
}

/// P19: a sliding window and a session that were closed stay so.
#[test]
fn p19_closed_sliding_windows_and_sessions_stay_closed() {
    for restart in BOTH {
        let mut rounds = Rounds::new(restart);
        let topology = |builder: &StreamsBuilder, topics: &[String; 2]| {
            let grouped = grouped(builder, topics);
            let sliding = grouped.windowed_by(SlidingWindows::of(millis(10)));
            let sessions = grouped.windowed_by(SessionWindows::of(millis(10)));
            let sliding = shown(&sliding.count(Materialized::named("sliding")));
            let sliding = sliding.select_key(|key, _| format!("sliding {key}"));
            let sessions = shown(&sessions.count(Materialized::named("sessions")));
            sliding.merge(&sessions.select_key(|key, _| format!("session {key}")))
        };
        rounds.round(topology, "l a v 105\n l b v 140");
        let first = "sliding a@95=1\n session a@105=1\n sliding b@130=1\n session b@140=1";
        rounds.check(first);
        rounds.round(topology, "l a v 104");
        rounds.check(first);
    }
}

/// P19: nothing final comes twice, whether suppressed or emitted on close.
#[test]
fn p19_final_results_stay_final() {
    let suppressed = |builder: &StreamsBuilder, topics: &[String; 2]| {
        let windowed = grouped(builder, topics).windowed_by(TimeWindows::of(millis(10)));
        let counted = windowed.count(Materialized::named("windows"));
        shown(&counted.suppress(Suppressed::until_window_closes()))
    };
    let on_close = |builder: &StreamsBuilder, topics: &[String; 2]| {
        let windowed = grouped(builder, topics).windowed_by(TimeWindows::of(millis(10)));
        let windowed = windowed.emit_strategy(EmitStrategy::OnWindowClose);
        shown(&windowed.count(Materialized::named("windows")))
    };
    type Build = fn(&StreamsBuilder, &[String; 2]) -> Results;
    for restart in BOTH {
        for topology in [suppressed as Build, on_close as Build] {
            let mut rounds = Rounds::new(restart);
            rounds.round(topology, "l a v 1\n l b v 12");
            rounds.check("a@0=1");
            rounds.round(topology, "l a v 3\n l c v 40");
            rounds.check("a@0=1\n b@10=1");
        }
    }
}

/// P06: records with equal keys and times are kept apart over a restart.
#[test]
fn p06_duplicates_all_join_after_a_restart() {
    for restart in BOTH {
        for in_memory in [false, true] {
            let mut rounds = Rounds::new(restart);
            let topology = move |builder: &StreamsBuilder, topics: &[String; 2]| {
                let stream = |topic: &String| {
                    builder.stream(topic.as_str(), Consumed::<String, String>::new())
                };
                let windows = JoinWindows::of(millis(10)).grace(millis(1000));
                let joined = StreamJoined::new();
                let joined = if in_memory { joined.in_memory() } else { joined };
                stream(&topics[0])
                    .join(&stream(&topics[1]), |l, r| format!("{l}+{r}"), windows, joined)
                    .map_values(Some)
            };
            rounds.round(topology, "l a L1 5");
            rounds.round(topology, "l a L2 5");
            rounds.round(topology, "l a L3 5\n r a R 6");
            rounds.check("a=L1+R\n a=L2+R\n a=L3+R");
            rounds.round(topology, "l a L4 5\n r a R 6");
            rounds.check("a=L1+R\n a=L2+R\n a=L3+R\n a=L4+R\n a=L1+R\n a=L2+R\n a=L3+R\n a=L4+R");
        }
    }
}

/// P02, P04: a record is either joined or not, and late ones stay late, over a restart.
#[test]
fn p02_outer_joins_say_what_had_no_partner_once() {
    for restart in BOTH {
        let mut rounds = Rounds::new(restart);
        let topology = |builder: &StreamsBuilder, topics: &[String; 2]| {
            let stream =
                |topic: &String| builder.stream(topic.as_str(), Consumed::<String, String>::new());
            let text = |side: Option<&String>| side.cloned().unwrap_or_else(|| "null".into());
            stream(&topics[0])
                .outer_join(
                    &stream(&topics[1]),
                    move |l, r| format!("{}+{}", text(l), text(r)),
                    JoinWindows::of(millis(10)),
                    StreamJoined::new(),
                )
                .map_values(Some)
        };
        rounds.round(topology, "l a A 5\n l b B 6\n r c C 7");
        rounds.check("");
        rounds.round(topology, "r b R 9");
        rounds.check("b=B+R");
        rounds.round(topology, "l z Z 50");
        rounds.check("b=B+R\n a=A+null\n c=null+C");
        rounds.round(topology, "r a R 8\n r z R 51");
        rounds.check("b=B+R\n a=A+null\n c=null+C\n z=Z+R");
    }
}
