//! Properties: the settings of a YCSB workload, from Java property files and the command line.
//!
//! ```text
//!   -P workloads/a -P mine -p recordcount=5000
//!      file 1   <   file 2   <   command line         the right one counts
//! ```
//!
//! A property records where it was set, so that an error names its file and line. Keys that nothing
//! reads are reported too ([`Properties::unknown`]), because a misspelt key is the most likely
//! reason for measuring the wrong thing.
//!
//! Not here: the meaning of properties (`core` here, `settings` in `imbrex-bench`).

use crate::byte_order_mark::without_byte_order_mark;
use java_properties::{LineContent, PropertiesIter};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The properties of one run.
#[derive(Clone, Debug, Default)]
pub struct Properties {
    from_files: BTreeMap<String, Property>,
    from_command_line: BTreeMap<String, Property>,
}

/// A value and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Property {
    value: String,
    origin: PropertyOrigin,
}

/// The origin of a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PropertyOrigin {
    /// A file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// A command line argument.
    CommandLine,
}

impl fmt::Display for PropertyOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PropertyOrigin::File { path, line } => write!(f, "{}:{line}", path.display()),
            PropertyOrigin::CommandLine => f.write_str("command line"),
        }
    }
}

/// Errors in properties.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PropertyError {
    /// A file cannot be read.
    #[error("property file {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A file is not a property file.
    #[error("property file {}, line {line}: {source}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The problem.
        #[source]
        source: java_properties::PropertiesError,
    },
    /// An argument is not a property.
    #[error("{got:?} is not a property: write key=value")]
    Assignment {
        /// The argument.
        got: String,
    },
    /// A value is invalid.
    #[error("{origin}: {key}={value}: {problem}")]
    Value {
        /// The property's name.
        key: String,
        /// Its value.
        value: String,
        /// Where it was set.
        origin: PropertyOrigin,
        /// What is expected.
        problem: String,
    },
    /// Properties contradict each other, or a required one is missing.
    #[error("{0}")]
    Contradiction(String),
}

impl Properties {
    /// No properties: everything has its default.
    pub fn new() -> Properties {
        Properties::default()
    }

    /// Adds the properties of a file, which override those of earlier files.
    ///
    /// # Errors
    /// [`PropertyError::File`], [`PropertyError::Syntax`].
    pub fn read_file(&mut self, path: &Path) -> Result<(), PropertyError> {
        let failed = |source| PropertyError::File { path: path.to_owned(), source };
        let text = std::fs::read(path).map_err(failed)?;
        self.read(path, &text)
    }

    /// Like [`Properties::read_file`], for the content `text` of `path`.
    ///
    /// # Errors
    /// As [`Properties::read_file`].
    pub fn read(&mut self, path: &Path, text: &[u8]) -> Result<(), PropertyError> {
        for line in PropertiesIter::new(&*as_java_reads(without_byte_order_mark(text))) {
            let line = line.map_err(|source| match source.line_number() {
                Some(line) => PropertyError::Syntax { path: path.to_owned(), line, source },
                None => PropertyError::File {
                    path: path.to_owned(),
                    source: std::io::Error::other(source.to_string()),
                },
            })?;
            let origin = PropertyOrigin::File { path: path.to_owned(), line: line.line_number() };
            if let LineContent::KVPair(key, value) = line.consume_content() {
                self.from_files.insert(key, Property { value, origin });
            }
        }
        Ok(())
    }

