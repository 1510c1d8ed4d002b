//! The order of the layers: which part of the code may name which other, read from the paths in it.

use super::Finding;
use super::rules::{HARMLESS, LAYERS, Layer};
use super::shape::is_test_file;
use super::source::{Source, closing, is_word};
use std::path::Path;

pub(super) fn check(file: &Path, source: &Source, findings: &mut Vec<Finding>) {
    let layers: Vec<&Layer> = LAYERS.iter().filter(|layer| layer.holds(file)).collect();
    if layers.is_empty() || is_test_file(file) {
        return;
    }
    let here = module(file);
    for (at, path) in paths(source) {
        if source.is_test(at) {
            continue;
        }
        let path = absolute(&path, &here);
        if HARMLESS.contains(&path.as_str()) {
            continue;
        }
        for layer in &layers {
            if let Some(never) = layer.never.iter().find(|never| is_below(&path, never)) {
                let what = format!("uses `{never}`: {}", layer.why);
                let finding = Finding::new(file, source.line(at), what);
                if !findings.contains(&finding) {
                    findings.push(finding);
                }
            }
        }
    }
}

impl Layer {
    fn holds(&self, file: &Path) -> bool {
        let below = |places: &[&str]| {
            let without_end = file.with_extension("");
            places.iter().any(|place| without_end.starts_with(place))
        };
        below(self.within) && !below(self.except)
    }
}

fn is_below(path: &str, never: &str) -> bool {
    path.strip_prefix(never).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// The module that a file is, from `src` on: `crate::task::queue`.
fn module(file: &Path) -> String {
    let mut parts = vec!["crate".to_owned()];
    let without_end = file.with_extension("");
    let inside = without_end.iter().skip_while(|part| *part != "src").skip(1);
    parts.extend(inside.map(|part| part.to_string_lossy().into_owned()));
    if parts.len() > 1
        && parts.last().is_some_and(|last| last == "mod" || last == "lib" || last == "main")
    {
        parts.pop();
    }
    parts.join("::")
}

/// `self` and `super` put in place; `core` and `alloc` are `std` by another name.
fn absolute(path: &str, here: &str) -> String {
    let mut base: Vec<&str> = here.split("::").collect();
    let mut rest = path.trim_start_matches("::");
    let mut relative = false;
    loop {
        if let Some(after) = rest.strip_prefix("super::") {
            base.pop();
            (rest, relative) = (after, true);
        } else if let Some(after) = rest.strip_prefix("self::") {
            (rest, relative) = (after, true);
        } else {
            break;
        }
    }
    if relative {
        return format!("{}::{rest}", base.join("::"));
    }
    match rest.split_once("::") {
        Some(("core" | "alloc", after)) => format!("std::{after}"),
        _ => rest.to_owned(),
    }
}

/// All paths of the code with two or more parts, `use` groups taken apart, and crates that are used whole.
fn paths(source: &Source) -> Vec<(usize, String)> {
    let code = &source.code;
    let mut found = Vec::new();
    for at in source.words("use") {
        let tree = &code[at + 3..];
        let tree = &tree[..tree.find(';').unwrap_or(tree.len())];
        let mut below = Vec::new();
        expand("", tree, &mut below);
        found.extend(below.into_iter().map(|path| (at, path)));
    }
    let mut at = 0;
    while at < code.len() {
        let length = path_length(&code[at..]);
        let path = &code[at..at + length];
        if path.contains("::") {
            found.push((at, path.trim_end_matches(':').to_owned()));
        }
        at += length.max(code[at..].chars().next().map_or(1, char::len_utf8));
    }
    found
}

/// The length of the path (words and `::`) with which the code begins.
fn path_length(code: &str) -> usize {
    let bytes = code.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if is_word(bytes[at]) {
            at += 1;
        } else if bytes[at..].starts_with(b"::") {
            at += 2;
        } else {
            break;
        }
    }
    at
}

