//! How the tasks of a test begin: at the start, and again after a restart or a crash.

use super::{TopologyTestDriver, TopologyTestDriverBuilder};
use crate::error::{Error, Result};
use crate::processor::{Elapsed, TaskId};
use crate::state::{GlobalStores, TaskBackends, delete_database};
use crate::task::offset_metadata::CommittedTimes;
use crate::task::{Restoring, StreamTask, TaskPlan};
use crate::testing::cluster::Cluster;
use crate::testing::collector::Recorder;
use crate::topology::{ChangelogTopic, Graph};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// What becomes of the stores' content when tasks start again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalState {
    /// It is still there, as on a disk.
    Kept,
    /// It is lost, as when the task moves: what has a changelog is restored from it.
    Lost,
}

impl TopologyTestDriver {
    pub(super) fn start(builder: TopologyTestDriverBuilder) -> Result<Self> {
        let TopologyTestDriverBuilder { topology, config, partitions, wall_clock, commits_by_hand } =
            builder;
        let mut settings = config.resolve()?;
        if !config.is_set("emit.interval.ms") {
            // Final results are there at once, as in Java's test driver.
            settings.rules.emit_interval = 0;
        }
        let (graph, app) = (topology.graph(), &settings.application.id);
        let sized = graph.repartition_topics.iter().filter_map(|(name, topic)| {
            Some((graph.topic_name(app, name).to_string(), topic.partitions?))
        });
        let changelogs = graph.stores.iter().filter_map(|spec| ChangelogTopic::name_of(app, spec));
        let changelogs = changelogs.map(|name| name.to_string()).collect();
        let cluster = Cluster::new(partitions, sized.collect(), changelogs);
        let cluster = Rc::new(RefCell::new(cluster));
        let globals = Arc::new(GlobalStores::new(&graph.globals));
        let plan = TaskPlan::new(topology.clone(), &settings, globals, Elapsed::none());
        let mut driver = TopologyTestDriver {
            settings,
            plan,
            tasks: Vec::new(),
            global_tasks: Vec::new(),
            recorder: Rc::new(RefCell::new(Recorder::new(cluster.clone()))),
            cluster,
            has_directory: config.is_set("state.dir"),
            commits_by_hand,
            wall_clock,
            published: VecDeque::new(),
            outputs: BTreeMap::new(),
        };
        for id in driver.task_ids() {
            let backends = TaskBackends::new(driver.directory_of(id));
            let task = driver.begin_task(id, backends)?;
            driver.tasks.push(task);
        }
        for subtopology in topology.graph().with_global_processors() {
            for partition in 0..partitions {
                let id = TaskId { subtopology, partition };
                driver.global_tasks.push(StreamTask::build_global(&driver.plan, id, wall_clock)?);
            }
        }
        // Processors may have forwarded something when they began.
        if !commits_by_hand {
            driver.run()?;
        }
        Ok(driver)
    }

    /// Commits, closes the tasks and starts them again from what is committed. Global stores stay as they are; stores that the test has
    /// asked for before are of the old tasks.
    ///
    /// ```
    /// use kstreams::prelude::*;
    /// use kstreams::testing::LocalState;
    ///
    /// let builder = StreamsBuilder::new();
    /// let words = builder.stream("words", Consumed::<String, String>::new());
    /// words.group_by_key(Grouped::new()).count(Materialized::named("counts")).to_stream().to("counts", Produced::new());
    /// let mut driver = TopologyTestDriver::new(builder.build()?)?;
    /// let mut words = driver.input::<String, String>("words");
    /// words.pipe_key_value_at(&mut driver, 0, "a", "one")?;
    /// driver.restart(LocalState::Lost)?;
    /// words.pipe_key_value_at(&mut driver, 0, "a", "two")?;
    /// assert_eq!(driver.output::<String, i64>("counts").read_values(&mut driver)?, [1, 2]);
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    ///
    /// # Errors
    /// What committing, restoring and processing report.
    pub fn restart(&mut self, state: LocalState) -> Result<()> {
        self.commit()?;
        self.begin_again(state, StreamTask::close)
    }

    /// The tasks are gone without a word, as after kill -9, and start again: what was not committed never happened, and records behind
    /// the last commit are processed again. Processors are not closed.
    ///
    /// # Errors
    /// What restoring and processing report.
    pub fn crash(&mut self, state: LocalState) -> Result<()> {
        self.recorder.borrow_mut().written.clear();
        self.begin_again(state, StreamTask::abandon)
    }

