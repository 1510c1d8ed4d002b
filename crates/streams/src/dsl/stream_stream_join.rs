//! The joins of two streams.

use super::options::StreamJoined;
use super::plan::{PlanId, PlanKind, PlanRef, SelfJoinPlan, prefix};
use super::stream::KStream;
use super::windows::JoinWindows;
use crate::error::BoxError;
use crate::operators::{
    JoinRule, Left, Right, StreamJoin, StreamJoiner, join_window, pass, stream_self_join,
    stream_stream_join,
};
use crate::serde::SerdeRef;
use crate::state::{
    JoinListStore, KeyValueSerdes, StoreFormat, StoreKind, StoreSpec, StoreToken, WindowStore,
};
use crate::topology::erased::same;
use crate::topology::operator_kind;
use std::sync::Arc;

/// Which records are results without a partner.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outer {
    None,
    Left,
    Both,
}

/// The serdes of a join.
struct Serdes<K, L, R> {
    key: SerdeRef<K>,
    left: SerdeRef<L>,
    right: SerdeRef<R>,
}

/// The stores of a join.
struct JoinStores<K: 'static, L: 'static, R: 'static> {
    this: StoreToken<WindowStore<K, L>>,
    other: StoreToken<WindowStore<K, R>>,
    waiting: Option<StoreToken<JoinListStore<K, L, R>>>,
}

impl<K: Clone + 'static, V: Clone + 'static> KStream<K, V> {
    /// Joins each record with the records of `other` under the same key that are near in time ([`JoinWindows`]): one result a pair,
    /// with the later time of the two. Records with a null key or value are dropped.
    ///
    /// A record whose window and grace stream time has passed is late: it is dropped with a warning, and counted. Stream time is the
    /// highest time of both streams; it is committed with the offsets.
    ///
    /// Both streams are stored for window and grace, with changelogs (see [`StreamJoined`]); streams whose key was changed are
    /// repartitioned first, through `<application.id>-<name>-left-repartition` and `-right-repartition`. Both have to have the
    /// same number of partitions.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// let orders = builder.stream("orders", Consumed::<String, String>::new());
    /// let payments = builder.stream("payments", Consumed::<String, i64>::new());
    /// orders
    ///     .join(
    ///         &payments,
    ///         |order, amount| format!("{order} paid with {amount}"),
    ///         JoinWindows::of(hours(1)).grace(minutes(5)),
    ///         StreamJoined::named("paid"),
    ///     )
    ///     .to("paid", Produced::new());
    ///
    /// let mut driver = TopologyTestDriver::new(builder.build()?)?;
    /// driver.input::<String, String>("orders").pipe_key_value_at(&mut driver, 0, "7", "tea")?;
    /// driver.input::<String, i64>("payments").pipe_key_value_at(&mut driver, 9, "7", 12)?;
    /// let mut paid = driver.output::<String, String>("paid");
    /// assert_eq!(paid.read_values(&mut driver)?, ["tea paid with 12"]);
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    #[track_caller]
    pub fn join<W, O, F>(
        &self,
        other: &KStream<K, W>,
        joiner: F,
        windows: JoinWindows,
        joined: StreamJoined<K, V, W>,
    ) -> KStream<K, O>
    where
        W: Clone + 'static,
        O: Clone + 'static,
        F: Fn(&V, &W) -> O + Send + Sync + 'static,
    {
        self.join_with_key(other, move |_, left, right| joiner(left, right), windows, joined)
    }

    /// As [`Self::join`], looking at the key as well.
    #[track_caller]
    pub fn join_with_key<W, O, F>(
        &self,
        other: &KStream<K, W>,
        joiner: F,
        windows: JoinWindows,
        joined: StreamJoined<K, V, W>,
    ) -> KStream<K, O>
    where
        W: Clone + 'static,
        O: Clone + 'static,
        F: Fn(&K, &V, &W) -> O + Send + Sync + 'static,
    {
        let joiner = move |key: &K, left: &V, right: &W| Ok(joiner(key, left, right));
        self.try_join_with_key(other, joiner, windows, joined)
    }

    /// As [`Self::join_with_key`]; the closure may fail.
    #[track_caller]
    pub fn try_join_with_key<W, O, F>(
        &self,
        other: &KStream<K, W>,
        joiner: F,
        windows: JoinWindows,
        joined: StreamJoined<K, V, W>,
    ) -> KStream<K, O>
    where
        W: Clone + 'static,
        O: Clone + 'static,
        F: Fn(&K, &V, &W) -> Result<O, BoxError> + Send + Sync + 'static,
    {
        let joiner = move |key: &K, left: Option<&V>, right: Option<&W>| match (left, right) {
            (Some(left), Some(right)) => joiner(key, left, right),
            _ => Err("an inner join has no result without a partner".into()),
        };
        self.joined(other, Arc::new(joiner), windows, joined, Outer::None)
    }

