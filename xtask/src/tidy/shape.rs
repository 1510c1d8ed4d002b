//! What a Rust file looks like: it says what it is, and neither it nor its functions grow without end.

use super::Finding;
use super::rules::{FILE_HARD, FILE_SOFT, FUNCTION_HARD, LONG_FUNCTIONS};
use super::source::{Source, closing, is_word};
use std::ops::Range;
use std::path::Path;

pub(super) fn check(file: &Path, source: &Source, findings: &mut Vec<Finding>) {
    if !source.text.starts_with("//!") {
        let what = "a file opens with `//!`: what it is, and where it sits on a record's way";
        findings.push(Finding::new(file, 1, what));
    }
    if is_test_file(file) {
        return;
    }
    let lines = source.code_lines(0..source.code.len());
    if lines > FILE_SOFT {
        let what = format!(
            "{lines} lines of code in one file, {FILE_SOFT} are plenty: a file has one idea"
        );
        let warning = lines <= FILE_HARD;
        findings.push(Finding { warning, ..Finding::new(file, 1, what) });
    }
    for function in functions(source) {
        let lines = source.code_lines(function.range.clone());
        let excepted = LONG_FUNCTIONS
            .iter()
            .any(|(path, name, _)| file == Path::new(path) && *name == function.name);
        if lines > FUNCTION_HARD && !excepted {
            let name = function.name;
            let what =
                format!("`{name}` has {lines} lines, a function has at most {FUNCTION_HARD}");
            findings.push(Finding::new(file, source.line(function.range.start), what));
        }
    }
}

/// Files that hold nothing but tests.
pub(super) fn is_test_file(file: &Path) -> bool {
    let folder = |part: &std::path::Component<'_>| {
        matches!(part.as_os_str().to_str(), Some("tests" | "benches"))
    };
    file.file_name().is_some_and(|name| name == "tests.rs")
        || file.components().any(|part| folder(&part))
}

struct Function<'a> {
    name: &'a str,
    range: Range<usize>,
}

/// Every function with a body, outside of test modules. Functions inside of functions count for both.
fn functions(source: &Source) -> Vec<Function<'_>> {
    let code = &source.code;
    let mut found = Vec::new();
    for start in source.words("fn").filter(|at| !source.is_test(*at)) {
        let name_start = start + 2 + code[start + 2..].len() - code[start + 2..].trim_start().len();
        let rest = &code[name_start..];
        let name = &rest[..rest.bytes().take_while(|byte| is_word(*byte)).count()];
        if name.is_empty() {
            // The type of a function.
            continue;
        }
        if let Some(open) = body(code, name_start) {
            found.push(Function { name, range: start..closing(code, open) + 1 });
        }
    }
    found
}

/// The brace that opens the body of the function whose name begins here; none if it is only declared.
fn body(code: &str, from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(byte) = code.as_bytes().get(at) {
        match byte {
            b'{' => return Some(at),
            b';' => return None,
            b'(' | b'[' => at = closing(code, at),
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::findings_in;

    fn long_function(lines: usize) -> String {
        format!("//! Doc.\nfn long(x: [u8; 4]) -> u8 {{\n{}}}\n", "    x();\n".repeat(lines - 2))
    }

    #[test]
    fn a_file_without_a_beginning_is_found() {
        let found = findings_in("crates/x/src/a.rs", "fn a() {}\n");
        assert!(found[0].starts_with("crates/x/src/a.rs:1: a file opens with"), "{found:?}");
        assert_eq!(findings_in("crates/x/src/a.rs", "//! A.\nfn a() {}\n"), [""; 0]);
    }

    #[test]
    fn a_long_function_is_found() {
        assert_eq!(findings_in("a.rs", &long_function(70)), [""; 0]);
        let found = findings_in("a.rs", &long_function(71));
        assert_eq!(found, ["a.rs:2: `long` has 71 lines, a function has at most 70"]);
        assert_eq!(findings_in("src/tests.rs", &long_function(71)), [""; 0]);
        let commented = long_function(70).replacen("x();", "x(); // }\n// more\n", 30);
        assert_eq!(findings_in("a.rs", &commented), [""; 0]);
    }

    #[test]
    fn a_long_file_is_found() {
        let file = |lines: usize| "//! Doc.\n".to_owned() + &"use a;\n".repeat(lines);
        assert_eq!(findings_in("a.rs", &file(400)), [""; 0]);
        assert!(findings_in("a.rs", &file(401))[0].contains("a.rs:1: warning: 401 lines"));
        assert!(findings_in("a.rs", &file(801))[0].starts_with("a.rs:1: 801 lines"));
        assert_eq!(findings_in("crates/x/tests/it/a.rs", &file(900)), [""; 0]);
    }
}
