//! Fetch sessions: what a consumer fetches again and again, so that it need not say it each time
//! and hears only of partitions where something is new (KIP-227). Java: `FetchSession`.

use std::collections::BTreeMap;

use kstreams_protocol::ResponseError;

use crate::api::fetch::FetchItem;

/// `max.incremental.fetch.session.cache.slots`.
const SLOTS: usize = 1000;

/// All sessions.
#[derive(Debug, Default)]
pub(crate) struct FetchSessions {
    next_id: i32,
    sessions: BTreeMap<i32, Session>,
    uses: u64,
}

type Key = (String, uuid::Uuid, i32);

/// What one consumer fetches.
#[derive(Debug, Default)]
struct Session {
    epoch: i32,
    by_id: bool,
    last_use: u64,
    /// In the order in which they are read: what gave records goes to the end.
    items: BTreeMap<u64, (FetchItem, Told)>,
    places: BTreeMap<Key, u64>,
    next_place: u64,
}

/// What the consumer was last told of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) high_watermark: i64,
    pub(crate) last_stable_offset: i64,
    pub(crate) start_offset: i64,
}

const NOTHING: Told = Told { high_watermark: -1, last_stable_offset: -1, start_offset: -1 };

fn key(item: &FetchItem) -> Key {
    (item.topic.to_string(), item.topic_id, item.partition)
}

impl FetchSessions {
    /// Begins a session; 0, which means none, if there is no use in one.
    pub(crate) fn begin(&mut self, items: &[FetchItem], by_id: bool) -> i32 {
        if items.is_empty() {
            return 0;
        }
        if self.sessions.len() >= SLOTS {
            let oldest = self.sessions.iter().min_by_key(|(_, session)| session.last_use);
            if let Some(id) = oldest.map(|(id, _)| *id) {
                self.sessions.remove(&id);
            }
        }
        self.next_id = self.next_id.checked_add(1).unwrap_or(1);
        self.uses += 1;
        let mut session = Session { epoch: 1, by_id, last_use: self.uses, ..Session::default() };
        for item in items {
            session.set(item.clone());
        }
        self.sessions.insert(self.next_id, session);
        self.next_id
    }

    /// Changes a session as the next request of it says, and gives all that it fetches.
    pub(crate) fn go_on(
        &mut self,
        id: i32,
        epoch: i32,
        by_id: bool,
        changed: Vec<FetchItem>,
        forgotten: &[Key],
    ) -> Result<Vec<FetchItem>, ResponseError> {
        let session = self.sessions.get_mut(&id).ok_or(ResponseError::FetchSessionIdNotFound)?;
        if session.epoch != epoch {
            return Err(ResponseError::InvalidFetchSessionEpoch);
        }
        if session.by_id != by_id {
            return Err(ResponseError::FetchSessionTopicIdError);
        }
        self.uses += 1;
        session.last_use = self.uses;
        session.epoch = epoch.checked_add(1).unwrap_or(1);
        for key in forgotten {
            if let Some(place) = session.places.remove(key) {
                session.items.remove(&place);
            }
        }
        for item in changed {
            session.set(item);
        }
        Ok(session.items.values().map(|(item, _)| item.clone()).collect())
    }

    pub(crate) fn end(&mut self, id: i32) {
        self.sessions.remove(&id);
    }

    /// Notes what an answer says of a partition; whether the consumer has to hear it.
    pub(crate) fn tell(
        &mut self,
        id: i32,
        item: &FetchItem,
        told: Told,
        has_records: bool,
    ) -> bool {
        let Some(session) = self.sessions.get_mut(&id) else { return true };
        let Some(place) = session.places.get_mut(&key(item)) else { return true };
        let Some((_, before)) = session.items.get_mut(place) else { return true };
        let news = has_records || *before != told;
        *before = told;
        if has_records && let Some(entry) = session.items.remove(place) {
            *place = session.next_place;
            session.items.insert(session.next_place, entry);
            session.next_place += 1;
        }
        news
    }
}

impl Session {
    fn set(&mut self, item: FetchItem) {
        let place = *self.places.entry(key(&item)).or_insert_with(|| {
            self.next_place += 1;
            self.next_place - 1
        });
        let told = self.items.get(&place).map_or(NOTHING, |(_, told)| *told);
        self.items.insert(place, (item, told));
    }
}
