//! Feeds input lines to the test driver and writes what comes out.

use crate::lines::{Input, parse, show};
use crate::topologies::Case;
use kstreams::prelude::*;
use std::io::{BufRead, Write};
use std::time::Duration;

pub(crate) fn run(
    case: &Case,
    mode: &str,
    input: impl BufRead,
    out: &mut impl Write,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let config = StreamsConfig::new("app", "x:1").set("compatibility", mode)?;
    let mut driver = TopologyTestDriver::with_config((case.build)()?, &config)?;
    let mut n = 0;
    for line in input.lines() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        n += 1;
        match parse(&line)? {
            Input::Advance(by) => driver.advance_wall_clock(Duration::from_millis(by))?,
            Input::Record { topic, key, value, timestamp, headers } => {
                let key = key.as_ref().map(String::as_bytes);
                let value = value.as_ref().map(String::as_bytes);
                driver.pipe_bytes(&topic, key, value, timestamp, &headers)?;
            }
        }
        let topics: Vec<String> = driver.produced_topics().map(str::to_string).collect();
        for topic in topics {
            let internal = topic.starts_with("app-");
            for record in driver.take_records(&topic) {
                writeln!(out, "{}", show(n, &record, internal, case.value))?;
            }
        }
    }
    Ok(())
}
