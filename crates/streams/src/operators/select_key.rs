//! A new key.

use super::{Outcome, map};
use crate::topology::erased::NodeFactory;

/// `select_key`, and the first half of `group_by`.
pub(crate) fn select_key<K, V, K2, F>(selector: F) -> NodeFactory
where
    K: 'static,
    V: Clone + 'static,
    K2: Clone + 'static,
    F: Fn(&K, &V) -> Outcome<K2> + Send + Sync + 'static,
{
    map(move |key: K, value: V| {
        let key = selector(&key, &value)?;
        Ok((key, value))
    })
}
