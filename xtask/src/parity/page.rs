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

/// What stands above the tables: how much there is, in each part and together.
pub(super) fn overview(tables: &[Table<'_>]) -> String {
    let mut text = String::new();
    let sum = counts(tables.iter());
    let all: usize = sum.iter().sum();
    put(
        &mut text,
        &format!(
            "Of {all} public methods, overloads counted one by one, {} have a method of ours, {} an option or a type; {} are \
             left out, {} are not there yet.\n",
            sum[0], sum[1], sum[2], sum[3]
        ),
    );
    put(&mut text, "| Java | classes | methods | ours | by an option | left out | not yet |");
    put(&mut text, "|---|--:|--:|--:|--:|--:|--:|");
    for (part, tables) in parts(tables) {
        let title = if part.is_empty() { "all" } else { part };
        put(&mut text, &format!("| {title} | {} | {} |", tables.len(), cells(tables.into_iter())));
    }
    text
}

/// The parts of the page in the order of the file, each with its classes.
fn parts<'t, 'a>(tables: &'t [Table<'a>]) -> Vec<(&'a str, Vec<&'t Table<'a>>)> {
    let mut parts: Vec<(&str, Vec<&Table<'_>>)> = Vec::new();
    for table in tables {
        match parts.iter_mut().find(|(part, _)| *part == table.part) {
            Some((_, tables)) => tables.push(table),
            None => parts.push((table.part, vec![table])),
        }
    }
    parts
}

/// How many methods have each of the verdicts.
fn counts<'t, 'a: 't>(tables: impl Iterator<Item = &'t Table<'a>>) -> [usize; 4] {
    let mut sum = [0; 4];
    for table in tables {
        for (sum, of) in sum.iter_mut().zip(VERDICTS) {
            *sum += table.count(of);
        }
    }
    sum
}

/// The number of methods and that of each verdict, as cells of a row.
fn cells<'t, 'a: 't>(tables: impl Iterator<Item = &'t Table<'a>>) -> String {
    let counts = counts(tables);
    let cells = counts.map(|count| if count == 0 { String::new() } else { count.to_string() });
    format!("{} | {}", counts.iter().sum::<usize>(), cells.join(" | "))
}

/// What is not there, a line a reason, wherever it is the same.
pub(super) fn reasons(tables: &[Table<'_>], verdict: Verdict) -> String {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for table in tables {
        for row in table.rows.iter().filter(|row| row.line.verdict == verdict) {
            let note = row.line.note.as_str();
            let java = short(&table.name, row);
            match reasons.iter_mut().find(|(reason, _)| *reason == note) {
                Some((_, methods)) => methods.push(java),
                None => reasons.push((note, vec![java])),
            }
        }
    }
    let mut text = String::new();
    for (reason, methods) in reasons {
        put(&mut text, &format!("- **{reason}**: {}", methods.join(", ")));
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

/// A table a class, and one of the classes about which one thing is said, part by part.
pub(super) fn tables(tables: &[Table<'_>], names: Names) -> String {
    let mut text = String::new();
    for (part, tables) in parts(tables) {
        if !part.is_empty() {
            put(&mut text, &format!("\n## {part}"));
        }
        let (whole, parted): (Vec<&Table<'_>>, Vec<&Table<'_>>) =
            tables.into_iter().partition(|table| table.is_whole);
        for table in parted {
            put(&mut text, &format!("\n### {}\n", table.name));
            put(&mut text, "| Java | ours |");
            put(&mut text, "|---|---|");
            for row in &table.rows {
                put(&mut text, &row_of(row, names));
            }
        }
        put_whole(&mut text, &whole, names);
    }
    text
}

/// The classes about which one thing is said.
fn put_whole(text: &mut String, whole: &[&Table<'_>], names: Names) {
    if whole.is_empty() {
        return;
    }
    put(text, "\n### Classes as a whole\n");
    put(text, "| Java | methods | ours |");
    put(text, "|---|--:|---|");
    for (table, row) in
        whole.iter().flat_map(|table| table.rows.iter().map(move |row| (table, row)))
    {
        let (name, methods, ours) = (&table.name, row.java.len(), answer(row, names));
        put(text, &format!("| `{name}` | {methods} | {ours} |"));
    }
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
