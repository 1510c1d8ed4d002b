//! The Processor API: user code that sees every record, keeps state, and decides where results go.

mod application;
mod context;
mod failures;
mod fixed_key;
mod progress;
mod punctuation;
mod store_update;
mod supplier;
mod value_transformer;
mod walk;

use crate::error::BoxError;
use crate::record::Record;

pub(crate) use self::application::Application;
pub use self::context::{Context, InitContext, TaskId};
pub(crate) use self::context::{RecordContext, TaskContext};
pub(crate) use self::failures::{Failure, RawRecord, RawSource, Refusal, Settled, Unwritten};
pub use self::fixed_key::{FixedKey, FixedKeyContext, FixedKeyProcessor, FixedKeyRecord};
pub(crate) use self::punctuation::Punctuate;
pub use self::punctuation::{Cancellable, PunctuationType};
pub(crate) use self::store_update::StoreUpdate;
pub(crate) use self::supplier::{ProcessorSupplier, build as build_processor};
pub use self::value_transformer::{ValueContext, ValueTransformer};
pub use self::walk::Chunk;
pub(crate) use self::walk::Elapsed;

/// What [`Processor::process`] returns; `?` takes any error into it.
pub type ProcessResult = Result<(), BoxError>;

/// A pair of types, the key's and the value's: `(K, V)`.
pub trait KeyValue: 'static {
    /// The key's type.
    type Key: Clone + 'static;
    /// The value's type.
    type Value: Clone + 'static;
}

impl<K: Clone + 'static, V: Clone + 'static> KeyValue for (K, V) {
    type Key = K;
    type Value = V;
}

/// The key type of a pair.
pub type KeyOf<P> = <P as KeyValue>::Key;

/// The value type of a pair.
pub type ValueOf<P> = <P as KeyValue>::Value;

/// The record type of a pair.
pub type RecordOf<P> = Record<KeyOf<P>, ValueOf<P>>;

/// User code that takes records one by one. Each task has an instance of its own, so fields are the task's own state.
///
/// ```
/// use kstreams::prelude::*;
///
/// /// Forwards a value only when it differs from the last one of its key.
/// struct Changes {
///     last: KeyValueStore<String, String>,
/// }
///
/// impl Processor for Changes {
///     type In = (String, String);
///     type Out = (String, String);
///
///     fn process(&mut self, record: Record<String, String>, ctx: &mut Context<Self>) -> ProcessResult {
///         if self.last.get(&record.key)?.as_ref() == Some(&record.value) {
///             return Ok(());
///         }
///         self.last.put(&record.key, Some(&record.value))?;
///         ctx.forward(record)
///     }
/// }
///
/// let last = Stores::key_value::<String, String>("last");
/// let builder = StreamsBuilder::new();
/// builder
///     .stream("states", Consumed::<String, String>::new())
///     .process(move |ctx| Ok(Changes { last: ctx.store(&last)? }), Processed::named("changes").store(&last))
///     .to("changes", Produced::new());
/// builder.build()?;
/// # Ok::<(), kstreams::Error>(())
/// ```
pub trait Processor: 'static {
    /// The key and value that come in.
    type In: KeyValue;
    /// The key and value that go out; `((), ())` for none.
    type Out: KeyValue;

    /// Called once, when the nodes below are there, before the first record.
    ///
    /// # Errors
    /// An error stops the task; the application treats it like one of [`Processor::process`].
    fn init(&mut self, _ctx: &mut Context<'_, Self>) -> ProcessResult {
        Ok(())
    }

    /// Takes one record.
    ///
    /// # Errors
    /// An error, or a panic, is for the processing handler ([`crate::handlers`]); by default it stops the application, when everything
    /// before the record is committed.
    fn process(&mut self, record: RecordOf<Self::In>, ctx: &mut Context<'_, Self>)
    -> ProcessResult;

    /// Called once, when the task is closed cleanly.
    fn close(&mut self) {}
}
