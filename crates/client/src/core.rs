//! All machines of a client together: commands and answers go to whom they concern, and each
//! machine gets its turn.

use crate::admin::{self, Calls};
use crate::command::{Command, CommandSender};
use crate::config::ClientConfig;
use crate::connection::Ticket;
use crate::connections::{Answer, Connections, Node};
use crate::coordinator::Coordinators;
use crate::error::{ClientError, ErrorKind};
use crate::event::Event;
use crate::fetcher::{self, Fetcher};
use crate::membership::{self, Membership};
use crate::metadata::Metadata;
use crate::producer::{self, ProducerMachine};
use crate::requests::Response;
use crate::types::{Now, Reader};
use std::collections::BTreeMap;

/// The client without I/O.
#[derive(Debug)]
pub(crate) struct Core {
    config: ClientConfig,
    commands: CommandSender,
    member_id: String,
    pub(crate) connections: Connections,
    metadata: Metadata,
    coordinators: Coordinators,
    calls: Calls,
    fetchers: [Fetcher; 2],
    producers: BTreeMap<u32, ProducerMachine>,
    membership: Option<Membership>,
    events: Vec<Event>,
    started: bool,
    told_unreachable: Now,
    closed: bool,
}

/// Contexts borrow the machines they need and leave the others free.
macro_rules! context {
    ($module:ident, $core:ident, $now:ident) => {
        context!(@$module $core $now)
    };
    (@admin $core:ident $now:ident) => {
        admin::Context {
            connections: &mut $core.connections,
            metadata: &mut $core.metadata,
            coordinators: &mut $core.coordinators,
            member_id: &$core.member_id,
            backoff: $core.config.retry_backoff,
            now: $now,
        }
    };
    (@fetcher $core:ident $now:ident) => {
        fetcher::Context {
            connections: &mut $core.connections,
            metadata: &mut $core.metadata,
            calls: &mut $core.calls,
            events: &mut $core.events,
            operation_timeout: $core.config.operation_timeout,
            now: $now,
        }
    };
    (@producer $core:ident $now:ident) => {
        producer::Context {
            connections: &mut $core.connections,
            metadata: &mut $core.metadata,
            coordinators: &mut $core.coordinators,
            retry_backoff: $core.config.retry_backoff,
            operation_timeout: $core.config.operation_timeout,
            now: $now,
        }
    };
    (@membership $core:ident $now:ident) => {
        membership::Context {
            connections: &mut $core.connections,
            coordinators: &mut $core.coordinators,
            events: &mut $core.events,
            retry_backoff: $core.config.retry_backoff,
            request_timeout: $core.config.request_timeout,
            now: $now,
        }
    };
}

