//! When a windowed aggregation gives results.

/// Whether each change of a window is a result, or only the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EmitStrategy {
    /// Every change, or with a record cache the last one of each commit.
    #[default]
    OnWindowUpdate,
    /// One result a window, when stream time has passed its end and the grace period: it never changes again.
    OnWindowClose,
}
