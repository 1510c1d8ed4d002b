//! The processors of the oracle's topologies.

use kstreams::prelude::*;

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
