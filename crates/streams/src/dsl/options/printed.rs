//! Where and how a stream is printed.

use crate::operators::SharedWriter;
use std::fmt::{self, Debug};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Options of `print`: a line a record, `[label]: key, value`.
pub struct Printed<K, V> {
    pub(crate) writer: SharedWriter,
    pub(crate) label: Option<String>,
    pub(crate) text: Arc<Text<K, V>>,
    pub(crate) name: Option<String>,
}

type Text<K, V> = dyn Fn(&K, &V) -> String + Send + Sync;

impl<K: Debug, V: Debug> Printed<K, V> {
    /// On the standard output, as `{:?}` shows keys and values.
    pub fn to_stdout() -> Self {
        Printed::to_writer(io::stdout())
    }

    /// Into a file, which is made or emptied.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn to_file(path: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Printed::to_writer(File::create(path)?))
    }

    /// To a writer.
    pub fn to_writer(writer: impl Write + Send + 'static) -> Self {
        let text = |key: &K, value: &V| format!("{key:?}, {value:?}");
        let writer = Arc::new(Mutex::new(writer));
        Printed { writer, label: None, text: Arc::new(text), name: None }
    }
}

impl<K, V> Printed<K, V> {
    /// The label; default: the name of the node whose records are printed.
    #[must_use]
    pub fn with_label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// What is printed behind the label; default: key and value.
    #[must_use]
    pub fn with_text(mut self, text: impl Fn(&K, &V) -> String + Send + Sync + 'static) -> Self {
        self.text = Arc::new(text);
        self
    }

    /// The name of the node.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}

impl<K, V> fmt::Debug for Printed<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Printed").field("label", &self.label).field("name", &self.name).finish()
    }
}
