//! A plain Java producer beside what is tested: what it feels of brokers that go and come back.

use crate::java;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

/// A producer that writes to every partition until it is ended.
#[derive(Debug)]
pub struct JavaProducer {
    process: Child,
    output: BufReader<ChildStdout>,
}

/// What it met.
#[derive(Debug)]
pub struct Stalls {
    /// How often it wrote to all partitions.
    pub rounds: u64,
    /// Its longest stalls, the longest first, each with when it ended since 1970.
    pub stalls: Vec<(Duration, Duration)>,
}

impl JavaProducer {
    /// Starts to write to a topic; comes back when it does, as what befalls brokers before that it would not feel.
    #[must_use]
    pub fn start(bootstrap: &str, topic: &str, partitions: i32) -> Self {
        let mut command = java(&["Stalls", bootstrap, topic, &partitions.to_string()]);
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = pipes.spawn().expect("Java");
        let mut output = BufReader::new(process.stdout.take().expect("its output"));
        let mut line = String::new();
        output.read_line(&mut line).expect("its word");
        assert_eq!(line.trim(), "writing");
        JavaProducer { process, output }
    }

    /// Ends it; nothing that it wrote may have failed.
    #[must_use]
    pub fn end(mut self) -> Stalls {
        drop(self.process.stdin.take());
        let mut text = String::new();
        self.output.read_to_string(&mut text).expect("its answer");
        assert!(self.process.wait().expect("its end").success(), "{text}");
        let number = |part: &str| -> u64 {
            let digits = part.trim_matches(|c: char| !c.is_ascii_digit());
            digits.parse().unwrap_or_else(|_| panic!("{text}"))
        };
        let (head, stalls) = text.split_once("\"stalls\":").unwrap_or_else(|| panic!("{text}"));
        assert!(head.contains("\"failed\":0"), "{head}");
        let numbers: Vec<u64> = stalls.split(',').map(number).collect();
        let pairs = numbers.chunks_exact(2);
        let stalls =
            pairs.map(|pair| (Duration::from_millis(pair[0]), Duration::from_millis(pair[1])));
        Stalls {
            rounds: number(head.split(',').next().unwrap_or_default()),
            stalls: stalls.collect(),
        }
    }
}

impl Drop for JavaProducer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
