//! Handlers: what happens to records that cannot be read, processed or written, and to what is told of them.
//!
//! A handler is asked once for each failure, on the stream thread, with an [`ErrorContext`]. It leaves the record out
//! (`resume`) or stops the task (`fail`), and in both cases it may add [`DeadLetter`]s. Those of a record that is left out are
//! written by the task's own producer and committed with the record's offset: with `exactly_once_v2` a committed reader sees
//! each of them once. What is not the fault of user code or of a record (a store that fails, a broker that is gone) is nobody's
//! to leave out: no handler is asked.
//!
//! | setting | handler | default |
//! |---|---|---|
//! | `deserialization.exception.handler` | [`DeserializationHandler`]: a record that cannot be read | [`LogAndFail`] |
//! | `processing.exception.handler` | [`ProcessingHandler`]: user code that fails or panics | [`LogAndFail`] |
//! | `production.exception.handler` | [`ProductionHandler`]: a record that cannot be written | [`LogAndFail`] |

mod context;
mod dead_letter;
mod deserialization;
mod policy;
mod processing;
mod production;
mod response;

pub use self::context::ErrorContext;
pub use self::dead_letter::DeadLetter;
pub use self::deserialization::{BadRecord, DeserializationHandler};
pub(crate) use self::policy::ErrorPolicy;
pub use self::policy::{LogAndContinue, LogAndFail};
pub use self::processing::ProcessingHandler;
pub use self::production::{FailedWrite, ProductionHandler, WriteProblem};
pub(crate) use self::response::Choice;
pub use self::response::{HandlerResponse, ProductionResponse};
