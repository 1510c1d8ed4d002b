//! `deduplicate`: of records that say the same, one goes on.

use super::options::Deduplicated;
use super::plan::{PlanKind, prefix};
use super::stream::KStream;
use super::windows::{millis, ms};
use crate::error::BoxError;
use crate::operators::{Deduplication, deduplicate};
use crate::serde::DefaultSerde;
use crate::state::Stores;
use crate::topology::{Role, operator_kind};

impl<K: Clone + 'static, V: Clone + 'static> KStream<K, V> {
    /// Lets the first record of each id pass and drops the others of the same id, if their timestamps are at most as far apart as
    /// [`Deduplicated`] says. What counts is the record that passed: of records each 40 minutes after the last, within an hour every
    /// second one passes.
    ///
    /// - A record without an id (one that the id's serde takes for null) passes.
    /// - A record that is further behind the stream time than the grace is dropped with a warning: nobody knows any more.
    /// - Records of one id have to be in one partition, as those of one key are; a stream whose key was changed needs
    ///   [`KStream::repartition`] first.
    /// - The ids are kept in a window store for the time and the grace together, with a changelog
    ///   `<application.id>-<name>-changelog`: nothing is forgotten by a restart, and nothing grows for ever.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// builder
    ///     .stream("payments", Consumed::<String, i64>::new())
    ///     .deduplicate(|payment, _amount| payment.clone(), Deduplicated::within(hours(1)).with_name("payments-once"))
    ///     .to("payments-once", Produced::new());
    ///
    /// let mut driver = TopologyTestDriver::new(builder.build()?)?;
    /// let mut payments = driver.input::<String, i64>("payments");
    /// for (minute, payment, amount) in [(0, "a", 5), (1, "b", 7), (40, "a", 5), (80, "a", 9)] {
    ///     payments.pipe_key_value_at(&mut driver, minute * 60_000, payment, amount)?;
    /// }
    /// assert_eq!(driver.output::<String, i64>("payments-once").read_values(&mut driver)?, [5, 7, 9]);
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    #[track_caller]
    pub fn deduplicate<I, F>(&self, identify: F, deduplicated: Deduplicated<I>) -> Self
    where
        I: Clone + 'static,
        F: Fn(&K, &V) -> I + Send + Sync + 'static,
    {
        self.try_deduplicate(move |key, value| Ok(identify(key, value)), deduplicated)
    }

    /// As [`Self::deduplicate`]; the closure may fail.
    #[track_caller]
    pub fn try_deduplicate<I, F>(&self, identify: F, deduplicated: Deduplicated<I>) -> Self
    where
        I: Clone + 'static,
        F: Fn(&K, &V) -> Result<I, BoxError> + Send + Sync + 'static,
    {
        let Deduplicated { name, id, within, grace, persistent } = deduplicated;
        let store = self.plan.store_name(name.clone(), prefix::DEDUPLICATE);
        let name = self.plan.name(name, prefix::DEDUPLICATE);
        // A window store keeps less than its retention by one.
        let retention = within.saturating_add(grace).saturating_add(millis(1));
        let token =
            Stores::window_with(&store, retention, retention, id.clone(), bool::default_serde());
        let store = if persistent { token } else { token.in_memory() };
        let rule = Deduplication { id, within: ms(within), grace: ms(grace), store };
        let kind = operator_kind::<(K, V), (K, V)>(deduplicate(rule, identify));
        let kind = PlanKind::Stateful(kind, vec![store.spec.clone()]);
        let node = self.plan.add(name, kind, vec![self.node]);
        self.plan.set_role(node, Role::Processor);
        KStream {
            plan: self.plan.clone(),
            node,
            key: self.key.clone(),
            value: self.value.clone(),
            rekeyed: self.rekeyed,
        }
    }
}
