//! Queries of version 2: a question to the partitions of a store, with what the answer has to fulfil, and an answer a partition.
//!
//! Which question a store can be asked is a matter of types: one that it cannot answer does not compile.

use super::{LocalStores, LocalTask, Position};
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::clock::{Clock, SystemClock};
use crate::state::{
    Entries, GlobalStores, KeyValueStore, PartitionReader, Queryable, ReadOnlyKeyValueStore,
    ReadOnlySessionStore, ReadOnlyVersionedKeyValueStore, ReadOnlyWindowStore, Scope, SessionStore,
    SessionValues, Source, StoreSource, StoreSpec, StoreToken, TimestampedKeyValueStore,
    TimestampedWindowStore, VersionedKeyValueStore, VersionedRecord, WindowEntries, WindowStore,
    WindowValues,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// A question that the stores `S` can be asked.
pub trait StateQuery<S: Queryable> {
    /// What a partition answers.
    type Result;

    /// Asks one partition.
    ///
    /// # Errors
    /// When bytes cannot be read or the engine fails.
    fn ask(&self, partition: &S::ReadOnly) -> Result<Self::Result>;
}

/// A question with what its answer has to fulfil: for [`crate::runtime::KafkaStreams::query`].
///
/// ```
/// use kstreams::prelude::*;
/// use kstreams::runtime::{KeyQuery, Position, StateQueryRequest};
///
/// let counts = Stores::key_value::<String, i64>("word-counts");
/// let request = StateQueryRequest::in_store(&counts)
///     .with_query(KeyQuery::with_key("kafka".to_string()))
///     .with_partitions([0, 1])
///     .with_position_bound(Position::of("lines", 0, 41));
/// ```
#[derive(Debug)]
pub struct StateQueryRequest<S: Queryable, Q> {
    pub(in crate::runtime) token: StoreToken<S>,
    query: Q,
    partitions: Option<BTreeSet<i32>>,
    bound: Position,
    tells_execution: bool,
}

/// A request that has no question yet.
#[derive(Debug)]
pub struct InStore<S: Queryable>(StoreToken<S>);

impl<S: Queryable> InStore<S> {
    /// What to ask.
    pub fn with_query<Q: StateQuery<S>>(self, query: Q) -> StateQueryRequest<S, Q> {
        let (token, bound) = (self.0, Position::new());
        StateQueryRequest { token, query, partitions: None, bound, tells_execution: false }
    }
}

impl<S: Queryable> StateQueryRequest<S, ()> {
    /// Begins a request to a store.
    pub fn in_store(token: &StoreToken<S>) -> InStore<S> {
        InStore(*token)
    }
}

impl<S: Queryable, Q> StateQueryRequest<S, Q> {
    /// Asks these partitions, wherever they are: one that is not here answers with a failure. Default: all that are here.
    #[must_use]
    pub fn with_partitions(mut self, partitions: impl IntoIterator<Item = i32>) -> Self {
        self.partitions = Some(partitions.into_iter().collect());
        self
    }

    /// Answers have to reflect at least these inputs: a partition that is not as far yet answers with a failure.
    #[must_use]
    pub fn with_position_bound(mut self, bound: Position) -> Self {
        self.bound = bound;
        self
    }

    /// Answers come from the tasks that process, which are the only ones so far; a position bound does not count then, as in Java.
    #[must_use]
    pub fn require_active(mut self) -> Self {
        self.bound = Position::new();
        self
    }

    /// Has the answers tell how they came about.
    #[must_use]
    pub fn enable_execution_info(mut self) -> Self {
        self.tells_execution = true;
        self
    }
}

// Derived, it would ask the store to be `Clone`.
impl<S: Queryable, Q: Clone> Clone for StateQueryRequest<S, Q> {
    fn clone(&self) -> Self {
        StateQueryRequest {
            token: self.token,
            query: self.query.clone(),
            partitions: self.partitions.clone(),
            bound: self.bound.clone(),
            tells_execution: self.tells_execution,
        }
    }
}

/// Why a partition did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureReason {
    /// It is here and does not process yet.
    NotActive,
    /// It does not reflect yet what the position bound demands.
    NotUpToBound,
    /// It is not on this instance.
    NotPresent,
    /// There is no such partition.
    DoesNotExist,
    /// Reading it failed.
    StoreException,
}

/// What a partition answered.
#[derive(Debug)]
pub struct PartitionResult<R> {
    answer: Result<R, (FailureReason, Error)>,
    position: Position,
    execution_info: Vec<String>,
}

