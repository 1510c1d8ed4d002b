//! What fails in a task: who is asked about it, and what is left of it.
//!
//! An error meets a handler where it leaves the node that failed, at the edge to that node's parent ([`crate::topology::erased`]).
//! If the handler resumes, the parent hears nothing of it. If not, the failure is kept here and the record's way ends, whatever
//! user code further up does with the error that `forward` gives it: nothing that must not be left out can be.

use super::TaskContext;
use crate::error::{BoxError, Error, ErrorKind};
use crate::handlers::{Choice, DeadLetter, ErrorContext, ErrorPolicy, FailedWrite, WriteProblem};
use crate::record::{Headers, RecordMetadata};
use crate::topology::erased::{Fault, catch_panic};
use std::cell::{Cell, RefCell};
use std::error::Error as StdError;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// A source record as it was on the wire.
pub(crate) struct RawRecord {
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) timestamp: i64,
    pub(crate) headers: Headers,
}

/// Where the bytes of the record in hand can be read again.
pub(crate) trait RawSource {
    /// The record at `offset`, if it is the one that was read last.
    fn raw(&self, offset: i64) -> Option<RawRecord>;
}

/// What ended a task.
pub(crate) struct Failure {
    pub(crate) error: Error,
    /// The record that led to it, if there is one.
    pub(crate) place: Option<RecordMetadata>,
    /// Written if nothing else of the record is.
    pub(crate) dead_letters: Vec<DeadLetter>,
}

/// The failures of a task.
pub(crate) struct Failures {
    policy: ErrorPolicy,
    source: RefCell<Option<Rc<dyn RawSource>>>,
    failed: Cell<bool>,
    failure: RefCell<Option<Failure>>,
    /// Of records that were left out; they go to the collector with the next ones.
    dead_letters: RefCell<Vec<DeadLetter>>,
    has_refusals: Cell<bool>,
    /// Whether a handler wants a refused record written again.
    wants_retry: Cell<bool>,
    refusals: RefCell<Vec<Refusal>>,
}

/// What brokers refused of a record that is processed again.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub(crate) place: RecordMetadata,
    pub(crate) topic: Arc<str>,
    pub(crate) problem: WriteProblem,
    pub(crate) message: String,
}

/// What becomes of a write that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    LeftOut,
    /// It shall be written all the same.
    Again,
}

impl Failures {
    pub(crate) fn new(policy: ErrorPolicy) -> Self {
        Failures {
            policy,
            source: RefCell::default(),
            failed: Cell::new(false),
            failure: RefCell::default(),
            dead_letters: RefCell::default(),
            has_refusals: Cell::new(false),
            wants_retry: Cell::new(false),
            refusals: RefCell::default(),
        }
    }

    pub(crate) fn policy(&self) -> &ErrorPolicy {
        &self.policy
    }

    pub(super) fn set_source(&self, source: Option<Rc<dyn RawSource>>) {
        self.source.replace(source);
    }

    pub(super) fn has_source(&self) -> bool {
        self.source.borrow().is_some()
    }

    /// Whether something failed for good, and the task with it.
    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.get()
    }

    /// What failed, for who asks first.
    pub(crate) fn take(&self) -> Option<Failure> {
        self.failed.set(false);
        self.failure.take()
    }

    /// Keeps what failed first; what is given back only says so.
    pub(crate) fn keep(&self, failure: Failure) -> Fault {
        let sign = Fault::settled(&failure.error);
        self.failed.set(true);
        self.failure.borrow_mut().get_or_insert(failure);
        sign
    }

    /// What brokers are known to refuse.
    pub(crate) fn refuse(&self, refusals: Vec<Refusal>) {
        self.has_refusals.set(!refusals.is_empty());
        self.refusals.replace(refusals);
    }

    /// Whether anything is known to be refused; nearly always not.
    #[inline]
    pub(crate) fn has_refusals(&self) -> bool {
        self.has_refusals.get()
    }

    /// What brokers said of this record's write to a topic.
    pub(crate) fn refusal(&self, place: &RecordMetadata, topic: &str) -> Option<Refusal> {
        let refusals = self.refusals.borrow();
        refusals.iter().find(|known| known.place == *place && *known.topic == *topic).cloned()
    }

    /// Whether a handler wanted a refused record written again, since the last call.
    pub(crate) fn take_retry(&self) -> bool {
        self.wants_retry.take()
    }

    pub(crate) fn leave(&self, letters: Vec<DeadLetter>) {
        self.dead_letters.borrow_mut().extend(letters);
    }

    pub(crate) fn take_dead_letters(&self) -> Vec<DeadLetter> {
        self.dead_letters.take()
    }
}

impl fmt::Debug for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failures").field("failed", &self.failed).finish_non_exhaustive()
    }
}

/// A write of a sink that failed, before a handler is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unwritten<'a> {
    pub(crate) topic: &'a str,
    pub(crate) problem: WriteProblem,
    pub(crate) key_size: Option<usize>,
    pub(crate) value_size: Option<usize>,
    /// Whether another try may help.
    pub(crate) may_pass: bool,
}