impl Core {
    pub(crate) fn new(config: ClientConfig, commands: CommandSender, member_id: String) -> Self {
        let fetcher = |reader, config: &ClientConfig| {
            let fetch = match reader {
                Reader::Source => config.source.clone(),
                Reader::Changelog => config.changelog.clone(),
            };
            Fetcher::new(reader, fetch, config.retry_backoff, commands.clone())
        };
        Self {
            connections: Connections::new(&config),
            metadata: Metadata::new(&config),
            coordinators: Coordinators::new(config.retry_backoff),
            calls: Calls::default(),
            fetchers: [fetcher(Reader::Source, &config), fetcher(Reader::Changelog, &config)],
            producers: BTreeMap::new(),
            membership: None,
            events: Vec::new(),
            started: false,
            told_unreachable: Now::ZERO,
            closed: false,
            config,
            commands,
            member_id,
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    fn fetcher(&mut self, reader: Reader) -> &mut Fetcher {
        match reader {
            Reader::Source => &mut self.fetchers[0],
            Reader::Changelog => &mut self.fetchers[1],
        }
    }

    pub(crate) fn command(&mut self, command: Command, now: Now) {
        match command {
            Command::Join(config) => {
                self.membership = Some(Membership::new(config, self.member_id.clone()));
            }
            Command::Acknowledge { tasks } => {
                if let Some(membership) = &mut self.membership {
                    membership.acknowledge(tasks);
                }
            }
            Command::ShutdownApplication => {
                if let Some(membership) = &mut self.membership {
                    membership.shut_down_application();
                }
            }
            Command::Leave { completer } => match &mut self.membership {
                Some(membership) => membership.leave(completer, &context!(membership, self, now)),
                None => completer.complete(Ok(())),
            },
            Command::Fetch { reader, partition, start, reset } => {
                self.metadata.watch(&partition.topic);
                self.fetcher(reader).fetch(partition, start, reset);
            }
            Command::StopFetching { reader, partition } => self.fetcher(reader).stop(&partition),
            Command::Pause { reader, partition } => self.fetcher(reader).pause(&partition, true),
            Command::Resume { reader, partition } => self.fetcher(reader).pause(&partition, false),
            // The turn that comes with it is all that is needed.
            Command::Consumed => {}
            Command::Watch { topics } => topics.iter().for_each(|topic| self.metadata.watch(topic)),
            Command::Call(call) => self.calls.start(*call, now + self.config.operation_timeout),
            Command::OpenProducer { producer, config, reserved } => {
                self.producers.insert(producer, ProducerMachine::new(producer, config, reserved));
            }
            Command::AddPartition { producer, handle, partition } => {
                if let Some(producer) = self.producers.get_mut(&producer) {
                    self.metadata.watch(&partition.topic);
                    producer.add_partition(handle, partition);
                }
            }
            Command::Produce { producer, batch } => {
                if let Some(producer) = self.producers.get_mut(&producer) {
                    producer.produce(batch, now);
                }
            }
            Command::Flush { producer, completer } => {
                if let Some(producer) = self.producers.get_mut(&producer) {
                    producer.flush(completer);
                }
            }
            Command::Transaction { producer, command } => {
                if let Some(producer) = self.producers.get_mut(&producer) {
                    producer.order(command);
                }
            }
            Command::CloseProducer { producer } => {
                if let Some(producer) = self.producers.get_mut(&producer) {
                    producer.close();
                }
            }
            Command::DiscardProducer { producer } => {
                self.producers.remove(&producer);
            }
            Command::Close => self.closed = true,
        }
    }

    /// Gives every machine its turn; gives when the next one is due.
    pub(crate) fn poll(&mut self, now: Now) -> Option<Now> {
        if !self.started {
            self.started = true;
            self.connections.last_ready = now;
            self.told_unreachable = now;
        }
        self.connections.expire(now);
        let mut next = None;
        // A machine's turn can fail requests of others at once; few rounds always settle it.
        for _ in 0..4 {
            for answer in self.connections.take_answers() {
                self.answer(answer, now);
            }
            next = self.turn(now);
            if !self.connections.has_answers() {
                break;
            }
        }
        let changed = self.metadata.take_changed();
        if !changed.is_empty() {
            self.events.push(Event::MetadataChanged(changed));
        }
        let unreachable = self.check_reachable(now);
        self.hand_over();
        let connections = self.connections.deadline(now);
        next.into_iter().chain(connections).chain(unreachable).min()
    }

    fn turn(&mut self, now: Now) -> Option<Now> {
        let mut next = Vec::new();
        for fetcher in &mut self.fetchers {
            next.push(fetcher.poll(&mut context!(fetcher, self, now)));
        }
        // Fetchers make calls.
        next.push(self.calls.poll(&mut context!(admin, self, now)));
        let holds_tasks = self.membership.as_ref().is_none_or(|member| member.holds_tasks(now));
        for producer in self.producers.values_mut() {
            producer.hold(!holds_tasks);
            next.push(producer.poll(&mut context!(producer, self, now)));
        }
        self.producers.retain(|_, producer| !producer.is_done());
        if let Some(membership) = &mut self.membership {
            next.push(membership.poll(&mut context!(membership, self, now)));
        }
        self.membership.take_if(|membership| membership.is_gone());
        // Last, as the others say here what they need.
        next.push(self.coordinators.poll(&mut self.connections, now));
        if self.connections.take_lost_broker() {
            self.metadata.refresh();
        }
        next.push(self.metadata.poll(&mut self.connections, now));
        next.into_iter().flatten().min()
    }

    fn answer(&mut self, answer: Answer, now: Now) {
        let Answer { ticket, node, result } = answer;
        match ticket {
            Ticket::Versions => {}
            Ticket::Metadata => self.on_metadata(result, now),
            Ticket::Coordinator => {
                let found = match &result {
                    Ok(Response::FindCoordinator(found)) => Some(&**found),
                    Ok(_) | Err(_) => None,
                };
                self.coordinators.on_answer(found, &mut self.connections, now);
            }
            Ticket::Fetch { fetcher, id } => {
                if let Some(fetcher) = self.fetchers.get_mut(fetcher) {
                    fetcher.on_answer(id, result, &mut context!(fetcher, self, now));
                }
            }
            Ticket::Produce { producer, id } => {
                if let Some(producer) = self.producers.get_mut(&producer) {
                    producer.on_answer(id, result, &mut context!(producer, self, now));
                }
            }
            Ticket::ProducerId { producer } => {
                if let Some(producer) = self.producers.get_mut(&producer) {
                    producer.on_identity(result, &mut context!(producer, self, now));
                }
            }
            Ticket::Transaction { producer } => {
                if let Some(producer) = self.producers.get_mut(&producer) {
                    producer.on_transaction(result, &mut context!(producer, self, now));
                }
            }
            Ticket::Heartbeat => self.on_heartbeat(node, result, now),
            Ticket::TopologyDescription => {
                if let Some(membership) = &mut self.membership {
                    membership.on_description(&result);
                }
            }
            Ticket::Assignment => {
                if let Some(membership) = &mut self.membership {
                    membership.on_described(result, &mut context!(membership, self, now));
                }
            }
            Ticket::Call { call, part } => {
                self.calls.on_answer(call, part, result, &mut context!(admin, self, now));
            }
        }
    }

    fn on_heartbeat(&mut self, node: Node, result: Result<Response, ClientError>, now: Now) {
        if let Some(membership) = &mut self.membership {
            membership.on_heartbeat(node, result, &mut context!(membership, self, now));
        }
    }

    fn on_metadata(&mut self, result: Result<Response, ClientError>, now: Now) {
        let learned = match result {
            Ok(Response::Metadata(answer)) => {
                self.metadata.on_answer(&answer, &mut self.connections, now)
            }
            Ok(_) => Err(ClientError::retriable("another answer than asked for")),
            Err(error) => {
                self.metadata.on_failure(now);
                Err(error)
            }
        };
        if let Err(error) = learned {
            tracing::debug!(%error, "no metadata");
        }
    }

    /// Says so when no broker could be reached for a while.
    fn check_reachable(&mut self, now: Now) -> Option<Now> {
        if self.connections.any_in_use() {
            self.told_unreachable = now;
            return None;
        }
        let since = self.told_unreachable.max(self.connections.last_ready);
        let due = since + self.config.unreachable_after;
        if due > now {
            return Some(due);
        }
        self.told_unreachable = now;
        let why = self
            .connections
            .last_failure
            .clone()
            .unwrap_or_else(|| "bootstrap.servers names no broker".to_owned());
        let seconds = now.saturating_sub(self.connections.last_ready).as_secs();
        let message = format!(
            "no broker of {} could be reached for {seconds} s; the last attempt: {why}",
            self.config.bootstrap.join(",")
        );
        tracing::warn!("{message}");
        let error = ClientError::new(ErrorKind::Retriable, message);
        self.events.push(Event::Unreachable { error });
        Some(now + self.config.unreachable_after)
    }

    fn hand_over(&mut self) {
        if self.events.is_empty() {
            return;
        }
        for event in self.events.drain(..) {
            self.commands.boxes.events.push(event);
        }
        self.commands.waker().wake();
    }
}
