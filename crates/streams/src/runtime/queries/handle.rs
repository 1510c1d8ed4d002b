//! What an application's handle answers about its stores.

use super::{
    KeyOwner, LocalStores, StateQuery, StateQueryRequest, StateQueryResult, StreamsMetadata,
    ThreadMetadata,
};
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::KafkaStreams;
use crate::state::{Queryable, Source, StoreToken};
use std::sync::Arc;

impl KafkaStreams {
    /// A store, to be read from any thread: what its partitions on this instance have committed. The token is the one that the
    /// topology uses, or one with the same name, kind and types; the store of a table is read with a token of
    /// [`Stores::timestamped_key_value`], or of [`Stores::key_value`] if the timestamps do not matter.
    ///
    /// The handle can be cloned, kept, and shared. It never blocks processing and is never blocked by it.
    ///
    /// ```no_run
    /// use kstreams::prelude::*;
    ///
    /// # fn main() -> Result<()> {
    /// let builder = StreamsBuilder::new();
    /// builder
    ///     .stream("lines", Consumed::values::<String>())
    ///     .flat_map_values(|line| line.split_whitespace().map(str::to_string).collect::<Vec<_>>())
    ///     .group_by(|_, word| word.clone(), Grouped::new())
    ///     .count(Materialized::named("word-counts"));
    /// let app = KafkaStreams::start(builder.build()?, StreamsConfig::new("counts", "localhost:9092"))?;
    ///
    /// let counts = app.store(&Stores::key_value::<String, i64>("word-counts"))?;
    /// println!("kafka: {:?}", counts.get(&"kafka".to_string())?);
    /// for entry in counts.range("a".to_string().."c".to_string())? {
    ///     let (word, count) = entry?;
    ///     println!("{word}: {count}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`Stores::timestamped_key_value`]: crate::state::Stores::timestamped_key_value
    /// [`Stores::key_value`]: crate::state::Stores::key_value
    ///
    /// # Errors
    /// [`ErrorKind::UnknownStore`] when the topology has no such store; [`ErrorKind::InvalidTopology`] when it is of another kind or
    /// has other types.
    pub fn store<S: Queryable>(&self, token: &StoreToken<S>) -> Result<S::ReadOnly> {
        S::read_only(token, Source(Arc::new(self.local(token)?)))
    }

    /// Asks the partitions of a store on this instance, each for itself, with conditions that the answers have to fulfil.
    ///
    /// ```no_run
    /// use kstreams::prelude::*;
    /// use kstreams::runtime::{KeyQuery, Position, StateQueryRequest};
    ///
    /// # fn ask(app: &KafkaStreams) -> Result<()> {
    /// let counts = Stores::key_value::<String, i64>("word-counts");
    /// let request = StateQueryRequest::in_store(&counts)
    ///     .with_query(KeyQuery::with_key("kafka".to_string()))
    ///     .with_position_bound(Position::of("lines", 0, 41));
    /// for (partition, answer) in app.query(&request)?.into_partition_results() {
    ///     println!("{partition}, at {:?}: {:?}", answer.position().clone(), answer.result()?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Self::store`], and [`ErrorKind::Stopped`]. That a partition cannot answer is a matter of its own result.
    pub fn query<S: Queryable, Q: StateQuery<S>>(
        &self,
        request: &StateQueryRequest<S, Q>,
    ) -> Result<StateQueryResult<Q::Result>> {
        self.local(&request.token)?.ask(request)
    }

    /// Which instance has a key, by Java's default partitioning; for keys that are spread by a rule of their own see
    /// [`Self::partition_owner`].
    ///
    /// # Errors
    /// As [`Self::store`], [`ErrorKind::Stopped`], and [`ErrorKind::Starting`] before the number of partitions is known.
    pub fn key_owner<S: Queryable>(
        &self,
        token: &StoreToken<S>,
        key: impl Into<S::Key>,
    ) -> Result<KeyOwner> {
        let topic = crate::topology::changelog_name(&self.queries.application_id, token.name());
        let key = S::key_bytes(token, topic, &key.into())?;
        self.local(token)?.key_owner(&key)
    }

    /// Which instance has a partition of a store.
    ///
    /// # Errors
    /// As [`Self::key_owner`].
    pub fn partition_owner<S: Queryable>(
        &self,
        token: &StoreToken<S>,
        partition: i32,
    ) -> Result<KeyOwner> {
        self.local(token)?.partition_owner(partition)
    }

    /// The instances of the application that tell where they are (`application.server`), this one among them, as the group knew them
    /// at the last heartbeat.
    pub fn all_metadata(&self) -> Vec<StreamsMetadata> {
        self.queries.all_metadata()
    }

    /// Those that have partitions of a store.
    pub fn metadata_for_store(&self, store: &str) -> Vec<StreamsMetadata> {
        let all = self.queries.all_metadata().into_iter();
        all.filter(|host| host.stores.contains(store)).collect()
    }

    /// The stream threads of this instance and their tasks.
    pub fn thread_metadata(&self) -> Vec<ThreadMetadata> {
        self.queries.threads()
    }

    fn local<S: Queryable>(&self, token: &StoreToken<S>) -> Result<LocalStores> {
        let (queries, shared) = (self.queries.clone(), self.shared.clone());
        let globals = self.globals.clone();
        let graph = self.topology.graph();
        if graph.globals.iter().any(|global| *global.name == *token.name()) {
            if !S::IS_GLOBAL {
                let name = token.name();
                let message =
                    format!("store {name} is global: ask for it with a token of Stores::global");
                return Err(Error::new(ErrorKind::InvalidTopology, message));
            }
            let spec = token.spec.clone();
            return Ok(LocalStores { queries, shared, globals, spec, subtopology: None });
        }
        let found = queries.find(token.name());
        let (spec, subtopology) = found.ok_or_else(|| queries.unknown(token.name()))?;
        let (spec, subtopology) = (spec.clone(), Some(subtopology));
        Ok(LocalStores { queries, shared, globals, spec, subtopology })
    }
}