    /// As [`Self::join`], but a record of this stream that finds no partner is a result too, with `None` in its place and its
    /// own time and headers: once stream time has passed its window and the grace. A record of this stream with a null key has no
    /// partner and is a result at once; one with a null value is dropped.
    ///
    /// For each record of this stream there are either results with partners or one without, and never both.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// let orders = builder.stream("orders", Consumed::<String, String>::new());
    /// let payments = builder.stream("payments", Consumed::<String, i64>::new());
    /// let open = |order: &String, amount: Option<&i64>| format!("{order}: {amount:?}");
    /// orders
    ///     .left_join(&payments, open, JoinWindows::of(hours(1)), StreamJoined::new())
    ///     .to("open", Produced::new());
    /// builder.build()?;
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    #[track_caller]
    pub fn left_join<W, O, F>(
        &self,
        other: &KStream<K, W>,
        joiner: F,
        windows: JoinWindows,
        joined: StreamJoined<K, V, W>,
    ) -> KStream<K, O>
    where
        W: Clone + 'static,
        O: Clone + 'static,
        F: Fn(&V, Option<&W>) -> O + Send + Sync + 'static,
    {
        let joiner = move |_: &K, left: &V, right: Option<&W>| Ok(joiner(left, right));
        self.try_left_join_with_key(other, joiner, windows, joined)
    }

    /// As [`Self::left_join`], looking at the key as well; the closure may fail.
    #[track_caller]
    pub fn try_left_join_with_key<W, O, F>(
        &self,
        other: &KStream<K, W>,
        joiner: F,
        windows: JoinWindows,
        joined: StreamJoined<K, V, W>,
    ) -> KStream<K, O>
    where
        W: Clone + 'static,
        O: Clone + 'static,
        F: Fn(&K, &V, Option<&W>) -> Result<O, BoxError> + Send + Sync + 'static,
    {
        let joiner = move |key: &K, left: Option<&V>, right: Option<&W>| match left {
            Some(left) => joiner(key, left, right),
            None => Err("a left join has no result without a left record".into()),
        };
        self.joined(other, Arc::new(joiner), windows, joined, Outer::Left)
    }

    /// As [`Self::left_join`] in both directions: records of either stream that find no partner are results too.
    #[track_caller]
    pub fn outer_join<W, O, F>(
        &self,
        other: &KStream<K, W>,
        joiner: F,
        windows: JoinWindows,
        joined: StreamJoined<K, V, W>,
    ) -> KStream<K, O>
    where
        W: Clone + 'static,
        O: Clone + 'static,
        F: Fn(Option<&V>, Option<&W>) -> O + Send + Sync + 'static,
    {
        let joiner = move |_: &K, left: Option<&V>, right: Option<&W>| Ok(joiner(left, right));
        self.try_outer_join_with_key(other, joiner, windows, joined)
    }

    /// As [`Self::outer_join`], looking at the key as well; the closure may fail.
    #[track_caller]
    pub fn try_outer_join_with_key<W, O, F>(
        &self,
        other: &KStream<K, W>,
        joiner: F,
        windows: JoinWindows,
        joined: StreamJoined<K, V, W>,
    ) -> KStream<K, O>
    where
        W: Clone + 'static,
        O: Clone + 'static,
        F: Fn(&K, Option<&V>, Option<&W>) -> Result<O, BoxError> + Send + Sync + 'static,
    {
        self.joined(other, Arc::new(joiner), windows, joined, Outer::Both)
    }

    #[track_caller]
    fn joined<W, O>(
        &self,
        other: &KStream<K, W>,
        joiner: StreamJoiner<K, V, W, O>,
        windows: JoinWindows,
        joined: StreamJoined<K, V, W>,
        outer: Outer,
    ) -> KStream<K, O>
    where
        W: Clone + 'static,
        O: Clone + 'static,
    {
        let plan = &self.plan;
        plan.fail_if(windows.mistake());
        let Some(serdes) = self.serdes_for(other, &joined) else {
            return KStream::new(plan.clone(), self.node, None, None);
        };
        let join = Join { plan: plan.clone(), windows, outer, joined };
        let (this, that) = (
            join.repartitioned(self, "-left", (&serdes.key, &serdes.left)),
            join.repartitioned(other, "-right", (&serdes.key, &serdes.right)),
        );
        plan.copartition(&[this, that], "the streams of a join");
        let node = join.add(this, that, &serdes, joiner);
        KStream::new(plan.clone(), node, Some(serdes.key), None)
    }

