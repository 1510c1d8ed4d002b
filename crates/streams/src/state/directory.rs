//! The state directory: one process at a time, one folder a task, with Java's process metadata beside it.
//!
//! ```text
//! <state.dir>/<application.id>/
//!   .lock                             held by the process; its pid is inside
//!   kafka-streams-process-metadata    {"processId":"<uuid>"}: tasks come back to where their state is
//!   <task>/kstreams/                  the stores of a task; Java's are in <task>/rocksdb
//! ```
//!
//! Within the process each task directory has at most one owner: a task that moves from one thread to another waits until
//! the first has closed it, and cleaning never touches what has an owner, nor what is not ours: a Java application may have its
//! stores beside. Java locks the same file in its own way; both locks are taken, so that the two never run at once.

use super::engine::delete_database;
use crate::error::{Error, Result};
use crate::processor::TaskId;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use uuid::Uuid;

const LOCK_FILE: &str = ".lock";
const METADATA_FILE: &str = "kafka-streams-process-metadata";
const STORES: &str = "kstreams";

/// The directory of one application in one process.
#[derive(Debug)]
pub(crate) struct StateDirectory {
    path: PathBuf,
    process_id: Uuid,
    owned: Arc<Mutex<BTreeSet<TaskId>>>,
    /// Locked as long as it is open.
    _lock: File,
}

/// The ownership of one task's directory; ends when it is dropped.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    task: TaskId,
    stores: PathBuf,
    owned: Arc<Mutex<BTreeSet<TaskId>>>,
}

impl DirectoryLock {
    /// Where the task's stores are.
    pub(crate) fn stores(&self) -> &Path {
        &self.stores
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // A change inside gives the directory a new time: its age counts from now on.
        let mark = self.stores.join(".closed");
        let _ = File::create(&mark).and_then(|_| fs::remove_file(&mark));
        lock(&self.owned).remove(&self.task);
    }
}

impl StateDirectory {
    /// Makes and locks the application's directory. `new_process_id` is taken when the directory has none yet.
    pub(crate) fn open(
        state_dir: &Path,
        application_id: &str,
        new_process_id: Uuid,
    ) -> Result<Self> {
        let path = state_dir.join(application_id);
        create_private(&path)?;
        let lock = lock_file(&path, application_id)?;
        let process_id = process_id(&path.join(METADATA_FILE), new_process_id)?;
        Ok(StateDirectory { path, process_id, owned: Arc::default(), _lock: lock })
    }

    /// The identity of this process: the same after a restart.
    pub(crate) fn process_id(&self) -> Uuid {
        self.process_id
    }

    /// Takes a task's directory, unless another thread of the process still has it.
    pub(crate) fn try_own(&self, task: TaskId) -> Option<DirectoryLock> {
        let stores = self.task_path(task).join(STORES);
        let taken = lock(&self.owned).insert(task);
        taken.then(|| DirectoryLock { task, stores, owned: self.owned.clone() })
    }

    fn task_path(&self, task: TaskId) -> PathBuf {
        self.path.join(task.to_string())
    }

    /// The task directories that are there.
    #[cfg(test)]
    fn tasks(&self) -> Result<Vec<TaskId>> {
        Ok(task_directories(&self.path)?.into_iter().map(|(task, _)| task).collect())
    }

    /// Deletes the directories of tasks that nobody owns and nobody has touched for `age`. `age_of` tells how long ago a
    /// directory was changed.
    pub(crate) fn clean(
        &self,
        age: Duration,
        age_of: impl Fn(&Path) -> Option<Duration>,
    ) -> Result<()> {
        for (task, path) in task_directories(&self.path)? {
            // Ownership is held while deleting: nobody opens what is about to go.
            let Some(owner) = self.try_own(task) else { continue };
            if age_of(owner.stores()).is_some_and(|old| old >= age) {
                delete_stores(&path)?;
                tracing::info!(%task, path = %path.display(), "obsolete state directory deleted");
            }
        }
        Ok(())
    }
}

/// Deletes all local state of an application; `.lock` and the process metadata stay. Fails while a process has the directory.
pub(crate) fn clean_up(state_dir: &Path, application_id: &str) -> Result<()> {
    let path = state_dir.join(application_id);
    if !path.exists() {
        return Ok(());
    }
    let _lock = lock_file(&path, application_id)?;
    for (_, path) in task_directories(&path)? {
        delete_stores(&path)?;
    }
    Ok(())
}

fn lock(owned: &Mutex<BTreeSet<TaskId>>) -> MutexGuard<'_, BTreeSet<TaskId>> {
    owned.lock().unwrap_or_else(PoisonError::into_inner)
}

