//! Streams grouped by key and time window, on their way to a windowed table.

use super::aggregations::{counting, folding, reducing};
use super::grouped::KGroupedStream;
use super::options::{EmitStrategy, Materialized};
use super::plan::{OldValues, PlanId, PlanKind, PlanRef, TableFacts, WindowClosing, prefix};
use super::table::KTable;
use super::windows::{SlidingWindows, Windows};
use crate::error::BoxError;
use crate::operators::{
    Aggregation, Change, Grouping, SlidingRule, WindowRule, sliding_window_aggregate,
    window_aggregate, window_view,
};
use crate::serde::{SerdeRef, TimeWindowedSerde};
use crate::state::{
    KeyValueSerdes, StoreFormat, StoreKind, StoreSpec, StoreToken, TimestampedWindowStore,
};
use crate::topology::{NodeKind, operator_kind};
use crate::windowed::TimeWindowed;
use std::fmt;
use std::sync::Arc;

/// What `windowed_by` makes of a grouped stream.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no kind of windows",
    label = "not windows",
    note = "use TimeWindows, SlidingWindows, SessionWindows or UnlimitedWindows, or implement `kstreams::dsl::Windows`"
)]
pub trait WindowedBy<K, V> {
    /// The windowed stream.
    type Windowed;

    #[doc(hidden)]
    fn windowed(self, grouped: &KGroupedStream<K, V>) -> Self::Windowed;
}

#[diagnostic::do_not_recommend]
impl<K, V, W: Windows> WindowedBy<K, V> for W {
    type Windowed = TimeWindowedKStream<K, V>;

    #[track_caller]
    fn windowed(self, grouped: &KGroupedStream<K, V>) -> Self::Windowed {
        grouped.plan.fail_if(self.mistake());
        TimeWindowedKStream::new(grouped, TimeWindowing::Fixed(Arc::new(self)))
    }
}

impl<K, V> WindowedBy<K, V> for SlidingWindows {
    type Windowed = TimeWindowedKStream<K, V>;

    #[track_caller]
    fn windowed(self, grouped: &KGroupedStream<K, V>) -> Self::Windowed {
        grouped.plan.fail_if(self.mistake());
        TimeWindowedKStream::new(grouped, TimeWindowing::Sliding(self))
    }
}

/// The kinds of time windows.
#[derive(Clone)]
pub(super) enum TimeWindowing {
    Fixed(Arc<dyn Windows>),
    Sliding(SlidingWindows),
}

impl TimeWindowing {
    /// From start to end.
    pub(super) fn size(&self) -> i64 {
        match self {
            TimeWindowing::Fixed(windows) => windows.size(),
            TimeWindowing::Sliding(windows) => windows.difference,
        }
    }

    pub(super) fn closing(&self) -> WindowClosing {
        match self {
            TimeWindowing::Fixed(windows) => {
                WindowClosing { grace: windows.grace(), with_end: false }
            }
            TimeWindowing::Sliding(windows) => {
                WindowClosing { grace: windows.grace, with_end: true }
            }
        }
    }

    /// How long a window has to be kept.
    fn retention(&self) -> i64 {
        match self {
            TimeWindowing::Fixed(windows) => windows.size().saturating_add(windows.grace()),
            TimeWindowing::Sliding(windows) => {
                windows.difference.saturating_mul(2).saturating_add(windows.grace)
            }
        }
    }

    /// The store of such windows.
    #[track_caller]
    pub(super) fn store<K: 'static, A: 'static>(
        &self,
        plan: &PlanRef,
        name: &str,
        materialized: &Materialized<K, A>,
        serdes: KeyValueSerdes<K, A>,
    ) -> StoreToken<TimestampedWindowStore<K, A>> {
        let retention = kept(plan, name, materialized, self.retention());
        let kind = StoreKind::Window { retention, size: self.size(), duplicates: false };
        let spec = StoreSpec::of::<TimeWindowed<K>, A>(name, kind, StoreFormat::Timestamped);
        StoreToken::new(materialized.applied_to(spec), serdes)
    }