    /// Commits and closes the processors.
    ///
    /// # Errors
    /// What committing reports.
    pub fn close(mut self) -> Result<()> {
        let committed = self.commit_all();
        self.tasks.drain(..).chain(self.global_tasks.drain(..)).for_each(|task| drop(task.close()));
        committed
    }

    fn begin_again(
        &mut self,
        state: LocalState,
        end: impl Fn(StreamTask) -> TaskBackends,
    ) -> Result<()> {
        for task in std::mem::take(&mut self.tasks) {
            let id = task.id();
            let mut backends = end(task);
            if state == LocalState::Lost {
                drop(backends);
                let directory = self.directory_of(id);
                if let Some(path) = &directory {
                    delete_database(path).map_err(|error| {
                        Error::state(format!("cannot delete {}", path.display())).with_source(error)
                    })?;
                }
                backends = TaskBackends::new(directory);
            }
            let task = self.begin_task(id, backends)?;
            self.tasks.push(task);
        }
        let done = self.run();
        done.inspect_err(|_| self.keep_dead_letters())
    }

    fn begin_task(&self, id: TaskId, backends: TaskBackends) -> Result<StreamTask> {
        self.begin(id, backends).map_err(|error| error.context(format!("task {id}")))
    }

    /// Restores the stores of a task, builds it, and gives it what is behind its last commit.
    fn begin(&self, id: TaskId, backends: TaskBackends) -> Result<StreamTask> {
        let (graph, app) = (self.plan.topology.graph(), &self.plan.application.id);
        let budget = self.settings.store_budget();
        let partition = id.partition;
        let mut restoring = Restoring::begin(graph, app, id, backends, &budget)?;
        let changelogs: Vec<_> = restoring.stores.iter().map(|s| s.changelog.clone()).collect();
        for changelog in changelogs {
            let mut cluster = self.cluster.borrow_mut();
            if let Some(position) = restoring.position(&changelog) {
                cluster.reach(&changelog, partition, position);
            }
            let end = cluster.end(&changelog, partition).unwrap_or(0);
            let committed = cluster.committed(&changelog, partition);
            let committed = committed.map(|committed| committed.offset);
            restoring.set_range(&changelog, 0, end, committed)?;
            let from = restoring.position(&changelog).unwrap_or(0);
            let records = cluster.read(&changelog, partition, from);
            restoring.add(&changelog, records, end)?;
        }
        let reads = inputs_of(graph, app, id.subtopology);
        let backends = restoring.finish()?;
        let collector = self.recorder.clone();
        let is_read = |topic: &str| partition < self.cluster.borrow().partitions(topic);
        let plan = &self.plan;
        let mut task =
            StreamTask::build(plan, id, backends, &budget, collector, self.wall_clock, is_read)?;
        for topic in reads.iter().filter(|topic| is_read(topic)) {
            let cluster = self.cluster.borrow();
            let committed = cluster.committed(topic, partition);
            let (offset, times) = match committed {
                Some(committed) => (committed.offset, committed.times.clone()),
                None => (0, CommittedTimes::unknown()),
            };
            task.start_at(topic, partition, offset, &times);
            let records = cluster.read(topic, partition, offset);
            let end = cluster.end(topic, partition).unwrap_or(0);
            task.add(topic, partition, records, end)?;
        }
        Ok(task)
    }

    /// The tasks of the topology: a sub-topology has as many as its largest topic has partitions.
    fn task_ids(&self) -> Vec<TaskId> {
        let (graph, app) = (self.plan.topology.graph(), &self.plan.application.id);
        let cluster = self.cluster.borrow();
        let count = |subtopology| {
            let topics = inputs_of(graph, app, subtopology);
            topics.iter().map(|topic| cluster.partitions(topic)).max().unwrap_or(1)
        };
        let numbered = graph.with_tasks().map(|subtopology| (subtopology, count(subtopology)));
        numbered
            .flat_map(|(subtopology, count)| {
                (0..count).map(move |partition| TaskId { subtopology, partition })
            })
            .collect()
    }

    fn directory_of(&self, id: TaskId) -> Option<PathBuf> {
        let path = self.plan.application.state_dir.join(id.to_string()).join("kstreams");
        self.has_directory.then_some(path)
    }
}

/// The topics that a sub-topology reads.
fn inputs_of(graph: &Graph, app: &str, subtopology: u32) -> BTreeSet<Arc<str>> {
    let topics = graph.source_topics(subtopology).into_iter();
    topics.map(|topic| graph.topic_name(app, &topic)).collect()
}
