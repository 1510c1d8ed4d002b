//! Requests that are answered later: long polls that wait for records, and answers that a fault
//! holds back. By what they wait for and until when.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use crate::api::Call;
use crate::api::fetch::FetchPlan;
use crate::mailbox::Outgoing;

/// A partition of a topic, by the topic's id.
pub(crate) type PartitionId = (Uuid, i32);

/// A request that waits.
#[derive(Debug)]
pub(crate) enum Held {
    /// A fetch that found less than it wants.
    Fetch(Call, FetchPlan),
    /// An answer that is ready and goes out when its time has come.
    Delayed(Call, Outgoing),
}

impl Held {
    fn call(&self) -> &Call {
        match self {
            Self::Fetch(call, _) | Self::Delayed(call, _) => call,
        }
    }
}

/// All requests that wait.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    next: u64,
    held: BTreeMap<u64, (i64, Held)>,
    due: BTreeSet<(i64, u64)>,
    by_partition: BTreeMap<PartitionId, BTreeSet<u64>>,
}

impl Waiting {
    pub(crate) fn hold(&mut self, until: i64, held: Held) {
        let id = self.next;
        self.next += 1;
        if let Held::Fetch(_, plan) = &held {
            for partition in plan.partitions() {
                self.by_partition.entry(partition).or_default().insert(id);
            }
        }
        self.due.insert((until, id));
        self.held.insert(id, (until, held));
    }

    /// Those that wait for records of a partition, oldest first.
    pub(crate) fn on(&self, partition: PartitionId) -> Vec<u64> {
        self.by_partition.get(&partition).into_iter().flatten().copied().collect()
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Held> {
        self.held.get(&id).map(|(_, held)| held)
    }

    pub(crate) fn take(&mut self, id: u64) -> Option<Held> {
        let (until, held) = self.held.remove(&id)?;
        self.due.remove(&(until, id));
        if let Held::Fetch(_, plan) = &held {
            for partition in plan.partitions() {
                if let Some(waiting) = self.by_partition.get_mut(&partition) {
                    waiting.remove(&id);
                    if waiting.is_empty() {
                        self.by_partition.remove(&partition);
                    }
                }
            }
        }
        Some(held)
    }

    pub(crate) fn take_due(&mut self, now: i64) -> Option<Held> {
        let (until, id) = *self.due.first()?;
        if until <= now { self.take(id) } else { None }
    }

    pub(crate) fn next_deadline(&self) -> Option<i64> {
        self.due.first().map(|(until, _)| *until)
    }

    /// Forgets what a closed connection waits for.
    pub(crate) fn drop_connection(&mut self, connection: u64) {
        let of = |(id, (_, held)): (&u64, &(i64, Held))| {
            (held.call().connection == connection).then_some(*id)
        };
        let ids: Vec<u64> = self.held.iter().filter_map(of).collect();
        for id in ids {
            self.take(id);
        }
    }
}
