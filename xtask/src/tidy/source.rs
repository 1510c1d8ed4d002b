//! A Rust file, cut into code and comments without a parser: texts and comments are blanked out of the code, so that
//! what looks like code in a text is none. Lines and columns stay where they were.

use std::ops::Range;

/// One file.
pub(super) struct Source {
    /// As it is.
    pub(super) text: String,
    /// The same characters, with everything but code blank.
    pub(super) code: String,
    /// The same characters, with everything but comments blank.
    pub(super) comments: String,
    /// The byte ranges of modules under `#[cfg(test)]`.
    tests: Vec<Range<usize>>,
}

impl Source {
    pub(super) fn read(text: &str) -> Source {
        let mut cutter = Cutter { text, at: 0, code: Vec::new(), comments: Vec::new() };
        cutter.cut();
        let (code, comments) = (as_text(cutter.code), as_text(cutter.comments));
        let tests = test_modules(&code);
        Source { text: text.to_owned(), code, comments, tests }
    }

    /// The line of a byte, from 1.
    pub(super) fn line(&self, at: usize) -> usize {
        line_of(&self.text, at)
    }

    pub(super) fn is_test(&self, at: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&at))
    }

    /// Lines with code on them, in a part of the file, outside of test modules.
    pub(super) fn code_lines(&self, part: Range<usize>) -> usize {
        let mut start = part.start;
        let mut count = 0;
        for line in self.code[part].split_inclusive('\n') {
            let trimmed = line.trim_start();
            let first = start + line.len() - trimmed.len();
            count += usize::from(!trimmed.is_empty() && !self.is_test(first));
            start += line.len();
        }
        count
    }

    /// The places where `word` stands as a word of its own in the code.
    pub(super) fn words<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        let code = self.code.as_bytes();
        self.code.match_indices(word).map(|(at, _)| at).filter(move |at| {
            let before = at.checked_sub(1).map(|before| code[before]);
            let after = code.get(at + word.len()).copied();
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        })
    }
}

pub(super) fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count()
}

pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Where the brackets that open at `open` close; the end of the text if they do not.
pub(super) fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at;
                }
            }
            _ => {}
        }
    }
    code.len()
}

/// `#[cfg(test)]`, alone or with more conditions, on a `mod name { … }`.
fn test_modules(code: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for (start, _) in code.match_indices("#[cfg(") {
        let attribute = closing(code, start + 1);
        if !code[start..attribute].split(|c: char| !c.is_alphanumeric()).any(|word| word == "test")
            || code[start..attribute].contains("not(test)")
        {
            continue;
        }
        let mut rest = code[(attribute + 1).min(code.len())..].trim_start();
        while rest.starts_with("#[") {
            rest = rest[(closing(rest, 1) + 1).min(rest.len())..].trim_start();
        }
        let open = rest.find(['{', ';']).filter(|at| rest.as_bytes()[*at] == b'{');
        if let Some(open) = open
            && rest[..open]
                .split_whitespace()
                .any(|word| word == "mod" || word == "fn" || word == "impl")
        {
            let open = code.len() - rest.len() + open;
            found.push(start..closing(code, open) + 1);
        }
    }
    found
}

fn as_text(bytes: Vec<u8>) -> String {
    // Whole characters are copied or replaced byte by byte, so this is always text.
    String::from_utf8(bytes).unwrap_or_default()
}

/// Goes through a file once and gives every byte to one side.
struct Cutter<'a> {
    text: &'a str,
    at: usize,
    code: Vec<u8>,
    comments: Vec<u8>,
}

impl Cutter<'_> {
    fn cut(&mut self) {
        while self.at < self.text.len() {
            let rest = &self.text[self.at..];
            if rest.starts_with("//") {
                self.comment(rest.find('\n').unwrap_or(rest.len()));
            } else if rest.starts_with("/*") {
                self.comment(block_comment(rest));
            } else if let Some((open, length)) = literal(rest, self.code.last().copied()) {
                self.literal(open, length);
            } else {
                let length = rest.chars().next().map_or(1, char::len_utf8);
                self.code(length);
            }
        }
    }

    fn code(&mut self, length: usize) {
        let bytes = &self.text.as_bytes()[self.at..self.at + length];
        self.code.extend_from_slice(bytes);
        self.comments.extend(bytes.iter().map(|byte| blank(*byte)));
        self.at += length;
    }

    fn comment(&mut self, length: usize) {
        let bytes = &self.text.as_bytes()[self.at..self.at + length];
        self.comments.extend_from_slice(bytes);
        self.code.extend(bytes.iter().map(|byte| blank(*byte)));
        self.at += length;
    }

    /// The first `open` bytes and the last quote stay, what is between them goes.
    fn literal(&mut self, open: usize, length: usize) {
        let bytes = &self.text.as_bytes()[self.at..self.at + length];
        let last = length - 1;
        for (n, byte) in bytes.iter().enumerate() {
            let stays = n < open || (n == last && (*byte == b'"' || *byte == b'\''));
            self.code.push(if stays { *byte } else { blank(*byte) });
            self.comments.push(blank(*byte));
        }
        self.at += length;
    }
}