    /// The operator.
    pub(super) fn aggregate<K, V, A>(
        &self,
        grouping: Grouping<K, V>,
        aggregation: impl Aggregation<K, V, A>,
        token: StoreToken<TimestampedWindowStore<K, A>>,
        emit: EmitStrategy,
    ) -> NodeKind
    where
        K: Clone + 'static,
        V: Clone + 'static,
        A: Clone + 'static,
    {
        let on_close = emit == EmitStrategy::OnWindowClose;
        let factory = match self {
            TimeWindowing::Fixed(windows) => {
                let (size, grace) = (windows.size(), windows.grace());
                let windows = windows.clone();
                let rule = WindowRule {
                    windows_for: Arc::new(move |time, found| windows.windows_for(time, found)),
                    size,
                    grace,
                    on_close,
                };
                window_aggregate(grouping, rule, aggregation, token)
            }
            TimeWindowing::Sliding(SlidingWindows { difference, grace }) => {
                let rule = SlidingRule { difference: *difference, grace: *grace, on_close };
                sliding_window_aggregate(grouping, rule, aggregation, token)
            }
        };
        operator_kind::<(K, V), (TimeWindowed<K>, Change<A>)>(factory)
    }
}

/// The retention that is asked for, which has to be enough.
#[track_caller]
pub(super) fn kept<K, A>(
    plan: &PlanRef,
    store: &str,
    materialized: &Materialized<K, A>,
    least: i64,
) -> i64 {
    let retention = materialized.retention.unwrap_or(least);
    if retention < least {
        plan.fail(&format!(
            "store {store} keeps {retention} ms, less than the {least} ms for which its windows can change"
        ));
    }
    retention
}

/// A stream grouped by key and time window: tumbling, hopping, sliding, unlimited or a user's own. Its operators make a table of
/// [`TimeWindowed`] keys with one value a key and window.
///
/// - A null key is dropped. A null value is aggregated like any other, but dropped by sliding windows.
/// - Each record is judged for each of its windows: a window takes records until stream time has reached its end and the grace
///   (sliding windows: passed it). What comes later is dropped for that window, with a warning, and counted. Stream time is the highest
///   time that the operator has seen, over all keys of the task; it is committed with the offsets, so what was closed stays closed.
/// - The time of a result is the latest time of the records in it.
/// - The table is stored under the name that [`Materialized`] gives, with a changelog `<application.id>-<name>-changelog`, for as long
///   as a window can change (or longer, by [`Materialized::retention`]).
/// - If the key was changed before, the records first go through the topic `<application.id>-<name>-repartition`.
///
/// ```
/// use kstreams::prelude::*;
///
/// let builder = StreamsBuilder::new();
/// builder
///     .stream("clicks", Consumed::<String, String>::new())
///     .group_by_key(Grouped::new())
///     .windowed_by(TimeWindows::of(millis(10)).grace(millis(5)))
///     .count(Materialized::named("clicks-per-window"))
///     .to_stream()
///     .select_key(|window, _| window.to_string())
///     .to("counts", Produced::new());
///
/// let mut driver = TopologyTestDriver::new(builder.build()?)?;
/// let mut clicks = driver.input::<String, String>("clicks");
/// for time in [3, 8, 12, 9] {
///     clicks.pipe_key_value_at(&mut driver, time, "ann", "/")?;
/// }
/// let mut counts = driver.output::<String, Option<i64>>("counts");
/// assert_eq!(
///     counts.read_table(&mut driver)?,
///     table! { "[ann@0/10]" => Some(3), "[ann@10/20]" => Some(1) }
/// );
/// # Ok::<(), kstreams::Error>(())
/// ```
#[must_use = "a windowed stream is of use when it is aggregated"]
pub struct TimeWindowedKStream<K, V> {
    grouped: KGroupedStream<K, V>,
    windows: TimeWindowing,
    emit: EmitStrategy,
}

impl<K, V> TimeWindowedKStream<K, V> {
    fn new(grouped: &KGroupedStream<K, V>, windows: TimeWindowing) -> Self {
        let (grouped, emit) = (grouped.clone(), EmitStrategy::default());
        TimeWindowedKStream { grouped, windows, emit }
    }

    /// When results are given; default: at each change.
    #[track_caller]
    pub fn emit_strategy(mut self, emit: EmitStrategy) -> Self {
        if emit == EmitStrategy::OnWindowClose && self.windows.size() == i64::MAX {
            self.grouped.plan.fail("an unlimited window never closes: it cannot emit on close");
        }
        self.emit = emit;
        self
    }
}

