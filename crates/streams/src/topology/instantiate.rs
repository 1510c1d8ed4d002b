//! From description to task: builds the nodes of a sub-topology, children first, and ties their typed edges.

use super::Graph;
use super::erased::{Close, ErasedPort, Wiring};
use super::node::NodeKind;
use crate::error::Result;
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
    pub(crate) closers: Vec<Rc<dyn Close>>,
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
            match &node.kind {
                NodeKind::Source(source) => {
                    sources.push((source.topics.clone(), (source.factory)(&mut wiring)?));
                }
                NodeKind::Processor { factory, .. } | NodeKind::Sink { factory, .. } => {
                    let port = factory(&mut wiring)?;
                    ports.insert(index, port);
                }
            }
        }
        sources.reverse();
        Ok(TaskNodes { sources, closers, punctuated })
    }
}
