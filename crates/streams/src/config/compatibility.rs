//! Whether operators give the right results or those of Java 4.4 where the two differ.

use crate::state::LogMode;

/// The setting `compatibility`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compatibility {
    /// What is right.
    Correct,
    /// What Java 4.4 gives, bit for bit: for groups of Java and Rust members, and for comparing outputs.
    Java44,
}

/// What operators have to know of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OperatorRules {
    pub(crate) compatibility: Compatibility,
    /// Wall-clock time in ms between two looks for what has become final.
    pub(crate) emit_interval: i64,
}

impl OperatorRules {
    #[cfg(test)]
    pub(crate) const CORRECT: Self =
        OperatorRules { compatibility: Compatibility::Correct, emit_interval: 0 };
}

impl Compatibility {
    /// How often a key of a compacted changelog is logged.
    pub(crate) fn log_mode(self) -> LogMode {
        match self {
            Compatibility::Correct => LogMode::LastPerCommit,
            Compatibility::Java44 => LogMode::EveryWrite,
        }
    }
}
