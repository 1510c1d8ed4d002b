//! One process of the application: its directory, its stream threads and their drivers.

use crate::config::Settings;
use crate::processor::TaskId;
use crate::runtime::clock::{Clock, Now};
use crate::runtime::cluster::{Cluster, Instance, Limits};
use crate::runtime::queries::Queries;
use crate::runtime::thread::{StreamThread, Turn};
use crate::state::{GlobalStores, StateDirectory};
use crate::topology::Topology;
use kstreams_client::driver::Driver;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// A clock on which no time passes within a turn.
#[derive(Debug)]
struct Standing;

impl Clock for Standing {
    fn now(&self) -> Now {
        Now { monotonic: Duration::ZERO, wall: 0 }
    }
}

/// A process; dropping it is its death.
pub(super) struct Process {
    threads: Vec<(Option<StreamThread>, Driver)>,
    /// Until then it does nothing.
    pub(super) stopped_until: u64,
    closing: bool,
}

impl Process {
    pub(super) fn start(
        cluster: &Cluster,
        topology: &Topology,
        process: Uuid,
        limits: Limits,
        seed: u64,
        now: Now,
    ) -> Self {
        let Settings { state_dir, application, stream_threads, .. } = &*cluster.settings;
        let directory = StateDirectory::open(state_dir, &application.id, process);
        let directory = Arc::new(directory.expect("the directory"));
        let process = directory.process_id();
        let (topology, directory) = (topology.clone(), Some(directory));
        let globals = Arc::new(GlobalStores::new(&topology.graph().globals));
        let queries = Queries::new(
            topology.clone(),
            cluster.settings.application.id.clone(),
            cluster.settings.stream_threads,
        );
        let instance = Instance { topology, directory, process, limits, globals, queries };
        let threads = (0..*stream_threads).map(|index| {
            let (client, driver) =
                cluster.stepped_client("simulated", seed + index as u64).expect("a client");
            let parts = cluster.thread_parts(&instance, index, client, Arc::new(Standing));
            (Some(StreamThread::new(parts, now)), driver)
        });
        Process { threads: threads.collect(), stopped_until: 0, closing: false }
    }

    /// A turn of every driver and every thread; false once it has closed.
    pub(super) fn step(&mut self, now: Now) -> Result<bool, crate::error::Error> {
        for (thread, driver) in &mut self.threads {
            driver.step(now.monotonic);
            let Some(running) = thread else { continue };
            for _ in 0..10 {
                match running.run_once(now)? {
                    Turn::Again => {}
                    Turn::Wait(_) => break,
                    Turn::Finished => {
                        *thread = None;
                        break;
                    }
                }
            }
            driver.step(now.monotonic);
        }
        Ok(self.threads.iter().any(|(thread, _)| thread.is_some()))
    }

    pub(super) fn close(&mut self, now: Now) {
        self.closing = true;
        for thread in self.threads.iter_mut().filter_map(|(thread, _)| thread.as_mut()) {
            thread.request_close(now);
        }
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing
    }

    /// Where each thread is.
    pub(super) fn describe(&self) -> Vec<String> {
        let threads = self.threads.iter().filter_map(|(thread, _)| thread.as_ref());
        threads
            .map(|thread| {
                let slots: Vec<String> = thread.slots.values().map(|s| format!("{s:?}")).collect();
                format!("{:?} {:?} {slots:?}", thread.state(), thread.commit)
            })
            .collect()
    }

    /// The tasks that run here.
    pub(super) fn tasks(&self) -> Vec<TaskId> {
        let threads = self.threads.iter().filter_map(|(thread, _)| thread.as_ref());
        let slots = threads.flat_map(|thread| thread.slots.values());
        slots.filter(|slot| slot.is_running()).map(|slot| slot.id).collect()
    }
}

impl Drop for Process {
    /// A process that dies says nothing more: what its threads would still say is not heard.
    fn drop(&mut self) {
        for (thread, driver) in self.threads.drain(..) {
            drop(driver);
            drop(thread);
        }
    }
}
