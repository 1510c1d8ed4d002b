//! The whole round on the embedded broker: lines are written, the application counts, the counts are read.

use crate::{quietly, words};
use kstreams::prelude::*;
use kstreams::runtime::EmbeddedBroker;
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

/// How many words the table shows.
const SHOWN: usize = 12;

pub(crate) fn run(
    topology: Topology,
    lines: &[String],
    topic_in: &str,
    topic_out: &str,
    out: &mut impl Write,
) -> Result<()> {
    let broker = EmbeddedBroker::start()?;
    broker.create_topic(topic_in, 2)?;
    broker.create_topic(topic_out, 2)?;
    let total: usize = lines.iter().map(|line| words(line).len()).sum();
    quietly(writeln!(
        out,
        "{total} words in {} go to topic {topic_in}",
        count_of(lines.len(), "line")
    ))?;
    let records = lines.iter().map(|line| Record::new(None, line.clone(), 0));
    broker.write::<Option<String>, String>(topic_in, records)?;

    let state = std::env::temp_dir().join(format!("kstreams-word-count-{}", std::process::id()));
    let config = StreamsConfig::new("word-count", broker.bootstrap())
        .commit_interval(Duration::from_millis(100))
        .state_dir(&state);
    let app = broker.run(topology, config)?;
    let mut shown = 0;
    let counts = loop {
        let counts = latest_counts(&broker, topic_out)?;
        let counted = counts.values().sum::<i64>() as usize;
        if counted != shown {
            quietly(writeln!(out, "{counted:>8} of {total} words counted"))?;
            shown = counted;
        }
        if counted >= total
            || app.wait_for(Duration::from_millis(20), State::is_terminal).is_terminal()
        {
            break counts;
        }
    };
    app.close(Duration::from_secs(10))?;
    let _ = std::fs::remove_dir_all(state);

    quietly(show(counts, out))
}

/// The words that occur most.
fn show(counts: BTreeMap<String, i64>, out: &mut impl Write) -> std::io::Result<()> {
    let mut table: Vec<(String, i64)> = counts.into_iter().collect();
    table.sort_by(|(a, m), (b, n)| n.cmp(m).then_with(|| a.cmp(b)));
    writeln!(out, "\n{:<12} count", "word")?;
    for (word, count) in table.iter().take(SHOWN) {
        writeln!(out, "{word:<12} {count:>5}")?;
    }
    if table.len() > SHOWN {
        writeln!(out, "... and {} more", table.len() - SHOWN)?;
    }
    Ok(())
}

fn count_of(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// The last count of each word in the output topic.
fn latest_counts(broker: &EmbeddedBroker, topic: &str) -> Result<BTreeMap<String, i64>> {
    let records = broker.read::<String, i64>(topic)?;
    Ok(records.into_iter().map(|record| (record.key, record.value)).collect())
}
