//! How operators read windowed tables by their keys.

use super::{TableView, View};
use crate::error::Result;
use crate::state::{SessionStore, StoreToken, TimestampedWindowStore};
use crate::windowed::{SessionWindowed, TimeWindowed};
use std::rc::Rc;
use std::sync::Arc;

struct WindowView<K, V>(TimestampedWindowStore<K, V>);

impl<K: 'static, V: 'static> TableView<TimeWindowed<K>, V> for WindowView<K, V> {
    fn get(&self, key: &TimeWindowed<K>) -> Result<Option<(V, i64)>> {
        self.0.fetch(&key.key, key.window.start)
    }
}

struct SessionView<K, V>(SessionStore<K, V>);

impl<K: 'static, V: 'static> TableView<SessionWindowed<K>, V> for SessionView<K, V> {
    fn get(&self, key: &SessionWindowed<K>) -> Result<Option<(V, i64)>> {
        let value = self.0.fetch_session(&key.key, key.window)?;
        Ok(value.map(|value| (value, key.window.end)))
    }
}

/// The view of a table in a store of time windows.
pub(crate) fn window_view<K: 'static, V: 'static>(
    token: StoreToken<TimestampedWindowStore<K, V>>,
) -> View<TimeWindowed<K>, V> {
    View {
        stores: vec![token.spec.name.clone()],
        open: Arc::new(move |ctx| Ok(Rc::new(WindowView(ctx.store(&token)?)))),
    }
}

/// The view of a table in a store of sessions.
pub(crate) fn session_view<K: 'static, V: 'static>(
    token: StoreToken<SessionStore<K, V>>,
) -> View<SessionWindowed<K>, V> {
    View {
        stores: vec![token.spec.name.clone()],
        open: Arc::new(move |ctx| Ok(Rc::new(SessionView(ctx.store(&token)?)))),
    }
}
