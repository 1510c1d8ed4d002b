//! The programs of a comparison, each with topics and a directory of its own, which go when it is done.

use super::figures::Figures;
use super::options::Options;
use crate::{java, process, workspace};
use std::path::PathBuf;
use std::process::Command;

const PARTITIONS: u32 = 4;
const THREADS: u32 = 1;
const VALUE_BYTES: u32 = 100;

pub(super) struct Runs<'a> {
    options: &'a Options,
    bootstrap: &'a str,
    /// Names of topics and applications begin with it.
    prefix: String,
    /// The states of the applications.
    dir: PathBuf,
    number: u32,
    /// The Java application that made the changelog to restore from.
    counted: Option<String>,
}

impl<'a> Runs<'a> {
    pub(super) fn new(options: &'a Options, bootstrap: &'a str) -> Result<Runs<'a>, String> {
        let prefix = format!("bench-{}", std::process::id());
        let dir = workspace::target().join("bench").join(&prefix);
        std::fs::create_dir_all(&dir).map_err(|why| format!("{}: {why}", dir.display()))?;
        Ok(Runs { options, bootstrap, prefix, dir, number: 0, counted: None })
    }

    fn input(&self) -> String {
        format!("{}-in", self.prefix)
    }

    /// The topic that is joined.
    fn right(&self) -> String {
        format!("{}-right", self.prefix)
    }

    /// Writes the records that all of them read.
    pub(super) fn fill(&mut self) -> Result<(), String> {
        // Of the table first, so that the records which look into it are younger.
        if let Some(records) = self.options.right_records() {
            self.fill_topic(&self.right(), records)?;
        }
        self.fill_topic(&self.input(), self.options.records)
    }

    fn fill_topic(&self, topic: &str, records: u64) -> Result<(), String> {
        let (keys, step_ms) = (self.options.keys, self.options.step_ms());
        eprintln!("writing {records} records of {keys} keys");
        let mut command = java::run(["Gen", self.bootstrap, topic]);
        let numbers = [u64::from(PARTITIONS), records, keys, VALUE_BYTES.into(), step_ms];
        command.args(numbers.map(|number| number.to_string()));
        process::output(command)?;
        Ok(())
    }

    pub(super) fn java(&mut self, suffix: &str) -> Result<Figures, String> {
        let app = self.new_application("java");
        let workload = format!("{}{suffix}", self.options.workload.name());
        let figures = self.run_java(&workload, &app, self.options.records)?;
        self.forget(&app)?;
        self.complete(figures)
    }

    pub(super) fn ours(&mut self, suffix: &str) -> Result<Figures, String> {
        let app = self.new_application("kstreams");
        let workload = format!("{}{suffix}", self.options.workload.name());
        let figures = self.run_ours(&workload, &app, self.options.records)?;
        self.forget(&app)?;
        self.complete(figures)
    }

    /// Java restores the store of a count.
    pub(super) fn java_restores(&mut self) -> Result<Figures, String> {
        let app = self.counted()?;
        let figures = self.run_java("count-nocache", &app, 0)?;
        self.forget_state(&app)?;
        Ok(figures)
    }

    /// Ours restores the same store from the same changelog, as a member of the same group.
    pub(super) fn ours_restores(&mut self) -> Result<Figures, String> {
        let app = self.counted()?;
        let figures = self.run_ours("count-nocache", &app, 0)?;
        self.forget_state(&app)?;
        Ok(figures)
    }

    /// An application of Java's that has counted all records: without a cache, so that each is in the changelog.
    fn counted(&mut self) -> Result<String, String> {
        if let Some(app) = &self.counted {
            return Ok(app.clone());
        }
        let app = self.new_application("counted");
        eprintln!("making the changelog to restore from");
        let figures = self.run_java("count-nocache", &app, self.options.records)?;
        self.forget_state(&app)?;
        self.complete(figures)?;
        self.counted = Some(app.clone());
        Ok(app)
    }

    /// The bare loop.
    pub(super) fn limit(&mut self) -> Result<Figures, String> {
        let app = self.new_application("limit");
        let (output, changelog) = (format!("{app}-out"), format!("{app}-counts-changelog"));
        self.topics("create", &[output.clone(), changelog.clone()])?;
        let mut command = Command::new(program("limit"));
        command.args([self.bootstrap, self.options.workload.name(), &self.input()]);
        command.args([PARTITIONS.to_string(), self.options.records.to_string()]);
        command.args([output, changelog]).arg(self.dir.join(&app));
        let figures = Figures::read(&process::output(command)?, false)?;
        self.forget(&app)?;
        self.complete(figures)
    }

    fn run_java(&self, workload: &str, app: &str, records: u64) -> Result<Figures, String> {
        let command = java::run(["Bench"]);
        self.run(command, workload, app, records)
    }

    fn run_ours(&self, workload: &str, app: &str, records: u64) -> Result<Figures, String> {
        let mut command = Command::new(program("bench"));
        command.arg("app");
        self.run(command, workload, app, records)
    }

    fn run(
        &self,
        mut command: Command,
        workload: &str,
        app: &str,
        records: u64,
    ) -> Result<Figures, String> {
        command.args([self.bootstrap, workload, &self.options.guarantee, &records.to_string()]);
        command.arg(THREADS.to_string()).arg(self.dir.join(app)).args([app, &self.input()]);
        if self.options.right_records().is_some() {
            command.arg(self.right());
        }
        Figures::read(&process::output(command)?, records == 0)
    }

    fn new_application(&mut self, engine: &str) -> String {
        self.number += 1;
        format!("{}-{}-{engine}", self.prefix, self.number)
    }

    /// A run that gave up before the end measured something else.
    fn complete(&self, figures: Figures) -> Result<Figures, String> {
        if figures.records() >= self.options.records as f64 {
            return Ok(figures);
        }
        Err(format!("a run did not process all records: {}", figures.line()))
    }

    fn forget(&self, app: &str) -> Result<(), String> {
        let topics = self.options.workload.topics().iter();
        let topics: Vec<String> = topics.map(|topic| format!("{app}-{topic}")).collect();
        self.topics("delete", &topics)?;
        self.forget_state(app)
    }

    fn forget_state(&self, app: &str) -> Result<(), String> {
        let dir = self.dir.join(app);
        match std::fs::remove_dir_all(&dir) {
            Err(why) if why.kind() != std::io::ErrorKind::NotFound => {
                Err(format!("{}: {why}", dir.display()))
            }
            _ => Ok(()),
        }
    }

    fn topics(&self, action: &str, topics: &[String]) -> Result<(), String> {
        let mut command = Command::new(program("bench"));
        command.args(["topics", self.bootstrap, action]).args(topics);
        process::succeed(command, "the topics of the benchmark could not be changed")
    }

    /// Nothing stays on a broker that is not ours.
    pub(super) fn clean_up(&mut self) -> Result<(), String> {
        if let Some(app) = self.counted.take() {
            self.forget(&app)?;
        }
        self.topics("delete", &[self.input(), self.right()])?;
        let _ = std::fs::remove_dir_all(&self.dir);
        Ok(())
    }
}

fn program(name: &str) -> PathBuf {
    workspace::target().join("release").join(name)
}
