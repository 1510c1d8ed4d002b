//! Joins two streams on records of one key that are near in time.
//!
//! Four nodes and a merge, as in Java: each stream first passes a *window* node, which stores its records and sends them on to its
//! *join* node, and that looks for partners among the stored records of the other stream. Records are sent on before they are stored.
//! A result has the later time of the two.
//!
//! A record without a partner is a result of a left or outer join only when its time can bring no partner any more: it waits in a
//! list until stream time has passed its window and the grace. Stream time is the highest time of both streams.
//!
//! So that each record of an outer side has either partners or one result without, and never both (P01, P02, P04):
//! - a record is late, and dropped, when its own window and grace are over as it arrives, whichever side moved the time;
//! - a stored record of an outer side whose window and grace are over finds no partners any more.
//!
//! Java 4.4 has neither rule, forgets the grace when it decides whether a record can wait, and looks for what has waited long enough
//! at most once a second of wall-clock time; with `compatibility = java-4.4` so do we.

use super::Outcome;
use crate::config::Compatibility;
use crate::processor::TaskContext;
use crate::record::{Headers, Record};
use crate::serde::SerdeRef;
use crate::state::{JoinList, JoinListStore, JoinSide, StoreToken, WindowStore};
use crate::topology::erased::{Fault, NodeFactory, Output, Port, Receive, node_factory};
use std::cell::Cell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

/// What a stream-stream join is, seen from the left: times in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JoinRule {
    pub(crate) before: i64,
    pub(crate) after: i64,
    pub(crate) grace: i64,
    /// Whether left records without a partner are results, and right ones.
    pub(crate) outer_left: bool,
    pub(crate) outer_right: bool,
}

/// Makes a result of a key and the values of both sides, of which one may be missing.
pub(crate) type StreamJoiner<K, L, R, O> =
    Arc<dyn Fn(&K, Option<&L>, Option<&R>) -> Outcome<O> + Send + Sync>;

/// One side of a join.
pub(crate) trait Side<L, R>: 'static {
    type This: Clone + 'static;
    type Other: Clone + 'static;
    const IS_LEFT: bool;

    fn ordered<'a>(
        this: Option<&'a Self::This>,
        other: Option<&'a Self::Other>,
    ) -> (Option<&'a L>, Option<&'a R>);

    fn waiting(this: &Self::This) -> JoinSide<&L, &R>;
}

/// The stream on which `join` is called.
pub(crate) struct Left;
/// The stream that is given to it.
pub(crate) struct Right;

impl<L: Clone + 'static, R: Clone + 'static> Side<L, R> for Left {
    type This = L;
    type Other = R;
    const IS_LEFT: bool = true;

    fn ordered<'a>(this: Option<&'a L>, other: Option<&'a R>) -> (Option<&'a L>, Option<&'a R>) {
        (this, other)
    }

    fn waiting(this: &L) -> JoinSide<&L, &R> {
        JoinSide::Left(this)
    }
}

impl<L: Clone + 'static, R: Clone + 'static> Side<L, R> for Right {
    type This = R;
    type Other = L;
    const IS_LEFT: bool = false;

    fn ordered<'a>(this: Option<&'a R>, other: Option<&'a L>) -> (Option<&'a L>, Option<&'a R>) {
        (other, this)
    }

    fn waiting(this: &R) -> JoinSide<&L, &R> {
        JoinSide::Right(this)
    }
}

impl JoinRule {
    /// How far behind and ahead of a record of that side its partners lie.
    pub(super) fn reach(self, is_left: bool) -> (i64, i64) {
        if is_left { (self.before, self.after) } else { (self.after, self.before) }
    }

    fn is_outer(self, is_left: bool) -> bool {
        if is_left { self.outer_left } else { self.outer_right }
    }
}

/// What the nodes of one join in one task share.
pub(super) struct Tracker {
    pub(super) task: Rc<TaskContext>,
    pub(super) rule: JoinRule,
    pub(super) stream_time: Rc<Cell<i64>>,
    /// No record that waits is older; the largest number: none waits. Not known at first.
    oldest: Rc<Cell<i64>>,
    /// When to look again, in wall-clock time.
    next: Rc<Cell<i64>>,
}

