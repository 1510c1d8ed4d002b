//! Streams grouped by key and session, on their way to a windowed table.

use super::aggregations::{counting, folding, reducing};
use super::grouped::KGroupedStream;
use super::options::{EmitStrategy, Materialized};
use super::plan::{OldValues, PlanId, PlanKind, PlanRef, TableFacts, prefix};
use super::table::KTable;
use super::time_windowed::{WindowedBy, kept};
use super::windows::SessionWindows;
use crate::error::BoxError;
use crate::operators::{
    Aggregation, Change, Grouping, Merger, SessionRule, session_aggregate, session_view,
};
use crate::serde::{SerdeRef, SessionWindowedSerde};
use crate::state::{KeyValueSerdes, SessionStore, StoreFormat, StoreKind, StoreSpec, StoreToken};
use crate::topology::{NodeKind, operator_kind};
use crate::windowed::SessionWindowed;
use std::fmt;
use std::sync::Arc;

impl<K, V> WindowedBy<K, V> for SessionWindows {
    type Windowed = SessionWindowedKStream<K, V>;

    #[track_caller]
    fn windowed(self, grouped: &KGroupedStream<K, V>) -> Self::Windowed {
        grouped.plan.fail_if(self.mistake());
        let (grouped, emit) = (grouped.clone(), EmitStrategy::default());
        SessionWindowedKStream { grouped, windows: self, emit }
    }
}

/// A stream grouped by key and session. Its operators make a table of [`SessionWindowed`] keys with one value a key and session.
///
/// - A null key is dropped. A null value is aggregated like any other.
/// - A record joins all sessions of its key within the gap, before and after it. When that changes the bounds of a session, the old one
///   is deleted from the table (at its own end), then the new one is added.
/// - A record is late when the session that it would be in ended more than gap and grace before stream time; it is dropped with a
///   warning, and counted. Stream time is the highest time that the operator has seen, over all keys of the task; it is
///   committed with the offsets.
/// - The time of a result is the end of its session.
/// - The table is stored under the name that [`Materialized`] gives, with a changelog `<application.id>-<name>-changelog`, for gap and
///   grace (or longer, by [`Materialized::retention`]).
/// - If the key was changed before, the records first go through the topic `<application.id>-<name>-repartition`.
///
/// ```
/// use kstreams::prelude::*;
///
/// let builder = StreamsBuilder::new();
/// builder
///     .stream("clicks", Consumed::<String, String>::new())
///     .group_by_key(Grouped::new())
///     .windowed_by(SessionWindows::of(millis(5)).grace(millis(100)))
///     .count(Materialized::named("clicks-per-visit"))
///     .to_stream()
///     .select_key(|session, _| session.to_string())
///     .to("counts", Produced::new());
///
/// let mut driver = TopologyTestDriver::new(builder.build()?)?;
/// let mut clicks = driver.input::<String, String>("clicks");
/// for time in [0, 3, 13] {
///     clicks.pipe_key_value_at(&mut driver, time, "ann", "/")?;
/// }
/// let mut counts = driver.output::<String, Option<i64>>("counts");
/// assert_eq!(
///     counts.read_table(&mut driver)?,
///     table! { "[ann@0/0]" => None, "[ann@0/3]" => Some(2), "[ann@13/13]" => Some(1) }
/// );
/// # Ok::<(), kstreams::Error>(())
/// ```
#[must_use = "a windowed stream is of use when it is aggregated"]
pub struct SessionWindowedKStream<K, V> {
    grouped: KGroupedStream<K, V>,
    windows: SessionWindows,
    emit: EmitStrategy,
}

impl<K: Clone + 'static, V: Clone + 'static> SessionWindowedKStream<K, V> {
    /// When results are given; default: at each change.
    pub fn emit_strategy(self, emit: EmitStrategy) -> Self {
        SessionWindowedKStream { emit, ..self }
    }

    /// How many records each session has.
    #[track_caller]
    pub fn count(&self, materialized: Materialized<K, i64>) -> KTable<SessionWindowed<K>, i64> {
        self.grouped.skip_store_number(&materialized);
        let merger = |_: &K, one: Option<i64>, two: i64| Ok(one.unwrap_or(0) + two);
        self.aggregated(prefix::AGGREGATE, materialized, None, (counting(), Arc::new(merger)))
    }

    /// Combines the values of each session; the first is taken as it is. Sessions that become one are combined likewise.
    #[track_caller]
    pub fn reduce<F>(
        &self,
        reducer: F,
        materialized: Materialized<K, V>,
    ) -> KTable<SessionWindowed<K>, V>
    where
        F: Fn(V, V) -> V + Send + Sync + 'static,
    {
        self.try_reduce(move |reduced, value| Ok(reducer(reduced, value)), materialized)
    }

    /// As [`Self::reduce`]; the closure may fail.
    #[track_caller]
    pub fn try_reduce<F>(
        &self,
        reducer: F,
        materialized: Materialized<K, V>,
    ) -> KTable<SessionWindowed<K>, V>
    where
        F: Fn(V, V) -> Result<V, BoxError> + Send + Sync + 'static,
    {
        let reducer = Arc::new(reducer);
        let again = reducer.clone();
        let merger = move |_: &K, one: Option<V>, two: V| match one {
            Some(one) => again(one, two),
            None => Ok(two),
        };
        let reduce = reducing(move |reduced, value| reducer(reduced, value));
        let value = self.grouped.value_serde();
        let functions = (reduce, Arc::new(merger) as Merger<K, V>);
        self.aggregated(prefix::REDUCE, materialized, value.as_ref(), functions)
    }

