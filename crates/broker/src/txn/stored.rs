//! A transactional id in the journal: a line of numbers, then a part of its transaction a line.

use super::{State, Transaction, Transactions};
use crate::journal::{Journal, key};
use crate::topics::text;

impl Transactions {
    /// What the journal knows.
    pub(crate) fn open(journal: &Journal) -> Self {
        let mut transactions = Self::default();
        let next = journal.under("producers").into_iter().next();
        transactions.producer_ids.next =
            next.and_then(|(_, id)| text(&id).parse().ok()).unwrap_or(0);
        for (parts, value) in journal.under("txn") {
            let id = parts.join("\0");
            match Transaction::decode(&text(&value)) {
                Some(transaction) => {
                    transactions.by_id.insert(id, transaction);
                }
                None => tracing::warn!(id, "this transaction is not readable"),
            }
        }
        transactions
    }

    /// Remembers what changed about an id.
    pub(crate) fn record(&self, id: &str, journal: &mut Journal) {
        if let Some(transaction) = self.by_id.get(id).filter(|_| journal.is_kept()) {
            journal.put(key(&["txn", id]), Some(transaction.encode().as_bytes()));
        }
    }
}

impl Transaction {
    fn encode(&self) -> String {
        let Self { producer_id, epoch, last_epoch, previous_id, timeout_ms, .. } = self;
        let (state, started, updated) = (self.state.name(), self.started, self.updated);
        let mut text = format!(
            "{state} {producer_id} {epoch} {last_epoch} {previous_id} {timeout_ms} {started} {updated}"
        );
        for (topic, partition) in &self.partitions {
            text.push_str(&format!("\0partition {topic} {partition}"));
        }
        for group in &self.groups {
            text.push_str(&format!("\0group {group}"));
        }
        text
    }

    fn decode(text: &str) -> Option<Self> {
        let mut parts = text.split('\0');
        let mut numbers = parts.next()?.split(' ');
        let name = numbers.next()?;
        let mut transaction = Self {
            state: State::ALL.into_iter().find(|state| state.name() == name)?,
            producer_id: numbers.next()?.parse().ok()?,
            epoch: numbers.next()?.parse().ok()?,
            last_epoch: numbers.next()?.parse().ok()?,
            previous_id: numbers.next()?.parse().ok()?,
            timeout_ms: numbers.next()?.parse().ok()?,
            started: numbers.next()?.parse().ok()?,
            updated: numbers.next()?.parse().ok()?,
            ..Self::default()
        };
        for part in parts {
            match part.split_once(' ')? {
                ("partition", at) => {
                    let (topic, partition) = at.split_once(' ')?;
                    transaction.partitions.insert((topic.to_owned(), partition.parse().ok()?));
                }
                ("group", group) => {
                    transaction.groups.insert(group.to_owned());
                }
                _ => return None,
            }
        }
        Some(transaction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_of_the_journal_reads_back() {
        let transaction = Transaction {
            producer_id: 7,
            epoch: 3,
            last_epoch: 2,
            previous_id: -1,
            timeout_ms: 60_000,
            state: State::Ongoing,
            partitions: [("a.b".to_owned(), 4), ("c".to_owned(), 0)].into(),
            groups: ["a group\nof two lines".to_owned()].into(),
            started: 12,
            updated: 13,
        };
        assert_eq!(Transaction::decode(&transaction.encode()), Some(transaction));
        for broken in ["", "Empty 1", "Happy 1 2 3 4 5 6 7", "Empty 1 2 3 4 5 6 7\0what 1"] {
            assert_eq!(Transaction::decode(broken), None, "{broken}");
        }
    }
}
