//! Sends each record to the first child whose predicate likes it.

use super::Outcome;
use crate::error::Error;
use crate::record::Record;
use crate::topology::erased::{Edge, Fault, NodeFactory, Port, Receive, node_factory};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

type Predicate<K, V> = Arc<dyn Fn(&K, &V) -> Outcome<bool> + Send + Sync>;
type NamedPredicates<K, V> = Vec<(String, Predicate<K, V>)>;

/// The branches of a split, with the names of their nodes. They are added one by one while the plan is written, and read when a
/// task is built.
pub(crate) struct Branches<K, V>(Arc<Mutex<NamedPredicates<K, V>>>);

impl<K, V> Branches<K, V> {
    pub(crate) fn new() -> Self {
        Branches(Arc::default())
    }

    pub(crate) fn add(
        &self,
        child: String,
        predicate: impl Fn(&K, &V) -> Outcome<bool> + Send + Sync + 'static,
    ) {
        let mut branches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        branches.push((child, Arc::new(predicate)));
    }
}

struct Branch<K, V> {
    name: Arc<str>,
    branches: Vec<(Predicate<K, V>, Edge<K, V>)>,
}

impl<K, V> Receive<K, V> for Branch<K, V> {
    fn receive(&self, record: Record<K, V>) -> Result<(), Fault> {
        for (predicate, child) in &self.branches {
            let likes = predicate(&record.key, &record.value);
            if likes.map_err(|error| Fault::at(&self.name, error))? {
                return child.send(record);
            }
        }
        Ok(())
    }
}

/// `split`.
pub(crate) fn branch<K: 'static, V: 'static>(branches: &Branches<K, V>) -> NodeFactory {
    let branches = branches.0.clone();
    node_factory(move |wiring| {
        let out = wiring.output::<K, V>()?;
        let branches = branches.lock().unwrap_or_else(PoisonError::into_inner);
        let branches = branches.iter().map(|(child, predicate)| {
            let edge = out.child(child).ok_or_else(|| {
                Error::topology(format!("{} has no branch {child}", wiring.name()))
            })?;
            Ok((predicate.clone(), edge.clone()))
        });
        let branches = branches.collect::<Result<_, Error>>()?;
        Ok(Rc::new(Branch { name: wiring.name().clone(), branches }) as Port<K, V>)
    })
}
