//! Cargo.toml and Cargo.lock: dependencies in the order of the alphabet, from the public registry.

use super::Finding;
use super::rules::LOCK_SOURCE;
use std::path::Path;

/// Dependencies are sorted within a group; a blank line or a comment begins a new group.
pub(super) fn check(file: &Path, text: &str, findings: &mut Vec<Finding>) {
    let mut dependencies = false;
    let mut depth = 0usize;
    let mut last: Option<&str> = None;
    for (number, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if depth == 0 && trimmed.starts_with('[') {
            dependencies = trimmed.trim_matches(['[', ']']).ends_with("dependencies");
            last = None;
            continue;
        }
        if trimmed.is_empty() || trimmed.starts_with('#') {
            last = None;
            continue;
        }
        // A dependency may go over several lines.
        let inside = depth > 0;
        depth += trimmed.matches(['{', '[']).count();
        depth = depth.saturating_sub(trimmed.matches(['}', ']']).count());
        let Some((key, _)) = trimmed.split_once('=').filter(|_| dependencies && !inside) else {
            continue;
        };
        let name = key.trim().split('.').next().unwrap_or_default();
        if let Some(before) = last.filter(|before| *before > name) {
            let what = format!("`{name}` stands after `{before}`: dependencies are sorted");
            findings.push(Finding::new(file, number + 1, what));
        }
        last = Some(name);
    }
}

/// Every crate comes from the public registry, whatever mirror a developer uses.
pub(super) fn check_lock(file: &Path, text: &str, findings: &mut Vec<Finding>) {
    for (number, line) in text.lines().enumerate() {
        let Some(source) = line.strip_prefix("source = ") else { continue };
        if source.trim_matches('"') != LOCK_SOURCE {
            let what = format!("a crate comes from {source}, not from the public registry");
            findings.push(Finding::new(file, number + 1, what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::findings_in;

    #[test]
    fn unsorted_dependencies_are_found() {
        let text = "[package]\nversion = \"1\"\nname = \"x\"\n\n[dependencies]\nb = \"1\"\na.workspace = true\n";
        let found = findings_in("Cargo.toml", text);
        assert_eq!(found, ["Cargo.toml:7: `a` stands after `b`: dependencies are sorted"]);
        let dev = text.replace("[dependencies]", "[target.'cfg(unix)'.dev-dependencies]");
        assert_eq!(findings_in("x/Cargo.toml", &dev).len(), 1);
    }

    #[test]
    fn groups_are_sorted_by_themselves() {
        let text = "[dependencies]\nb = { version = \"1\", features = [\n  \"z\",\n  \"a\",\n] }\nc = \"1\"\n\n\
                    # For tests.\na = \"1\"\n[features]\nz = []\na = []\n";
        assert_eq!(findings_in("Cargo.toml", text), [""; 0]);
    }

    #[test]
    fn a_mirror_is_found() {
        let mirror = "source = \"registry+https://mirror.example.org/index\"\n";
        assert_eq!(findings_in("Cargo.lock", mirror).len(), 1);
    }
}