    /// Sets `key=value` from an argument, which overrides all files.
    ///
    /// # Errors
    /// [`PropertyError::Assignment`].
    pub fn assign(&mut self, assignment: &str) -> Result<(), PropertyError> {
        match assignment.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => {
                self.set(key.trim(), value);
                Ok(())
            }
            _ => Err(PropertyError::Assignment { got: assignment.to_owned() }),
        }
    }

    /// Sets a property like an argument.
    pub fn set(&mut self, key: &str, value: impl Into<String>) {
        let property = Property { value: value.into(), origin: PropertyOrigin::CommandLine };
        self.from_command_line.insert(key.to_owned(), property);
    }

    /// The value of `key`, trimmed.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.get_whole(key).map(str::trim)
    }

    /// The value of `key`, untrimmed.
    pub fn get_whole(&self, key: &str) -> Option<&str> {
        debug_assert!(is_known(key), "{key} is read, so it belongs into KNOWN");
        self.property(key).map(|property| property.value.as_str())
    }

    /// Whether an argument, and not only a file, sets `key`.
    pub fn is_argument(&self, key: &str) -> bool {
        self.from_command_line.contains_key(key)
    }

    /// All keys, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        let files = self.from_files.keys().filter(|k| !self.from_command_line.contains_key(*k));
        let mut keys: Vec<&str> =
            files.chain(self.from_command_line.keys()).map(String::as_str).collect();
        keys.sort_unstable();
        keys.into_iter()
    }

    /// The keys that only a series of arrivals reads, sorted.
    pub fn of_arrivals(&self) -> Vec<&str> {
        let is_theirs = |key: &&str| OF_ARRIVALS.iter().any(|prefix| key.starts_with(prefix));
        self.keys().filter(|key| is_known(key)).filter(is_theirs).collect()
    }

    /// The properties that nothing reads, each with its origin.
    pub fn unknown(&self) -> impl Iterator<Item = String> {
        let unknown = self.keys().filter(|key| !is_known(key)).filter_map(|key| {
            self.property(key).map(|property| format!("{key} ({})", property.origin))
        });
        unknown.collect::<Vec<_>>().into_iter()
    }

    /// The value of `key` as a `T`, or `otherwise`. `expected` describes valid values for the
    /// error.
    ///
    /// # Errors
    /// [`PropertyError::Value`].
    pub fn parsed<T: FromStr>(
        &self,
        key: &str,
        otherwise: T,
        expected: &str,
    ) -> Result<T, PropertyError> {
        match self.get(key) {
            None => Ok(otherwise),
            Some(value) => {
                value.parse().map_err(|_| self.wrong(key, format!("expected {expected}")))
            }
        }
    }

    /// The value of `key` as a number from `min` to `max`, or `otherwise`.
    pub fn number(
        &self,
        key: &str,
        otherwise: u64,
        (min, max): (u64, u64),
    ) -> Result<u64, PropertyError> {
        let expected = format!("a whole number from {min} to {max}");
        let number = self.parsed(key, otherwise, &expected)?;
        if self.get(key).is_some() && !(min..=max).contains(&number) {
            return Err(self.wrong(key, format!("expected {expected}")));
        }
        Ok(number)
    }

    /// The value of `key` as a decimal number from `min` to `max`, or `otherwise`.
    pub fn decimal(
        &self,
        key: &str,
        otherwise: f64,
        (min, max): (f64, f64),
    ) -> Result<f64, PropertyError> {
        let expected = format!("a number from {min} to {max}");
        let number = self.parsed(key, otherwise, &expected)?;
        if !(min..=max).contains(&number) {
            return Err(self.wrong(key, format!("expected {expected}")));
        }
        Ok(number)
    }

    /// The value of `key` as a boolean, or `otherwise`.
    pub fn flag(&self, key: &str, otherwise: bool) -> Result<bool, PropertyError> {
        match self.get(key) {
            None => Ok(otherwise),
            Some(value) if value.eq_ignore_ascii_case("true") => Ok(true),
            Some(value) if value.eq_ignore_ascii_case("false") => Ok(false),
            Some(_) => Err(self.wrong(key, "expected true or false")),
        }
    }

    /// The error that the value of `key` is invalid.
    pub fn wrong(&self, key: &str, problem: impl Into<String>) -> PropertyError {
        let (value, origin) = match self.property(key) {
            Some(property) => (property.value.clone(), property.origin.clone()),
            None => (String::new(), PropertyOrigin::CommandLine),
        };
        PropertyError::Value { key: key.to_owned(), value, origin, problem: problem.into() }
    }

    fn property(&self, key: &str) -> Option<&Property> {
        self.from_command_line.get(key).or_else(|| self.from_files.get(key))
    }
}

/// Removes the parts of `text` that Java ignores and the parser does not: the contents of comments,
/// including invalid escapes, and a backslash at the very end.
fn as_java_reads(mut text: &[u8]) -> Vec<u8> {
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let mut read = Vec::with_capacity(text.len());
    let mut continues = false;
    while !text.is_empty() {
        let (line, rest) = text.split_at(text.iter().position(is_end).unwrap_or(text.len()));
        let end_len = if rest.starts_with(b"\r\n") { 2 } else { rest.len().min(1) };
        let (end, rest) = rest.split_at(end_len);
        let is_comment = !continues && matches!(line.trim_ascii_start().first(), Some(b'#' | b'!'));
        let backslash_count = line.iter().rev().take_while(|byte| **byte == b'\\').count();
        continues = !is_comment && !backslash_count.is_multiple_of(2);
        let is_cut = continues && rest.is_empty();
        read.extend(match line.split_last() {
            _ if is_comment => &b"#"[..],
            Some((_, whole)) if is_cut => whole,
            _ => line,
        });
        read.extend(end);
        text = rest;
    }
    read
}

/// Prefixes of the keys that only a series of arrivals reads.
const OF_ARRIVALS: [&str; 4] = ["arrivals.", "diurnal.", "recorded.", "ss."];

/// All known keys, sorted.
const KNOWN: &[&str] = &[
    "arrivalgenerator",
    "arrivals.rate",
    "arrivals.seed",
    "core_workload_insertion_keep_going_on_error",
    "core_workload_insertion_retry_interval",
    "core_workload_insertion_retry_limit",
    "dataintegrity",
    "db",
    "diurnal.cyclelength",
    "diurnal.distribution",
    "diurnal.distribution.shape",
    "diurnal.modulation",
    "dotransactions",
    "exponential.frac",
    "exponential.percentile",
    "exporter",
    "exportfile",
    "fieldcount",
    "fieldlength",
    "fieldlengthdistribution",
    "fieldlengthhistogram",
    "fieldnameprefix",
    "hdrhistogram.percentiles",
    "histogram.buckets",
    "hotspotdatafraction",
    "hotspotopnfraction",
    "imbrex.drive",
    "imbrex.flash",
    "imbrex.library",
    "imbrex.sync",
    "insertcount",
    "insertorder",
    "insertproportion",
    "insertstart",
    "label",
    "leveldb.dir",
    "leveldb.library",
    "maxexecutiontime",
    "maxscanlength",
    "measurement.interval",
    "measurement.raw.output_file",
    "measurementtype",
    "minfieldlength",
    "minscanlength",
    "operationcount",
    "readallfields",
    "readallfieldsbyname",
    "readmodifywriteproportion",
    "readproportion",
    "recordcount",
    "recorded.file",
    "redis.host",
    "redis.password",
    "redis.port",
    "requestdistribution",
    "rocksdb.dir",
    "rocksdb.library",
    "scanlengthdistribution",
    "scanproportion",
    "spin.sleep",
    "ss.bias",
    "status",
    "status.interval",
    "table",
    "target",
    "threadcount",
    "timeseries.granularity",
    "updateproportion",
    "workload",
    "writeallfields",
    "zeropadding",
];

fn is_known(key: &str) -> bool {
    KNOWN.binary_search(&key).is_ok()
}

#[cfg(test)]
mod tests;