    #[track_caller]
    fn serdes_for<W>(
        &self,
        other: &KStream<K, W>,
        joined: &StreamJoined<K, V, W>,
    ) -> Option<Serdes<K, V, W>> {
        let key = joined.key.resolve(self.key.as_ref().or(other.key.as_ref()));
        let left = joined.value.resolve(self.value.as_ref());
        let right = joined.other.resolve(other.value.as_ref());
        let (Some(key), Some(left), Some(right)) = (key, left, right) else {
            self.plan.fail_without_serdes("the join of two streams");
            return None;
        };
        Some(Serdes { key, left, right })
    }
}

/// A join on its way into the plan.
struct Join<K, V, W> {
    plan: PlanRef,
    windows: JoinWindows,
    outer: Outer,
    joined: StreamJoined<K, V, W>,
}

/// The names of a join's nodes and stores.
struct JoinNames {
    this_windowed: String,
    other_windowed: String,
    this_join: String,
    other_join: String,
    merge: String,
    this_store: String,
    other_store: String,
    waiting_store: String,
}

impl<K: Clone + 'static, V: Clone + 'static, W: Clone + 'static> Join<K, V, W> {
    /// The node of a stream below which its records are partitioned by their key.
    #[track_caller]
    fn repartitioned<T: Clone + 'static>(
        &self,
        stream: &KStream<K, T>,
        suffix: &str,
        (key, value): (&SerdeRef<K>, &SerdeRef<T>),
    ) -> PlanId {
        if !stream.rekeyed {
            return stream.node;
        }
        let given = self.joined.name.as_ref().map(|name| format!("{name}{suffix}"));
        self.plan.repartition_for_join(stream.node, given.as_deref(), key, value)
    }

    fn names(&self) -> JoinNames {
        let (plan, name) = (&self.plan, self.joined.name.as_deref());
        let suffixed = |suffix: &str| name.map(|name| format!("{name}{suffix}"));
        let (left, right) = (self.outer != Outer::None, self.outer == Outer::Both);
        let this_suffix = if right { "-outer-this-join" } else { "-this-join" };
        let other_suffix = if left { "-outer-other-join" } else { "-other-join" };
        let this_windowed = plan.name(suffixed("-this-windowed"), prefix::WINDOWED);
        let other_windowed = plan.name(suffixed("-other-windowed"), prefix::WINDOWED);
        let this = if right { prefix::OUTER_THIS } else { prefix::JOIN_THIS };
        let other = if left { prefix::OUTER_OTHER } else { prefix::JOIN_OTHER };
        let (this, other) = (plan.name(None, this), plan.name(None, other));
        let merge = plan.name(suffixed("-merge"), prefix::MERGE);
        let stored = |suffix: &str, generated: &str| match &self.joined.store_name {
            Some(name) => format!("{name}{suffix}-store"),
            None => format!("{generated}-store"),
        };
        let waiting = if right { "-outer-shared-join" } else { "-left-shared-join" };
        let shared = format!("{}{}", prefix::OUTER_SHARED, number_of(&this));
        JoinNames {
            this_windowed,
            other_windowed,
            this_store: stored(this_suffix, &this),
            other_store: stored(other_suffix, &other),
            waiting_store: stored(waiting, &shared),
            this_join: suffixed(this_suffix).unwrap_or(this),
            other_join: suffixed(other_suffix).unwrap_or(other),
            merge,
        }
    }

    fn stores(&self, names: &JoinNames, serdes: &Serdes<K, V, W>) -> JoinStores<K, V, W> {
        let (size, grace) = (self.windows.size(), self.windows.grace);
        let retention = size.saturating_add(grace);
        let kind = StoreKind::Window { retention, size, duplicates: true };
        let applied = |spec: &mut StoreSpec| {
            spec.persistent = self.joined.persistent;
            spec.logging.clone_from(&self.joined.logging);
        };
        let (key, left, right) = (serdes.key.clone(), serdes.left.clone(), serdes.right.clone());
        let this = StoreSpec::of::<K, V>(&names.this_store, kind, StoreFormat::Plain);
        let other = StoreSpec::of::<K, W>(&names.other_store, kind, StoreFormat::Plain);
        let waiting = (self.outer != Outer::None).then(|| {
            let (key, left, right) = (key.clone(), left.clone(), right.clone());
            StoreToken::join_list(&names.waiting_store, key, left, right).changed(applied)
        });
        let this = StoreToken::new(this, KeyValueSerdes { key: key.clone(), value: left });
        let other = StoreToken::new(other, KeyValueSerdes { key, value: right });
        JoinStores { this: this.changed(applied), other: other.changed(applied), waiting }
    }

    /// Adds the nodes; gives the one where both sides meet.
    #[track_caller]
    fn add<O: Clone + 'static>(
        &self,
        this: PlanId,
        that: PlanId,
        serdes: &Serdes<K, V, W>,
        joiner: StreamJoiner<K, V, W, O>,
    ) -> PlanId {
        let names = self.names();
        let stores = self.stores(&names, serdes);
        let rule = JoinRule {
            before: self.windows.before,
            after: self.windows.after,
            grace: self.windows.grace,
            outer_left: self.outer != Outer::None,
            outer_right: self.outer == Outer::Both,
        };
        let join = names.merge.clone();
        // The same stream on both sides has the same type of values.
        let self_join = same::<_, StreamJoiner<K, V, V, O>>(joiner.clone()).map(|joiner| {
            let serdes = (serdes.key.clone(), serdes.left.clone());
            let factory = stream_self_join(join.clone(), rule, serdes, stores.this, joiner);
            let kind = operator_kind::<(K, V), (K, O)>(factory);
            PlanKind::Stateful(kind, vec![stores.this.spec.clone()])
        });
        let (key, left, right) = (&serdes.key, &serdes.left, &serdes.right);
        let windowed = (names.this_windowed, this, true);
        let this_windowed = self.add_window(&join, windowed, rule, (key, left), stores.this);
        let windowed = (names.other_windowed, that, false);
        let other_windowed = self.add_window(&join, windowed, rule, (key, right), stores.other);
        let waiting = stores.waiting.as_ref().map(|token| token.spec.clone());
        let node = StreamJoin::<K, V, W, O, Left> {
            join: join.clone(),
            rule,
            key: key.clone(),
            value: left.clone(),
            other: stores.other,
            waiting: stores.waiting,
            joiner: joiner.clone(),
        };
        let kind = operator_kind::<(K, V), (K, O)>(stream_stream_join(node));
        let used = [stores.other.spec.clone()].into_iter().chain(waiting.clone()).collect();
        let this_join =
            self.plan.add(names.this_join, PlanKind::Stateful(kind, used), vec![this_windowed]);
        let node = StreamJoin::<K, V, W, O, Right> {
            join,
            rule,
            key: key.clone(),
            value: right.clone(),
            other: stores.this,
            waiting: stores.waiting,
            joiner,
        };
        let kind = operator_kind::<(K, W), (K, O)>(stream_stream_join(node));
        let used = [stores.this.spec.clone()].into_iter().chain(waiting).collect();
        let other_join =
            self.plan.add(names.other_join, PlanKind::Stateful(kind, used), vec![other_windowed]);
        let merge = PlanKind::Node(operator_kind::<(K, O), (K, O)>(pass::<K, O>()));
        let merge = self.plan.add(names.merge, merge, vec![this_join, other_join]);
        if self.outer != Outer::None {
            self.plan.want_null_keys(merge);
        } else if this == that
            && let Some(kind) = self_join
        {
            let (windowed, joins) = ([this_windowed, other_windowed], [this_join, other_join]);
            self.plan.add_self_join(SelfJoinPlan { windowed, joins, merge, kind });
        }
        merge
    }

    /// Adds the node that stores the records of one side.
    #[track_caller]
    fn add_window<T: Clone + 'static>(
        &self,
        join: &str,
        (name, parent, is_left): (String, PlanId, bool),
        rule: JoinRule,
        (key, value): (&SerdeRef<K>, &SerdeRef<T>),
        token: StoreToken<WindowStore<K, T>>,
    ) -> PlanId {
        let serdes = (key.clone(), value.clone());
        let window = join_window(join.to_string(), is_left, rule, serdes, token);
        let kind = operator_kind::<(K, T), (K, T)>(window);
        self.plan.add(name, PlanKind::Stateful(kind, vec![token.spec.clone()]), vec![parent])
    }
}

/// `0000000007` of a generated name.
fn number_of(generated: &str) -> &str {
    generated.rsplit('-').next().unwrap_or_default()
}