impl<R> PartitionResult<R> {
    /// The answer.
    ///
    /// # Errors
    /// Why there is none.
    pub fn result(self) -> Result<R> {
        self.answer.map_err(|(_, error)| error)
    }

    /// Why there is no answer, if there is none.
    pub fn failure_reason(&self) -> Option<FailureReason> {
        self.answer.as_ref().err().map(|(reason, _)| *reason)
    }

    /// How far the partition was at least when it answered.
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// How the answer came about, if the request asked for that.
    pub fn execution_info(&self) -> &[String] {
        &self.execution_info
    }
}

/// The answers by partition.
#[derive(Debug)]
pub struct StateQueryResult<R> {
    partitions: BTreeMap<i32, PartitionResult<R>>,
}

impl<R> StateQueryResult<R> {
    /// The answer of each partition that was asked.
    pub fn partition_results(&self) -> &BTreeMap<i32, PartitionResult<R>> {
        &self.partitions
    }

    /// The same, to be taken apart.
    pub fn into_partition_results(self) -> BTreeMap<i32, PartitionResult<R>> {
        self.partitions
    }

    /// The answer of the only partition that was asked; `None` if there were several, or none.
    pub fn only_partition_result(mut self) -> Option<PartitionResult<R>> {
        let (_, only) = self.partitions.pop_first()?;
        self.partitions.is_empty().then_some(only)
    }

    /// How far all that answered were at least.
    pub fn position(&self) -> Position {
        let mut position = Position::new();
        self.partitions.values().for_each(|partition| position.merge(&partition.position));
        position
    }
}

/// One partition of a store that is here.
struct OnePartition {
    spec: StoreSpec,
    topic: Arc<str>,
    globals: Arc<GlobalStores>,
    reader: PartitionReader,
}

impl StoreSource for OnePartition {
    fn spec(&self) -> &StoreSpec {
        &self.spec
    }

    fn serde_topic(&self) -> Arc<str> {
        self.topic.clone()
    }

    fn globals(&self) -> &GlobalStores {
        &self.globals
    }

    fn present(&self, _: Scope) -> Result<Vec<PartitionReader>> {
        Ok(vec![self.reader.clone()])
    }

    fn all(&self, _: Scope) -> Result<Vec<PartitionReader>> {
        Ok(vec![self.reader.clone()])
    }

    fn check_absent(&self, _: Scope, _: &[u8]) -> Result<()> {
        Ok(())
    }
}

impl LocalStores {
    /// Asks the partitions of a request.
    pub(in crate::runtime) fn ask<S: Queryable, Q: StateQuery<S>>(
        &self,
        request: &StateQueryRequest<S, Q>,
    ) -> Result<StateQueryResult<Q::Result>> {
        self.check_open()?;
        if self.subtopology.is_none() {
            let message = format!(
                "store {} is global: look its keys up with KafkaStreams::store",
                self.spec.name
            );
            return Err(Error::new(ErrorKind::InvalidState, message));
        }
        let wanted: BTreeMap<i32, Result<Arc<LocalTask>, (FailureReason, Error)>> = {
            let inner = self.queries.read();
            let running: BTreeMap<_, _> =
                self.running(&inner, Scope::default()).into_iter().collect();
            let asked = request.partitions.clone().unwrap_or_else(|| {
                let assigned = self.assigned(&inner);
                running.keys().copied().chain(assigned.iter().map(|id| id.partition)).collect()
            });
            let found = |partition| match running.get(&partition) {
                Some(task) => Ok(task.clone()),
                None => {
                    let error = self.queries.absent(&inner, &self.spec.name, self.task(partition));
                    let reason = match error.kind() {
                        ErrorKind::UnknownStore => FailureReason::DoesNotExist,
                        ErrorKind::Moved => FailureReason::NotPresent,
                        _ => FailureReason::NotActive,
                    };
                    Err((reason, error))
                }
            };
            asked.into_iter().map(|partition| (partition, found(partition))).collect()
        };
        let answer = |(partition, task)| (partition, self.answer(request, partition, task));
        Ok(StateQueryResult { partitions: wanted.into_iter().map(answer).collect() })
    }

