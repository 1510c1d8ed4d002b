//! Users by event sourcing: commands are checked against the latest snapshot and become events.

use kstreams::prelude::*;
use std::fmt;
use std::str::FromStr;

/// What somebody wants. The key of a command is the user's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    Register(String),
    ChangeName(String),
}

/// What happened: numbered without a gap, the registration is 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    Registered { version: u64, name: String },
    NameChanged { version: u64, name: String },
}

/// A user as of the last event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) version: u64,
    pub(crate) name: String,
}

impl Command {
    /// The events that a command leads to, or why there are none.
    pub(crate) fn handle(&self, user: Option<&User>) -> Result<Vec<Event>, String> {
        match (self, user) {
            (Command::Register(name), None) => {
                Ok(vec![Event::Registered { version: 0, name: name.clone() }])
            }
            (Command::ChangeName(name), Some(user)) if user.name != *name => {
                let version = user.version + 1;
                Ok(vec![Event::NameChanged { version, name: name.clone() }])
            }
            (Command::ChangeName(_), Some(_)) => Ok(vec![]),
            (Command::Register(_), Some(_)) => Err("is registered already".into()),
            (Command::ChangeName(_), None) => Err("is not registered".into()),
        }
    }
}

impl User {
    /// The user after an event.
    pub(crate) fn apply(_: Option<User>, event: &Event) -> Option<User> {
        let (Event::Registered { version, name } | Event::NameChanged { version, name }) = event;
        Some(User { version: *version, name: name.clone() })
    }
}

/// Commands in, events and rejections out. `decide` checks each command against the snapshot that the events of the commands
/// before it have made.
pub(crate) fn topology(commands: &str, events: &str, rejections: &str) -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let decisions = builder
        .stream(commands, Consumed::<String, Command>::new())
        .group_by_key(Grouped::new())
        .decide(
            |user: Option<&User>, command: &Command| command.handle(user),
            User::apply,
            Materialized::named("users"),
        );
    decisions.events().to(events, Produced::new());
    decisions.rejections().to(rejections, Produced::new());
    builder.build()
}

/// The classic way, from the parts that Kafka Streams has: events are folded into a table, commands are joined with it, and what
/// comes out goes back to the topic of events. A timestamp of 0 makes the task take events first. It works as long as each command
/// waits until the event of the one before has gone through the topic; three quick commands all see the same snapshot, and give
/// the versions 1, 1, 1. `lint` says so.
pub(crate) fn classic_topology(commands: &str, events: &str) -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let users = builder
        .stream(events, Consumed::<String, Event>::new().timestamps(|_| 0))
        .group_by_key(Grouped::new())
        .aggregate(
            || None,
            |_, user: Option<User>, event| Some(User::apply(user, &event)),
            Materialized::<String, Option<User>>::named("users"),
        );
    builder
        .stream(commands, Consumed::<String, Command>::new())
        .left_join_table(
            &users,
            |command, user| command.handle(user.and_then(Option::as_ref)),
            Joined::new(),
        )
        .flat_map_values(Result::unwrap_or_default)
        .to(events, Produced::new());
    builder.build()
}

kstreams::text_serde!(Command);

/// `register Ann` or `rename Ann`
impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Command::Register(name) => write!(f, "register {name}"),
            Command::ChangeName(name) => write!(f, "rename {name}"),
        }
    }
}

impl FromStr for Command {
    type Err = BoxError;

    fn from_str(text: &str) -> Result<Self, BoxError> {
        match text.split_once(' ') {
            Some(("register", name)) => Ok(Command::Register(name.into())),
            Some(("rename", name)) => Ok(Command::ChangeName(name.into())),
            _ => Err(format!("{text:?} is no command").into()),
        }
    }
}

kstreams::text_serde!(Event);

/// `registered 0 Ann` or `renamed 1 Ann`
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Registered { version, name } => write!(f, "registered {version} {name}"),
            Event::NameChanged { version, name } => write!(f, "renamed {version} {name}"),
        }
    }
}

impl FromStr for Event {
    type Err = BoxError;

    fn from_str(text: &str) -> Result<Self, BoxError> {
        let mut parts = text.splitn(3, ' ');
        let (Some(kind), Some(version), Some(name)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(format!("{text:?} is no event").into());
        };
        let (version, name) = (version.parse()?, name.into());
        match kind {
            "registered" => Ok(Event::Registered { version, name }),
            "renamed" => Ok(Event::NameChanged { version, name }),
            _ => Err(format!("{text:?} is no event").into()),
        }
    }
}

kstreams::text_serde!(User);

/// `1 Ann`
impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.version, self.name)
    }
}

impl FromStr for User {
    type Err = BoxError;

    fn from_str(text: &str) -> Result<Self, BoxError> {
        let (version, name) = text.split_once(' ').ok_or("a user is a version and a name")?;
        Ok(User { version: version.parse()?, name: name.into() })
    }
}
