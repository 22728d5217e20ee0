//! Passes that take turns, so that a noisy neighbour hits every case alike, and a table of what they took.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// One thing to measure: a pass that is timed from outside, or one that tells its own time (a child process).
pub(crate) struct Case<'a> {
    pub(crate) file: &'static str,
    pub(crate) name: String,
    /// Uncompressed bytes and records of a pass.
    pub(crate) bytes: u64,
    pub(crate) records: u64,
    pass: Box<dyn FnMut() -> Duration + 'a>,
    /// Takes part in each so many rounds: slow cases need fewer.
    every: usize,
    times: Vec<Duration>,
}

impl<'a> Case<'a> {
    /// A case whose pass returns how long it took.
    pub(crate) fn timed(
        (file, name): (&'static str, &str),
        (bytes, records): (u64, u64),
        pass: impl FnMut() -> Duration + 'a,
    ) -> Self {
        Self { file, name: name.into(), bytes, records, pass: Box::new(pass), every: 1, times: Vec::new() }
    }

    /// A case whose pass must return `want`.
    pub(crate) fn new<T: PartialEq + std::fmt::Debug + 'a>(
        names: (&'static str, &str),
        size: (u64, u64),
        want: T,
        mut pass: impl FnMut() -> T + 'a,
    ) -> Self {
        Self::timed(names, size, move || {
            let start = Instant::now();
            let got = std::hint::black_box(pass());
            let time = start.elapsed();
            assert_eq!(got, want, "the sums of a pass");
            time
        })
    }

    /// Only in every so many rounds.
    pub(crate) const fn every(mut self, rounds: usize) -> Self {
        self.every = rounds;
        self
    }
}

/// What a case came to.
pub(crate) struct Figure {
    pub(crate) file: &'static str,
    pub(crate) name: String,
    /// MB/s of uncompressed bytes.
    pub(crate) best: f64,
    pub(crate) median: f64,
    /// Millions of records a second, at best.
    pub(crate) records: f64,
}

/// Runs all cases `rounds` times in turn, after one round that does not count.
pub(crate) fn measure(mut cases: Vec<Case<'_>>, rounds: usize) -> Vec<Figure> {
    for round in 0..=rounds {
        for case in &mut cases {
            if round == 0 {
                (case.pass)();
            } else if (round - 1) % case.every == 0 {
                let time = (case.pass)();
                case.times.push(time);
            }
        }
    }
    cases.into_iter().map(figure).collect()
}

fn figure(mut case: Case<'_>) -> Figure {
    case.times.sort_unstable();
    let per_second = |amount: u64, time: Duration| amount as f64 / time.as_secs_f64() / 1e6;
    let (best, median) = (case.times[0], case.times[case.times.len() / 2]);
    Figure {
        file: case.file,
        name: case.name,
        best: per_second(case.bytes, best),
        median: per_second(case.bytes, median),
        records: per_second(case.records, best),
    }
}

/// All figures of a run.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) figures: Vec<Figure>,
}

impl Report {
    fn files(&self) -> Vec<&'static str> {
        let mut files: Vec<_> = self.figures.iter().map(|figure| figure.file).collect();
        files.sort_unstable();
        files.dedup();
        files
    }

    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for figure in &self.figures {
            if !names.contains(&figure.name.as_str()) {
                names.push(&figure.name);
            }
        }
        names
    }

    /// A Markdown table of best and median MB/s.
    pub(crate) fn markdown(&self) -> String {
        self.table("MB/s, best (median)", |figure| format!("{:.0} ({:.0})", figure.best, figure.median))
    }

    /// A Markdown table of records a second.
    pub(crate) fn records_markdown(&self) -> String {
        self.table("M records/s, best", |figure| format!("{:.2}", figure.records))
    }

    /// A row a case, a column a file.
    fn table(&self, title: &str, cell: impl Fn(&Figure) -> String) -> String {
        let (files, names) = (self.files(), self.names());
        let width = names.iter().map(|name| name.len()).max().unwrap_or(0).max(title.len());
        let mut text = format!("| {title:width$} |");
        files.iter().for_each(|file| text += &format!(" {file:>13} |"));
        text += &format!("\n|{:-<1$}|", "", width + 2);
        files.iter().for_each(|_| text += "--------------:|");
        text.push('\n');
        for name in names {
            text += &format!("| {name:width$} |");
            for file in &files {
                let found = self.figures.iter().find(|figure| figure.file == *file && figure.name == name);
                text += &format!(" {:>13} |", found.map(&cell).unwrap_or_default());
            }
            text.push('\n');
        }
        text
    }

    /// `{"A": {"scan": {"best": …, "median": …, "unit": "MB/s", "records": …}}}`; records in millions a second.
    pub(crate) fn json(&self) -> Value {
        let mut files: BTreeMap<&str, BTreeMap<&str, Value>> = BTreeMap::new();
        let round = |number: f64| (number * 100.0).round() / 100.0;
        for figure in &self.figures {
            let entry = json!({
                "best": round(figure.best),
                "median": round(figure.median),
                "unit": "MB/s",
                "records": round(figure.records),
            });
            files.entry(figure.file).or_default().insert(&figure.name, entry);
        }
        json!(files)
    }

    /// Writes the JSON.
    pub(crate) fn write_json(&self, path: &Path) -> io::Result<()> {
        std::fs::write(path, serde_json::to_string_pretty(&self.json())? + "\n")
    }
}
