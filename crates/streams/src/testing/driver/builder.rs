//! What a test driver can be told before it starts.

use super::TopologyTestDriver;
use crate::config::StreamsConfig;
use crate::error::Result;
use crate::topology::Topology;

/// Options of a [`TopologyTestDriver`]: made by [`TopologyTestDriver::builder`].
#[derive(Debug)]
pub struct TopologyTestDriverBuilder {
    pub(super) topology: Topology,
    pub(super) config: StreamsConfig,
    pub(super) partitions: i32,
    pub(super) wall_clock: i64,
    pub(super) commits_by_hand: bool,
}

impl TopologyTestDriverBuilder {
    pub(super) fn new(topology: Topology) -> Self {
        let config = StreamsConfig::new("test", "unused:1");
        TopologyTestDriverBuilder {
            topology,
            config,
            partitions: 1,
            wall_clock: 0,
            commits_by_hand: false,
        }
    }

    /// The settings of the application.
    #[must_use]
    pub fn config(mut self, config: &StreamsConfig) -> Self {
        self.config = config.clone();
        self
    }

    /// How many partitions every topic has, except for repartition topics that say so themselves; one, if nothing is said. There is a
    /// task for each partition of a sub-topology, and records go where their keys belong.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// builder
    ///     .stream("words", Consumed::<(), String>::new())
    ///     .group_by(|_, word| word.clone(), Grouped::new())
    ///     .count(Materialized::named("counts"))
    ///     .to_stream()
    ///     .to("counts", Produced::new());
    /// let mut driver = TopologyTestDriver::builder(builder.build()?).partitions(3).build()?;
    /// let mut words = driver.input::<(), String>("words");
    /// for word in ["to", "be", "or", "not", "to", "be"] {
    ///     words.pipe_at(&mut driver, 0, word)?;
    /// }
    /// let counts = driver.output::<String, i64>("counts").read_table(&mut driver)?;
    /// assert_eq!(counts, table! { "to" => 2, "be" => 2, "or" => 1, "not" => 1 });
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    #[must_use]
    pub fn partitions(mut self, partitions: i32) -> Self {
        self.partitions = partitions.max(1);
        self
    }

    /// What the wall clock shows at the start, in milliseconds since the epoch; 0, if nothing is said.
    #[must_use]
    pub fn wall_clock(mut self, milliseconds: i64) -> Self {
        self.wall_clock = milliseconds;
        self
    }

    /// Nothing is committed before the test says so by [`TopologyTestDriver::commit`], as between two commits of an application that
    /// runs exactly once: what is written is not in the output topics before, caches keep their changes, and
    /// [`TopologyTestDriver::crash`] undoes it all.
    ///
    /// ```
    /// use kstreams::prelude::*;
    /// use kstreams::testing::LocalState;
    ///
    /// let builder = StreamsBuilder::new();
    /// builder
    ///     .stream("words", Consumed::<String, String>::new())
    ///     .group_by_key(Grouped::new())
    ///     .count(Materialized::named("counts"))
    ///     .to_stream()
    ///     .to("counts", Produced::new());
    /// let mut driver = TopologyTestDriver::builder(builder.build()?).commits_by_hand().build()?;
    /// let mut words = driver.input::<String, String>("words");
    /// let mut counts = driver.output::<String, i64>("counts");
    /// words.pipe_key_value_at(&mut driver, 0, "a", "one")?;
    /// driver.commit()?;
    /// assert_eq!(counts.read_values(&mut driver)?, [1]);
    ///
    /// words.pipe_key_value_at(&mut driver, 1, "a", "two")?;
    /// assert!(counts.is_empty(&driver));
    /// driver.crash(LocalState::Lost)?; // restores from the changelog, and reads the second record again
    /// driver.commit()?;
    /// assert_eq!(counts.read_values(&mut driver)?, [2]);
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    #[must_use]
    pub fn commits_by_hand(mut self) -> Self {
        self.commits_by_hand = true;
        self
    }

    /// Starts the tasks.
    ///
    /// # Errors
    /// When the settings are wrong or the topology cannot be run; the text names the node.
    pub fn build(self) -> Result<TopologyTestDriver> {
        TopologyTestDriver::start(self)
    }
}
