//! Java's methods beside the file of ours: a table a class, or everything that does not go up.

use super::mapping::{Class, Line, Verdict};

/// A class of Java and its methods, each with what is ours.
#[derive(Debug)]
pub(super) struct Table<'a> {
    pub(super) name: String,
    /// The part of the page that it is in.
    pub(super) part: &'a str,
    /// Whether one thing is said about the whole class.
    pub(super) is_whole: bool,
    pub(super) rows: Vec<Row<'a>>,
}

/// Methods of Java about which the same is said.
#[derive(Debug)]
pub(super) struct Row<'a> {
    /// `name(Type,Type)`, without the class.
    pub(super) java: Vec<&'a str>,
    pub(super) line: &'a Line,
}

impl Table<'_> {
    /// How many methods of Java have this verdict.
    pub(super) fn count(&self, verdict: Verdict) -> usize {
        let rows = self.rows.iter().filter(|row| row.line.verdict == verdict);
        rows.map(|row| row.java.len()).sum()
    }
}

/// Compares `Class.method(Type,Type)` lines with what the file says.
pub(super) fn compare<'a>(
    classes: &'a [Class],
    methods: &'a str,
) -> Result<Vec<Table<'a>>, Vec<String>> {
    let mut mistakes = Vec::new();
    let mut tables: Vec<Table<'_>> = classes.iter().map(table).collect();
    for method in methods.lines().filter(|line| !line.is_empty()) {
        let Some((class, name)) = class_and_method(method) else {
            mistakes.push(format!("{method:?} is not the name of a method"));
            continue;
        };
        let table = tables.iter_mut().find(|table| table.name == class);
        match table.and_then(|table| table.rows.iter_mut().find(|row| row.line.fits(name))) {
            Some(row) => row.java.push(name),
            None => mistakes.push(format!("{method} of Java has no line")),
        }
    }
    // A class as a whole may have no methods at all.
    for table in tables.iter_mut().filter(|table| !table.is_whole) {
        for Row { line, .. } in table.rows.iter().filter(|row| row.java.is_empty()) {
            mistakes.push(format!(
                "line {}: there is no method {}.{} in Java that no line before it is about",
                line.number, table.name, line.pattern
            ));
        }
        table.rows.sort_by(|one, two| one.java.first().cmp(&two.java.first()));
    }
    if mistakes.is_empty() { Ok(tables) } else { Err(mistakes) }
}

fn table(class: &Class) -> Table<'_> {
    let rows = class.lines.iter().map(|line| Row { java: Vec::new(), line }).collect();
    Table { name: class.name(), part: &class.part, is_whole: class.is_whole(), rows }
}

/// What the file does not say about packages that it is about: classes without a section.
pub(super) fn missing_classes(classes: &[Class], of_java: &str) -> Vec<String> {
    let is_known = |path: &str| classes.iter().any(|class| class.path == path);
    let missing = of_java.lines().filter(|path| !path.is_empty() && !is_known(path));
    missing.map(|path| format!("the class {path} of Java has no section")).collect()
}

/// The dots of types are behind the bracket.
fn class_and_method(line: &str) -> Option<(&str, &str)> {
    let dot = line[..line.find('(')?].rfind('.')?;
    Some((&line[..dot], &line[dot + 1..]))
}
