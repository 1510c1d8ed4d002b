//! The processors of the oracle's topologies.

use kstreams::prelude::*;
use std::collections::BTreeSet;

type Text = Option<String>;

/// Adds a header that tells where the record was read.
pub(crate) struct AddSeen;

impl Processor for AddSeen {
    type In = (Text, Text);
    type Out = (Text, Text);

    fn process(
        &mut self,
        mut record: Record<Text, Text>,
        ctx: &mut Context<Self>,
    ) -> ProcessResult {
        let seen = ctx.metadata().map_or("none".into(), |m| format!("{}{}", m.topic, m.partition));
        record.headers.add("seen", seen);
        ctx.forward(record)
    }
}

/// Forwards a value only when it differs from the last one of its key.
pub(crate) struct Dedup {
    pub(crate) seen: KeyValueStore<String, Text>,
}

impl Processor for Dedup {
    type In = (Text, Text);
    type Out = (Text, Text);

    fn process(&mut self, record: Record<Text, Text>, ctx: &mut Context<Self>) -> ProcessResult {
        let Some(key) = &record.key else { return Ok(()) };
        if self.seen.get(key)?.flatten() == record.value {
            return Ok(());
        }
        self.seen.put(key, Some(&record.value))?;
        ctx.forward(record)
    }
}

/// Sends long and short values different ways.
pub(crate) struct Route;

impl Processor for Route {
    type In = (Text, Text);
    type Out = (Text, Text);

    fn process(&mut self, record: Record<Text, Text>, ctx: &mut Context<Self>) -> ProcessResult {
        match record.value.as_ref().map(String::len) {
            None => ctx.forward(record),
            Some(0 | 1) => ctx.forward_to("short", record),
            Some(_) => ctx.forward_to("long", record),
        }
    }
}

/// Keeps records; every 10 ms of stream time sends all of them on and deletes them.
pub(crate) struct Sweep {
    pub(crate) waiting: KeyValueStore<String, Text>,
}

impl Processor for Sweep {
    type In = (Text, Text);
    type Out = (Text, Text);

    fn init(&mut self, ctx: &mut Context<Self>) -> ProcessResult {
        ctx.schedule(millis(10), PunctuationType::StreamTime, |sweep, now, ctx| {
            for entry in sweep.waiting.all()? {
                let (key, value) = entry?;
                let value = format!("{}@{now}", value.as_deref().unwrap_or("null"));
                ctx.forward(Record::new(Some(key.clone()), Some(value), now))?;
                sweep.waiting.delete(&key)?;
                if sweep.waiting.get(&key)?.is_some() {
                    return Err("still there".into());
                }
            }
            Ok(())
        });
        Ok(())
    }

    fn process(&mut self, record: Record<Text, Text>, _: &mut Context<Self>) -> ProcessResult {
        let Some(key) = &record.key else { return Ok(()) };
        Ok(self.waiting.put(key, Some(&record.value))?)
    }
}

/// Sends the last value of each key on, every 100 ms of the wall clock.
pub(crate) struct Tick {
    pub(crate) last: KeyValueStore<String, Text>,
}

impl Processor for Tick {
    type In = (Text, Text);
    type Out = (Text, Text);

    fn init(&mut self, ctx: &mut Context<Self>) -> ProcessResult {
        ctx.schedule(millis(100), PunctuationType::WallClockTime, |tick, now, ctx| {
            for entry in tick.last.all()? {
                let (key, value) = entry?;
                let value = format!("tick {}", value.as_deref().unwrap_or("null"));
                ctx.forward(Record::new(Some(key), Some(value), now))?;
            }
            Ok(())
        });
        Ok(())
    }

    fn process(&mut self, record: Record<Text, Text>, _: &mut Context<Self>) -> ProcessResult {
        let Some(key) = &record.key else { return Ok(()) };
        Ok(self.last.put(key, Some(&record.value))?)
    }
}

/// Keeps records in a global store; those without a key are left out.
pub(crate) struct Keep {
    pub(crate) global: GlobalTableWriter<String, String>,
}

impl Processor for Keep {
    type In = (Text, Text);
    type Out = ((), ());

    fn process(&mut self, record: Record<Text, Text>, _: &mut Context<Self>) -> ProcessResult {
        let Some(key) = &record.key else { return Ok(()) };
        Ok(self.global.put(key, record.value.as_ref(), record.timestamp)?)
    }
}

/// Looks each key up in a global store.
pub(crate) struct Look {
    pub(crate) global: GlobalTable<String, String>,
}

impl Processor for Look {
    type In = (Text, Text);
    type Out = (Text, Text);

    fn process(&mut self, record: Record<Text, Text>, ctx: &mut Context<Self>) -> ProcessResult {
        let found = match &record.key {
            Some(key) => self.global.get(key)?.map(|(value, _)| value),
            None => None,
        };
        let text = |text: &Text| text.clone().unwrap_or_else(|| "null".into());
        let value = format!("{}/{}", text(&record.value), text(&found));
        ctx.forward(record.with_value(Some(value)))
    }
}

/// Who is in which room: joins and leaves come on two topics.
pub(crate) struct Room {
    pub(crate) rooms: KeyValueStore<String, String>,
}

impl Processor for Room {
    type In = (Text, Text);
    type Out = (Text, Text);

    fn process(&mut self, record: Record<Text, Text>, ctx: &mut Context<Self>) -> ProcessResult {
        let (Some(room), Some(member)) = (&record.key, &record.value) else { return Ok(()) };
        let stored = self.rooms.get(room)?;
        let members = stored.as_deref().unwrap_or_default().split(',');
        let mut members: BTreeSet<&str> = members.filter(|member| !member.is_empty()).collect();
        let joins = ctx.metadata().is_some_and(|read| &*read.topic == "joins");
        let changed = if joins { members.insert(member) } else { members.remove(&**member) };
        if !changed {
            return Ok(());
        }
        let members = members.into_iter().collect::<Vec<_>>().join(",");
        let members = (!members.is_empty()).then_some(members);
        self.rooms.put(room, members.as_ref())?;
        ctx.forward(record.with_value(members))
    }
}

/// Commands against a balance with a version: what would make it negative is rejected.
pub(crate) struct Ledger {
    pub(crate) snapshots: KeyValueStore<String, String>,
}

impl Processor for Ledger {
    type In = (Text, Text);
    type Out = (Text, Text);

    fn process(&mut self, record: Record<Text, Text>, ctx: &mut Context<Self>) -> ProcessResult {
        let (Some(account), Some(command)) = (&record.key, &record.value) else { return Ok(()) };
        let (version, balance) = match self.snapshots.get(account)? {
            Some(snapshot) => {
                let (version, balance) = snapshot.split_once('/').ok_or("no snapshot")?;
                (version.parse::<i64>()?, balance.parse::<i64>()?)
            }
            None => (0, 0),
        };
        let change: i64 = command.encode_utf16().map(|unit| i64::from(unit % 7) - 3).sum();
        if balance + change < 0 {
            let event = format!("rejected {change} v{version}");
            return ctx.forward(record.with_value(Some(event)));
        }
        let snapshot = format!("{}/{}", version + 1, balance + change);
        self.snapshots.put(account, Some(&snapshot))?;
        let event = format!("applied {change} v{}", version + 1);
        ctx.forward(record.with_value(Some(event)))
    }
}
