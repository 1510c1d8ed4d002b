//! The table of states and events, pair by pair.

use super::*;

const STATES: [State; 11] = [
    State::Ready,
    State::Open,
    State::Failed,
    State::Fenced,
    State::Flushing,
    State::Enlisting,
    State::Offsets,
    State::Committing,
    State::Draining,
    State::Aborting,
    State::Renewing,
];

const EVENTS: [Event; 15] = [
    Event::Sent,
    Event::Commit,
    Event::Written { offsets: true },
    Event::Written { offsets: false },
    Event::Nothing,
    Event::Enlisted,
    Event::OffsetsTaken,
    Event::Stale,
    Event::Abort,
    Event::Drained,
    Event::Ended,
    Event::Renewed,
    Event::Refused,
    Event::Fenced,
    Event::Init,
];

/// One line a state: what each event makes of it, without those that do not concern it.
fn table(version: TransactionVersion) -> String {
    let mut lines = String::new();
    for state in STATES {
        lines += &format!("{state:?}:");
        for event in EVENTS {
            let Some(next) = state.after(event, version) else { continue };
            let name = match event {
                Event::Written { offsets: true } => "WrittenOffsets".to_owned(),
                Event::Written { offsets: false } => "Written".to_owned(),
                other => format!("{other:?}"),
            };
            lines += &format!(" {name}={next:?}");
        }
        lines += "\n";
    }
    lines
}

const V2: &str = "\
Ready: Sent=Open Commit=Flushing Abort=Draining Refused=Failed Fenced=Fenced Init=Ready
Open: Sent=Open Commit=Flushing Abort=Draining Refused=Failed Fenced=Fenced Init=Ready
Failed: Abort=Draining Refused=Failed Fenced=Fenced Init=Ready
Fenced: Fenced=Fenced Init=Ready
Flushing: Sent=Flushing WrittenOffsets=Offsets Written=Committing Nothing=Ready Refused=Failed Fenced=Fenced Init=Ready
Enlisting: Enlisted=Offsets Refused=Failed Fenced=Fenced Init=Ready
Offsets: OffsetsTaken=Committing Stale=Open Refused=Failed Fenced=Fenced Init=Ready
Committing: Ended=Ready Refused=Failed Fenced=Fenced Init=Ready
Draining: Nothing=Ready Drained=Aborting Refused=Fenced Fenced=Fenced Init=Ready
Aborting: Ended=Ready Refused=Fenced Fenced=Fenced Init=Ready
Renewing: Renewed=Ready Refused=Fenced Fenced=Fenced Init=Ready
";

#[test]
fn each_pair_of_state_and_event_leads_where_the_table_says() {
    assert_eq!(table(TransactionVersion::V2), V2);
    let v1 = V2
        .replace("WrittenOffsets=Offsets", "WrittenOffsets=Enlisting")
        .replace("Aborting: Ended=Ready", "Aborting: Ended=Renewing");
    assert_eq!(table(TransactionVersion::V1), v1);
}

#[test]
fn each_refusal_has_its_remedy() {
    let all = |codes: &[i16], expected: Remedy| {
        for code in codes {
            assert_eq!(remedy(*code), expected, "{code}");
        }
    };
    all(&[51], Remedy::Soon);
    all(&[15, 16], Remedy::Coordinator);
    all(&[3, 7, 14], Remedy::Retry);
    all(&[22, 113], Remedy::MemberEpoch);
    all(&[47, 49, 90], Remedy::Init);
    // Authorization, unknown member, state, size of metadata, timeout of the transaction, sequence,
    // and what Kafka itself calls abortable.
    all(&[53, 30, 29, 25, 48, 12, 50, 45, 59, 120], Remedy::Abort);
}
