//! What all tasks of an application know of it.

use super::TaskId;
use crate::config::StreamsConfig;
use crate::error::{Error, Result};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Application {
    pub(crate) id: Arc<str>,
    pub(crate) config: StreamsConfig,
    /// Where its tasks have their directories.
    pub(crate) state_dir: PathBuf,
}

impl Application {
    /// The directory of a task, which is made if it is not there.
    pub(crate) fn directory_of(&self, task: TaskId) -> Result<PathBuf> {
        let path = self.state_dir.join(task.to_string());
        std::fs::create_dir_all(&path).map_err(|error| {
            Error::state(format!("cannot make the directory {}", path.display())).with_source(error)
        })?;
        Ok(path)
    }
}
