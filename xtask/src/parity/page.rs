//! The tables as Markdown: for the repository with plain names, for the documentation with names that are links.

use super::comparison::{Row, Table};
use super::mapping::Verdict;
use std::fmt::Write as _;

/// How our names are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    Plain,
    /// rustdoc finds what they mean, and says so when there is no such thing.
    Links,
}

impl Names {
    fn write(self, path: &str) -> String {
        match self {
            Names::Plain => format!("`{path}`"),
            Names::Links => format!("[`{path}`]"),
        }
    }
}

/// The verdicts in the order of the columns.
const VERDICTS: [Verdict; 4] =
    [Verdict::Method, Verdict::Option, Verdict::LeftOut, Verdict::NotYet];

/// What stands above the tables.
pub(super) fn overview(tables: &[Table<'_>]) -> String {
    let mut text = String::new();
    let sum: Vec<usize> =
        VERDICTS.iter().map(|of| tables.iter().map(|table| table.count(*of)).sum()).collect();
    let all: usize = sum.iter().sum();
    put(
        &mut text,
        &format!(
            "Of {all} public methods, overloads counted one by one, {} have a method of ours, {} an option or a type; {} are \
             left out, {} are not there yet.\n",
            sum[0], sum[1], sum[2], sum[3]
        ),
    );
    put(&mut text, "| Java | methods | ours | by an option | left out | not yet |");
    put(&mut text, "|---|--:|--:|--:|--:|--:|");
    for table in tables.iter().filter(|table| !table.is_whole) {
        let counts = VERDICTS.map(|of| table.count(of));
        let all: usize = counts.iter().sum();
        let cells = counts.map(|count| if count == 0 { String::new() } else { count.to_string() });
        put(&mut text, &format!("| {} | {all} | {} |", table.name, cells.join(" | ")));
    }
    let whole = tables.iter().filter(|table| table.is_whole).count();
    if whole > 0 {
        put(&mut text, &format!("\nOne thing is said about each of {whole} further classes."));
    }
    text
}

/// What is not there, a line a reason.
pub(super) fn missing(tables: &[Table<'_>], verdict: Verdict) -> String {
    let mut text = String::new();
    for table in tables {
        let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
        for row in table.rows.iter().filter(|row| row.line.verdict == verdict) {
            let note = row.line.note.as_str();
            let java = short(&table.name, row);
            match reasons.iter_mut().find(|(reason, _)| *reason == note) {
                Some((_, methods)) => methods.push(java),
                None => reasons.push((note, vec![java])),
            }
        }
        for (reason, methods) in reasons {
            put(&mut text, &format!("- {}: {reason}", methods.join(", ")));
        }
    }
    text
}

/// The methods of one row, overloads as one.
fn short(class: &str, row: &Row<'_>) -> String {
    match row.java.as_slice() {
        _ if row.line.pattern == "*" => format!("`{class}`"),
        [one] => format!("`{class}.{one}`"),
        _ => format!("`{class}.{}`", row.line.pattern.replace('*', "…")),
    }
}

/// A table a class, and one of the classes about which one thing is said.
pub(super) fn tables(tables: &[Table<'_>], names: Names) -> String {
    let mut text = String::new();
    let (whole, parted): (Vec<&Table<'_>>, Vec<&Table<'_>>) =
        tables.iter().partition(|table| table.is_whole);
    if !whole.is_empty() {
        put(&mut text, "\n## Whole classes\n");
        put(&mut text, "| Java | methods | ours |");
        put(&mut text, "|---|--:|---|");
    }
    for (table, row) in
        whole.iter().flat_map(|table| table.rows.iter().map(move |row| (table, row)))
    {
        let (name, methods, ours) = (&table.name, row.java.len(), answer(row, names));
        put(&mut text, &format!("| `{name}` | {methods} | {ours} |"));
    }
    for table in parted {
        put(&mut text, &format!("\n## {}\n", table.name));
        put(&mut text, "| Java | ours |");
        put(&mut text, "|---|---|");
        for row in &table.rows {
            put(&mut text, &row_of(row, names));
        }
    }
    text
}

fn row_of(row: &Row<'_>, names: Names) -> String {
    let java: Vec<String> = row.java.iter().map(|java| format!("`{java}`")).collect();
    format!("| {} | {} |", java.join("<br>"), answer(row, names))
}

/// What is ours, or why there is nothing.
fn answer(row: &Row<'_>, names: Names) -> String {
    let ours: Vec<String> = row.line.ours.iter().map(|path| names.write(path)).collect();
    let ours = match row.line.verdict {
        Verdict::Method | Verdict::Option => ours.join(", "),
        Verdict::LeftOut => "left out".to_owned(),
        Verdict::NotYet => "not there yet".to_owned(),
    };
    let note =
        if row.line.note.is_empty() { String::new() } else { format!(": {}", row.line.note) };
    format!("{ours}{note}")
}

fn put(text: &mut String, line: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{line}");
}
