//! From description to task: builds the nodes of a sub-topology, children first, and ties their typed edges.

use super::Graph;
use super::erased::{ErasedPort, Named, Wiring, catch_panic};
use super::node::NodeKind;
use crate::error::{Error, Result};
use crate::processor::{Punctuate, TaskContext};
use crate::state::StoreSet;
use crate::task::{RecordCollector, SourceNode};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// A source with the topics that it reads, without the application's prefix.
pub(crate) type TaskSource = (Vec<Arc<str>>, Box<dyn SourceNode>);

/// The nodes of a task that the task has to know itself.
pub(crate) struct TaskNodes {
    pub(crate) sources: Vec<TaskSource>,
    /// Processors that want to know when the task ends, children first.
    pub(crate) closers: Vec<Named>,
    /// Processors that may have punctuators, children first.
    pub(crate) punctuated: Vec<Rc<dyn Punctuate>>,
}

impl Graph {
    pub(crate) fn instantiate(
        &self,
        subtopology: u32,
        task: &Rc<TaskContext>,
        stores: &StoreSet,
        collector: &Rc<RefCell<dyn RecordCollector>>,
    ) -> Result<TaskNodes> {
        let indices = &self.subtopologies[subtopology as usize].nodes;
        let mut ports: BTreeMap<usize, ErasedPort> = BTreeMap::new();
        let (mut sources, mut closers, mut punctuated) = (Vec::new(), Vec::new(), Vec::new());
        // A node is added after its parents, so backwards means children first.
        for &index in indices.iter().rev() {
            let node = &self.nodes[index];
            let children =
                ports.iter().filter(|(child, _)| self.nodes[**child].parents.contains(&index));
            let mut wiring = Wiring {
                name: node.name.clone(),
                connected: node.stores.clone(),
                sends_old_values: node.sends_old_values,
                wrapping: node.wrapping.clone(),
                children: children
                    .map(|(&child, port)| (self.nodes[child].name.clone(), port))
                    .collect(),
                task,
                stores,
                collector,
                closers: &mut closers,
                punctuated: &mut punctuated,
            };
            // Suppliers and `init` are user code.
            let here = |panic: Error| panic.context(format!("operator {}", node.name));
            match &node.kind {
                NodeKind::Source(source) => {
                    let made = catch_panic(|| (source.factory)(&mut wiring)).map_err(here)?;
                    sources.push((source.topics.clone(), made?));
                }
                NodeKind::Processor { factory, .. } | NodeKind::Sink { factory, .. } => {
                    let port = catch_panic(|| factory(&mut wiring)).map_err(here)?;
                    ports.insert(index, port?);
                }
            }
        }
        sources.reverse();
        Ok(TaskNodes { sources, closers, punctuated })
    }
}
