//! The group as Kafka's own tools see it: equal to that of the same program in Java.

use super::app::{config, start};
use crate::kafka::{Kafka, PATIENCE, unique};
use kstreams::prelude::*;
use kstreams_test_programs::{java, run};
use std::process::{Child, Command, Stdio};

fn output(args: &[&str]) -> String {
    String::from_utf8(run(java(args), b"")).expect("text")
}

/// A Java application that ends with the test.
struct JavaApp(Child);

impl Drop for JavaApp {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

fn word_count(input: &str, output: &str) -> Topology {
    let builder = StreamsBuilder::new();
    builder
        .stream(input, Consumed::values::<String>())
        .flat_map_values(|line| line.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>())
        .group_by(|_, word| word.clone(), Grouped::new())
        .count(Materialized::named("word-counts"))
        .to_stream()
        .to(output, Produced::new());
    builder.build().expect("builds")
}

/// The lines about the topology, with the application's name taken out and settings in order.
fn topology_lines(text: &str, application: &str) -> Vec<String> {
    let lines =
        text.lines().filter(|line| !line.starts_with("member") && !line.starts_with("state"));
    let sorted = |line: String| match line.split_once(" configs {") {
        Some((head, configs)) => {
            let mut configs: Vec<&str> = configs.trim_end_matches('}').split(", ").collect();
            configs.sort_unstable();
            format!("{head} configs {{{}}}", configs.join(", "))
        }
        None => line,
    };
    lines.map(|line| sorted(line.replace(application, "APP"))).collect()
}

#[test]
fn the_group_is_javas() {
    let mut kafka = Kafka::shared();
    let (input, out) = (kafka.topic("lines", 2), kafka.topic("counts", 2));
    let bootstrap = kafka.bootstrap.clone();
    let (ours, javas) = (unique("ours"), unique("javas"));
    let dir = tempfile::tempdir().expect("a directory");
    let running =
        start(word_count(&input, &out), config(&ours, &bootstrap, &dir.path().join("ours")));
    let state = dir.path().join("java").display().to_string();
    let app = java(&["WordCount", &bootstrap, &javas, &input, &out, &state])
        .env("JAVA_OPTS", "-Dset=commit.interval.ms=100")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("Java");
    let app = JavaApp(app);
    kafka.write(&input, 2, [("", "to be or not to be")]);
    for group in [&ours, &javas] {
        kafka.committed_until(group, |committed| !committed.is_empty());
    }
    let describe = |group: &str| topology_lines(&output(&["Groups", &bootstrap, group]), group);
    let expected = describe(&javas);
    assert!(expected.iter().any(|line| line.contains("APP-word-counts-changelog")), "{expected:?}");
    assert_eq!(describe(&ours), expected);
    drop(app);

    let tool = |what: &str| {
        let command = "org.apache.kafka.tools.streams.StreamsGroupCommand";
        output(&[command, "--bootstrap-server", &bootstrap, "--describe", "--group", &ours, what])
    };
    assert!(tool("--state").contains("Stable"), "{}", tool("--state"));
    assert!(tool("--members").contains("StreamThread-1"), "{}", tool("--members"));
    assert!(tool("--offsets").contains(&input), "{}", tool("--offsets"));
    running.close(PATIENCE).expect("closes");
}
