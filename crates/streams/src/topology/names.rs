//! The rule for names that become topic, store or node names.

use super::Graph;
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

/// Whether a store or topic was named by a number: such a name moves when the topology changes.
fn is_generated(name: &str) -> bool {
    let is_number = |part: &str| part.len() == 10 && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_ours = ["KSTREAM-", "KTABLE-", "COGROUPKSTREAM-"].iter().any(|p| name.starts_with(p))
        || name.contains("-STATE-STORE-");
    is_ours && name.split('-').any(is_number)
}

impl Graph {
    /// What was not given a name.
    pub(super) fn unnamed(&self) -> Vec<String> {
        let stores = self.stores.iter().filter(|store| is_generated(&store.name));
        let (logged, unlogged): (Vec<_>, Vec<_>) =
            stores.partition(|store| store.logging.is_some());
        let repartition = self.repartition_topics.keys().filter(|topic| is_generated(topic));
        let mut unnamed: Vec<String> = Vec::new();
        unnamed
            .extend(logged.iter().map(|store| format!("store {} with its changelog", store.name)));
        unnamed.extend(unlogged.iter().map(|store| format!("store {}", store.name)));
        unnamed.extend(repartition.map(|topic| format!("repartition topic {topic}")));
        unnamed
    }

    /// Refuses what was not given a name.
    pub(crate) fn check_named(&self) -> Result<()> {
        let unnamed = self.unnamed();
        if unnamed.is_empty() {
            return Ok(());
        }
        let message = format!(
            "ensure.explicit.internal.resource.naming is set, and no name was given to: {}; name them by Materialized, Grouped, \
             Repartitioned, Joined, StreamJoined or TableJoined",
            unnamed.join(", ")
        );
        Err(Error::topology(message))
    }
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
