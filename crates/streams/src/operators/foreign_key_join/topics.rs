//! The topic names that serdes are shown for what is only part of a message.

use crate::processor::TaskContext;
use crate::serde::At;
use std::sync::{Arc, OnceLock};

/// Names behind that of the subscription topic, as in Java: a schema registry knows the serdes' schemas by them. The application's
/// name in front is known when the first task is built.
#[derive(Debug, Clone)]
pub(crate) struct PseudoTopics {
    /// The subscription topic, without the application's prefix.
    topic: Arc<str>,
    names: Arc<OnceLock<Names>>,
}

#[derive(Debug)]
struct Names {
    primary_key: String,
    foreign_key: String,
    value_hash: String,
}

impl PseudoTopics {
    pub(crate) fn new(topic: Arc<str>) -> Self {
        PseudoTopics { topic, names: Arc::default() }
    }

    /// Tells the application's name.
    pub(super) fn open(&self, task: &TaskContext) {
        self.names.get_or_init(|| {
            let name = |part| format!("{}-{}-{part}", task.application.id, self.topic);
            Names { primary_key: name("pk"), foreign_key: name("fk"), value_hash: name("vh") }
        });
    }

    fn at<'a>(&'a self, at: &At<'a>, is_key: bool, name: impl Fn(&Names) -> &str) -> At<'a> {
        let topic = self.names.get().map_or(at.topic, name);
        At { topic, headers: at.headers, is_key }
    }

    pub(super) fn primary_key<'a>(&'a self, at: &At<'a>) -> At<'a> {
        self.at(at, true, |names| &names.primary_key)
    }

    pub(super) fn foreign_key<'a>(&'a self, at: &At<'a>) -> At<'a> {
        self.at(at, true, |names| &names.foreign_key)
    }

    pub(super) fn value_hash<'a>(&'a self, at: &At<'a>) -> At<'a> {
        self.at(at, false, |names| &names.value_hash)
    }
}
