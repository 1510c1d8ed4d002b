//! Several grouped streams with one aggregate.

use super::aggregations::folding;
use super::grouped::KGroupedStream;
use super::options::{EmitStrategy, Materialized};
use super::plan::{OldValues, PlanId, PlanKind, PlanRef, TableFacts, WindowClosing, prefix};
use super::session_windowed::{merging, session_kind, session_store, session_windowed_table};
use super::table::{KTable, table_token};
use super::time_windowed::{TimeWindowing, time_windowed_table};
use super::windows::{SessionWindows, SlidingWindows, Windows};
use crate::error::BoxError;
use crate::operators::{Change, Merger, TableToken, pass, stream_aggregate};
use crate::serde::SerdeRef;
use crate::state::{KeyValueSerdes, SessionStore, StoreSpec, StoreToken, TimestampedWindowStore};
use crate::topology::{NodeKind, operator_kind};
use crate::windowed::{SessionWindowed, TimeWindowed};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

type Initializer<A> = Arc<dyn Fn() -> A + Send + Sync>;
type Aggregator<K, V, A> = Arc<dyn Fn(&K, A, V) -> Result<Option<A>, BoxError> + Send + Sync>;

/// One of the streams with its aggregator, for all the ways in which it may be aggregated.
trait Input<K: 'static, A: 'static> {
    /// The node below which the records are partitioned by their key.
    fn repartitioned(&self, store: &str) -> Option<PlanId>;

    fn aggregate(&self, init: &Initializer<A>, token: TableToken<K, A>) -> Option<NodeKind>;

    fn aggregate_in_windows(
        &self,
        init: &Initializer<A>,
        windows: &TimeWindowing,
        token: StoreToken<TimestampedWindowStore<K, A>>,
    ) -> Option<NodeKind>;

    fn aggregate_in_sessions(
        &self,
        init: &Initializer<A>,
        windows: SessionWindows,
        merger: &Merger<K, A>,
        token: StoreToken<SessionStore<K, A>>,
    ) -> Option<NodeKind>;
}

struct CogroupInput<K, V, A> {
    grouped: KGroupedStream<K, V>,
    aggregator: Aggregator<K, V, A>,
}

impl<K, V, A> CogroupInput<K, V, A>
where
    K: Clone + 'static,
    V: Clone + 'static,
    A: Clone + 'static,
{
    fn fold(
        &self,
        init: &Initializer<A>,
    ) -> impl crate::operators::Aggregation<K, V, A> + use<K, V, A> {
        let (init, aggregator) = (init.clone(), self.aggregator.clone());
        folding(move || init(), move |key: &K, all, value| aggregator(key, all, value))
    }
}

impl<K, V, A> Input<K, A> for CogroupInput<K, V, A>
where
    K: Clone + 'static,
    V: Clone + 'static,
    A: Clone + 'static,
{
    fn repartitioned(&self, store: &str) -> Option<PlanId> {
        let grouping = self.grouped.grouping()?;
        Some(self.grouped.repartitioned(store, &grouping.key, &grouping.value))
    }

    fn aggregate(&self, init: &Initializer<A>, token: TableToken<K, A>) -> Option<NodeKind> {
        let factory = stream_aggregate(self.grouped.grouping()?, self.fold(init), token);
        Some(operator_kind::<(K, V), (K, Change<A>)>(factory))
    }

    fn aggregate_in_windows(
        &self,
        init: &Initializer<A>,
        windows: &TimeWindowing,
        token: StoreToken<TimestampedWindowStore<K, A>>,
    ) -> Option<NodeKind> {
        let emit = EmitStrategy::default();
        Some(windows.aggregate(self.grouped.grouping()?, self.fold(init), token, emit))
    }

    fn aggregate_in_sessions(
        &self,
        init: &Initializer<A>,
        windows: SessionWindows,
        merger: &Merger<K, A>,
        token: StoreToken<SessionStore<K, A>>,
    ) -> Option<NodeKind> {
        let functions = (self.grouped.grouping()?, self.fold(init), merger.clone());
        Some(session_kind(windows, EmitStrategy::default(), functions, token))
    }
}