fn task_directories(path: &Path) -> Result<Vec<(TaskId, PathBuf)>> {
    let failed = |error| failed("list", path, error);
    let mut found = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if let Some(task) = entry.file_name().to_str().and_then(parse_task) {
            found.push((task, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

fn parse_task(name: &str) -> Option<TaskId> {
    let (subtopology, partition) = name.split_once('_')?;
    Some(TaskId { subtopology: subtopology.parse().ok()?, partition: partition.parse().ok()? })
}

/// Takes the application's lock, or says who has it.
fn lock_file(path: &Path, application_id: &str) -> Result<File> {
    let lock_path = path.join(LOCK_FILE);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&lock_path)
        .map_err(|error| failed("open", &lock_path, error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let _ = file.read_to_string(&mut holder);
            let holder = match holder.trim() {
                "" => "another process".to_string(),
                pid => format!("process {pid}"),
            };
            return Err(Error::state(format!(
                "the state directory {} of application {application_id} is in use by {holder}: \
                 stop it, or give this instance a state.dir of its own",
                path.display()
            )));
        }
        Err(TryLockError::Error(error)) => return Err(failed("lock", &lock_path, error)),
    }
    if !lock_as_java(&file) {
        return Err(Error::state(format!(
            "the state directory {} of application {application_id} is in use by a Java application: \
             stop it, or give this instance a state.dir of its own",
            path.display()
        )));
    }
    let pid = std::process::id().to_string();
    let written = file.set_len(0).and_then(|()| file.write_all(pid.as_bytes()));
    written.map_err(|error| failed("write", &lock_path, error))?;
    Ok(file)
}

/// Reads the process id, or writes the new one. Other fields, of Java or of later versions, stay.
fn process_id(path: &Path, new: Uuid) -> Result<Uuid> {
    if let Ok(text) = fs::read_to_string(path) {
        let found = serde_json::from_str::<serde_json::Value>(&text)
            .ok()
            .and_then(|json| json.get("processId")?.as_str()?.parse().ok());
        if let Some(id) = found {
            return Ok(id);
        }
        tracing::warn!(path = %path.display(), "unreadable process metadata replaced");
    }
    let text = serde_json::json!({ "processId": new.to_string() }).to_string();
    fs::write(path, text).map_err(|error| failed("write", path, error))?;
    Ok(new)
}

#[cfg(unix)]
fn create_private(path: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let made = fs::DirBuilder::new().recursive(true).mode(0o750).create(path);
    made.map_err(|error| failed("make", path, error))
}

#[cfg(not(unix))]
fn create_private(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| failed("make", path, error))
}

/// Java's lock on a file is a POSIX one, which the standard library's does not see.
#[cfg(unix)]
fn lock_as_java(file: &File) -> bool {
    rustix::fs::fcntl_lock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok()
}

#[cfg(not(unix))]
fn lock_as_java(_: &File) -> bool {
    true
}

/// Deletes our stores of a task, and the task's directory if nothing else is in it.
fn delete_stores(task: &Path) -> Result<()> {
    let stores = task.join(STORES);
    delete_database(&stores).map_err(|error| failed("delete", &stores, error))?;
    // It stays if it is not empty.
    let _ = fs::remove_dir(task);
    Ok(())
}

fn failed(what: &str, path: &Path, error: std::io::Error) -> Error {
    Error::state(format!("cannot {what} {}", path.display())).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: TaskId = TaskId { subtopology: 0, partition: 3 };

    fn open(root: &Path, id: u128) -> Result<StateDirectory> {
        StateDirectory::open(root, "app", Uuid::from_u128(id))
    }

    /// P63: one process a directory; the second fails at once with the holder's pid.
    #[test]
    fn p63_a_second_process_is_told_who_has_the_directory() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let first = open(root.path(), 1).expect("opens");
        let error = open(root.path(), 2).expect_err("locked").to_string();
        assert!(error.contains(&format!("in use by process {}", std::process::id())), "{error}");
        let error = clean_up(root.path(), "app").expect_err("locked").to_string();
        assert!(error.contains("in use by"), "{error}");
        drop(first);
        let again = open(root.path(), 2).expect("opens");
        assert_eq!(again.process_id(), Uuid::from_u128(1));
    }

    /// P63: cleaning never removes a directory that has an owner, whatever its age.
    #[test]
    fn p63_cleaning_spares_what_is_owned() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let directory = open(root.path(), 1).expect("opens");
        let owner = directory.try_own(TASK).expect("free");
        fs::create_dir_all(owner.stores()).expect("made");
        assert!(directory.try_own(TASK).is_none());
        let old = |_: &Path| Some(Duration::from_secs(60));
        directory.clean(Duration::from_secs(10), old).expect("cleans");
        assert_eq!(directory.tasks().expect("lists"), [TASK]);
        drop(owner);
        directory.clean(Duration::from_secs(100), old).expect("cleans");
        assert_eq!(directory.tasks().expect("lists"), [TASK]);
        directory.clean(Duration::from_secs(10), old).expect("cleans");
        assert!(directory.tasks().expect("lists").is_empty());
    }

    #[test]
    fn cleaning_leaves_what_java_has_there() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let directory = open(root.path(), 1).expect("opens");
        let java = root.path().join("app/0_3/rocksdb");
        fs::create_dir_all(&java).expect("made");
        fs::create_dir_all(root.path().join("app/0_3/kstreams")).expect("made");
        directory.clean(Duration::ZERO, |_| Some(Duration::ZERO)).expect("cleans");
        assert!(java.exists() && !root.path().join("app/0_3/kstreams").exists());
    }

    /// P63: a task that moves between two threads while the cleaner runs is never lost and never owned twice.
    #[test]
    fn p63_a_task_moves_between_threads_under_the_cleaner() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let directory = open(root.path(), 1).expect("opens");
        let moves = Mutex::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while *moves.lock().expect("moves") < 1000 {
                        let Some(owner) = directory.try_own(TASK) else { continue };
                        fs::create_dir_all(owner.stores()).expect("made");
                        *moves.lock().expect("moves") += 1;
                        assert!(owner.stores().exists(), "deleted under its owner");
                    }
                });
            }
            scope.spawn(|| {
                while *moves.lock().expect("moves") < 1000 {
                    directory.clean(Duration::ZERO, |_| Some(Duration::ZERO)).expect("cleans");
                }
            });
        });
    }
}
