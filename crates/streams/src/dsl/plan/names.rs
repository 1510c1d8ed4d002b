//! Java's names. One counter a builder numbers everything; explicitly named operators take a number as well, so that the names of
//! the others stay.

/// Prefixes of generated names.
pub(crate) mod prefix {
    pub(crate) const SOURCE: &str = "KSTREAM-SOURCE-";
    pub(crate) const SINK: &str = "KSTREAM-SINK-";
    pub(crate) const FILTER: &str = "KSTREAM-FILTER-";
    pub(crate) const MAP: &str = "KSTREAM-MAP-";
    pub(crate) const MAP_VALUES: &str = "KSTREAM-MAPVALUES-";
    pub(crate) const FLAT_MAP: &str = "KSTREAM-FLATMAP-";
    pub(crate) const FLAT_MAP_VALUES: &str = "KSTREAM-FLATMAPVALUES-";
    pub(crate) const KEY_SELECT: &str = "KSTREAM-KEY-SELECT-";
    pub(crate) const PEEK: &str = "KSTREAM-PEEK-";
    pub(crate) const FOR_EACH: &str = "KSTREAM-FOREACH-";
    pub(crate) const PRINTER: &str = "KSTREAM-PRINTER-";
    pub(crate) const BRANCH: &str = "KSTREAM-BRANCH-";
    pub(crate) const MERGE: &str = "KSTREAM-MERGE-";
    pub(crate) const PROCESSOR: &str = "KSTREAM-PROCESSOR-";
    pub(crate) const PROCESS_VALUES: &str = "KSTREAM-PROCESSVALUES-";
    pub(crate) const REPARTITION: &str = "KSTREAM-REPARTITION-";
    pub(crate) const WINDOWED: &str = "KSTREAM-WINDOWED-";
    pub(crate) const JOIN_THIS: &str = "KSTREAM-JOINTHIS-";
    pub(crate) const JOIN_OTHER: &str = "KSTREAM-JOINOTHER-";
    pub(crate) const OUTER_THIS: &str = "KSTREAM-OUTERTHIS-";
    pub(crate) const OUTER_OTHER: &str = "KSTREAM-OUTEROTHER-";
    pub(crate) const OUTER_SHARED: &str = "KSTREAM-OUTERSHARED-";
    pub(crate) const COGROUP_AGGREGATE: &str = "COGROUPKSTREAM-AGGREGATE-";
    pub(crate) const COGROUP_MERGE: &str = "COGROUPKSTREAM-MERGE-";
    pub(crate) const AGGREGATE: &str = "KSTREAM-AGGREGATE-";
    pub(crate) const REDUCE: &str = "KSTREAM-REDUCE-";
    pub(crate) const DECIDE: &str = "KSTREAM-DECIDE-";
    pub(crate) const EVENTS: &str = "KSTREAM-EVENTS-";
    pub(crate) const REJECTIONS: &str = "KSTREAM-REJECTIONS-";
    pub(crate) const SNAPSHOTS: &str = "KSTREAM-SNAPSHOTS-";
    pub(crate) const STORE_WRITER: &str = "KSTREAM-STORE-WRITER-";
    pub(crate) const DEDUPLICATE: &str = "KSTREAM-DEDUPLICATE-";
    pub(crate) const TO_STREAM: &str = "KTABLE-TOSTREAM-";
    pub(crate) const TO_TABLE: &str = "KSTREAM-TOTABLE-";
    pub(crate) const TABLE_SOURCE: &str = "KTABLE-SOURCE-";
    pub(crate) const TABLE_FILTER: &str = "KTABLE-FILTER-";
    pub(crate) const TABLE_MAP_VALUES: &str = "KTABLE-MAPVALUES-";
    pub(crate) const TABLE_TRANSFORM: &str = "KTABLE-TRANSFORMVALUES-";
    pub(crate) const TABLE_MERGE: &str = "KTABLE-MERGE-";
    pub(crate) const TABLE_JOIN_THIS: &str = "KTABLE-JOINTHIS-";
    pub(crate) const TABLE_JOIN_OTHER: &str = "KTABLE-JOINOTHER-";
    pub(crate) const TABLE_SELECT: &str = "KTABLE-SELECT-";
    pub(crate) const TABLE_AGGREGATE: &str = "KTABLE-AGGREGATE-";
    pub(crate) const TABLE_REDUCE: &str = "KTABLE-REDUCE-";
    pub(crate) const SUPPRESS: &str = "KTABLE-SUPPRESS-";
    pub(crate) const TABLE_SINK: &str = "KTABLE-SINK-";
    pub(crate) const FK_REGISTRATION: &str = "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-";
    pub(crate) const FK_STORE: &str = "KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-";
    pub(crate) const FK_PROCESSOR: &str = "KTABLE-FK-JOIN-SUBSCRIPTION-PROCESSOR-";
    pub(crate) const FK_RESPONSE: &str = "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-";
    pub(crate) const FK_RESOLVER: &str = "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-";
    pub(crate) const FK_OUTPUT: &str = "KTABLE-FK-JOIN-OUTPUT-";
    pub(crate) const JOIN: &str = "KSTREAM-JOIN-";
    pub(crate) const LEFT_JOIN: &str = "KSTREAM-LEFTJOIN-";
}

