//! What happens to a record that cannot be read.

use super::{ErrorContext, HandlerResponse};
use crate::error::BoxError;
use std::ops::Deref;

/// A record whose key or value could not be read: everything that [`ErrorContext`] tells, and which of the two it was.
#[derive(Debug)]
pub struct BadRecord<'a> {
    /// The record.
    pub context: ErrorContext<'a>,
    /// Whether it is the key that could not be read (else: the value).
    pub is_key: bool,
}

impl<'a> Deref for BadRecord<'a> {
    type Target = ErrorContext<'a>;

    fn deref(&self) -> &Self::Target {
        &self.context
    }
}

/// Decides about records that cannot be read.
pub trait DeserializationHandler: Send + Sync + 'static {
    /// Called once for each such record.
    fn handle(&self, record: &BadRecord<'_>, error: &BoxError) -> HandlerResponse;
}
