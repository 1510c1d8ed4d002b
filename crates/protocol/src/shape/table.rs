//! The fields of all messages, read from `shapes.txt` once.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A range of versions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Versions {
    min: i16,
    max: i16,
}

impl Versions {
    const NONE: Self = Self { min: 1, max: 0 };

    pub(super) fn contains(self, version: i16) -> bool {
        (self.min..=self.max).contains(&version)
    }

    /// `3+`, `3-5`, `3` or `-`.
    fn parse(text: &str) -> Option<Self> {
        if text == "-" {
            return Some(Self::NONE);
        }
        if let Some(min) = text.strip_suffix('+') {
            return Some(Self { min: min.parse().ok()?, max: i16::MAX });
        }
        let (min, max) = text.split_once('-').unwrap_or((text, text));
        Some(Self { min: min.parse().ok()?, max: max.parse().ok()? })
    }
}

#[derive(Debug)]
pub(super) enum Kind {
    /// A number, bool or id of this many bytes.
    Number(usize),
    Text,
    Bytes,
    Struct(Vec<Field>),
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) kind: Kind,
    pub(super) array: bool,
    pub(super) versions: Versions,
    pub(super) nullable: Versions,
    pub(super) tag: Option<(u32, Versions)>,
}

#[derive(Debug)]
pub(super) struct Message {
    pub(super) flexible: Versions,
    pub(super) fields: Vec<Field>,
}

type Table = BTreeMap<(i16, bool), Message>;

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    // A line that is not understood is left out: the tests see to it that there is none.
    include_str!("shapes.txt").lines().filter_map(line).collect()
});

pub(super) fn message(key: i16, request: bool) -> Option<&'static Message> {
    TABLE.get(&(key, request))
}

fn line(line: &str) -> Option<((i16, bool), Message)> {
    let mut words = line.split_whitespace();
    let key = words.next()?.parse().ok()?;
    let request = words.next()? == "request";
    let flexible = Versions::parse(words.next()?)?;
    let fields = fields(&mut words)?.0;
    Some(((key, request), Message { flexible, fields }))
}

/// The fields up to the end or a closing bracket, whose word is given too.
fn fields<'a>(words: &mut dyn Iterator<Item = &'a str>) -> Option<(Vec<Field>, &'a str)> {
    let mut all = Vec::new();
    while let Some(word) = words.next() {
        if let Some(spec) = word.strip_prefix(')') {
            return Some((all, spec));
        }
        let (array, word) = match word.strip_prefix('*') {
            Some(word) => (true, word),
            None => (false, word),
        };
        if word == "(" {
            let (inner, spec) = fields(words)?;
            all.push(field(Kind::Struct(inner), array, spec)?);
            continue;
        }
        let (kind, spec) = word.split_at(word.find('@')?);
        let kind = match kind {
            "s" => Kind::Text,
            "b" => Kind::Bytes,
            number => Kind::Number(number.parse().ok()?),
        };
        all.push(field(kind, array, spec)?);
    }
    Some((all, ""))
}

/// `@versions?nullable#tag#versions`.
fn field(kind: Kind, array: bool, spec: &str) -> Option<Field> {
    let (spec, tag) = match spec.split_once('#') {
        Some((spec, tag)) => {
            let (tag, versions) = tag.split_once('#')?;
            (spec, Some((tag.parse().ok()?, Versions::parse(versions)?)))
        }
        None => (spec, None),
    };
    let (versions, nullable) = spec.strip_prefix('@')?.split_once('?').unwrap_or((&spec[1..], "-"));
    let nullable = Versions::parse(nullable)?;
    Some(Field { kind, array, versions: Versions::parse(versions)?, nullable, tag })
}

/// Lines that are not understood.
#[cfg(test)]
pub(super) fn strange_lines() -> Vec<&'static str> {
    include_str!("shapes.txt").lines().filter(|text| line(text).is_none()).collect()
}
