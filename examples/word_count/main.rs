//! Counts words.
//!
//! ```text
//! cargo run --release --example word_count                       a text that it ships, on the embedded broker
//! cargo run --release --example word_count -- --input FILE       a text of yours ("-": standard input)
//! cargo run --release --example word_count -- --bootstrap localhost:9092 --topic-in lines --topic-out counts
//!                                                                on a Kafka cluster, until Ctrl-C
//! ```

mod demo;
mod options;

use kstreams::prelude::*;
use options::{Options, Source};
use std::io::Write;
use std::time::Duration;
use tracing_subscriber::filter::LevelFilter;

/// Lines in, counts of words out.
fn topology(lines: &str, counts: &str) -> Result<Topology> {
    let builder = StreamsBuilder::new();
    builder
        .stream(lines, Consumed::values::<String>())
        .flat_map_values(|line| words(&line))
        .group_by(|_, word| word.clone(), Grouped::new())
        .count(Materialized::named("word-counts"))
        .to_stream()
        .to(counts, Produced::new());
    builder.build()
}

fn words(line: &str) -> Vec<String> {
    line.split(|c: char| !c.is_alphanumeric() && c != '\'')
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// A reader that has seen enough is no error.
fn quietly(written: std::io::Result<()>) -> Result<()> {
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::new(ErrorKind::InvalidState, "cannot write the output").with_source(error))
        }
        _ => Ok(()),
    }
}

fn main() -> Result<()> {
    // RUST_LOG=info shows what the application does; by default only what is wrong.
    let level = std::env::var("RUST_LOG").ok().and_then(|level| level.parse().ok());
    let level = level.unwrap_or(LevelFilter::WARN);
    tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).init();
    let mut out = std::io::stdout();
    let Some(options) = Options::from_args()? else {
        return quietly(writeln!(out, "{}", options::USAGE));
    };
    let topology = topology(&options.topic_in, &options.topic_out)?;
    match options.source {
        Source::Kafka(bootstrap) => {
            let config = StreamsConfig::new("word-count", bootstrap)
                .commit_interval(Duration::from_millis(100));
            KafkaStreams::start(topology, config)?.run_until_signal()
        }
        Source::Text(lines) => {
            demo::run(topology, &lines, &options.topic_in, &options.topic_out, &mut out)
        }
    }
}
