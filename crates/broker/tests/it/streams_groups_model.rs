//! Streams groups against a model: members come, go, die, lose answers and let go slowly, in an
//! order that a seed chooses. No task ever has two owners, and in the end every task has one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kstreams_broker::{Broker, BrokerConfig, ManualClock};
use kstreams_protocol::ResponseError;
use kstreams_protocol::streams_group::{StreamsGroupHeartbeatRequest, TaskIds};

use crate::noise::Noise;
use crate::raw::{Raw, text};
use crate::streams_groups::{beat, counting, join};

const PARTITIONS: i32 = 7;
const SESSION_MS: u32 = 6_000;

/// A member as a client is: it owns tasks from the answer that gives them to the moment it lets go.
#[derive(Default)]
struct Client {
    epoch: i32,
    owned: BTreeSet<i32>,
    /// What it was told to own, once it let go of the rest.
    told: BTreeSet<i32>,
    /// Heartbeats that it still needs before it has let go.
    busy: usize,
    silent_ms: u32,
}

struct Group {
    broker: Broker,
    clock: Arc<ManualClock>,
    raw: Raw,
    clients: BTreeMap<String, Client>,
    noise: Noise,
    came: usize,
}

impl Group {
    fn new(seed: u64) -> Self {
        let clock = Arc::new(ManualClock::new(1_000_000));
        let mut config = BrokerConfig::quick();
        config.streams_assignment_interval_ms = 300;
        config.streams_initial_rebalance_delay_ms = 500;
        config.seed = Some(seed);
        let builder = Broker::builder().in_memory().without_tcp().config(config);
        let broker = builder.clock(clock.clone()).start().unwrap();
        broker.create_topic("in", PARTITIONS).unwrap();
        let raw = Raw::memory(&broker);
        let noise = Noise(seed * 7 + 1);
        Self { broker, clock, raw, clients: BTreeMap::new(), noise, came: 0 }
    }

    fn come(&mut self) {
        self.came += 1;
        let id = format!("m{}", self.came);
        let mut request = join("g", &id, counting("g", "in"));
        request.process_id = Some(text(&format!("p{}", self.came % 3)));
        let response = self.raw.call(1, &request);
        assert_eq!(response.error_code, 0);
        let client = Client { epoch: response.member_epoch, ..Client::default() };
        self.clients.insert(id.clone(), client);
        self.hear(&id, response.active_tasks.as_deref());
    }

    fn go(&mut self, id: &str) {
        assert_eq!(self.raw.call(1, &beat("g", id, -1)).error_code, 0);
        self.clients.remove(id);
    }

    fn beat(&mut self, id: &str, loses_the_answer: bool) {
        let client = self.clients.get_mut(id).unwrap();
        client.silent_ms = 0;
        if client.busy > 0 {
            client.busy -= 1;
        }
        if client.busy == 0 {
            client.owned = client.told.clone();
        }
        let list = TaskIds {
            subtopology_id: text("0"),
            partitions: client.owned.iter().copied().collect(),
        };
        let request = StreamsGroupHeartbeatRequest {
            active_tasks: Some(if client.owned.is_empty() { Vec::new() } else { vec![list] }),
            standby_tasks: Some(Vec::new()),
            warmup_tasks: Some(Vec::new()),
            ..beat("g", id, client.epoch)
        };
        let response = self.raw.call(1, &request);
        if loses_the_answer {
            // The client asks again for what it may have missed: it joins anew, without tasks.
            self.clients.remove(id);
            self.rejoin(id);
            return;
        }
        if response.error_code == ResponseError::UnknownMemberId.code() {
            self.clients.remove(id);
            return;
        }
        assert_eq!(response.error_code, 0, "{:?}", response.error_message);
        self.clients.get_mut(id).unwrap().epoch = response.member_epoch;
        self.hear(id, response.active_tasks.as_deref());
    }

    fn rejoin(&mut self, id: &str) {
        let mut request = join("g", id, counting("g", "in"));
        request.process_id = Some(text("again"));
        let response = self.raw.call(1, &request);
        assert_eq!(response.error_code, 0);
        let client = Client { epoch: response.member_epoch, ..Client::default() };
        self.clients.insert(id.to_owned(), client);
        self.hear(id, response.active_tasks.as_deref());
    }

    fn hear(&mut self, id: &str, active: Option<&[TaskIds]>) {
        let Some(active) = active else { return };
        let told: BTreeSet<i32> = active.iter().flat_map(|list| list.partitions.clone()).collect();
        let busy = self.noise.below(4);
        let client = self.clients.get_mut(id).unwrap();
        client.owned.extend(told.iter().copied());
        client.told = told;
        client.busy = if client.owned == client.told { 0 } else { busy };
        self.check();
    }

    /// No task has two owners.
    fn check(&self) {
        let mut owners: BTreeMap<i32, &str> = BTreeMap::new();
        for (id, client) in &self.clients {
            for task in &client.owned {
                let before = owners.insert(*task, id);
                assert_eq!(before, None, "task {task} is owned by {id} too");
            }
        }
    }

    fn pass(&mut self, ms: u32) {
        self.clock.advance(ms);
        self.broker.tick();
        for client in self.clients.values_mut() {
            client.silent_ms += ms;
        }
        // A client that was silent for a session knows that its tasks are gone.
        self.clients.retain(|_, client| client.silent_ms < SESSION_MS);
    }

    fn any(&mut self) -> Option<String> {
        let count = self.clients.len();
        if count == 0 {
            return None;
        }
        let at = self.noise.below(count);
        self.clients.keys().nth(at).cloned()
    }
}

#[test]
fn no_task_has_two_owners_and_in_the_end_each_has_one() {
    for seed in 1..=25 {
        let mut group = Group::new(seed);
        for _ in 0..250 {
            let member = group.any();
            match (group.noise.below(20), member) {
                (0, _) if group.clients.len() < 5 => group.come(),
                (1, Some(id)) => group.go(&id),
                (2, Some(id)) => group.beat(&id, true),
                (3, _) => group.pass(1500),
                (_, Some(id)) => group.beat(&id, false),
                (_, None) => group.come(),
            }
            group.pass(100);
        }
        if group.clients.is_empty() {
            group.come();
        }
        for _ in 0..60 {
            let ids: Vec<String> = group.clients.keys().cloned().collect();
            for id in ids {
                group.beat(&id, false);
            }
            group.pass(400);
        }
        let owned: Vec<usize> = group.clients.values().map(|client| client.owned.len()).collect();
        assert_eq!(owned.iter().sum::<usize>(), 7, "seed {seed}: {owned:?}");
        let (least, most) = (owned.iter().min().unwrap(), owned.iter().max().unwrap());
        assert!(most - least <= 1, "seed {seed}: {owned:?}");
    }
}
