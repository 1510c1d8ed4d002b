//! What would take a real broker long: epochs that are used up, and ids that nobody uses.

use super::*;

fn init(transactions: &mut Transactions, expected: Option<ProducerEpoch>) -> ProducerEpoch {
    match transactions.init("t", 1_000, expected, (&mut Journal::default(), 0)) {
        Ok(Init::Given(given)) => given,
        other => panic!("{other:?}"),
    }
}

/// An id whose producer has this epoch.
fn with_epoch(epoch: i16) -> Transactions {
    let mut transactions = Transactions::default();
    assert_eq!(init(&mut transactions, None), (0, 0));
    transactions.by_id.get_mut("t").unwrap().epoch = epoch;
    transactions
}

fn part() -> Vec<Part> {
    vec![Part::Partition("a".to_owned(), 0)]
}

fn ended(
    transactions: &mut Transactions,
    producer: ProducerEpoch,
    commit: bool,
) -> Result<ProducerEpoch, ResponseError> {
    match transactions.end("t", producer, (commit, true), 0)? {
        End::Done(now) => Ok(now),
        End::Prepared => {
            transactions.completed("t", 0, &mut Journal::default());
            let transaction = transactions.get("t").unwrap();
            Ok((transaction.producer_id, transaction.epoch))
        }
    }
}

#[test]
fn a_producer_whose_epochs_are_used_up_gets_another_id() {
    let mut transactions = with_epoch(LAST_EPOCH - 1);
    assert_eq!(init(&mut transactions, None), (0, LAST_EPOCH));
    assert_eq!(init(&mut transactions, Some((0, LAST_EPOCH))), (1, 0));
    assert_eq!(init(&mut transactions, Some((0, LAST_EPOCH))), (1, 0), "it did not hear of it");
    assert_eq!(init(&mut transactions, Some((1, 0))), (1, 1));
    let old = transactions.init("t", 1, Some((0, 5)), (&mut Journal::default(), 0));
    assert_eq!(old, Err(ResponseError::ProducerFenced));
}

#[test]
fn the_end_of_a_transaction_may_bring_another_id() {
    let mut transactions = with_epoch(LAST_EPOCH);
    let producer = (0, LAST_EPOCH);
    assert_eq!(transactions.add("t", producer, part(), 0), Ok(true));
    assert_eq!(ended(&mut transactions, producer, true), Ok((1, 0)));
    assert_eq!(ended(&mut transactions, producer, true), Ok((1, 0)), "it did not hear of it");
    assert_eq!(ended(&mut transactions, producer, false), Err(ResponseError::InvalidTxnState));
    assert_eq!(transactions.add("t", (1, 0), part(), 0), Ok(true));
    assert_eq!(ended(&mut transactions, producer, true), Err(ResponseError::ProducerFenced));
}

#[test]
fn a_last_epoch_can_be_fenced() {
    let mut transactions = with_epoch(LAST_EPOCH);
    transactions.add("t", (0, LAST_EPOCH), part(), 0).unwrap();
    transactions.fence("t", 2, 0);
    transactions.completed("t", 0, &mut Journal::default());
    assert_eq!(init(&mut transactions, Some((0, LAST_EPOCH))), (1, 0));
    assert_eq!(init(&mut transactions, None), (1, 1));
}

#[test]
fn ids_that_nobody_uses_are_forgotten_unless_something_is_open() {
    let mut transactions = with_epoch(0);
    transactions.add("t", (0, 0), part(), 5).unwrap();
    transactions.expire(10, &mut Journal::default());
    assert!(transactions.get("t").is_some(), "it is open");
    assert_eq!(transactions.timed_out(1_005), Vec::<String>::new());
    assert_eq!(transactions.timed_out(1_006), ["t"]);
    ended(&mut transactions, (0, 0), false).unwrap();
    transactions.expire(-1, &mut Journal::default());
    assert!(transactions.get("t").is_some(), "it was used since");
    transactions.expire(0, &mut Journal::default());
    assert!(transactions.get("t").is_none());
}
