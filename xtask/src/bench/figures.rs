//! The figures of a run, read from the line that it prints, and what is computed from several.

use super::options::Options;

/// The line of one run. Java, ours and the bare loop print the same fields.
#[derive(Debug, Clone)]
pub(super) struct Figures {
    line: String,
    records: f64,
    secs: f64,
    cpu_secs: f64,
    memory: f64,
}

impl Figures {
    /// Reads the last line that looks like one of figures. `restores`: the records are those that were restored.
    pub(super) fn read(output: &str, restores: bool) -> Result<Figures, String> {
        let line = output.lines().rfind(|line| line.starts_with("{\"engine\""));
        let line = line.ok_or_else(|| format!("there is no line of figures in '{output}'"))?;
        let field = |name: &str| {
            number(line, name).ok_or_else(|| format!("there is no number \"{name}\" in {line}"))
        };
        let (records, secs) = match restores {
            true => (field("restored")?, field("restore_s")?),
            false => (field("records")?, field("secs")?),
        };
        let (cpu_secs, memory) = (field("cpu_s")?, field("rss_mb")?);
        Ok(Figures { line: line.to_owned(), records, secs, cpu_secs, memory })
    }

    pub(super) fn line(&self) -> &str {
        &self.line
    }

    pub(super) fn records(&self) -> f64 {
        self.records
    }

    /// CPU time a record in us.
    pub(super) fn cpu(&self) -> f64 {
        self.cpu_secs * 1e6 / self.records
    }

    /// Records a second.
    pub(super) fn rate(&self) -> f64 {
        self.records / self.secs
    }

    /// Peak of the resident memory in MB.
    pub(super) fn memory(&self) -> f64 {
        self.memory
    }
}

/// The number behind `"name":`.
fn number(line: &str, name: &str) -> Option<f64> {
    let (_, rest) = line.split_once(&format!("\"{name}\":"))?;
    rest.split([',', '}']).next()?.parse().ok()
}

/// The value in the middle; of an even number, between the two.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.get(sorted.len().saturating_sub(1) / 2), sorted.get(sorted.len() / 2)) {
        (Some(low), Some(high)) => f64::midpoint(*low, *high),
        _ => f64::NAN,
    }
}

/// The lowest and the highest value.
pub(super) fn spread(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    (low, values.iter().copied().fold(f64::NEG_INFINITY, f64::max))
}

/// Java divided by ours; `limit`: ours divided by the bare loop.
#[derive(Debug)]
pub(super) struct Ratios {
    pub(super) wall: f64,
    pub(super) cpu: f64,
    pub(super) memory: f64,
    pub(super) limit: Option<f64>,
}

impl Ratios {
    /// The last line.
    pub(super) fn line(&self, options: &Options) -> String {
        format!(
            "{{\"workload\":\"{}\",\"guarantee\":\"{}\",\"wall_ratio\":{:.2},\"cpu_ratio\":{:.2},\
             \"memory_ratio\":{:.2},\"limit_ratio\":{}}}",
            options.workload.name(),
            options.guarantee,
            self.wall,
            self.cpu,
            self.memory,
            self.limit.map_or("null".to_owned(), |ratio| format!("{ratio:.2}")),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"engine":"x","records":2000,"secs":0.50,"cpu_s":0.25,"rss_mb":40,"restored":10,"restore_s":2.0}"#;

    #[test]
    fn a_line_is_read() {
        let figures = Figures::read(&format!("noise\n{LINE}\n"), false).expect("figures");
        assert_eq!((figures.cpu(), figures.rate(), figures.memory()), (125.0, 4000.0, 40.0));
        let restored = Figures::read(LINE, true).expect("figures");
        assert_eq!((restored.records(), restored.rate()), (10.0, 5.0));
        assert!(Figures::read("noise", false).is_err_and(|why| why.contains("noise")));
        assert!(Figures::read("{\"engine\":1}", false).is_err_and(|why| why.contains("records")));
    }

    #[test]
    fn medians_and_spreads() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(spread(&[3.0, 1.0, 2.0]), (1.0, 3.0));
    }
}