use std::ops::Range;

const REPARTITION: &str = "-repartition";

/// The counter of one builder.
#[derive(Debug, Default)]
pub(super) struct Names(u32);

impl Names {
    /// The number that the next name gets.
    pub(super) fn peek(&self) -> u32 {
        self.0
    }

    /// `PREFIX0000000007`
    pub(super) fn next(&mut self, prefix: &str) -> String {
        let name = format!("{prefix}{:010}", self.0);
        self.0 += 1;
        name
    }

    /// Takes back the numbers that were taken last, if nobody has taken one since.
    pub(super) fn give_back(&mut self, numbers: &Range<u32>) {
        if self.0 == numbers.end {
            self.0 = numbers.start;
        }
    }

    /// The name given, or the next one; the number is taken either way.
    pub(super) fn given_or_next(&mut self, given: Option<String>, prefix: &str) -> String {
        let next = self.next(prefix);
        given.unwrap_or(next)
    }

    /// `KSTREAM-AGGREGATE-STATE-STORE-0000000002`
    pub(super) fn next_store(&mut self, prefix: &str) -> String {
        self.next(&format!("{prefix}STATE-STORE-"))
    }

    /// The names around the repartition topic of `base`; three numbers are taken either way.
    pub(super) fn repartition(&mut self, base: &str) -> RepartitionNames {
        let generated =
            (self.next(prefix::SINK), self.next(prefix::FILTER), self.next(prefix::SOURCE));
        let topic = match base.ends_with(REPARTITION) {
            true => base.to_string(),
            false => format!("{base}{REPARTITION}"),
        };
        let (sink, filter, source) = match is_generated(base) {
            true => generated,
            false => {
                (format!("{topic}-sink"), format!("{topic}-filter"), format!("{topic}-source"))
            }
        };
        RepartitionNames { topic, sink, filter, source }
    }
}

/// `KTABLE-MERGE-STATE-STORE-0000000003`
pub(super) fn store_name(prefix: &str, number: u32) -> String {
    format!("{prefix}STATE-STORE-{number:010}")
}

/// Adds one to the number of a generated name, if it is one of those.
pub(super) fn move_up(name: &mut String, numbers: &Range<u32>) {
    let Some((prefix, number)) = name.rsplit_once('-').filter(|(_, number)| number.len() == 10)
    else {
        return;
    };
    if let Some(number) = number.parse().ok().filter(|number| numbers.contains(number)) {
        *name = format!("{prefix}-{:010}", number + 1);
    }
}

/// The names of a repartition topic, without the application's prefix, and of the nodes around it.
pub(crate) struct RepartitionNames {
    pub(crate) topic: String,
    pub(crate) sink: String,
    pub(crate) filter: String,
    pub(crate) source: String,
}

/// Whether a name looks like a generated one: `KSTREAM.*-[0-9]{10}`.
fn is_generated(name: &str) -> bool {
    let number = name.rsplit('-').next().unwrap_or_default();
    name.starts_with("KSTREAM")
        && name.len() > number.len()
        && number.len() == 10
        && number.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repartition_takes_three_numbers_whatever_its_name() {
        let mut names = Names::default();
        let generated = names.repartition("KSTREAM-AGGREGATE-STATE-STORE-0000000002");
        assert_eq!(generated.topic, "KSTREAM-AGGREGATE-STATE-STORE-0000000002-repartition");
        assert_eq!(generated.filter, "KSTREAM-FILTER-0000000001");
        let named = names.repartition("by-user");
        assert_eq!(
            (&*named.topic, &*named.source),
            ("by-user-repartition", "by-user-repartition-source")
        );
        assert_eq!(names.next(prefix::SINK), "KSTREAM-SINK-0000000006");
        assert_eq!(names.given_or_next(Some("mine".into()), prefix::PEEK), "mine");
        assert_eq!(names.next_store(prefix::REDUCE), "KSTREAM-REDUCE-STATE-STORE-0000000008");
    }
}
