//! The file that says for each method of Java what is ours: classes, and lines of a pattern and a verdict.

/// The pattern of all methods of a class.
const WHOLE: &str = "*";

/// A class of Java with what is said about its methods.
#[derive(Debug)]
pub(super) struct Class {
    /// As Java's reflection calls it: `package.Outer$Inner`.
    pub(super) path: String,
    /// The part of the page that it is in; empty if the file has no parts.
    pub(super) part: String,
    pub(super) lines: Vec<Line>,
}

impl Class {
    /// Its name without the package: `Outer.Inner`, or `api.Outer` for one of `processor.api`, where names of `processor` come again.
    pub(super) fn name(&self) -> String {
        let (package, name) = self.path.rsplit_once('.').unwrap_or(("", &self.path));
        let part = if package.ends_with(".api") { "api." } else { "" };
        format!("{part}{}", name.replace('$', "."))
    }

    /// Whether one thing is said about all its methods.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self.lines.as_slice(), [line] if line.pattern == WHOLE)
    }
}

/// What is said about the methods of a class that fit a pattern.
#[derive(Debug)]
pub(super) struct Line {
    /// Where it stands in the file, from 1.
    pub(super) number: usize,
    /// `name(Type,Type)`; a `*` in the brackets stands for any text.
    pub(super) pattern: String,
    pub(super) verdict: Verdict,
    /// Our methods and types, as paths of Rust.
    pub(super) ours: Vec<String>,
    /// What there is to say about them, or why there are none; can be empty.
    pub(super) note: String,
}

impl Line {
    /// Whether it is about this method, `name(Type,Type)`.
    pub(super) fn fits(&self, method: &str) -> bool {
        fits(&self.pattern, method)
    }
}

/// How a method of Java is covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A method or a few do the same.
    Method,
    /// An option of another method, or a type, does the same.
    Option,
    /// Left out on purpose.
    LeftOut,
    /// Not there yet.
    NotYet,
}

impl Verdict {
    fn of(mark: &str) -> Option<Verdict> {
        Some(match mark {
            "=" => Verdict::Method,
            "~" => Verdict::Option,
            "-" => Verdict::LeftOut,
            "!" => Verdict::NotYet,
            _ => return None,
        })
    }

    pub(super) fn is_there(self) -> bool {
        matches!(self, Verdict::Method | Verdict::Option)
    }
}

/// Reads the file; the errors are all that is wrong with it.
pub(super) fn parse(text: &str) -> Result<Vec<Class>, Vec<String>> {
    let mut classes: Vec<Class> = Vec::new();
    let mut mistakes = Vec::new();
    let mut part = String::new();
    for (index, line) in text.lines().enumerate() {
        let (number, line) = (index + 1, line.trim());
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(title) = line.strip_prefix("== ") {
            part = title.to_owned();
            continue;
        }
        if let Some((path, rest)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            if classes.iter().any(|class| class.path == path) {
                mistakes.push(format!("line {number}: {path} is there twice"));
            }
            let mut lines = Vec::new();
            if !rest.is_empty() {
                match parse_verdict(number, WHOLE, rest) {
                    Ok(line) => lines.push(line),
                    Err(why) => mistakes.push(format!("line {number}: {why}")),
                }
            }
            classes.push(Class { path: path.to_owned(), part: part.clone(), lines });
            continue;
        }
        match (parse_line(number, line), classes.last_mut()) {
            (Ok(line), Some(class)) => class.lines.push(line),
            (Ok(_), None) => mistakes.push(format!("line {number}: no [class] before it")),
            (Err(why), _) => mistakes.push(format!("line {number}: {why}")),
        }
    }
    if mistakes.is_empty() { Ok(classes) } else { Err(mistakes) }
}

const FORM: &str = "a line is `method(Types) = ours | note` with =, ~, - or !";

fn parse_line(number: usize, line: &str) -> Result<Line, String> {
    let close = line.find(')').ok_or(FORM)?;
    let (pattern, rest) = line.split_at(close + 1);
    parse_verdict(number, pattern, rest)
}

/// What is said about the methods that fit a pattern.
fn parse_verdict(number: usize, pattern: &str, rest: &str) -> Result<Line, String> {
    let (mark, rest) = rest.trim_start().split_once(' ').ok_or(FORM)?;
    let verdict = Verdict::of(mark).ok_or(FORM)?;
    let pattern = pattern.to_owned();
    if !verdict.is_there() {
        return Ok(Line {
            number,
            pattern,
            verdict,
            ours: Vec::new(),
            note: rest.trim().to_owned(),
        });
    }
    let (ours, note) = rest.split_once('|').unwrap_or((rest, ""));
    let ours: Vec<String> = ours.split(',').map(|path| path.trim().to_owned()).collect();
    if let Some(path) = ours.iter().find(|path| !is_path(path)) {
        return Err(format!("{path:?} is no path of Rust"));
    }
    Ok(Line { number, pattern, verdict, ours, note: note.trim().to_owned() })
}

fn is_path(path: &str) -> bool {
    let word = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    path.split("::").all(word)
}

/// Whether a text is what the pattern says, where `*` is any text.
fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            text.char_indices()
                .map(|(at, _)| at)
                .chain([text.len()])
                .any(|at| fits(rest, &text[at..]))
        }),
    }
}
