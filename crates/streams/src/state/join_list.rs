//! What waits for the other side of a stream-stream join, by time, side and key: a list of values each.

use super::codec::{Codec, KeyValueSerdes, NO_HEADERS};
use super::engine::EngineEntries;
use super::kind::StoreKind;
use super::layers::KeyValueLayers;
use super::layout::join_list;
use super::spec::sealed::Open;
use super::spec::{StoreFormat, StoreSpec, StoreToken, StoreType};
use crate::error::Result;
use crate::processor::{InitContext, TaskContext};
use crate::record::Headers;
use crate::serde::SerdeRef;
use byteview::ByteView;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::iter::Peekable;
use std::rc::Rc;

/// No key is as large: times are not negative.
const BEYOND: &[u8] = &[0xff];

/// A value of one of the two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JoinSide<L, R> {
    Left(L),
    Right(R),
}

/// The serdes of both sides; they share the key.
pub(crate) struct JoinListSerdes<K, L, R> {
    key: SerdeRef<K>,
    left: SerdeRef<L>,
    right: SerdeRef<R>,
}

/// A store of one task with what has not been joined yet.
pub(crate) struct JoinListStore<K, L, R>(Rc<Typed<K, L, R>>);

struct Typed<K, L, R> {
    left: Codec<K, L>,
    right: Codec<K, R>,
    layers: Rc<RefCell<KeyValueLayers>>,
    task: Rc<TaskContext>,
    /// The headers of the values of a key's bytes, where there are any. Java's format has no place for them, so they end with the task.
    headers: RefCell<BTreeMap<Vec<u8>, Vec<Headers>>>,
    /// For the bytes of a key, a value and a list.
    scratch: RefCell<(Vec<u8>, Vec<u8>, Vec<u8>)>,
}

impl<K: 'static, L: 'static, R: 'static> StoreToken<JoinListStore<K, L, R>> {
    /// A store of that name, on disk and logged.
    pub(crate) fn join_list(
        name: &str,
        key: SerdeRef<K>,
        left: SerdeRef<L>,
        right: SerdeRef<R>,
    ) -> Self {
        let spec = StoreSpec::of::<K, (L, R)>(name, StoreKind::JoinList, StoreFormat::Plain);
        StoreToken::new(spec, JoinListSerdes { key, left, right })
    }
}

impl<K: 'static, L: 'static, R: 'static> JoinListStore<K, L, R> {
    /// Adds a value to the list of its time, side and key.
    pub(crate) fn push(
        &self,
        timestamp: i64,
        key: &K,
        value: JoinSide<&L, &R>,
        value_headers: &Headers,
    ) -> Result<()> {
        let Typed { left, right, layers, task, headers, scratch } = &*self.0;
        let (key_bytes, bytes, list) = &mut *scratch.borrow_mut();
        let is_left = matches!(value, JoinSide::Left(_));
        let value = match value {
            JoinSide::Left(value) => left.value_bytes(Some(value), None, bytes)?,
            JoinSide::Right(value) => right.value_bytes(Some(value), None, bytes)?,
        };
        self.write_key(timestamp, is_left, key, key_bytes)?;
        let mut layers = layers.borrow_mut();
        if key_bytes[..] < layers.walked_from[..] {
            layers.walked_from = ByteView::from(&key_bytes[..]);
        }
        let old = layers.get(key_bytes)?;
        list.clear();
        join_list::write_appended(old.as_deref(), is_left, &value.unwrap_or_default(), list);
        let count = join_list::count(list);
        let list = Some(list[..].into());
        layers.put(key_bytes, list, || task.record(), task.timestamp(), &NO_HEADERS);
        let headers = &mut *headers.borrow_mut();
        if !value_headers.is_empty() || headers.contains_key(&key_bytes[..]) {
            let of_key = headers.entry(key_bytes.clone()).or_default();
            of_key.resize(count.saturating_sub(1), Headers::new());
            of_key.push(value_headers.clone());
        }
        Ok(())
    }

    /// Deletes the list of a time, side and key if there is one, as Java's `putIfAbsent` of null does.
    pub(crate) fn remove_if_present(&self, timestamp: i64, is_left: bool, key: &K) -> Result<()> {
        let (key_bytes, ..) = &mut *self.0.scratch.borrow_mut();
        self.write_key(timestamp, is_left, key, key_bytes)?;
        let (mut layers, task) = (self.0.layers.borrow_mut(), &self.0.task);
        self.0.headers.borrow_mut().remove(&key_bytes[..]);
        if layers.get(key_bytes)?.is_some() {
            layers.put(key_bytes, None, || task.record(), task.timestamp(), &NO_HEADERS);
        }
        Ok(())
    }

    /// Deletes the list of a time, side and key.
    pub(crate) fn remove(&self, timestamp: i64, is_left: bool, key: &K) -> Result<()> {
        let (key_bytes, ..) = &mut *self.0.scratch.borrow_mut();
        self.write_key(timestamp, is_left, key, key_bytes)?;
        let (mut layers, task) = (self.0.layers.borrow_mut(), &self.0.task);
        self.0.headers.borrow_mut().remove(&key_bytes[..]);
        layers.put(key_bytes, None, || task.record(), task.timestamp(), &NO_HEADERS);
        Ok(())
    }

    /// All lists by time, side (right first) and the key's bytes. Lists may be deleted while the iterator goes on; the first ones
    /// cost little, however many there are.
    pub(crate) fn all(&self) -> Result<JoinLists<K, L, R>> {
        let committed = self.0.layers.borrow().committed()?.peekable();
        Ok(JoinLists { committed, last: None, is_first_known: false, store: self.0.clone() })
    }

    fn write_key(&self, timestamp: i64, is_left: bool, key: &K, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        join_list::write_key(timestamp, is_left, &[], out);
        self.0.left.write_key(key, out)
    }
}

