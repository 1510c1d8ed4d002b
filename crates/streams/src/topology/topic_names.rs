//! The topics that a source reads: one or several.

use std::sync::Arc;

/// One topic or several: whatever `stream` accepts.
///
/// ```
/// use kstreams::prelude::*;
///
/// let builder = StreamsBuilder::new();
/// let one = builder.stream("orders", Consumed::<String, String>::new());
/// let two = builder.stream(["returns", "refunds"], Consumed::<String, String>::new());
/// one.merge(&two).to("all", Produced::new());
/// builder.build()?;
/// # Ok::<(), kstreams::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicNames(pub(crate) Vec<Arc<str>>);

impl From<&str> for TopicNames {
    fn from(topic: &str) -> Self {
        TopicNames(vec![topic.into()])
    }
}

impl From<&String> for TopicNames {
    fn from(topic: &String) -> Self {
        topic.as_str().into()
    }
}

impl From<String> for TopicNames {
    fn from(topic: String) -> Self {
        TopicNames(vec![topic.into()])
    }
}

impl<T: AsRef<str>, const N: usize> From<[T; N]> for TopicNames {
    fn from(topics: [T; N]) -> Self {
        topics.iter().collect()
    }
}

impl<T: AsRef<str>> From<&[T]> for TopicNames {
    fn from(topics: &[T]) -> Self {
        topics.iter().collect()
    }
}

impl<T: AsRef<str>> From<Vec<T>> for TopicNames {
    fn from(topics: Vec<T>) -> Self {
        topics.iter().collect()
    }
}

impl<'a, T: AsRef<str> + 'a> FromIterator<&'a T> for TopicNames {
    /// Each topic once, in the order of their names: the order in which they are given does not matter.
    fn from_iter<I: IntoIterator<Item = &'a T>>(topics: I) -> Self {
        let mut topics: Vec<Arc<str>> =
            topics.into_iter().map(|topic| topic.as_ref().into()).collect();
        topics.sort();
        topics.dedup();
        TopicNames(topics)
    }
}
