//! Who is in which room, from two topics that say who joins and who leaves.

use kstreams::prelude::*;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// The users in a room. An empty room is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Room(pub(crate) BTreeSet<String>);

/// What happens to a room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    Join(String),
    Leave(String),
}

/// Reads both topics, keyed by user with the room as the value, and writes each room that changes to `rooms`; null when the last
/// user has left.
///
/// Joins and leaves of one room are brought to one task first; there one processor reads, changes and writes its own store. A
/// table of the same data, joined from elsewhere, would show the room as it was some time ago.
pub(crate) fn topology(joins: &str, leaves: &str, rooms: &str) -> Result<Topology> {
    let store = Stores::key_value::<String, Room>("rooms");
    let builder = StreamsBuilder::new();
    changes(&builder, joins, leaves)
        .repartition(Repartitioned::named("by-room"))
        .process(
            move |ctx| Ok(Rooms { rooms: ctx.store(&store)? }),
            Processed::named("rooms").store(&store),
        )
        .to(rooms, Produced::new());
    builder.build()
}

/// Who joins and who leaves, by room.
fn changes(builder: &StreamsBuilder, joins: &str, leaves: &str) -> KStream<String, Change> {
    let joins = builder
        .stream(joins, Consumed::<String, String>::new())
        .map(|user, room| (room, Change::Join(user)));
    let leaves = builder
        .stream(leaves, Consumed::<String, String>::new())
        .map(|user, room| (room, Change::Leave(user)));
    joins.merge(&leaves)
}

struct Rooms {
    rooms: KeyValueStore<String, Room>,
}

impl Processor for Rooms {
    type In = (String, Change);
    type Out = (String, Option<Room>);

    fn process(
        &mut self,
        record: Record<String, Change>,
        ctx: &mut Context<Self>,
    ) -> ProcessResult {
        let before = self.rooms.get(&record.key)?.unwrap_or_default();
        let mut room = before.clone();
        match &record.value {
            Change::Join(user) => room.0.insert(user.clone()),
            Change::Leave(user) => room.0.remove(user),
        };
        if room == before {
            tracing::info!(room = record.key, change = %record.value, "changes nothing");
            return Ok(());
        }
        let room = (!room.0.is_empty()).then_some(room);
        // No room deletes it, here and in the changelog.
        self.rooms.put(&record.key, room.as_ref())?;
        ctx.forward(record.with_value(room))
    }
}

/// The same without bringing the changes of a room together: users of one room are in several partitions, each task has a room of
/// its own with a part of its members, and they overwrite each other in the output. `lint` says so.
pub(crate) fn wrong_topology(joins: &str, leaves: &str, rooms: &str) -> Result<Topology> {
    let store = Stores::key_value::<String, Room>("rooms");
    let builder = StreamsBuilder::new();
    changes(&builder, joins, leaves)
        .process(
            move |ctx| Ok(Rooms { rooms: ctx.store(&store)? }),
            Processed::named("rooms").store(&store),
        )
        .to(rooms, Produced::new());
    builder.build()
}

kstreams::text_serde!(Room);

/// `ann bob`
impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let users: Vec<&str> = self.0.iter().map(String::as_str).collect();
        f.write_str(&users.join(" "))
    }
}

impl FromStr for Room {
    type Err = BoxError;

    fn from_str(text: &str) -> Result<Self, BoxError> {
        Ok(Room(text.split_whitespace().map(str::to_string).collect()))
    }
}

kstreams::text_serde!(Change);

/// `+ann` or `-ann`
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Join(user) => write!(f, "+{user}"),
            Change::Leave(user) => write!(f, "-{user}"),
        }
    }
}

impl FromStr for Change {
    type Err = BoxError;

    fn from_str(text: &str) -> Result<Self, BoxError> {
        match text.split_at_checked(1) {
            Some(("+", user)) => Ok(Change::Join(user.into())),
            Some(("-", user)) => Ok(Change::Leave(user.into())),
            _ => Err(format!("{text:?} is no change of a room").into()),
        }
    }
}