/// Several streams grouped by the same key, each with an aggregator of its own, on their way to one table. All have to have the
/// same number of partitions; those whose key was changed are repartitioned.
///
/// Null keys and values, lateness, result times and the store are as in the aggregation of one stream:
/// [`KGroupedStream`], [`super::TimeWindowedKStream`], [`super::SessionWindowedKStream`].
///
/// ```
/// use kstreams::prelude::*;
///
/// let builder = StreamsBuilder::new();
/// let sold = builder.stream("sold", Consumed::<String, i64>::new()).group_by_key(Grouped::new());
/// let bought = builder.stream("bought", Consumed::<String, i64>::new()).group_by_key(Grouped::new());
/// sold.cogroup(|_item, stock: i64, pieces| stock - pieces)
///     .cogroup(&bought, |_item, stock, pieces| stock + pieces)
///     .aggregate(|| 0, Materialized::named("stock"))
///     .to_stream()
///     .to("stock", Produced::new());
///
/// let mut driver = TopologyTestDriver::new(builder.build()?)?;
/// driver.input::<String, i64>("bought").pipe_key_value_at(&mut driver, 0, "tea", 5)?;
/// driver.input::<String, i64>("sold").pipe_key_value_at(&mut driver, 1, "tea", 2)?;
/// let mut stock = driver.output::<String, i64>("stock");
/// assert_eq!(stock.read_table(&mut driver)?, table! { "tea" => 3 });
/// # Ok::<(), kstreams::Error>(())
/// ```
#[must_use = "a cogrouped stream is of use when it is aggregated"]
pub struct CogroupedKStream<K: 'static, A: 'static> {
    plan: PlanRef,
    /// Of the first stream, to say something about after a mistake.
    node: PlanId,
    key: Option<SerdeRef<K>>,
    inputs: Vec<Rc<dyn Input<K, A>>>,
}

impl<K: 'static, A: 'static> Clone for CogroupedKStream<K, A> {
    fn clone(&self) -> Self {
        CogroupedKStream {
            plan: self.plan.clone(),
            node: self.node,
            key: self.key.clone(),
            inputs: self.inputs.clone(),
        }
    }
}

impl<K: Clone + 'static, V: Clone + 'static> KGroupedStream<K, V> {
    /// Begins an aggregate of several streams with this one. The aggregator gives the new aggregate, or an `Option` of it: `None`
    /// deletes the key.
    pub fn cogroup<A, R, F>(&self, aggregator: F) -> CogroupedKStream<K, A>
    where
        A: Clone + 'static,
        R: Into<Option<A>>,
        F: Fn(&K, A, V) -> R + Send + Sync + 'static,
    {
        let key = self.grouping().map(|grouping| grouping.key);
        let (plan, node, inputs) = (self.plan.clone(), self.node, Vec::new());
        CogroupedKStream { plan, node, key, inputs }.cogroup(self, aggregator)
    }
}

impl<K: Clone + 'static, A: Clone + 'static> CogroupedKStream<K, A> {
    /// Adds a stream with its aggregator.
    pub fn cogroup<V, R, F>(self, grouped: &KGroupedStream<K, V>, aggregator: F) -> Self
    where
        V: Clone + 'static,
        R: Into<Option<A>>,
        F: Fn(&K, A, V) -> R + Send + Sync + 'static,
    {
        self.try_cogroup(grouped, move |key: &K, all, value| Ok(aggregator(key, all, value)))
    }

    /// As [`Self::cogroup`]; the aggregator may fail.
    pub fn try_cogroup<V, R, F>(mut self, grouped: &KGroupedStream<K, V>, aggregator: F) -> Self
    where
        V: Clone + 'static,
        R: Into<Option<A>>,
        F: Fn(&K, A, V) -> Result<R, BoxError> + Send + Sync + 'static,
    {
        let aggregator = move |key: &K, all: A, value: V| Ok(aggregator(key, all, value)?.into());
        let input = CogroupInput { grouped: grouped.clone(), aggregator: Arc::new(aggregator) };
        self.inputs.push(Rc::new(input));
        self
    }

    /// The same records in windows. They are emitted at each change.
    #[track_caller]
    pub fn windowed_by<W: CogroupedBy<K, A>>(&self, windows: W) -> W::Windowed {
        windows.windowed(self)
    }