fn blank(byte: u8) -> u8 {
    if byte == b'\n' { b'\n' } else { b' ' }
}

fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    let bytes = rest.as_bytes();
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if bytes[at..].starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

/// A text or character that begins here: the length of its opening, and of all of it.
fn literal(rest: &str, before: Option<u8>) -> Option<(usize, usize)> {
    let bytes = rest.as_bytes();
    if bytes[0] == b'\'' {
        return character(rest).map(|length| (1, length));
    }
    let prefix = match bytes[0] {
        b'"' => 0,
        // The end of a longer word is no prefix.
        _ if before.is_some_and(is_word) => return None,
        b'r' => 1,
        b'b' | b'c' if bytes.get(1) == Some(&b'r') => 2,
        b'b' | b'c' => 1,
        _ => return None,
    };
    let raw = rest[..prefix].ends_with('r');
    let hashes =
        if raw { rest[prefix..].bytes().take_while(|byte| *byte == b'#').count() } else { 0 };
    let open = prefix + hashes + 1;
    if bytes.get(open - 1) != Some(&b'"') {
        return None;
    }
    let end = if raw {
        let close = format!("\"{}", "#".repeat(hashes));
        rest[open..].find(&close).map(|at| open + at + close.len())
    } else {
        let mut escaped = false;
        let quote = rest[open..].bytes().position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        quote.map(|at| open + at + 1)
    };
    Some((open, end.unwrap_or(bytes.len())))
}

/// The length of a character in quotes; none if the quote begins a lifetime or a label.
fn character(rest: &str) -> Option<usize> {
    let mut chars = rest.char_indices().skip(1);
    let (_, first) = chars.next()?;
    if first == '\\' {
        chars.next()?;
        let (end, _) = chars.find(|(_, c)| *c == '\'')?;
        return Some(end + 1);
    }
    let (end, quote) = chars.next()?;
    (quote == '\'').then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        Source::read(text).code
    }

    #[test]
    fn texts_and_comments_are_blank() {
        assert_eq!(code("a \"b\" // c\nd"), "a \" \"     \nd");
        assert_eq!(code("/* a /* b */ c */ d"), "                  d");
        assert_eq!(code("r#\"a\"b\"# c"), "r#\"      c");
        assert_eq!(code(r#""a\"b" c"#), "\"    \" c");
        assert_eq!(code("b\"x\" 'x' b'\\'' z"), "b\" \" ' ' b'  ' z");
    }

    #[test]
    fn lifetimes_are_code() {
        assert_eq!(code("fn f<'a>(x: &'a str) {}"), "fn f<'a>(x: &'a str) {}");
        assert_eq!(code("'outer: loop {}"), "'outer: loop {}");
    }

    #[test]
    fn comments_are_kept_apart() {
        let source = Source::read("let x = \"// no\"; // yes\n");
        assert_eq!(source.comments.trim(), "// yes");
        assert_eq!(source.comments.len(), source.text.len());
    }

    #[test]
    fn lines_of_test_modules_are_not_counted() {
        let text =
            "//! Doc.\nfn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
        let source = Source::read(text);
        assert_eq!(source.code_lines(0..text.len()), 2);
        let other = "#[cfg(feature = \"test\")]\nmod a { }\n#[cfg(not(test))]\nmod b { }\n";
        assert_eq!(Source::read(other).code_lines(0..other.len()), 4);
    }

    #[test]
    fn words_stand_alone() {
        let source = Source::read("fn fnord() { fn_x(); } // fn");
        assert_eq!(source.words("fn").count(), 1);
    }
}