    fn answer<S: Queryable, Q: StateQuery<S>>(
        &self,
        request: &StateQueryRequest<S, Q>,
        partition: i32,
        task: Result<Arc<LocalTask>, (FailureReason, Error)>,
    ) -> PartitionResult<Q::Result> {
        // The position comes first: what is read afterwards is as far at least.
        let position = task.as_ref().map(|task| task.position()).unwrap_or_default();
        let clock = SystemClock::default();
        let began = clock.now().monotonic;
        let answer = task.and_then(|task| {
            if let Some((topic, input, offset)) = position.lags_behind(&request.bound) {
                let reached = position.offset(topic, input).unwrap_or(-1);
                let message = format!(
                    "partition {partition} of store {} reflects {topic}, partition {input}, up to offset {reached}, not {offset} yet",
                    self.spec.name
                );
                let error = Error::new(ErrorKind::Timeout, message);
                return Err((FailureReason::NotUpToBound, error));
            }
            let failed = |error| (FailureReason::StoreException, error);
            let reader = self.reader(&task).ok_or_else(|| failed(self.queries.unknown(&self.spec.name)))?;
            let source = OnePartition {
                spec: self.spec.clone(),
                topic: self.serde_topic(),
                globals: self.globals.clone(),
                reader,
            };
            let store = S::read_only(&request.token, Source(Arc::new(source))).map_err(failed)?;
            request.query.ask(&store).map_err(failed)
        });
        let mut execution_info = Vec::new();
        if request.tells_execution {
            let took = clock.now().monotonic - began;
            let name = &self.spec.name;
            execution_info.push(format!("partition {partition} of store {name}: {took:?}"));
        }
        PartitionResult { answer, position, execution_info }
    }
}

/// The value of a key: with its timestamp if the token is that of a timestamped store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyQuery<K>(K);

impl<K> KeyQuery<K> {
    /// The value of this key.
    pub fn with_key(key: K) -> Self {
        KeyQuery(key)
    }
}

/// The entries of a range of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeQuery<K> {
    bounds: (Bound<K>, Bound<K>),
    descending: bool,
}

impl<K: Clone> RangeQuery<K> {
    /// The entries of these keys, in the order of the keys' bytes.
    pub fn with_range(range: impl RangeBounds<K>) -> Self {
        let bounds = (range.start_bound().cloned(), range.end_bound().cloned());
        RangeQuery { bounds, descending: false }
    }

    /// All entries.
    pub fn with_no_bounds() -> Self {
        RangeQuery::with_range(..)
    }

    /// From the last to the first.
    #[must_use]
    pub fn with_descending_keys(mut self) -> Self {
        self.descending = true;
        self
    }
}

fn in_range<K: 'static, V: 'static, T>(
    store: &ReadOnlyKeyValueStore<K, V, T>,
    query: &RangeQuery<K>,
) -> Result<Entries<K, V, T>> {
    let range = (query.bounds.0.as_ref(), query.bounds.1.as_ref());
    if query.descending { store.reverse_range(range) } else { store.range(range) }
}

impl<K: 'static, V: 'static> StateQuery<KeyValueStore<K, V>> for KeyQuery<K> {
    type Result = Option<V>;

    fn ask(&self, store: &ReadOnlyKeyValueStore<K, V>) -> Result<Option<V>> {
        store.get(&self.0)
    }
}

impl<K: 'static, V: 'static> StateQuery<TimestampedKeyValueStore<K, V>> for KeyQuery<K> {
    type Result = Option<(V, i64)>;

    fn ask(&self, store: &ReadOnlyKeyValueStore<K, V, (V, i64)>) -> Result<Self::Result> {
        store.get(&self.0)
    }
}

impl<K: 'static, V: 'static> StateQuery<KeyValueStore<K, V>> for RangeQuery<K> {
    type Result = Entries<K, V>;

    fn ask(&self, store: &ReadOnlyKeyValueStore<K, V>) -> Result<Self::Result> {
        in_range(store, self)
    }
}

impl<K: 'static, V: 'static> StateQuery<TimestampedKeyValueStore<K, V>> for RangeQuery<K> {
    type Result = Entries<K, V, (V, i64)>;

    fn ask(&self, store: &ReadOnlyKeyValueStore<K, V, (V, i64)>) -> Result<Self::Result> {
        in_range(store, self)
    }
}

/// The values of a key in the windows that start at these times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowKeyQuery<K> {
    key: K,
    times: (Bound<i64>, Bound<i64>),
}

impl<K> WindowKeyQuery<K> {
    /// The windows of a key that start at these times, in milliseconds since the epoch.
    pub fn with_key_and_window_start_range(key: K, times: impl RangeBounds<i64>) -> Self {
        let times = (times.start_bound().cloned(), times.end_bound().cloned());
        WindowKeyQuery { key, times }
    }
}

