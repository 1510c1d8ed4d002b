//! What happens to a record on which user code fails.

use super::{ErrorContext, HandlerResponse};
use crate::error::BoxError;

/// Decides about records on which user code (a closure, a processor, a punctuator) returns an error or panics.
///
/// `resume` leaves the record out at the node that failed, and there only: what its parents forwarded before stays, and so do
/// writes to stores.
///
/// ```
/// use kstreams::handlers::{ErrorContext, HandlerResponse, ProcessingHandler};
/// use kstreams::prelude::*;
///
/// /// Goes on behind what the parser refuses, and keeps it; every other failure is one of the program.
/// struct KeepUnparsed;
///
/// impl ProcessingHandler for KeepUnparsed {
///     fn handle(&self, context: &ErrorContext<'_>, error: &BoxError) -> HandlerResponse {
///         match context.operator {
///             "parse" => HandlerResponse::resume().with_dead_letters([context.dead_letter_to("unparsed", error)]),
///             _ => HandlerResponse::fail(),
///         }
///     }
/// }
///
/// let builder = StreamsBuilder::new();
/// builder
///     .stream("texts", Consumed::<String, String>::new())
///     .try_map_values(|text| Ok(text.parse::<i64>()?))
///     .named("parse")
///     .to("numbers", Produced::new());
/// let config = StreamsConfig::new("numbers", "localhost:9092").processing_handler(KeepUnparsed);
///
/// let mut driver = TopologyTestDriver::with_config(builder.build()?, &config)?;
/// let mut texts = driver.input::<String, String>("texts");
/// texts.pipe_key_value_at(&mut driver, 0, "a", "one")?;
/// texts.pipe_key_value_at(&mut driver, 0, "b", "2")?;
/// assert_eq!(driver.output::<String, i64>("numbers").read_values(&mut driver)?, [2]);
/// assert_eq!(driver.output::<String, String>("unparsed").read_values(&mut driver)?, ["one"]);
/// # Ok::<(), kstreams::Error>(())
/// ```
pub trait ProcessingHandler: Send + Sync + 'static {
    /// Called once for each failure. The record itself is gone by then (operators take it by value); `context` has its source.
    fn handle(&self, context: &ErrorContext<'_>, error: &BoxError) -> HandlerResponse;
}