impl<K: Clone + 'static, V: Clone + 'static> TimeWindowedKStream<K, V> {
    /// How many records each key and window has.
    #[track_caller]
    pub fn count(&self, materialized: Materialized<K, i64>) -> KTable<TimeWindowed<K>, i64> {
        if matches!(self.windows, TimeWindowing::Fixed(_)) {
            self.grouped.skip_store_number(&materialized);
        }
        self.aggregated(prefix::AGGREGATE, materialized, None, counting())
    }

    /// Combines the values of each key and window; the first is taken as it is.
    #[track_caller]
    pub fn reduce<F>(
        &self,
        reducer: F,
        materialized: Materialized<K, V>,
    ) -> KTable<TimeWindowed<K>, V>
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
    ) -> KTable<TimeWindowed<K>, V>
    where
        F: Fn(V, V) -> Result<V, BoxError> + Send + Sync + 'static,
    {
        let value = self.grouped.value_serde();
        self.aggregated(prefix::REDUCE, materialized, value.as_ref(), reducing(reducer))
    }

    /// Folds the values of each key and window into an aggregate that begins with `initializer`. The aggregator gives the new
    /// aggregate, or an `Option` of it: `None` deletes the window.
    #[track_caller]
    pub fn aggregate<A, R, I, F>(
        &self,
        initializer: I,
        aggregator: F,
        materialized: Materialized<K, A>,
    ) -> KTable<TimeWindowed<K>, A>
    where
        A: Clone + 'static,
        R: Into<Option<A>>,
        I: Fn() -> A + Send + Sync + 'static,
        F: Fn(&K, A, V) -> R + Send + Sync + 'static,
    {
        let aggregator = move |key: &K, aggregate, value| Ok(aggregator(key, aggregate, value));
        self.try_aggregate(initializer, aggregator, materialized)
    }

    /// As [`Self::aggregate`]; the aggregator may fail.
    #[track_caller]
    pub fn try_aggregate<A, R, I, F>(
        &self,
        initializer: I,
        aggregator: F,
        materialized: Materialized<K, A>,
    ) -> KTable<TimeWindowed<K>, A>
    where
        A: Clone + 'static,
        R: Into<Option<A>>,
        I: Fn() -> A + Send + Sync + 'static,
        F: Fn(&K, A, V) -> Result<R, BoxError> + Send + Sync + 'static,
    {
        self.aggregated(prefix::AGGREGATE, materialized, None, folding(initializer, aggregator))
    }

    #[track_caller]
    fn aggregated<A: Clone + 'static>(
        &self,
        prefix: &str,
        materialized: Materialized<K, A>,
        carried: Option<&SerdeRef<A>>,
        aggregation: impl Aggregation<K, V, A>,
    ) -> KTable<TimeWindowed<K>, A> {
        let plan = &self.grouped.plan;
        let store = plan.store_name(materialized.name.clone(), prefix);
        let name = plan.name(materialized.node.clone(), prefix);
        let Some((grouping, serdes)) = self.grouped.serdes_for(&store, &materialized, carried)
        else {
            return KTable::void(plan.clone(), self.grouped.node);
        };
        let parent = self.grouped.repartitioned(&store, &grouping.key, &grouping.value);
        let token = self.windows.store(plan, &store, &materialized, serdes);
        let kind = self.windows.aggregate(grouping, aggregation, token, self.emit);
        let facts = TableFacts::with_store(OldValues::Aggregate, token.spec.clone(), true);
        let node = plan.add_table(name, PlanKind::Table(kind, Vec::new()), vec![parent], facts);
        plan.set_closing(node, self.windows.closing());
        time_windowed_table(plan, node, (self.windows.size(), token), materialized.name)
    }
}

/// The table in a store of time windows.
pub(super) fn time_windowed_table<K, A>(
    plan: &PlanRef,
    node: PlanId,
    (size, token): (i64, StoreToken<TimestampedWindowStore<K, A>>),
    queryable: Option<String>,
) -> KTable<TimeWindowed<K>, A>
where
    K: Clone + 'static,
    A: Clone + 'static,
{
    let KeyValueSerdes { key, value } = token.serdes.clone();
    let key: SerdeRef<TimeWindowed<K>> = Arc::new(TimeWindowedSerde::of_millis(key, size));
    KTable::new(plan.clone(), node, Some(key), Some(value), move || window_view(token))
        .queryable_as(queryable)
}

impl<K, V> fmt::Debug for TimeWindowedKStream<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TimeWindowedKStream").field(&self.grouped).finish()
    }
}
