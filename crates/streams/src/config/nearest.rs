//! The known name that a mistyped one probably means.

/// The name with the fewest differences, if they are few.
pub(super) fn nearest<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let (distance, name) = known.map(|name| (distance(typed, name), name)).min()?;
    (distance <= typed.len().max(3) / 3).then_some(name)
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_finds_its_name() {
        let known = || ["commit.interval.ms", "linger.ms", "poll.ms"].into_iter();
        assert_eq!(nearest("commit.intervall.ms", known()), Some("commit.interval.ms"));
        assert_eq!(nearest("pol.ms", known()), Some("poll.ms"));
        assert_eq!(nearest("security.protocol", known()), None);
    }
}
