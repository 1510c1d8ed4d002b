//! The command line.

use kstreams::prelude::*;
use std::io::{BufRead, BufReader, Read, stdin};

/// A speech everybody knows.
const HAMLET: &str = include_str!("hamlet.txt");

pub(crate) const USAGE: &str =
    "word_count [--input FILE|-] | --bootstrap HOST:PORT [--topic-in TOPIC] [--topic-out TOPIC]";

/// What to count and where.
pub(crate) struct Options {
    pub(crate) source: Source,
    pub(crate) topic_in: String,
    pub(crate) topic_out: String,
}

/// Where the lines are.
pub(crate) enum Source {
    /// Here, for the embedded broker.
    Text(Vec<String>),
    /// In a topic of this cluster.
    Kafka(String),
}

impl Options {
    /// Nothing if only the usage is asked for.
    pub(crate) fn from_args() -> Result<Option<Self>> {
        let mut options = Options {
            source: Source::Text(HAMLET.lines().map(str::to_string).collect()),
            topic_in: "lines".into(),
            topic_out: "counts".into(),
        };
        let mut args = std::env::args().skip(1);
        while let Some(name) = args.next() {
            let mut value = || args.next().ok_or_else(|| usage(&format!("{name} needs a value")));
            match name.as_str() {
                "--input" => options.source = Source::Text(read_lines(&value()?)?),
                "--bootstrap" => options.source = Source::Kafka(value()?),
                "--topic-in" => options.topic_in = value()?,
                "--topic-out" => options.topic_out = value()?,
                "--help" | "-h" => return Ok(None),
                _ => return Err(usage(&format!("there is no option {name}"))),
            }
        }
        Ok(Some(options))
    }
}

fn read_lines(path: &str) -> Result<Vec<String>> {
    let failed = |error: std::io::Error| {
        let message = format!("cannot read {path}, which has to be UTF-8 text");
        Error::new(ErrorKind::InvalidConfig, message).with_source(error)
    };
    let input: Box<dyn Read> = match path {
        "-" => Box::new(stdin()),
        path => Box::new(std::fs::File::open(path).map_err(failed)?),
    };
    BufReader::new(input).lines().collect::<std::io::Result<_>>().map_err(failed)
}

fn usage(problem: &str) -> Error {
    Error::new(ErrorKind::InvalidConfig, format!("{problem}; usage: {USAGE}"))
}
