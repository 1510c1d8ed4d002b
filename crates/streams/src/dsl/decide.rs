//! `decide`: event sourcing as one operator.

use super::grouped::KGroupedStream;
use super::options::Materialized;
use super::plan::{PlanId, PlanKind, PlanRef, prefix};
use super::stream::KStream;
use super::table::{KTable, table_token};
use crate::operators::{Decision, TableToken, decide, select_decision};
use crate::serde::SerdeRef;
use crate::topology::operator_kind;
use std::fmt;
use std::marker::PhantomData;

/// What comes of commands: events, rejections, and snapshots. See [`KGroupedStream::decide`].
#[must_use = "decisions are of use when something is made of them"]
pub struct Decisions<K: 'static, S: 'static, E, R> {
    plan: PlanRef,
    node: PlanId,
    key: Option<SerdeRef<K>>,
    /// None after a mistake that is already noted.
    token: Option<TableToken<K, S>>,
    store: Option<String>,
    types: PhantomData<fn() -> (E, R)>,
}

impl<K, S, E, R> fmt::Debug for Decisions<K, S, E, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Decisions").field(&self.plan.node_name(self.node)).finish()
    }
}

impl<K: Clone + 'static, C: Clone + 'static> KGroupedStream<K, C> {
    /// Event sourcing: checks each command of a key against the latest snapshot and turns it into events, which make the next
    /// snapshot. `handle` gives the events of a command, or rejects it; `apply` gives the snapshot after an event, `None` to delete
    /// it. The next command of the key sees that snapshot, however fast it comes.
    ///
    /// - All events of a command are applied and stored before the first of them goes on. An empty list changes nothing; neither does
    ///   a rejection.
    /// - Events and rejections have the time and the headers of their command; a snapshot has the latest time of its commands.
    /// - Commands with a null key or value are dropped with a warning. There is no "too late".
    /// - Snapshots are stored under the name given to [`Materialized`], with a changelog `<application.id>-<name>-changelog`, and
    ///   never cached. A changed key is repartitioned first, as for an aggregation.
    /// - With `exactly_once_v2` an event is written once, in one transaction with its snapshot and its command's offset. With
    ///   at-least-once a crash can repeat events, with the same content.
    ///
    /// Joining commands with a table made of the events (the way without this operator) does not work: events reach the table
    /// through a topic, so that several commands see the same old snapshot ([`crate::topology::Topology::lint`] tells).
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// let decisions = builder
    ///     .stream("withdrawals", Consumed::<String, i64>::new())
    ///     .group_by_key(Grouped::new())
    ///     .decide(
    ///         |balance: Option<&i64>, amount: &i64| match balance.copied().unwrap_or(100) {
    ///             balance if balance >= *amount => Ok(vec![-amount]),
    ///             balance => Err(format!("{amount} of {balance}")),
    ///         },
    ///         |balance: Option<i64>, change: &i64| Some(balance.unwrap_or(100) + change),
    ///         Materialized::named("balances"),
    ///     );
    /// decisions.events().to("changes", Produced::<String, i64>::new());
    /// decisions.rejections().to("rejected", Produced::<String, String>::new());
    ///
    /// let mut driver = TopologyTestDriver::new(builder.build()?)?;
    /// let mut withdrawals = driver.input::<String, i64>("withdrawals");
    /// for amount in [70, 70, 30] {
    ///     withdrawals.pipe_key_value_at(&mut driver, 0, "ann", amount)?;
    /// }
    /// assert_eq!(driver.output::<String, i64>("changes").read_values(&mut driver)?, [-70, -30]);
    /// assert_eq!(driver.output::<String, String>("rejected").read_values(&mut driver)?, ["70 of 30"]);
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    #[track_caller]
    pub fn decide<S, E, R, H, A>(
        &self,
        handle: H,
        apply: A,
        materialized: Materialized<K, S>,
    ) -> Decisions<K, S, E, R>
    where
        S: Clone + 'static,
        E: Clone + 'static,
        R: Clone + 'static,
        H: Fn(Option<&S>, &C) -> Result<Vec<E>, R> + Send + Sync + 'static,
        A: Fn(Option<S>, &E) -> Option<S> + Send + Sync + 'static,
    {
        let plan = self.plan.clone();
        let materialized = materialized.caching_disabled();
        let store = plan.store_name(materialized.name.clone(), prefix::DECIDE);
        let name = plan.name(materialized.node.clone(), prefix::DECIDE);
        let grouping = self.grouping();
        let key = grouping.as_ref().map(|grouping| grouping.key.clone());
        let token = table_token(&plan, &store, &materialized, (key.as_ref(), None));
        let types = PhantomData;
        let (Some(grouping), Some(token)) = (grouping, token) else {
            return Decisions { plan, node: self.node, key, token: None, store: None, types };
        };
        let parent = self.repartitioned(&store, &grouping.key, &grouping.value);
        let factory = decide(grouping, (handle, apply), token);
        let kind = operator_kind::<(K, C), (K, Decision<S, E, R>)>(factory);
        let kind = PlanKind::Stateful(kind, vec![token.spec().clone()]);
        let node = plan.add(name, kind, vec![parent]);
        Decisions { plan, node, key, token: Some(token), store: materialized.name, types }
    }
}

impl<K, S, E, R> Decisions<K, S, E, R>
where
    K: Clone + 'static,
    S: Clone + 'static,
    E: Clone + 'static,
    R: Clone + 'static,
{
    /// The events, in their order. The stream carries the key's serde.
    #[track_caller]
    pub fn events(&self) -> KStream<K, E> {
        self.stream(prefix::EVENTS, |decision| match decision {
            Decision::Event(event) => Some(event),
            _ => None,
        })
    }

    /// Why commands were rejected.
    #[track_caller]
    pub fn rejections(&self) -> KStream<K, R> {
        self.stream(prefix::REJECTIONS, |decision| match decision {
            Decision::Rejection(rejection) => Some(rejection),
            _ => None,
        })
    }

    /// The snapshots as a table: one change a command that had events.
    #[track_caller]
    pub fn snapshots(&self) -> KTable<K, S> {
        let node = self.select(prefix::SNAPSHOTS, |decision| match decision {
            Decision::Snapshot(change) => Some(change),
            _ => None,
        });
        match self.token {
            Some(token) => KTable::stored(self.plan.clone(), node, token, self.store.clone()),
            None => KTable::void(self.plan.clone(), node),
        }
    }

    #[track_caller]
    fn stream<V: Clone + 'static>(
        &self,
        prefix: &str,
        select: fn(Decision<S, E, R>) -> Option<V>,
    ) -> KStream<K, V> {
        let node = self.select(prefix, select);
        KStream::new(self.plan.clone(), node, self.key.clone(), None)
    }

    #[track_caller]
    fn select<V: Clone + 'static>(
        &self,
        prefix: &str,
        select: fn(Decision<S, E, R>) -> Option<V>,
    ) -> PlanId {
        let name = self.plan.name(None, prefix);
        let factory = select_decision::<V, K, S, E, R>(select);
        let kind = operator_kind::<(K, Decision<S, E, R>), (K, V)>(factory);
        self.plan.add(name, PlanKind::Node(kind), vec![self.node])
    }
}
