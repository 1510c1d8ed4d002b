//! Looks at records as they pass.

use super::{Outcome, filter};
use crate::topology::erased::NodeFactory;

/// `peek`.
pub(crate) fn peek<K, V, F>(look: F) -> NodeFactory
where
    K: Clone + 'static,
    V: Clone + 'static,
    F: Fn(&K, &V) -> Outcome<()> + Send + Sync + 'static,
{
    filter(move |key: &K, value: &V| look(key, value).map(|()| true))
}
