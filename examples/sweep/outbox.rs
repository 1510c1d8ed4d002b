//! An outbox: messages wait in a store until a service has taken them.

use kstreams::prelude::*;
use std::sync::Arc;
use std::time::Duration;

/// Hands a message to the service; whether it was taken.
pub(crate) type Deliver = Arc<dyn Fn(&str, &str) -> bool + Send + Sync>;

/// Keeps each message of the topic, keyed by its id, and every now and then hands all that wait to the service. What is taken is
/// deleted, what is refused waits for the next round. A null value takes a message back.
pub(crate) fn topology(
    messages: &str,
    store: StoreToken<KeyValueStore<String, String>>,
    every: Duration,
    deliver: Deliver,
) -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let _ = builder.stream(messages, Consumed::<String, Option<String>>::new()).process(
        move |ctx| Ok(Outbox { waiting: ctx.store(&store)?, every, deliver: deliver.clone() }),
        Processed::named("outbox").store(&store),
    );
    builder.build()
}

/// The store of messages.
pub(crate) fn waiting() -> StoreToken<KeyValueStore<String, String>> {
    Stores::key_value::<String, String>("waiting")
}

struct Outbox {
    waiting: KeyValueStore<String, String>,
    every: Duration,
    deliver: Deliver,
}

impl Processor for Outbox {
    type In = (String, Option<String>);
    type Out = ((), ());

    fn init(&mut self, ctx: &mut Context<Self>) -> ProcessResult {
        // A few messages at a time: a slow service does not keep the thread from its other work.
        let chunk = Chunk::entries(100).time(Duration::from_millis(50));
        let wall_clock = PunctuationType::WallClockTime;
        ctx.schedule_chunked(
            &self.waiting,
            self.every,
            wall_clock,
            chunk,
            |outbox, _, entry, ctx| {
                let (id, message) = entry;
                if (outbox.deliver)(&id, &message) {
                    outbox.waiting.delete(&id)?;
                    // The sooner it is committed, the less is sent again after a crash.
                    ctx.request_commit();
                }
                Ok(())
            },
        );
        Ok(())
    }

    fn process(
        &mut self,
        record: Record<String, Option<String>>,
        _: &mut Context<Self>,
    ) -> ProcessResult {
        Ok(self.waiting.put(&record.key, record.value.as_ref())?)
    }
}
