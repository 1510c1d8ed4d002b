//! How a task gets from its assignment to its first record: directory, restore, positions.

use super::clock::Now;
use super::positions::InputPosition;
use super::task_slot::{Phase, SlotContext, TaskSlot, client_error};
use super::topics;
use crate::config::Settings;
use crate::error::Result;
use crate::state::TaskBackends;
use crate::task::offset_metadata::{self, CommittedTimes};
use crate::task::{Restoring, StreamTask, TaskPlan};
use crate::topology::{AutoOffsetReset, NodeKind};
use kstreams_client::{
    ClientError, CommittedOffset, ErrorKind as ClientErrorKind, Isolation, ListedOffset,
    OffsetSpec, Reader, ResetPolicy, Results, Start, TopicPartition,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl TaskSlot {
    /// Takes the next step if it can be taken; true if it was.
    pub(super) fn advance(&mut self, cx: &mut SlotContext<'_>) -> Result<bool> {
        let phase = std::mem::replace(&mut self.phase, Phase::Closed);
        let (phase, moved) =
            self.step(phase, cx).map_err(|error| error.context(format!("task {}", self.id)))?;
        self.phase = phase;
        Ok(moved)
    }

    fn step(&mut self, phase: Phase, cx: &mut SlotContext<'_>) -> Result<(Phase, bool)> {
        match phase {
            Phase::Waiting => self.open(cx),
            Phase::Listing { restoring, mut begins, mut ends, mut committed } => {
                let known = committed.as_mut().is_none_or(|committed| committed.is_done());
                if !(begins.is_done() && ends.is_done() && known) {
                    return Ok((Phase::Listing { restoring, begins, ends, committed }, false));
                }
                let committed = match committed.map(|mut committed| committed.try_take()) {
                    Some(committed) => answer_or_retry(committed)?,
                    None => Some(BTreeMap::new()),
                };
                let Some(committed) = committed else {
                    // The group did not answer; begin again.
                    restoring.finish()?;
                    return Ok((Phase::Waiting, false));
                };
                let ranges = (answer(begins.try_take())?, answer(ends.try_take())?);
                Ok((self.begin_restore(restoring, ranges, &committed, cx)?, true))
            }
            Phase::Restoring(restoring) if restoring.is_done() => {
                for store in &restoring.stores {
                    let partition = TopicPartition::new(store.changelog.clone(), self.id.partition);
                    cx.client.stop_fetching(Reader::Changelog, partition);
                }
                let restored = restoring.restored();
                let phase = self.build(restoring.finish()?, cx)?;
                tracing::info!(task = %self.id, restored, "task restored");
                Ok((phase, true))
            }
            Phase::Positioning { task, mut committed, mut ends } => {
                // A partitioner needs to know how many partitions its topic has.
                let known = cx.collector.borrow().knows_topics();
                if !(known && committed.is_done() && ends.is_done()) {
                    return Ok((Phase::Positioning { task, committed, ends }, false));
                }
                let (committed, ends) = (committed.try_take(), ends.try_take());
                self.position(task, committed, ends, cx).map(|phase| (phase, true))
            }
            Phase::Repositioning { task, at } if cx.now.monotonic >= at => {
                Ok((self.ask_positions(task, cx), true))
            }
            settled => Ok((settled, false)),
        }
    }

    /// Takes the directory and looks how far the stores are.
    fn open(&mut self, cx: &mut SlotContext<'_>) -> Result<(Phase, bool)> {
        if !cx.plan.globals.are_filled() {
            return Ok((Phase::Waiting, false));
        }
        let graph = cx.plan.topology.graph();
        let app = &cx.settings.application.id;
        let partitions = |topic: &str| cx.client.partitions(topic);
        let Some(inputs) = topics::inputs(graph, app, self.id, partitions) else {
            return Ok((Phase::Waiting, false));
        };
        let persistent = graph.stores.iter().any(|store| store.persistent);
        if let Some(directory) = cx.directory.filter(|_| persistent)
            && self.lock.is_none()
        {
            let Some(lock) = directory.try_own(self.id) else {
                return Ok((Phase::Waiting, false));
            };
            self.lock = Some(lock);
        }
        cx.queries.learn_count(self.id.subtopology, partitions);
        self.inputs = inputs.into_iter().map(|input| (input, InputPosition::default())).collect();
        let path = self.lock.as_ref().map(|lock| lock.stores().to_path_buf());
        let restoring = Restoring::begin(graph, app, self.id, TaskBackends::new(path), cx.budget)?;
        if restoring.stores.is_empty() {
            return Ok((self.build(restoring.finish()?, cx)?, true));
        }
        let partition = |topic: &Arc<str>| TopicPartition::new(topic.clone(), self.id.partition);
        let mut list = |spec: OffsetSpec| {
            let wanted = restoring.stores.iter().map(|s| (partition(&s.changelog), spec)).collect();
            cx.client.list_offsets(wanted)
        };
        let begins = list(OffsetSpec::Earliest);
        let ends = list(OffsetSpec::Latest(Isolation::ReadUncommitted));
        // What is an input as well is a changelog as far as it was processed.
        let inputs: Vec<_> = restoring.source_changelogs().iter().map(partition).collect();
        let committed = (!inputs.is_empty()).then(|| cx.client.committed(inputs));
        Ok((Phase::Listing { restoring, begins, ends, committed }, true))
    }

    fn begin_restore(
        &self,
        mut restoring: Restoring,
        (begins, ends): (
            BTreeMap<TopicPartition, ListedOffset>,
            BTreeMap<TopicPartition, ListedOffset>,
        ),
        committed: &BTreeMap<TopicPartition, Option<CommittedOffset>>,
        cx: &mut SlotContext<'_>,
    ) -> Result<Phase> {
        for (partition, end) in ends {
            let begin = begins.get(&partition).map_or(0, |begin| begin.offset);
            let committed = committed.get(&partition).and_then(Option::as_ref);
            let committed = committed.map(|committed| committed.offset);
            restoring.set_range(&partition.topic, begin, end.offset, committed)?;
        }
        for store in restoring.stores.iter().filter(|store| !store.is_done()) {
            let partition = TopicPartition::new(store.changelog.clone(), self.id.partition);
            let position = store.position.unwrap_or(0);
            tracing::info!(
                task = %self.id,
                changelog = &*store.changelog,
                position,
                end = store.end(),
                "restoring a store"
            );
            // The application's own reset policy is for its inputs: a changelog is always read from where the store is.
            cx.client.fetch(Reader::Changelog, partition, Start::at(position), ResetPolicy::None);
        }
        Ok(Phase::Restoring(restoring))
    }

    fn build(&mut self, backends: TaskBackends, cx: &mut SlotContext<'_>) -> Result<Phase> {
        let read: BTreeSet<&str> = self.inputs.keys().map(|input| &*input.topic).collect();
        let collector = cx.collector.clone();
        let times = cx.now.wall;
        let task =
            StreamTask::build(cx.plan, self.id, backends, cx.budget, collector, times, |topic| {
                read.contains(topic)
            })?;
        Ok(self.ask_positions(Box::new(task), cx))
    }

    fn ask_positions(&self, task: Box<StreamTask>, cx: &mut SlotContext<'_>) -> Phase {
        let inputs: Vec<TopicPartition> = self.inputs.keys().cloned().collect();
        let spec = OffsetSpec::Latest(Isolation::ReadCommitted);
        let ends = cx.client.list_offsets(inputs.iter().map(|p| (p.clone(), spec)).collect());
        Phase::Positioning { task, committed: cx.client.committed(inputs), ends }
    }

    fn position(
        &mut self,
        mut task: Box<StreamTask>,
        committed: Option<Result<Results<TopicPartition, Option<CommittedOffset>>, ClientError>>,
        ends: Option<Result<Results<TopicPartition, ListedOffset>, ClientError>>,
        cx: &mut SlotContext<'_>,
    ) -> Result<Phase> {
        let committed = match answer_or_retry(committed)? {
            Some(committed) => committed,
            None => {
                let at = cx.now.monotonic + cx.settings.wire.retry_backoff;
                return Ok(Phase::Repositioning { task, at });
            }
        };
        for (partition, end) in answer(ends)? {
            if let Some(input) = self.inputs.get_mut(&partition) {
                input.set_end(end.offset);
            }
        }
        let offsets = committed.iter().map(|(partition, committed)| {
            (partition.clone(), committed.as_ref().map(|committed| committed.offset))
        });
        self.registered = Some(cx.queries.register(self.id, task.readers()?, offsets));
        for (partition, offset) in committed {
            let reset = reset_policy(cx.plan, cx.settings, &partition.topic, cx.now);
            let start = match offset {
                Some(CommittedOffset { offset, leader_epoch, metadata }) => {
                    let times = offset_metadata::decode(&metadata);
                    let times = times.unwrap_or_else(CommittedTimes::unknown);
                    task.start_at(&partition.topic, partition.partition, offset, &times);
                    if let Some(input) = self.inputs.get_mut(&partition) {
                        input.start_at(offset);
                    }
                    Start::Offset { offset, leader_epoch }
                }
                None => Start::Reset,
            };
            cx.client.fetch(Reader::Source, partition, start, reset);
        }
        tracing::info!(task = %self.id, "task running");
        Ok(Phase::Running(task))
    }
}

/// Where to begin on a source topic without a position: its own policy, else the application's. Repartition topics begin at the
/// beginning.
fn reset_policy(plan: &TaskPlan, settings: &Settings, topic: &str, now: Now) -> ResetPolicy {
    let graph = plan.topology.graph();
    let app = &settings.application.id;
    let own = graph.nodes.iter().find_map(|node| match &node.kind {
        NodeKind::Source(source) => source
            .topics
            .iter()
            .find(|source| *graph.topic_name(app, source) == *topic)
            .map(|found| (graph.repartition_topics.contains_key(found), source.reset)),
        _ => None,
    });
    let policy = match own {
        Some((true, _)) => AutoOffsetReset::Earliest,
        Some((false, Some(reset))) => reset,
        _ => settings.offset_reset,
    };
    match policy {
        AutoOffsetReset::Earliest => ResetPolicy::Earliest,
        AutoOffsetReset::Latest => ResetPolicy::Latest,
        AutoOffsetReset::ByDuration(age) => {
            let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
            ResetPolicy::Since(now.wall.saturating_sub(age).max(0))
        }
        AutoOffsetReset::None => ResetPolicy::None,
    }
}

/// The values of an answer, or its first error.
fn answer<V>(
    answer: Option<Result<Results<TopicPartition, V>, ClientError>>,
) -> Result<BTreeMap<TopicPartition, V>> {
    let Some(answer) = answer else { return Ok(BTreeMap::new()) };
    let values = answer.map_err(client_error)?.into_iter();
    values.map(|(partition, value)| Ok((partition, value.map_err(client_error)?))).collect()
}

/// As [`answer`]; `None` if the group wants to be asked again.
fn answer_or_retry<V>(
    given: Option<Result<Results<TopicPartition, V>, ClientError>>,
) -> Result<Option<BTreeMap<TopicPartition, V>>> {
    let again = |error: &ClientError| {
        let kind = error.kind();
        error.is_retriable()
            || matches!(kind, ClientErrorKind::StaleMemberEpoch | ClientErrorKind::Fenced)
    };
    let retry = match &given {
        Some(Ok(results)) => results.values().any(|r| r.as_ref().err().is_some_and(again)),
        Some(Err(error)) => again(error),
        None => false,
    };
    if retry { Ok(None) } else { answer(given).map(Some) }
}