impl TaskContext {
    /// What becomes of an error that leaves the node where it happened: `Ok` if the record is left out there.
    #[cold]
    pub(crate) fn settle(&self, fault: Fault) -> Result<(), Fault> {
        let (node, error) = fault.open()?;
        if self.failures.has_failed() {
            // User code wrapped the error of a node further down, which is settled.
            return Err(Fault::settled(&error));
        }
        if is_of_store(&*error) {
            return Err(self.fail(&node, error, Vec::new()));
        }
        let error = of_user_code(error);
        let handler = &self.failures.policy.processing;
        let asked = self.explain(&node, ErrorKind::Processing, |context| {
            catch_panic(|| handler.handle(&context, &error))
        });
        let response = asked.map_err(|panic| self.fail_asking(&node, panic, &error))?;
        if !response.resumes {
            return Err(self.fail(&node, error, response.dead_letters));
        }
        self.failures.leave(response.dead_letters);
        self.count_dropped();
        Ok(())
    }

    /// What becomes of a record that a sink cannot write. Of a topic of the application's own nothing may be missing.
    #[cold]
    pub(crate) fn settle_write(
        &self,
        node: &Arc<str>,
        is_internal: bool,
        write: Unwritten<'_>,
        error: BoxError,
    ) -> Result<Settled, Fault> {
        let Unwritten { topic, problem, key_size, value_size, may_pass } = write;
        let error = self.unwritten(write, error);
        if is_internal || self.failures.has_failed() || !is_of_user_code(&error) {
            return Err(self.fail(node, error.into(), Vec::new()));
        }
        let error: BoxError = error.into();
        let handler = &self.failures.policy.production;
        let asked = self.explain(node, ErrorKind::BadRecord, |context| {
            let write = FailedWrite { context, topic, problem, key_size, value_size };
            catch_panic(|| handler.handle(&write, &error))
        });
        let response = asked.map_err(|panic| self.fail_asking(node, panic, &error))?;
        match response.choice {
            Choice::Retry if may_pass => {
                self.failures.wants_retry.set(true);
                Ok(Settled::Again)
            }
            Choice::Retry | Choice::Fail => Err(self.fail(node, error, response.dead_letters)),
            Choice::Resume => {
                self.failures.leave(response.dead_letters);
                self.count_dropped();
                Ok(Settled::LeftOut)
            }
        }
    }

    fn unwritten(&self, write: Unwritten<'_>, error: BoxError) -> Error {
        let part = match write.problem {
            WriteProblem::Key => "the key of ",
            WriteProblem::Value => "the value of ",
            _ => "",
        };
        let mut message = format!("cannot write {part}a record for topic {}", write.topic);
        if let (Some(key), Some(value)) = (write.key_size, write.value_size) {
            message += &format!(", with a key of {key} bytes and a value of {value}");
        }
        let kind = match error.downcast_ref::<Error>() {
            Some(error) => error.kind(),
            None => ErrorKind::BadRecord,
        };
        Error::new(kind, message).with_source(error)
    }

    /// Ends the task: the error is kept, what is given back only says that it is.
    #[cold]
    pub(crate) fn fail(&self, node: &Arc<str>, error: BoxError, letters: Vec<DeadLetter>) -> Fault {
        let mut error = Fault::at(node, error).into_error();
        let place = self.metadata();
        if let Some(RecordMetadata { topic, partition, offset }) = &place {
            error = error.context(format!("topic {topic}, partition {partition}, offset {offset}"));
        }
        self.failures.keep(Failure { error, place, dead_letters: letters })
    }

    /// The handler itself failed.
    fn fail_asking(&self, node: &Arc<str>, panic: Error, error: &BoxError) -> Fault {
        let panic = panic.context(format!("in the handler that was asked about: {error}"));
        self.fail(node, panic.into(), Vec::new())
    }

    /// Tells `listener` where the task is.
    pub(crate) fn explain<R>(
        &self,
        operator: &str,
        kind: ErrorKind,
        listener: impl FnOnce(ErrorContext<'_>) -> R,
    ) -> R {
        let metadata = self.metadata();
        let source = self.failures.source.borrow().clone();
        let raw = source.zip(metadata.as_ref()).and_then(|(source, at)| source.raw(at.offset));
        let none = Headers::new();
        listener(ErrorContext {
            task: self.task_id,
            operator,
            timestamp: self.timestamp(),
            headers: raw.as_ref().map_or(&none, |raw| &raw.headers),
            key: raw.as_ref().and_then(|raw| raw.key.as_deref()),
            value: raw.as_ref().and_then(|raw| raw.value.as_deref()),
            metadata,
            dead_letters: self.failures.policy.dead_letters.as_deref(),
            kind,
        })
    }
}

/// The kinds of ours among an error and its causes.
fn kinds<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = ErrorKind> + 'a {
    let causes = std::iter::successors(Some(error), |error: &&'a (dyn StdError + 'static)| {
        (*error).source()
    });
    causes.filter_map(|error| error.downcast_ref::<Error>().map(Error::kind))
}

/// Whether a write failed for what the user or the record is, not for the brokers.
fn is_of_user_code(error: &(dyn StdError + 'static)) -> bool {
    kinds(error).all(|kind| matches!(kind, ErrorKind::Processing | ErrorKind::BadRecord))
}

/// Whether a store failed that user code has used: leaving out records would not help.
fn is_of_store(error: &(dyn StdError + 'static)) -> bool {
    kinds(error).any(|kind| kind == ErrorKind::State)
}

/// What user code reports is its own, also when it is an error of ours: of a query, a writer, or of its own make.
fn of_user_code(error: BoxError) -> BoxError {
    match error.downcast::<Error>() {
        Ok(ours) if !matches!(ours.kind(), ErrorKind::Processing | ErrorKind::BadRecord) => {
            Error::new(ErrorKind::Processing, "user code failed").with_source(ours).into()
        }
        Ok(ours) => ours,
        Err(error) => error,
    }
}
