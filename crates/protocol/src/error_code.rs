//! Kafka's names and words for its error codes, for messages. What to do about a code says
//! [`ResponseError`](crate::ResponseError).
//!
//! `errors.tsv` holds code, name and text as the class `Errors` of Kafka 4.4 has them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

static TABLE: LazyLock<BTreeMap<i16, (&str, &str)>> = LazyLock::new(|| {
    let lines = include_str!("error_code/errors.tsv").lines();
    let fields = |line: &'static str| {
        let mut fields = line.split('\t');
        Some((fields.next()?.parse().ok()?, (fields.next()?, fields.next()?)))
    };
    lines.filter_map(fields).collect()
});

/// The code's name, such as `STALE_MEMBER_EPOCH`.
#[must_use]
pub fn name(code: i16) -> &'static str {
    TABLE.get(&code).map_or("UNKNOWN_CODE", |(name, _)| name)
}

/// What the code means, in a sentence.
#[must_use]
pub fn text(code: i16) -> &'static str {
    TABLE.get(&code).map_or("The broker gave an error code of a later version.", |(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_kafkas_names() {
        assert_eq!(name(113), "STALE_MEMBER_EPOCH");
        assert!(text(3).contains("does not host this topic-partition"), "{}", text(3));
        assert_eq!(name(9_999), "UNKNOWN_CODE");
        assert!((-1..=136).all(|code| name(code) != "UNKNOWN_CODE" && !text(code).is_empty()));
    }
}
