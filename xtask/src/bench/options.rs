//! What is to be compared.

use crate::args::Args;

/// Pairs of runs, unless the command line says otherwise.
const PAIRS: usize = 5;
const PAIRS_QUICK: usize = 2;

/// What the applications do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Workload {
    Map,
    Count,
    /// A count behind a repartition topic.
    Recount,
    /// A count in windows of a minute.
    Window,
    /// With a table of all keys.
    TableJoin,
    /// With a stream of as many records, ten seconds wide.
    StreamJoin,
    /// The store of a count, from its changelog.
    Restore,
}

impl Workload {
    const ALL: [Workload; 7] = [
        Workload::Map,
        Workload::Count,
        Workload::Recount,
        Workload::Window,
        Workload::TableJoin,
        Workload::StreamJoin,
        Workload::Restore,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Workload::Map => "map",
            Workload::Count => "count",
            Workload::Recount => "recount",
            Workload::Window => "window",
            Workload::TableJoin => "tablejoin",
            Workload::StreamJoin => "streamjoin",
            Workload::Restore => "restore",
        }
    }

    /// What the applications' topics are called, behind the application's name.
    pub(super) fn topics(self) -> &'static [&'static str] {
        match self {
            Workload::Map => &["out"],
            Workload::Count | Workload::Window | Workload::Restore => &["out", "counts-changelog"],
            Workload::Recount => &["out", "counts-changelog", "counts-repartition"],
            Workload::TableJoin => &["out", "tbl-changelog"],
            Workload::StreamJoin => &[
                "out",
                "KSTREAM-JOINTHIS-0000000005-store-changelog",
                "KSTREAM-JOINOTHER-0000000006-store-changelog",
            ],
        }
    }
}

#[derive(Debug)]
pub(super) struct Options {
    pub(super) workload: Workload,
    pub(super) records: u64,
    pub(super) keys: u64,
    pub(super) guarantee: String,
    pub(super) bootstrap: Option<String>,
    pub(super) pairs: usize,
    quick: bool,
}

impl Options {
    pub(super) fn parse(mut args: Args) -> Result<Options, String> {
        let words = Workload::ALL.map(Workload::name).join("|");
        let workload: Option<String> = args.value("--workload")?;
        let records: Option<u64> = args.value("--records")?;
        let keys: Option<u64> = args.value("--keys")?;
        let guarantee: Option<String> = args.value("--guarantee")?;
        let bootstrap: Option<String> = args.value("--bootstrap")?;
        let pairs: Option<usize> = args.value("--pairs")?;
        let quick = args.flag("--quick");
        args.end()?;
        let Some(workload) = workload else {
            return Err(format!(
                "name a --workload ({words}), or say `bench client` or `bench engine`"
            ));
        };
        let found = Workload::ALL.into_iter().find(|known| known.name() == workload);
        let workload = found.ok_or_else(|| format!("--workload is {words}, not '{workload}'"))?;
        let guarantee = guarantee.unwrap_or_else(|| "at_least_once".to_owned());
        if !matches!(guarantee.as_str(), "at_least_once" | "exactly_once_v2") {
            return Err(format!(
                "--guarantee is at_least_once or exactly_once_v2, not '{guarantee}'"
            ));
        }
        let records = records.unwrap_or(3_000_000);
        // A record a millisecond: in ten seconds each has about one partner.
        let keys = keys.unwrap_or(if workload == Workload::StreamJoin { 10_000 } else { 500_000 });
        let pairs = pairs.unwrap_or(if quick { PAIRS_QUICK } else { PAIRS });
        let least = [("--records", records), ("--keys", keys), ("--pairs", pairs as u64)];
        if let Some((name, _)) = least.iter().find(|(_, number)| *number == 0) {
            return Err(format!("{name} is at least 1"));
        }
        Ok(Options { workload, records, keys, guarantee, bootstrap, pairs, quick })
    }

    /// The bare loop does a map and a count, with no guarantee but at least once.
    pub(super) fn has_limit(&self) -> bool {
        matches!(self.workload, Workload::Map | Workload::Count)
            && self.guarantee == "at_least_once"
    }

    /// How many records the second topic gets, if there is one.
    pub(super) fn right_records(&self) -> Option<u64> {
        match self.workload {
            Workload::TableJoin => Some(self.keys),
            Workload::StreamJoin => Some(self.records),
            _ => None,
        }
    }

    /// Milliseconds between two records, of which the last is of now: with none all are younger than the table's.
    pub(super) fn step_ms(&self) -> u64 {
        u64::from(self.workload != Workload::TableJoin)
    }

    /// The settings of the record cache with which Java is tried: what is behind the workload's name in `Bench.java`.
    pub(super) fn variants(&self) -> &'static [&'static str] {
        match self.workload {
            // No store of theirs has a cache.
            Workload::Map | Workload::StreamJoin | Workload::Restore => &[""],
            _ if self.quick => &["-nocache"],
            _ => &["-nocache", "", "-bigcache"],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(Args::new(line.split_whitespace().map(str::to_owned).collect()))
    }

    #[test]
    fn options_are_read() {
        let options = parse("--workload count --records 1000 --quick --guarantee exactly_once_v2");
        let options = options.expect("good");
        assert_eq!((options.workload, options.records, options.pairs), (Workload::Count, 1000, 2));
        assert_eq!(options.variants(), ["-nocache"]);
        assert!(!options.has_limit());
        let options = parse("--workload=map --pairs=7").expect("good");
        assert_eq!((options.records, options.keys, options.pairs), (3_000_000, 500_000, 7));
        assert!(options.has_limit());
        let options = parse("--workload streamjoin").expect("good");
        assert_eq!((options.keys, options.right_records()), (10_000, Some(3_000_000)));
    }

    #[test]
    fn wrong_words_are_named() {
        for (line, named) in [
            ("--records 5", "--workload"),
            ("--workload sort", "'sort'"),
            ("--workload map --records many", "'many'"),
            ("--workload map --records 0", "--records"),
            ("--workload map --pairs 0", "--pairs"),
            ("--workload map --guarantee never", "'never'"),
            ("--workload map --fast", "--fast"),
            ("--workload map more", "'more'"),
        ] {
            let why = parse(line).expect_err(line);
            assert!(why.contains(named), "{line}: {why}");
        }
    }
}
