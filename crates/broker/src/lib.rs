//! An embedded single-node Kafka broker.
//!
//! It speaks the Kafka protocol over TCP on the loopback and over memory, keeps its records in
//! memory or in a directory, and does everything in deterministic steps: time and randomness come
//! from outside. It serves examples, tests and simulations; it is not a production broker.
//!
//! ```text
//! front (listener, memory) -> node (one step a request) -> api/* -> topics, logs, groups
//!        <- mailbox <-  answers, now or later (long polls, joins, timers)
//! ```
//!
//! ```
//! use kstreams_broker::Broker;
//!
//! let broker = Broker::builder().in_memory().start()?;
//! broker.create_topic("words", 2)?;
//! println!("a Kafka client can connect to {}", broker.bootstrap());
//! # Ok::<(), kstreams_broker::BrokerError>(())
//! ```
//!
//! A simulation opens no socket, moves the time itself and lets things go wrong:
//!
//! ```
//! use std::sync::Arc;
//! use kstreams_broker::{Broker, BrokerConfig, Fault, FaultAction, ManualClock};
//!
//! let clock = Arc::new(ManualClock::new(0));
//! let mut config = BrokerConfig::quick();
//! config.seed = Some(7);
//! let broker = Broker::builder().without_tcp().config(config).clock(clock.clone()).start()?;
//! let mut connection = broker.connect(); // std::io::Read + Write, never blocks
//! connection.on_ready(|| { /* note that there is something to read */ });
//! broker.inject(Fault::on(0, FaultAction::CutAfter).after(2)); // the third produce's answer is lost
//! clock.advance(100);
//! let next_due_at = broker.tick();
//! # let _ = next_due_at;
//! # Ok::<(), kstreams_broker::BrokerError>(())
//! ```
//!
//! Not served: the consumer group protocol of KIP-848 and share groups, two-phase commit of
//! transactions, quotas, ACLs, SASL and TLS, several brokers.

mod broker;
mod config;
mod error;

mod listener;
mod mailbox;
mod memory;

mod api;
mod faults;
mod node;
mod waiting;

mod cleaning;
mod compact;
mod fetch_session;
mod log;
mod producer_state;
mod segment;
mod topic_config;
mod topics;

mod group;
mod txn;

mod clock;
mod journal;
mod random;

pub use broker::{Broker, BrokerBuilder, StoredRecord};
pub use clock::{Clock, ManualClock, SystemClock};
pub use config::BrokerConfig;
pub use error::BrokerError;
pub use faults::{Fault, FaultAction};
pub use memory::MemoryConnection;
