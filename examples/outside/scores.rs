//! Scores of players, which other threads look at, and a bonus that other threads change.

use kstreams::prelude::*;
use std::time::Duration;

/// What a score is kept as: nothing before the first point.
pub(crate) type Score = Option<i64>;

/// The scores, as the table of an aggregate.
pub(crate) fn scores() -> StoreToken<TimestampedKeyValueStore<String, Score>> {
    Stores::timestamped_key_value::<String, Score>("scores")
}

/// How much a point of a player counts; 1 if nobody said otherwise.
pub(crate) fn bonuses() -> StoreToken<KeyValueStore<String, i64>> {
    Stores::key_value::<String, i64>("bonuses")
}

/// Adds up points by player. `bonus_updates` is the topic by which other threads change bonuses; once a `round` all scores are
/// halved.
pub(crate) fn topology(
    points: &str,
    bonus_updates: &str,
    scores: &StoreToken<TimestampedKeyValueStore<String, Score>>,
    bonuses: &StoreToken<KeyValueStore<String, i64>>,
    round: Duration,
) -> Result<Topology> {
    let (scores, bonuses) = (*scores, *bonuses);
    let builder = StreamsBuilder::new();
    builder.store_writer(&bonuses, bonus_updates);
    let points = builder.stream(points, Consumed::<String, i64>::new()).process_values(
        move |ctx| Ok(Weigh { bonuses: ctx.store(&bonuses)? }),
        Processed::named("weigh").store(&bonuses),
    );
    let _ = points.group_by_key(Grouped::new()).aggregate(
        || None,
        |_player, score: Score, points| Some(Some(score.unwrap_or(0) + points)),
        Materialized::<String, Score>::named("scores").caching_disabled(),
    );
    // A processor beside the aggregate, attached to its store by name.
    let _ = points.process(
        move |ctx| Ok(Decay { scores: ctx.store(&scores)?, round }),
        Processed::named("decay").store(&scores),
    );
    builder.build()
}

/// Multiplies points by the player's bonus.
struct Weigh {
    bonuses: KeyValueStore<String, i64>,
}

impl FixedKeyProcessor for Weigh {
    type Key = String;
    type In = i64;
    type Out = i64;

    fn process(
        &mut self,
        record: FixedKeyRecord<String, i64>,
        ctx: &mut FixedKeyContext<Self>,
    ) -> ProcessResult {
        let bonus = self.bonuses.get(record.key())?.unwrap_or(1);
        ctx.forward(record.map_value(|points| points * bonus))
    }
}

/// Halves all scores, a few at a time; those that are used up go.
struct Decay {
    scores: TimestampedKeyValueStore<String, Score>,
    round: Duration,
}

impl Processor for Decay {
    type In = (String, i64);
    type Out = ((), ());

    fn init(&mut self, ctx: &mut Context<Self>) -> ProcessResult {
        let (chunk, wall_clock) = (Chunk::default(), PunctuationType::WallClockTime);
        ctx.schedule_chunked(
            &self.scores,
            self.round,
            wall_clock,
            chunk,
            |decay, now, entry, _| {
                let (player, (score, _)) = entry;
                let half = score.map(|score| score / 2).filter(|half| *half > 0);
                Ok(decay.scores.put(&player, half.map(Some).as_ref().map(|score| (score, now)))?)
            },
        );
        Ok(())
    }

    fn process(&mut self, _: Record<String, i64>, _: &mut Context<Self>) -> ProcessResult {
        Ok(())
    }
}