impl Tracker {
    pub(super) fn new(task: &Rc<TaskContext>, join: &str, rule: JoinRule) -> Self {
        let oldest = match task.rules.compatibility {
            Compatibility::Correct => i64::MIN,
            Compatibility::Java44 => i64::MAX,
        };
        Tracker {
            rule,
            stream_time: task.observed_time(join, join),
            oldest: task.progress.passing_time(&format!("{join}:oldest"), oldest),
            next: task.progress.passing_time(&format!("{join}:next"), 0),
            task: task.clone(),
        }
    }

    pub(super) fn is_correct(&self) -> bool {
        self.task.rules.compatibility == Compatibility::Correct
    }

    pub(super) fn advance(&self, timestamp: i64) {
        self.stream_time.set(self.stream_time.get().max(timestamp));
    }

    /// The last stream time at which a record of that side and time may still find a partner. Where all partners lie behind it, it
    /// is in time as long as it is not behind the stream time itself.
    pub(super) fn open_until(&self, is_left: bool, timestamp: i64) -> i64 {
        let (_, ahead) = self.rule.reach(is_left);
        let ahead = if self.is_correct() { ahead.max(0) } else { ahead };
        timestamp.saturating_add(ahead).saturating_add(self.rule.grace)
    }

    pub(super) fn is_over(&self, is_left: bool, timestamp: i64) -> bool {
        self.open_until(is_left, timestamp) < self.stream_time.get()
    }

    /// Whether some record may have waited long enough; asked by a node of that side for a record of that time.
    fn is_due(&self, is_left: bool, timestamp: i64) -> bool {
        let (stream_time, oldest) = (self.stream_time.get(), self.oldest.get());
        let may_be_over = if self.is_correct() {
            let first = [true, false].map(|is_left| self.open_until(is_left, oldest));
            oldest != i64::MAX && first[0].min(first[1]) < stream_time
        } else {
            // Java's sum overflows when it knows of no record; then it looks.
            let (_, ahead) = self.rule.reach(is_left);
            let open_until = oldest.wrapping_add(ahead).wrapping_add(self.rule.grace);
            timestamp == stream_time && open_until < stream_time
        };
        let now = self.task.wall_clock();
        if !may_be_over || now < self.next.get() {
            return false;
        }
        self.next.set(now.saturating_add(self.task.rules.emit_interval));
        true
    }
}

/// Stores the records of one stream after it has sent them on.
struct JoinWindow<K, V> {
    name: Arc<str>,
    key: SerdeRef<K>,
    value: SerdeRef<V>,
    is_left: bool,
    tracker: Tracker,
    store: WindowStore<K, V>,
    out: Output<K, V>,
}

impl<K: Clone + 'static, V: Clone + 'static> Receive<K, V> for JoinWindow<K, V> {
    fn receive(&self, record: Record<K, V>) -> Result<(), Fault> {
        let tracker = &self.tracker;
        if tracker.is_correct() {
            tracker.advance(record.timestamp);
        }
        if tracker.is_correct() && tracker.is_over(self.is_left, record.timestamp) {
            let (time, stream_time) = (record.timestamp, tracker.stream_time.get());
            let until = tracker.open_until(self.is_left, time);
            let reason = format_args!(
                "it is late: its time {time} was open until {until}, stream time is {stream_time}"
            );
            tracker.task.drop_record(&self.name, reason);
            return Ok(());
        }
        let stored = (!self.key.is_null(&record.key)).then(|| record.clone());
        self.out.send(record)?;
        let Some(Record { key, value, timestamp, headers }) = stored else { return Ok(()) };
        let value = Some(&value).filter(|value| !self.value.is_null(value));
        let put = self.store.put_logging_headers(&key, value, timestamp, &headers);
        put.map_err(|error| Fault::at(&self.name, error))
    }
}

