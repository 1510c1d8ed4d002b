//! The rule for names that become topic, store or node names.

use crate::error::{Error, Result};

const LENGTH_MAX: usize = 249;

/// Kafka's rule for topic names, which Kafka Streams uses for everything that is named.
pub(crate) fn check_name(what: &str, name: &str) -> Result<()> {
    let problem = if name.is_empty() {
        "is empty".to_string()
    } else if name == "." || name == ".." {
        "cannot be \".\" or \"..\"".to_string()
    } else if name.len() > LENGTH_MAX {
        format!("is {} characters long, more than {LENGTH_MAX}", name.len())
    } else if let Some(odd) =
        name.chars().find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '.' | '_' | '-'))
    {
        format!("has the character {odd:?}: use letters, digits, '.', '_' and '-'")
    } else {
        return Ok(());
    };
    Err(Error::topology(format!("the {what} name {name:?} {problem}")))
}

#[cfg(test)]
mod tests {
    use super::check_name;

    #[test]
    fn names_follow_kafkas_rule() {
        assert!(check_name("store", "a.B_9-z").is_ok());
        for (name, why) in [("", "is empty"), ("..", "cannot be"), ("a b", "has the character ' '")]
        {
            let error = check_name("store", name).expect_err("refused").to_string();
            assert!(error.contains(why), "{error}");
        }
        assert!(check_name("store", &"x".repeat(250)).is_err());
    }
}