    /// Folds the values of each key into an aggregate that begins with `initializer`.
    #[track_caller]
    pub fn aggregate<I>(&self, initializer: I, materialized: Materialized<K, A>) -> KTable<K, A>
    where
        I: Fn() -> A + Send + Sync + 'static,
    {
        let plan = &self.plan;
        let store = plan.store_name(materialized.name.clone(), prefix::COGROUP_AGGREGATE);
        let carried = (self.key.as_ref(), None);
        let Some(token) = table_token(plan, &store, &materialized, carried) else {
            return KTable::void(plan.clone(), self.node);
        };
        let init: Initializer<A> = Arc::new(initializer);
        let kinds = |input: &dyn Input<K, A>| input.aggregate(&init, token);
        let spec = token.spec();
        match self.merged::<(K, Change<A>)>(materialized.node.as_deref(), spec, None, kinds) {
            Some(node) => KTable::stored(plan.clone(), node, token, materialized.name),
            None => KTable::void(plan.clone(), self.node),
        }
    }

    /// An aggregation for each stream, all on one store, and the node that brings them together.
    #[track_caller]
    fn merged<Out>(
        &self,
        name: Option<&str>,
        store: &StoreSpec,
        closing: Option<WindowClosing>,
        kind: impl Fn(&dyn Input<K, A>) -> Option<NodeKind>,
    ) -> Option<PlanId>
    where
        Out: crate::processor::KeyValue,
    {
        let plan = &self.plan;
        let parents = self.inputs.iter().map(|input| input.repartitioned(&store.name));
        let parents: Vec<PlanId> = parents.collect::<Option<_>>()?;
        let mut aggregates = Vec::new();
        for (number, (input, parent)) in self.inputs.iter().zip(&parents).enumerate() {
            let given = name.map(|name| format!("{name}-cogroup-agg-{number}"));
            let name = plan.name(given, prefix::COGROUP_AGGREGATE);
            let kind = PlanKind::Table(kind(&**input)?, vec![store.clone()]);
            let facts = TableFacts::new(OldValues::Aggregate);
            let node = plan.add_table(name, kind, vec![*parent], facts);
            if let Some(closing) = closing {
                plan.set_closing(node, closing);
            }
            aggregates.push(node);
        }
        plan.copartition(&parents, "the cogrouped streams");
        let name =
            plan.name(name.map(|name| format!("{name}-cogroup-merge")), prefix::COGROUP_MERGE);
        let merge = operator_kind::<Out, Out>(pass::<Out::Key, Out::Value>());
        let kind = PlanKind::Table(merge, Vec::new());
        Some(plan.add_table(name, kind, aggregates, TableFacts::new(OldValues::Parents)))
    }
}

/// What `windowed_by` makes of cogrouped streams.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no kind of windows",
    label = "not windows",
    note = "use TimeWindows, SlidingWindows, SessionWindows or UnlimitedWindows, or implement `kstreams::dsl::Windows`"
)]
pub trait CogroupedBy<K: 'static, A: 'static> {
    /// The windowed streams.
    type Windowed;

    #[doc(hidden)]
    fn windowed(self, cogrouped: &CogroupedKStream<K, A>) -> Self::Windowed;
}

#[diagnostic::do_not_recommend]
impl<K: 'static, A: 'static, W: Windows> CogroupedBy<K, A> for W {
    type Windowed = TimeWindowedCogroupedKStream<K, A>;

    #[track_caller]
    fn windowed(self, cogrouped: &CogroupedKStream<K, A>) -> Self::Windowed {
        cogrouped.plan.fail_if(self.mistake());
        let windows = TimeWindowing::Fixed(Arc::new(self));
        TimeWindowedCogroupedKStream { cogrouped: cogrouped.clone(), windows }
    }
}

impl<K: 'static, A: 'static> CogroupedBy<K, A> for SlidingWindows {
    type Windowed = TimeWindowedCogroupedKStream<K, A>;

    #[track_caller]
    fn windowed(self, cogrouped: &CogroupedKStream<K, A>) -> Self::Windowed {
        cogrouped.plan.fail_if(self.mistake());
        let windows = TimeWindowing::Sliding(self);
        TimeWindowedCogroupedKStream { cogrouped: cogrouped.clone(), windows }
    }
}

impl<K: 'static, A: 'static> CogroupedBy<K, A> for SessionWindows {
    type Windowed = SessionWindowedCogroupedKStream<K, A>;

    #[track_caller]
    fn windowed(self, cogrouped: &CogroupedKStream<K, A>) -> Self::Windowed {
        cogrouped.plan.fail_if(self.mistake());
        SessionWindowedCogroupedKStream { cogrouped: cogrouped.clone(), windows: self }
    }
}

/// Several streams grouped by key and time window, with one aggregate.
#[must_use = "a windowed stream is of use when it is aggregated"]
pub struct TimeWindowedCogroupedKStream<K: 'static, A: 'static> {
    cogrouped: CogroupedKStream<K, A>,
    windows: TimeWindowing,
}

