//! Handlers: what happens to records that cannot be read.

pub use crate::task::{
    BadRecord, DeserializationHandler, HandlerResponse, LogAndContinue, LogAndFail,
};