/// Takes `a::{b, c::{d, e as f}}` apart into whole paths.
fn expand(prefix: &str, tree: &str, found: &mut Vec<String>) {
    let mut rest = tree;
    while !rest.trim().is_empty() {
        let end = item_end(rest);
        let item = rest[..end].trim();
        rest = rest.get(end + 1..).unwrap_or_default();
        match item.split_once('{') {
            Some((before, group)) => {
                let inner = group.strip_suffix('}').unwrap_or(group);
                expand(&format!("{prefix}{}", before.trim()), inner, found);
            }
            None => {
                let name = item.split(" as ").next().unwrap_or_default().trim();
                let path = format!("{prefix}{name}");
                let path = path.trim_end_matches("::self").trim_end_matches("::*");
                if !path.is_empty() {
                    found.push(path.to_owned());
                }
            }
        }
    }
}

/// Where the first item of a `use` group ends: at the comma that is in no inner group.
fn item_end(tree: &str) -> usize {
    let mut at = 0;
    while let Some(byte) = tree.as_bytes().get(at) {
        match byte {
            b'{' => at = closing(tree, at),
            b',' => return at,
            _ => {}
        }
        at += 1;
    }
    tree.len()
}

#[cfg(test)]
mod tests {
    use super::super::findings_in;
    use super::*;

    fn found_in(file: &str, code: &str) -> Vec<String> {
        findings_in(&format!("crates/streams/src/{file}"), &format!("//! A.\n{code}\n"))
    }

    #[test]
    fn groups_are_taken_apart() {
        let mut found = Vec::new();
        expand("", " crate::{a, b::{self, c as d}, e::*}", &mut found);
        assert_eq!(found, ["crate::a", "crate::b", "crate::b::c", "crate::e"]);
    }

    #[test]
    fn a_forbidden_use_is_found() {
        let found = found_in("operators/filter.rs", "use crate::{record::Record, task::Task};");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("crates/streams/src/operators/filter.rs:2: uses `crate::task`")
        );
        assert_eq!(found_in("operators/filter.rs", "use crate::record::Record;"), [""; 0]);
        assert_eq!(found_in("operators/a.rs", "use kstreams_client::Client;").len(), 1);
    }

    #[test]
    fn a_path_in_the_middle_of_code_is_found() {
        assert_eq!(found_in("task/queue.rs", "fn a() { crate::runtime::stop(); }").len(), 1);
        assert_eq!(found_in("task/queue.rs", "fn a() { super::super::runtime::stop(); }").len(), 1);
        assert_eq!(
            found_in("task/queue.rs", "// crate::runtime::stop()\nuse super::runtime_info::X;"),
            [""; 0]
        );
    }

    #[test]
    fn whoever_may_is_left_alone() {
        assert_eq!(found_in("topology/erased.rs", "use std::any::Any;"), [""; 0]);
        assert_eq!(found_in("topology/node.rs", "use core::any::Any;").len(), 1);
        assert_eq!(found_in("topology/node.rs", "use std::any::type_name;"), [""; 0]);
        assert_eq!(found_in("runtime/thread_main.rs", "use std::thread;"), [""; 0]);
        assert_eq!(found_in("task/mod.rs", "use std::{io, thread};").len(), 1);
        assert_eq!(found_in("dsl/stream.rs", "use crate::dsl::plan::Node;"), [""; 0]);
        assert_eq!(found_in("lib.rs", "pub use crate::dsl::KStream;"), [""; 0]);
        assert_eq!(found_in("topology/a.rs", "use crate::dsl::KStream;").len(), 1);
    }

    #[test]
    fn tests_may_use_what_they_like() {
        let code = "#[cfg(test)]\nmod tests {\n    use crate::runtime::App;\n}";
        assert_eq!(found_in("task/queue.rs", code), [""; 0]);
        assert_eq!(found_in("task/tests.rs", "use crate::runtime::App;"), [""; 0]);
    }
}