impl<K: Clone + 'static, A: Clone + 'static> TimeWindowedCogroupedKStream<K, A> {
    /// Folds the values of each key and window into an aggregate that begins with `initializer`.
    #[track_caller]
    pub fn aggregate<I>(
        &self,
        initializer: I,
        materialized: Materialized<K, A>,
    ) -> KTable<TimeWindowed<K>, A>
    where
        I: Fn() -> A + Send + Sync + 'static,
    {
        let (plan, windows) = (&self.cogrouped.plan, &self.windows);
        let store = plan.store_name(materialized.name.clone(), prefix::COGROUP_AGGREGATE);
        let Some(serdes) = self.cogrouped.serdes_for(&store, &materialized) else {
            return KTable::void(plan.clone(), self.cogrouped.node);
        };
        let token = windows.store(plan, &store, &materialized, serdes);
        let init: Initializer<A> = Arc::new(initializer);
        let kinds = |input: &dyn Input<K, A>| input.aggregate_in_windows(&init, windows, token);
        let (name, closing) = (materialized.node.as_deref(), Some(windows.closing()));
        let node =
            self.cogrouped.merged::<(TimeWindowed<K>, Change<A>)>(name, token.spec, closing, kinds);
        match node {
            Some(node) => {
                time_windowed_table(plan, node, (windows.size(), token), materialized.name)
            }
            None => KTable::void(plan.clone(), self.cogrouped.node),
        }
    }
}

/// Several streams grouped by key and session, with one aggregate.
#[must_use = "a windowed stream is of use when it is aggregated"]
pub struct SessionWindowedCogroupedKStream<K: 'static, A: 'static> {
    cogrouped: CogroupedKStream<K, A>,
    windows: SessionWindows,
}

impl<K: Clone + 'static, A: Clone + 'static> SessionWindowedCogroupedKStream<K, A> {
    /// Folds the values of each session into an aggregate that begins with `initializer`; `merger` makes one of the aggregates of
    /// two sessions.
    #[track_caller]
    pub fn aggregate<I, M>(
        &self,
        initializer: I,
        merger: M,
        materialized: Materialized<K, A>,
    ) -> KTable<SessionWindowed<K>, A>
    where
        I: Fn() -> A + Send + Sync + 'static,
        M: Fn(&K, A, A) -> A + Send + Sync + 'static,
    {
        let (plan, windows) = (&self.cogrouped.plan, self.windows);
        let store = plan.store_name(materialized.name.clone(), prefix::COGROUP_AGGREGATE);
        let Some(serdes) = self.cogrouped.serdes_for(&store, &materialized) else {
            return KTable::void(plan.clone(), self.cogrouped.node);
        };
        let token = session_store(plan, &store, windows, &materialized, serdes);
        let initializer = Arc::new(initializer);
        let merger = move |key: &K, one, two| Ok(merger(key, one, two));
        let merger = merging(initializer.clone(), merger);
        let init: Initializer<A> = initializer;
        let kinds =
            |input: &dyn Input<K, A>| input.aggregate_in_sessions(&init, windows, &merger, token);
        let (name, closing) = (materialized.node.as_deref(), Some(windows.closing()));
        let node = self
            .cogrouped
            .merged::<(SessionWindowed<K>, Change<A>)>(name, token.spec, closing, kinds);
        match node {
            Some(node) => session_windowed_table(plan, node, token, materialized.name),
            None => KTable::void(plan.clone(), self.cogrouped.node),
        }
    }
}

impl<K: 'static, A: 'static> CogroupedKStream<K, A> {
    /// The serdes of the store; none after a mistake that is noted.
    #[track_caller]
    fn serdes_for(
        &self,
        store: &str,
        materialized: &Materialized<K, A>,
    ) -> Option<KeyValueSerdes<K, A>> {
        let key = materialized.key.resolve(self.key.as_ref());
        let (Some(key), Some(value)) = (key, materialized.value.resolve(None)) else {
            self.plan.fail_without_serdes(&format!("the store {store}"));
            return None;
        };
        Some(KeyValueSerdes { key, value })
    }
}

macro_rules! debug {
    ($($stream:ident),*) => {$(
        impl<K: 'static, A: 'static> fmt::Debug for $stream<K, A> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($stream))
            }
        }
    )*};
}

debug!(CogroupedKStream, TimeWindowedCogroupedKStream, SessionWindowedCogroupedKStream);
