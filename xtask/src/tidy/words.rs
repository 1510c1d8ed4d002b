//! Words that must not stay: unfinished code, and the places of one developer's machine.

use super::Finding;
use super::rules::{EMPTY_FILE_NAMES, EMPTY_TYPE_ENDS, MACHINE_FOLDERS, MACROS, WORDS};
use super::source::{Source, is_word, line_of};
use std::path::Path;

/// Rules for Rust.
pub(super) fn check(file: &Path, source: &Source, findings: &mut Vec<Finding>) {
    for (name, why) in MACROS {
        for at in source.words(name) {
            if source.code[at + name.len()..].starts_with('!') {
                findings.push(Finding::new(file, source.line(at), format!("`{name}!`: {why}")));
            }
        }
    }
    for (at, word) in source.comments.match_indices("TODO") {
        let line = source.comments[at + word.len()..].lines().next().unwrap_or_default();
        // What follows may begin with a name in brackets.
        let after = line
            .strip_prefix('(')
            .and_then(|rest| rest.split_once(')'))
            .map_or(line, |(_, rest)| rest);
        if !after.starts_with(':') || after[1..].trim().len() < 3 {
            let what = "`TODO` needs a text: `TODO: what is to be done, and why not now`";
            findings.push(Finding::new(file, source.line(at), what));
        }
    }
}

/// A name says the role.
pub(super) fn check_names(file: &Path, source: &Source, findings: &mut Vec<Finding>) {
    for part in file.with_extension("").iter().filter_map(|part| part.to_str()) {
        if EMPTY_FILE_NAMES.contains(&part) {
            let what = format!("`{part}` says nothing: name what is in it");
            findings.push(Finding::new(file, 1, what));
        }
    }
    for keyword in ["struct", "enum", "trait", "type"] {
        for at in source.words(keyword) {
            let rest = source.code[at + keyword.len()..].trim_start();
            let name = &rest[..rest.bytes().take_while(|byte| is_word(*byte)).count()];
            if EMPTY_TYPE_ENDS.iter().any(|end| name.ends_with(end)) {
                let what = format!("`{name}` says nothing: a name says the role");
                findings.push(Finding::new(file, source.line(at), what));
            }
        }
    }
}

/// Rules for every text.
pub(super) fn check_any_text(file: &Path, text: &str, findings: &mut Vec<Finding>) {
    for (word, why) in WORDS {
        for (at, _) in text.match_indices(word) {
            findings.push(Finding::new(file, line_of(text, at), format!("`{word}`: {why}")));
        }
    }
    for folder in MACHINE_FOLDERS {
        for (at, _) in text.match_indices(&format!("/{folder}/")) {
            // Only the beginning of a path: `src/work/` or `https://x/home/` is none.
            let before = text[..at].chars().next_back();
            if before.is_none_or(|c| c.is_whitespace() || "\"'`=(<[:,".contains(c)) {
                let what = format!("`/{folder}/…` is a folder of one machine");
                findings.push(Finding::new(file, line_of(text, at), what));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::findings_in;

    #[test]
    fn unfinished_code_is_found() {
        let text = "//! A.\nfn a() { todo!() }\nfn b() { \"todo!()\"; } // todo!()\n";
        let found = findings_in("a.rs", text);
        assert_eq!(found, ["a.rs:2: `todo!`: build the real thing, or leave it out"]);
    }

    #[test]
    fn empty_names_are_found() {
        let found = findings_in("src/utils/a.rs", "//! A.\nstruct StoreImpl;\nstruct Simple;\n");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[1].starts_with("src/utils/a.rs:2: `StoreImpl`"), "{found:?}");
    }

    #[test]
    fn a_bare_reminder_is_found() {
        let bare = findings_in("a.rs", concat!("//! A.\n// TO", "DO\n// TO", "DO(me):\n"));
        assert_eq!(bare.len(), 2, "{bare:?}");
        let told = concat!("//! A.\n// TO", "DO: read it lazily\n// TO", "DO(me): split it\n");
        assert_eq!(findings_in("a.rs", told), [""; 0]);
    }

    #[test]
    fn places_of_a_machine_are_found() {
        let text = concat!("see /ho", "me/someone/x\nand `/wo", "rk/main`\n");
        assert_eq!(findings_in("README.md", text).len(), 2);
        let fine = "see src/work/a.rs, https://example.org/home/x and /tmp/x\n";
        assert_eq!(findings_in("README.md", fine), [""; 0]);
        let host = concat!("from https://repo1.", "maven.org/x\n");
        assert_eq!(findings_in("tests/pom.xml", host).len(), 1);
    }
}
