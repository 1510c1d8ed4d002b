//! The states of an application and of its threads.
//!
//! ```text
//! application                                     thread
//! Created -> Rebalancing <-> Running              Starting -> Assigned <-> Running
//!                 |  |          |                     |           |           |
//!                 |  +-> PendingError -> Error         +---> PendingShutdown <-+
//!                 +----> PendingShutdown -> NotRunning           |
//!                                                              Dead
//! ```

use std::fmt;

/// The state of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Made, not started.
    Created,
    /// Tasks are being moved or restored.
    Rebalancing,
    /// All threads process.
    Running,
    /// Closing.
    PendingShutdown,
    /// Closed.
    NotRunning,
    /// A fatal error: closing.
    PendingError,
    /// Closed after a fatal error.
    Error,
}

impl State {
    /// Whether the application may go from one state to another.
    pub(crate) fn may_become(self, next: State) -> bool {
        use State::*;
        match self {
            Created => matches!(next, Rebalancing | PendingShutdown),
            Rebalancing => matches!(next, Running | PendingShutdown | PendingError),
            Running => matches!(next, Rebalancing | PendingShutdown | PendingError),
            PendingShutdown => matches!(next, NotRunning),
            PendingError => matches!(next, Error),
            NotRunning | Error => false,
        }
    }

    /// Whether nothing will change any more.
    pub fn is_terminal(self) -> bool {
        matches!(self, State::NotRunning | State::Error)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The state of a stream thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThreadState {
    /// Joining the group.
    Starting,
    /// Opening, restoring or giving up tasks.
    Assigned,
    /// Processing.
    Running,
    /// Committing and closing for good.
    PendingShutdown,
    /// Ended.
    Dead,
}

impl ThreadState {
    pub(crate) fn may_become(self, next: ThreadState) -> bool {
        use ThreadState::*;
        match self {
            Starting => matches!(next, Assigned | PendingShutdown),
            Assigned => matches!(next, Running | PendingShutdown),
            Running => matches!(next, Assigned | PendingShutdown),
            PendingShutdown => matches!(next, Dead),
            Dead => false,
        }
    }
}

/// The state of an application as its threads make it; `None` leaves it as it is.
pub(crate) fn of_threads(threads: &[ThreadState]) -> Option<State> {
    let living = || threads.iter().filter(|state| **state != ThreadState::Dead);
    if living().next().is_none() || threads.contains(&ThreadState::PendingShutdown) {
        return None;
    }
    let running = living().all(|state| *state == ThreadState::Running);
    Some(if running { State::Running } else { State::Rebalancing })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_application_states() {
        use State::*;
        let all = [Created, Rebalancing, Running, PendingShutdown, NotRunning, PendingError, Error];
        let allowed: Vec<String> = all
            .iter()
            .flat_map(|from| all.iter().map(move |to| (from, to)))
            .filter(|(from, to)| from.may_become(**to))
            .map(|(from, to)| format!("{from}->{to}"))
            .collect();
        assert_eq!(
            allowed.join(" "),
            "Created->Rebalancing Created->PendingShutdown \
             Rebalancing->Running Rebalancing->PendingShutdown Rebalancing->PendingError \
             Running->Rebalancing Running->PendingShutdown Running->PendingError \
             PendingShutdown->NotRunning PendingError->Error"
        );
    }

    #[test]
    fn every_pair_of_thread_states() {
        use ThreadState::*;
        let all = [Starting, Assigned, Running, PendingShutdown, Dead];
        let allowed: Vec<String> = all
            .iter()
            .flat_map(|from| all.iter().map(move |to| (from, to)))
            .filter(|(from, to)| from.may_become(**to))
            .map(|(from, to)| format!("{from:?}->{to:?}"))
            .collect();
        assert_eq!(
            allowed.join(" "),
            "Starting->Assigned Starting->PendingShutdown Assigned->Running \
             Assigned->PendingShutdown Running->Assigned Running->PendingShutdown \
             PendingShutdown->Dead"
        );
    }

    #[test]
    fn an_application_runs_when_all_its_living_threads_do() {
        use ThreadState::*;
        assert_eq!(of_threads(&[Running, Running]), Some(State::Running));
        assert_eq!(of_threads(&[Running, Assigned]), Some(State::Rebalancing));
        assert_eq!(of_threads(&[Running, Dead]), Some(State::Running));
        assert_eq!(of_threads(&[Running, PendingShutdown]), None);
        assert_eq!(of_threads(&[Dead]), None);
    }
}
