//! One setting: its name, what it takes, its default.

use crate::error::{Error, Result};

/// What a setting takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// Any text that is not empty.
    Text,
    /// A whole number in a range, both ends included.
    Number {
        /// The least.
        min: i64,
        /// The greatest.
        max: i64,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Some of these words, with commas between.
    Choices(&'static [&'static str]),
}

/// One setting.
#[derive(Debug, Clone, Copy)]
pub struct ConfigKey {
    /// The name, Java's where Java has it.
    pub name: &'static str,
    /// What it takes.
    pub kind: ValueKind,
    /// The value when nothing is set.
    pub default: Option<&'static str>,
    /// What it does, with the unit.
    pub doc: &'static str,
}

impl ConfigKey {
    pub(super) fn check(&self, value: &str) -> Result<()> {
        let wanted = match self.kind {
            ValueKind::Text if !value.is_empty() => return Ok(()),
            ValueKind::Text => "a text".to_string(),
            ValueKind::Number { min, max } => {
                if value.parse::<i64>().is_ok_and(|number| (min..=max).contains(&number)) {
                    return Ok(());
                }
                match max {
                    i64::MAX => format!("a whole number from {min} on"),
                    _ => format!("a whole number from {min} to {max}"),
                }
            }
            ValueKind::Choice(words) if words.contains(&value) => return Ok(()),
            ValueKind::Choices(words)
                if value.split(',').all(|word| words.contains(&word.trim())) =>
            {
                return Ok(());
            }
            ValueKind::Choices(words) => format!("some of {}", words.join(", ")),
            ValueKind::Choice(words) => format!("one of {}", words.join(", ")),
        };
        Err(Error::config(format!("{} cannot be {value:?}: it takes {wanted}", self.name)))
    }
}
