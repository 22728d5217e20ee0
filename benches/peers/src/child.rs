//! Peers of other languages: a child process that is told on its standard input what to do.
//!
//! ```text
//! load PATH MIB   → ok BYTES      reads whole batches until MIB mebibytes are reached
//! pass            → nanoseconds, records, and the bytes of keys, values, header keys, header values, the sums of
//!                   offsets and of timestamps
//! encode          → nanoseconds, bytes: all records, made objects before the first of these, to batches again
//! write PATH      → ok BYTES      the same, and what was encoded goes to a file
//! ```

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::common::work::Sums;

/// A running peer.
pub(crate) struct Peer {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts a command: words, separated by line feeds.
    pub(crate) fn start(command: &str) -> io::Result<Self> {
        let mut words = command.lines();
        let program = words.next().ok_or(io::ErrorKind::InvalidInput)?;
        let mut process =
            Command::new(program).args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = process.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let output = BufReader::new(process.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?);
        Ok(Self { process, input, output })
    }

    fn ask(&mut self, line: &str) -> io::Result<String> {
        writeln!(self.input, "{line}")?;
        self.input.flush()?;
        let mut answer = String::new();
        self.output.read_line(&mut answer)?;
        Ok(answer.trim_end().to_owned())
    }

    /// Reads a file; returns how many bytes of it count.
    pub(crate) fn load(&mut self, path: &Path, mebibytes: usize) -> io::Result<usize> {
        self.ask_bytes(&format!("load {} {mebibytes}", path.display()))
    }

    fn ask_bytes(&mut self, line: &str) -> io::Result<usize> {
        let answer = self.ask(line)?;
        let bytes = answer.strip_prefix("ok ").and_then(|bytes| bytes.parse().ok());
        bytes.ok_or_else(|| io::Error::other(format!("a peer's answer: {answer:?}")))
    }

    /// One pass.
    pub(crate) fn pass(&mut self) -> io::Result<(Duration, Sums)> {
        let answer = self.ask("pass")?;
        let numbers: Vec<i64> = answer.split(' ').filter_map(|number| number.parse().ok()).collect();
        let [time, records, key, value, header_key, header_value, offsets, timestamps] = numbers[..] else {
            return Err(io::Error::other(format!("a peer's answer: {answer:?}")));
        };
        let sums = Sums {
            records: records as u64,
            key_bytes: key as u64,
            value_bytes: value as u64,
            header_key_bytes: header_key as u64,
            header_value_bytes: header_value as u64,
            offsets,
            timestamps,
        };
        Ok((Duration::from_nanos(time as u64), sums))
    }

    /// One pass the other way: how long it took, and how many bytes it wrote.
    pub(crate) fn encode(&mut self) -> io::Result<(Duration, usize)> {
        let answer = self.ask("encode")?;
        let numbers: Vec<u64> = answer.split(' ').filter_map(|number| number.parse().ok()).collect();
        let [time, bytes] = numbers[..] else {
            return Err(io::Error::other(format!("a peer's answer: {answer:?}")));
        };
        Ok((Duration::from_nanos(time), bytes as usize))
    }

    /// What it writes, by way of a file that is gone afterwards.
    pub(crate) fn written(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        self.ask_bytes(&format!("write {}", path.display()))?;
        let bytes = std::fs::read(path)?;
        std::fs::remove_file(path)?;
        Ok(bytes)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It ends with its input, too; this does not wait for that.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
