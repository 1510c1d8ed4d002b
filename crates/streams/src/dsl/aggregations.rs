//! The functions of aggregations: what counting, reducing and folding make of a stored value and a record.

use crate::error::BoxError;
use crate::operators::{Aggregation, Step};

/// How many records there are.
pub(super) fn counting<K: 'static, V: 'static>() -> impl Aggregation<K, V, i64> {
    |_: &K, _: V, count: Option<i64>| Ok(Step::Put(count.unwrap_or(0) + 1))
}

/// Combines values; the first is taken as it is.
pub(super) fn reducing<K: 'static, V: 'static, F>(reducer: F) -> impl Aggregation<K, V, V>
where
    F: Fn(V, V) -> Result<V, BoxError> + Send + Sync + 'static,
{
    move |_: &K, value: V, reduced: Option<V>| {
        Ok(Step::Put(match reduced {
            Some(reduced) => reducer(reduced, value)?,
            None => value,
        }))
    }
}

/// Folds values into what begins with `initializer`; nothing deletes it.
pub(super) fn folding<K: 'static, V: 'static, A: 'static, R, I, F>(
    initializer: I,
    aggregator: F,
) -> impl Aggregation<K, V, A>
where
    R: Into<Option<A>>,
    I: Fn() -> A + Send + Sync + 'static,
    F: Fn(&K, A, V) -> Result<R, BoxError> + Send + Sync + 'static,
{
    move |key: &K, value: V, aggregate: Option<A>| {
        let aggregate = aggregate.unwrap_or_else(&initializer);
        let new: Option<A> = aggregator(key, aggregate, value)?.into();
        Ok(new.map_or(Step::Delete, Step::Put))
    }
}