    /// Folds the values of each session into an aggregate that begins with `initializer`; `merger` makes one of the aggregates of
    /// two sessions (the first time, of the initial one and a session's). The aggregator gives the new aggregate, or an
    /// `Option` of it: `None` deletes the session.
    #[track_caller]
    pub fn aggregate<A, R, I, F, M>(
        &self,
        initializer: I,
        aggregator: F,
        merger: M,
        materialized: Materialized<K, A>,
    ) -> KTable<SessionWindowed<K>, A>
    where
        A: Clone + 'static,
        R: Into<Option<A>>,
        I: Fn() -> A + Send + Sync + 'static,
        F: Fn(&K, A, V) -> R + Send + Sync + 'static,
        M: Fn(&K, A, A) -> A + Send + Sync + 'static,
    {
        let aggregator = move |key: &K, aggregate, value| Ok(aggregator(key, aggregate, value));
        let merger = move |key: &K, one, two| Ok(merger(key, one, two));
        self.try_aggregate(initializer, aggregator, merger, materialized)
    }

    /// As [`Self::aggregate`]; aggregator and merger may fail.
    #[track_caller]
    pub fn try_aggregate<A, R, I, F, M>(
        &self,
        initializer: I,
        aggregator: F,
        merger: M,
        materialized: Materialized<K, A>,
    ) -> KTable<SessionWindowed<K>, A>
    where
        A: Clone + 'static,
        R: Into<Option<A>>,
        I: Fn() -> A + Send + Sync + 'static,
        F: Fn(&K, A, V) -> Result<R, BoxError> + Send + Sync + 'static,
        M: Fn(&K, A, A) -> Result<A, BoxError> + Send + Sync + 'static,
    {
        let initializer = Arc::new(initializer);
        let merger = merging(initializer.clone(), merger);
        let fold = folding(move || initializer(), aggregator);
        self.aggregated(prefix::AGGREGATE, materialized, None, (fold, merger))
    }

    #[track_caller]
    fn aggregated<A: Clone + 'static>(
        &self,
        prefix: &str,
        materialized: Materialized<K, A>,
        carried: Option<&SerdeRef<A>>,
        (aggregation, merger): (impl Aggregation<K, V, A>, Merger<K, A>),
    ) -> KTable<SessionWindowed<K>, A> {
        let plan = &self.grouped.plan;
        let store = plan.store_name(materialized.name.clone(), prefix);
        let name = plan.name(materialized.node.clone(), prefix);
        let Some((grouping, serdes)) = self.grouped.serdes_for(&store, &materialized, carried)
        else {
            return KTable::void(plan.clone(), self.grouped.node);
        };
        let parent = self.grouped.repartitioned(&store, &grouping.key, &grouping.value);
        let token = session_store(plan, &store, self.windows, &materialized, serdes);
        let kind = session_kind(self.windows, self.emit, (grouping, aggregation, merger), token);
        let facts = TableFacts::with_store(OldValues::Aggregate, token.spec.clone(), true);
        let node = plan.add_table(name, PlanKind::Table(kind, Vec::new()), vec![parent], facts);
        plan.set_closing(node, self.windows.closing());
        session_windowed_table(plan, node, token, materialized.name)
    }
}

/// Makes one aggregate of two; the first time one of them is the initial one.
pub(super) fn merging<K, A, I, M>(initializer: Arc<I>, merger: M) -> Merger<K, A>
where
    K: 'static,
    A: 'static,
    I: Fn() -> A + Send + Sync + 'static,
    M: Fn(&K, A, A) -> Result<A, BoxError> + Send + Sync + 'static,
{
    Arc::new(move |key, one, two| merger(key, one.unwrap_or_else(|| initializer()), two))
}

/// The store of sessions.
#[track_caller]
pub(super) fn session_store<K: 'static, A: 'static>(
    plan: &PlanRef,
    name: &str,
    windows: SessionWindows,
    materialized: &Materialized<K, A>,
    serdes: KeyValueSerdes<K, A>,
) -> StoreToken<SessionStore<K, A>> {
    let retention = kept(plan, name, materialized, windows.kept());
    let kind = StoreKind::Session { retention };
    let spec = StoreSpec::of::<SessionWindowed<K>, A>(name, kind, StoreFormat::Plain);
    StoreToken::new(materialized.applied_to(spec), serdes)
}

/// The operator.
pub(super) fn session_kind<K, V, A>(
    windows: SessionWindows,
    emit: EmitStrategy,
    (grouping, aggregation, merger): (Grouping<K, V>, impl Aggregation<K, V, A>, Merger<K, A>),
    token: StoreToken<SessionStore<K, A>>,
) -> NodeKind
where
    K: Clone + 'static,
    V: Clone + 'static,
    A: Clone + 'static,
{
    let on_close = emit == EmitStrategy::OnWindowClose;
    let rule = SessionRule { gap: windows.gap, grace: windows.grace, on_close };
    let factory = session_aggregate(grouping, rule, aggregation, merger, token);
    operator_kind::<(K, V), (SessionWindowed<K>, Change<A>)>(factory)
}

/// The table in a store of sessions.
pub(super) fn session_windowed_table<K, A>(
    plan: &PlanRef,
    node: PlanId,
    token: StoreToken<SessionStore<K, A>>,
    queryable: Option<String>,
) -> KTable<SessionWindowed<K>, A>
where
    K: Clone + 'static,
    A: Clone + 'static,
{
    let KeyValueSerdes { key, value } = token.serdes.clone();
    let key: SerdeRef<SessionWindowed<K>> = Arc::new(SessionWindowedSerde::new(key));
    KTable::new(plan.clone(), node, Some(key), Some(value), move || session_view(token))
        .queryable_as(queryable)
}

impl<K, V> fmt::Debug for SessionWindowedKStream<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SessionWindowedKStream").field(&self.grouped).finish()
    }
}