/// The window node of a side; `join` is the name that all nodes of the join share.
pub(crate) fn join_window<K, V>(
    join: String,
    is_left: bool,
    rule: JoinRule,
    (key, value): (SerdeRef<K>, SerdeRef<V>),
    token: StoreToken<WindowStore<K, V>>,
) -> NodeFactory
where
    K: Clone + 'static,
    V: Clone + 'static,
{
    node_factory(move |wiring| {
        Ok(Rc::new(JoinWindow {
            name: wiring.name().clone(),
            key: key.clone(),
            value: value.clone(),
            is_left,
            tracker: Tracker::new(wiring.task(), &join, rule),
            store: wiring.init_context().store(&token)?,
            out: wiring.output()?,
        }) as Port<K, V>)
    })
}

/// What a join node is made from.
pub(crate) struct StreamJoin<K: 'static, L: 'static, R: 'static, O, S: Side<L, R>> {
    /// The name that all nodes of the join share.
    pub(crate) join: String,
    pub(crate) rule: JoinRule,
    pub(crate) key: SerdeRef<K>,
    pub(crate) value: SerdeRef<S::This>,
    pub(crate) other: StoreToken<WindowStore<K, S::Other>>,
    pub(crate) waiting: Option<StoreToken<JoinListStore<K, L, R>>>,
    pub(crate) joiner: StreamJoiner<K, L, R, O>,
}

struct JoinNode<K, L, R, O, S: Side<L, R>> {
    name: Arc<str>,
    key: SerdeRef<K>,
    value: SerdeRef<S::This>,
    tracker: Tracker,
    other: WindowStore<K, S::Other>,
    /// Records that wait for a partner, of both sides.
    waiting: Option<JoinListStore<K, L, R>>,
    joiner: StreamJoiner<K, L, R, O>,
    out: Output<K, O>,
    side: PhantomData<S>,
}

impl<K, L, R, O, S> Receive<K, S::This> for JoinNode<K, L, R, O, S>
where
    K: Clone + 'static,
    L: Clone + 'static,
    R: Clone + 'static,
    O: Clone + 'static,
    S: Side<L, R>,
{
    fn receive(&self, record: Record<K, S::This>) -> Result<(), Fault> {
        self.tracker.advance(record.timestamp);
        let is_outer = self.tracker.rule.is_outer(S::IS_LEFT);
        let (null_key, null_value) =
            (self.key.is_null(&record.key), self.value.is_null(&record.value));
        if null_value || (null_key && !is_outer) {
            self.tracker.task.drop_record(&self.name, "its key or value is null");
            return Ok(());
        }
        // Null never equals null: it has no partner, now or later.
        if null_key {
            return self.forward(&record, None, record.timestamp);
        }
        if let Some(waiting) = &self.waiting
            && self.tracker.is_due(S::IS_LEFT, record.timestamp)
        {
            self.release(waiting, &record.headers)?;
        }
        let found = self.join(&record)?;
        if found || !is_outer { Ok(()) } else { self.wait(record) }
    }
}