/// One list.
pub(crate) struct JoinList<K, L, R> {
    pub(crate) timestamp: i64,
    pub(crate) is_left: bool,
    pub(crate) key: K,
    /// In the order in which they came.
    pub(crate) values: Vec<JoinSide<L, R>>,
    /// Theirs, as far as they are known.
    pub(crate) headers: Vec<Headers>,
}

/// Lists of a store, in order.
pub(crate) struct JoinLists<K, L, R> {
    committed: Peekable<EngineEntries>,
    /// The key of the list that was given last.
    last: Option<ByteView>,
    is_first_known: bool,
    store: Rc<Typed<K, L, R>>,
}

impl<K: 'static, L: 'static, R: 'static> JoinLists<K, L, R> {
    /// Before the first list there is nothing: what was deleted there need not be passed again.
    fn note_first(&mut self, key: &[u8]) {
        if !std::mem::replace(&mut self.is_first_known, true) {
            self.store.layers.borrow_mut().walked_from = key.into();
        }
    }

    /// The next key and list, of what is committed with the writes since then over it.
    fn next_bytes(&mut self) -> Option<Result<(ByteView, ByteView)>> {
        loop {
            let written = self.store.layers.borrow_mut().uncommitted_after(self.last.as_ref());
            let committed = match self.committed.peek() {
                Some(Ok((key, _))) => Some(key),
                Some(Err(_)) => return self.committed.next(),
                None => None,
            };
            let (key, list) = match (written, committed) {
                (Some((key, list)), Some(committed)) if key <= *committed => {
                    if key == *committed {
                        drop(self.committed.next());
                    }
                    (key, list)
                }
                (Some((key, list)), None) => (key, list),
                (_, Some(_)) => match self.committed.next()? {
                    Ok((key, list)) => (key, Some(list)),
                    Err(error) => return Some(Err(error)),
                },
                (None, None) => {
                    self.note_first(BEYOND);
                    return None;
                }
            };
            self.last = Some(key.clone());
            if let Some(list) = list {
                self.note_first(&key);
                return Some(Ok((key, list)));
            }
        }
    }
}

impl<K: 'static, L: 'static, R: 'static> Iterator for JoinLists<K, L, R> {
    type Item = Result<JoinList<K, L, R>>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.next_bytes()?;
        let Typed { left, right, .. } = &*self.store;
        Some(entry.and_then(|(key, list)| {
            let headers = self.store.headers.borrow().get(&key[..]).cloned().unwrap_or_default();
            let (timestamp, is_left, key) =
                join_list::split_key(&key).ok_or_else(|| left.damaged_key())?;
            let elements = join_list::elements(&list)
                .ok_or_else(|| left.failed("read a list", "it is damaged".into()))?;
            let values = elements.map(|(is_left, value)| match is_left {
                true => left.read_value(value).map(JoinSide::Left),
                false => right.read_value(value).map(JoinSide::Right),
            });
            let values = values.collect::<Result<_>>()?;
            Ok(JoinList { timestamp, is_left, key: left.read_key(key)?, values, headers })
        }))
    }
}

impl<K: 'static, L: 'static, R: 'static> StoreType for JoinListStore<K, L, R> {}

impl<K: 'static, L: 'static, R: 'static> Open for JoinListStore<K, L, R> {
    type Serdes = JoinListSerdes<K, L, R>;

    fn open(token: &StoreToken<Self>, ctx: &InitContext<'_>) -> Result<Self> {
        let (name, JoinListSerdes { key, left, right }) = (&token.spec.name, token.serdes);
        let topic = ctx.stores.serde_topic(name);
        let left = KeyValueSerdes { key: key.clone(), value: left.clone() };
        let right = KeyValueSerdes { key: key.clone(), value: right.clone() };
        Ok(JoinListStore(Rc::new(Typed {
            left: Codec::new(name.clone(), topic.clone(), left),
            right: Codec::new(name.clone(), topic, right),
            layers: ctx.stores.key_value(name)?,
            task: ctx.task.clone(),
            headers: RefCell::default(),
            scratch: RefCell::default(),
        })))
    }
}

impl<K, L, R> fmt::Debug for JoinListStore<K, L, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JoinListStore").field(&self.0.left.name).finish()
    }
}

impl<K, L, R> fmt::Debug for JoinListSerdes<K, L, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinListSerdes")
    }
}