/// All windows that start at some time, or all sessions of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowRangeQuery<B>(B);

impl WindowRangeQuery<(Bound<i64>, Bound<i64>)> {
    /// The windows of all keys that start at these times, in milliseconds since the epoch: for window stores.
    pub fn with_window_start_range(times: impl RangeBounds<i64>) -> Self {
        WindowRangeQuery((times.start_bound().cloned(), times.end_bound().cloned()))
    }
}

impl<K> WindowRangeQuery<[K; 1]> {
    /// All sessions of a key: for session stores.
    pub fn with_key(key: K) -> Self {
        WindowRangeQuery([key])
    }
}

/// `$values` is what a window's value is.
macro_rules! window_queries {
    ($store:ident, $value:ty) => {
        impl<K: 'static, V: 'static> StateQuery<$store<K, V>> for WindowKeyQuery<K> {
            type Result = WindowValues<K, V, $value>;

            fn ask(&self, store: &ReadOnlyWindowStore<K, V, $value>) -> Result<Self::Result> {
                store.fetch_range(&self.key, self.times)
            }
        }

        impl<K: 'static, V: 'static> StateQuery<$store<K, V>>
            for WindowRangeQuery<(Bound<i64>, Bound<i64>)>
        {
            type Result = WindowEntries<K, V, $value>;

            fn ask(&self, store: &ReadOnlyWindowStore<K, V, $value>) -> Result<Self::Result> {
                store.fetch_all(self.0)
            }
        }
    };
}

window_queries!(WindowStore, V);
window_queries!(TimestampedWindowStore, (V, i64));

impl<K: 'static, V: 'static> StateQuery<SessionStore<K, V>> for WindowRangeQuery<[K; 1]> {
    type Result = SessionValues<K, V>;

    fn ask(&self, store: &ReadOnlySessionStore<K, V>) -> Result<Self::Result> {
        let [key] = &self.0;
        store.fetch(key)
    }
}

/// The value of a key at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionedKeyQuery<K> {
    key: K,
    as_of: Option<i64>,
}

impl<K> VersionedKeyQuery<K> {
    /// The latest value of a key.
    pub fn with_key(key: K) -> Self {
        VersionedKeyQuery { key, as_of: None }
    }

    /// The value at this time instead, in milliseconds since the epoch.
    #[must_use]
    pub fn as_of(mut self, timestamp: i64) -> Self {
        self.as_of = Some(timestamp);
        self
    }
}

impl<K: 'static, V: 'static> StateQuery<VersionedKeyValueStore<K, V>> for VersionedKeyQuery<K> {
    type Result = Option<VersionedRecord<V>>;

    fn ask(&self, store: &ReadOnlyVersionedKeyValueStore<K, V>) -> Result<Self::Result> {
        match self.as_of {
            Some(timestamp) => store.get_as_of(&self.key, timestamp),
            None => store.get(&self.key),
        }
    }
}

/// The values of a key over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MultiVersionedKeyQuery<K> {
    key: K,
    times: (Bound<i64>, Bound<i64>),
    ascending: bool,
}

impl<K> MultiVersionedKeyQuery<K> {
    /// All values of a key that the store has, newest first.
    pub fn with_key(key: K) -> Self {
        let times = (Bound::Unbounded, Bound::Unbounded);
        MultiVersionedKeyQuery { key, times, ascending: false }
    }

    /// Only those that were valid at some of these times, in milliseconds since the epoch.
    #[must_use]
    pub fn times(mut self, times: impl RangeBounds<i64>) -> Self {
        self.times = (times.start_bound().cloned(), times.end_bound().cloned());
        self
    }

    /// Oldest first.
    #[must_use]
    pub fn with_ascending_timestamps(mut self) -> Self {
        self.ascending = true;
        self
    }
}

impl<K: 'static, V: 'static> StateQuery<VersionedKeyValueStore<K, V>>
    for MultiVersionedKeyQuery<K>
{
    type Result = Vec<VersionedRecord<V>>;

    fn ask(&self, store: &ReadOnlyVersionedKeyValueStore<K, V>) -> Result<Self::Result> {
        let mut found = store.history(&self.key, self.times)?;
        if self.ascending {
            found.reverse();
        }
        Ok(found)
    }
}

impl fmt::Display for FailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
