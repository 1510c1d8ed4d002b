//! The words after a command: options with and without a value, then names. Every command reads its own.

use std::str::FromStr;

/// What is left of the command line.
pub(crate) struct Args {
    words: Vec<String>,
}

impl Args {
    pub(crate) fn new(words: Vec<String>) -> Args {
        Args { words }
    }

    /// Takes `name` out; whether it was there.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let before = self.words.len();
        self.words.retain(|word| word != name);
        self.words.len() < before
    }

    /// Takes `name VALUE` or `name=VALUE` out.
    pub(crate) fn value<T: FromStr>(&mut self, name: &str) -> Result<Option<T>, String> {
        let with_equals = format!("{name}=");
        let is_it = |word: &String| word == name || word.starts_with(&with_equals);
        let Some(at) = self.words.iter().position(is_it) else { return Ok(None) };
        let word = self.words.remove(at);
        let text = match word.strip_prefix(&with_equals) {
            Some(text) => text.to_owned(),
            None if at < self.words.len() => self.words.remove(at),
            None => return Err(format!("{name} needs a value")),
        };
        if self.words.iter().any(is_it) {
            return Err(format!("{name} is there twice"));
        }
        text.parse().map(Some).map_err(|_| format!("{name} cannot be '{text}'"))
    }

    /// The names that remain; an option among them is one that nobody knows.
    pub(crate) fn names(self) -> Result<Vec<String>, String> {
        match self.words.iter().find(|word| word.starts_with('-')) {
            Some(option) => Err(format!("there is no option {option}: see `cargo xtask help`")),
            None => Ok(self.words),
        }
    }

    /// Nothing may remain.
    pub(crate) fn end(self) -> Result<(), String> {
        match self.names()?.first() {
            Some(name) => Err(format!("'{name}' is one word too many: see `cargo xtask help`")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Args;

    fn args(line: &str) -> Args {
        Args::new(line.split(' ').map(str::to_owned).collect())
    }

    #[test]
    fn options_may_stand_anywhere() {
        let mut args = args("count --seeds 3 reduce --count=7 --release");
        assert_eq!(args.value("--seeds"), Ok(Some(3)));
        assert_eq!(args.value("--count"), Ok(Some(7)));
        assert!(args.flag("--release"));
        assert_eq!(args.names(), Ok(vec!["count".to_owned(), "reduce".to_owned()]));
    }

    #[test]
    fn a_wrong_word_is_named() {
        let mut wrong = args("--seeds x");
        assert_eq!(wrong.value::<u32>("--seeds"), Err("--seeds cannot be 'x'".to_owned()));
        let mut short = args("--seeds");
        assert_eq!(short.value::<u32>("--seeds"), Err("--seeds needs a value".to_owned()));
        let mut twice = args("--seeds 1 --seeds=2");
        assert_eq!(twice.value::<u32>("--seeds"), Err("--seeds is there twice".to_owned()));
        assert!(args("--fast").names().is_err_and(|why| why.contains("--fast")));
        assert!(args("much").end().is_err_and(|why| why.contains("'much'")));
    }
}