impl<K, L, R, O, S> JoinNode<K, L, R, O, S>
where
    K: Clone + 'static,
    L: Clone + 'static,
    R: Clone + 'static,
    O: Clone + 'static,
    S: Side<L, R>,
{
    fn failed(&self, error: impl Into<crate::error::BoxError>) -> Fault {
        Fault::at(&self.name, error)
    }

    fn forward(
        &self,
        record: &Record<K, S::This>,
        other: Option<&S::Other>,
        timestamp: i64,
    ) -> Result<(), Fault> {
        let (left, right) = S::ordered(Some(&record.value), other);
        let value = (self.joiner)(&record.key, left, right).map_err(|error| self.failed(error))?;
        let (key, headers) = (record.key.clone(), record.headers.clone());
        self.out.send(Record { key, value, timestamp, headers })
    }

    /// Joins a record with its partners, the earliest first; whether there was one.
    fn join(&self, record: &Record<K, S::This>) -> Result<bool, Fault> {
        let (behind, ahead) = self.tracker.rule.reach(S::IS_LEFT);
        let time = record.timestamp;
        let (from, to) = (time.saturating_sub(behind).max(0), time.saturating_add(ahead).max(0));
        let hides_closed = self.tracker.is_correct() && self.tracker.rule.is_outer(!S::IS_LEFT);
        let mut found = false;
        let partners = self.other.fetch_range(&record.key, from..=to);
        for partner in partners.map_err(|error| self.failed(error))? {
            let (partner_time, partner) = partner.map_err(|error| self.failed(error))?;
            if hides_closed && self.tracker.is_over(!S::IS_LEFT, partner_time) {
                continue;
            }
            found = true;
            if let Some(waiting) = &self.waiting {
                let deleted = waiting.remove_if_present(partner_time, !S::IS_LEFT, &record.key);
                deleted.map_err(|error| self.failed(error))?;
            }
            self.forward(record, Some(&partner), time.max(partner_time))?;
        }
        Ok(found)
    }

    /// Keeps a record without a partner for later, unless it is too late for that.
    fn wait(&self, record: Record<K, S::This>) -> Result<(), Fault> {
        let (_, ahead) = self.tracker.rule.reach(S::IS_LEFT);
        let java_is_over =
            record.timestamp.saturating_add(ahead).max(0) < self.tracker.stream_time.get();
        match &self.waiting {
            Some(waiting) if self.tracker.is_correct() || !java_is_over => {
                let oldest = &self.tracker.oldest;
                oldest.set(oldest.get().min(record.timestamp));
                let value = S::waiting(&record.value);
                let pushed = waiting.push(record.timestamp, &record.key, value, &record.headers);
                pushed.map_err(|error| self.failed(error))
            }
            _ => self.forward(&record, None, record.timestamp),
        }
    }

    /// Forwards what has waited long enough, the earliest first.
    fn release(&self, waiting: &JoinListStore<K, L, R>, headers: &Headers) -> Result<(), Fault> {
        let Tracker { rule, stream_time, oldest, .. } = &self.tracker;
        let is_correct = self.tracker.is_correct();
        oldest.set(i64::MAX);
        // What comes after the first open record of a side is open too, if it is of that side.
        let mut open = [is_correct && !rule.outer_left, is_correct && !rule.outer_right];
        for list in waiting.all().map_err(|error| self.failed(error))? {
            let JoinList { timestamp, is_left, key, values, headers: own } =
                list.map_err(|error| self.failed(error))?;
            let is_open = self.tracker.open_until(is_left, timestamp) >= stream_time.get();
            if !is_correct {
                oldest.set(timestamp);
            } else if is_open {
                oldest.set(oldest.get().min(timestamp));
            }
            if open == [true, true] {
                break;
            }
            if is_open {
                open[usize::from(!is_left)] = true;
                // Java goes value by value: the next one of this list is where it stops.
                if !is_correct && open == [true, true] && values.len() > 1 {
                    break;
                }
                continue;
            }
            for (place, value) in values.iter().enumerate() {
                let (left, right) = match value {
                    JoinSide::Left(left) => (Some(left), None),
                    JoinSide::Right(right) => (None, Some(right)),
                };
                let value = (self.joiner)(&key, left, right).map_err(|error| self.failed(error))?;
                // Each has its own headers; in Java those of the record that brought the time.
                let own = own.get(place).cloned().unwrap_or_default();
                let headers = if is_correct { own } else { headers.clone() };
                self.out.send(Record { key: key.clone(), value, timestamp, headers })?;
            }
            let removed = waiting.remove(timestamp, is_left, &key);
            removed.map_err(|error| self.failed(error))?;
        }
        Ok(())
    }
}

/// The join node of a side.
pub(crate) fn stream_stream_join<K, L, R, O, S>(join: StreamJoin<K, L, R, O, S>) -> NodeFactory
where
    K: Clone + 'static,
    L: Clone + 'static,
    R: Clone + 'static,
    O: Clone + 'static,
    S: Side<L, R>,
{
    node_factory(move |wiring| {
        let init = wiring.init_context();
        Ok(Rc::new(JoinNode::<K, L, R, O, S> {
            name: wiring.name().clone(),
            key: join.key.clone(),
            value: join.value.clone(),
            tracker: Tracker::new(wiring.task(), &join.join, join.rule),
            other: init.store(&join.other)?,
            waiting: join.waiting.as_ref().map(|token| init.store(token)).transpose()?,
            joiner: join.joiner.clone(),
            out: wiring.output()?,
            side: PhantomData,
        }) as Port<K, S::This>)
    })
}
