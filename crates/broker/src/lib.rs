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

mod clock;
mod journal;
mod random;

pub use broker::{Broker, BrokerBuilder, StoredRecord};
pub use clock::{Clock, ManualClock, SystemClock};
pub use config::BrokerConfig;
pub use error::BrokerError;
pub use faults::{Fault, FaultAction};
pub use memory::MemoryConnection;
