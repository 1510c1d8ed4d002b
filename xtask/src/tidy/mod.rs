//! `cargo xtask tidy`: the rules of the code that rustfmt and clippy do not know. `rules.rs` is the list of them.

mod rules;

mod layers;
mod manifest;
mod shape;
mod source;
mod words;

use crate::workspace;
use source::Source;
use std::fmt;
use std::path::{Path, PathBuf};

/// Something that breaks a rule, or, as a warning, comes near.
#[derive(Debug, PartialEq)]
struct Finding {
    file: PathBuf,
    /// From 1.
    line: usize,
    what: String,
    warning: bool,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.warning { "warning: " } else { "" };
        write!(f, "{}:{}: {kind}{}", self.file.display(), self.line, self.what)
    }
}

impl Finding {
    fn new(file: &Path, line: usize, what: impl Into<String>) -> Finding {
        Finding { file: file.to_path_buf(), line, what: what.into(), warning: false }
    }
}

/// Binary or generated beyond reading: no rule looks into it.
const LARGEST_READ: u64 = 4 << 20;

pub(crate) fn run() -> Result<(), String> {
    let root = workspace::root();
    let mut findings = Vec::new();
    let files = workspace::files()?;
    for file in &files {
        let path = root.join(file);
        if std::fs::metadata(&path).is_ok_and(|about| about.len() > LARGEST_READ) {
            continue;
        }
        let bytes = std::fs::read(&path).map_err(|why| format!("{}: {why}", file.display()))?;
        if let Ok(text) = String::from_utf8(bytes) {
            check(file, &text, &mut findings);
        }
    }
    for finding in &findings {
        println!("{finding}");
    }
    let broken = findings.iter().filter(|finding| !finding.warning).count();
    if broken == 0 {
        println!("tidy: {} files, {} warnings", files.len(), findings.len());
        Ok(())
    } else {
        Err(format!("tidy: {broken} things to put in order; xtask/src/tidy/rules.rs says why"))
    }
}

/// All rules on one file, whose path begins at the repository's folder.
fn check(file: &Path, text: &str, findings: &mut Vec<Finding>) {
    words::check_any_text(file, text, findings);
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match name {
        "Cargo.toml" => manifest::check(file, text, findings),
        "Cargo.lock" => manifest::check_lock(file, text, findings),
        _ if name.ends_with(".rs") => {
            let source = Source::read(text);
            shape::check(file, &source, findings);
            words::check(file, &source, findings);
            words::check_names(file, &source, findings);
            layers::check(file, &source, findings);
        }
        _ => {}
    }
}

/// Findings on a text that pretends to be a file of this path, as lines.
#[cfg(test)]
fn findings_in(file: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    check(Path::new(file), text, &mut findings);
    findings.iter().map(ToString::to_string).collect()
}
