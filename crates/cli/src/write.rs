//! `put`, `delete` and `compact`.

use crate::count::grouped;
use crate::error::{CliError, Context};
use crate::interrupt::Stdin;
use crate::key::{self, KeyNotation};
use crate::output::Report;
use crate::progress::{Progress, Unit};
use crate::session::Session;
use crate::store::{DriveArgs, KeyspaceArgs, Store};
use imbrex_disk::ByteSize;
use imbrex_engine::{
    EngineError, Keyspace, VALUE_LEN_BYTES_MAX, WriteBatch, WriteOptions, prefix_end,
};
use imbrex_files::Files;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Arguments of `imbrex put`.
#[derive(clap::Args, Debug)]
pub(crate) struct PutArgs {
    #[command(flatten)]
    store: DriveArgs,
    /// The key to set
    key: OsString,
    /// The value; - or nothing reads it from standard input
    #[arg(conflicts_with = "file")]
    value: Option<OsString>,
    /// Read the value from this file; - is standard input
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    #[command(flatten)]
    notation: KeyNotation,
    #[command(flatten)]
    keyspace: KeyspaceArgs,
}

impl PutArgs {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        let key = self.notation.bytes(&self.key)?;
        let value = self.value(session)?;
        session.interrupt.check()?;
        self.store.open()?.with(|store| {
            let keyspace = store.keyspace(&self.keyspace)?;
            keyspace
                .put_with(&key, &value, WriteOptions::SYNC)
                .context(|| format!("cannot put {}", key::shown(&key)))
        })
    }

    fn value(&self, session: &Session) -> Result<Vec<u8>, CliError> {
        let path = self.file.as_deref().filter(|path| path.as_os_str() != "-");
        let (reader, name): (Box<dyn Read>, _) = match (&self.value, path) {
            (Some(value), _) if value != "-" => return Ok(value.as_bytes().to_vec()),
            (_, Some(path)) => {
                let name = path.display().to_string();
                let file = std::fs::File::open(path).context(|| format!("cannot open {name}"))?;
                (Box::new(file), name)
            }
            _ => (Box::new(Stdin::new(session.interrupt.clone())), "standard input".to_owned()),
        };
        let mut value = Vec::new();
        // One byte more than the maximum, so that a longer value is refused and not cut.
        reader
            .take(VALUE_LEN_BYTES_MAX as u64 + 1)
            .read_to_end(&mut value)
            .context(|| format!("cannot read {name}"))?;
        Ok(value)
    }
}

/// Arguments of `imbrex delete`.
#[derive(clap::Args, Debug)]
#[command(override_usage = "imbrex delete [OPTIONS] <DRIVE> [KEY]...")]
#[command(group = clap::ArgGroup::new("which").required(true).multiple(true).args(["keys", "prefix", "from", "to"]))]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    store: DriveArgs,
    /// The keys to delete; a missing key is not an error
    #[arg(value_name = "KEY")]
    keys: Vec<OsString>,
    /// Delete all keys that start with this prefix
    #[arg(long, conflicts_with_all = ["from", "to"])]
    prefix: Option<OsString>,
    /// Delete all keys from this one on, inclusive
    #[arg(long, requires = "to")]
    from: Option<OsString>,
    /// Delete up to this key, exclusive
    #[arg(long, requires = "from")]
    to: Option<OsString>,
    #[command(flatten)]
    notation: KeyNotation,
    #[command(flatten)]
    keyspace: KeyspaceArgs,
}

impl DeleteArgs {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        let bytes = |text: &OsStr| self.notation.bytes(text);
        let range = match (&self.prefix, &self.from, &self.to) {
            (Some(prefix), _, _) => {
                let from = bytes(prefix)?;
                let to = prefix_end(&from).ok_or_else(|| {
                    CliError::usage(format!(
                        "--prefix {prefix:?} has no key after it to end the range; use --from and --to"
                    ))
                })?;
                Some((from, to))
            }
            (None, Some(from), Some(to)) => Some((bytes(from)?, bytes(to)?)),
            _ => None,
        };
        if let Some((from, to)) = &range
            && from > to
        {
            let message = format!(
                "--from {} is greater than --to {}; swap them",
                key::shown(from),
                key::shown(to)
            );
            return Err(CliError::usage(message));
        }
        let keys = self.keys.iter().map(|key| bytes(key)).collect::<Result<BTreeSet<_>, _>>()?;
        self.store.open()?.with(|store| {
            let keyspace = store.keyspace(&self.keyspace)?;
            let doomed = Doomed::of(&keyspace, &keys, range.as_ref());
            let doomed = doomed.context(|| "cannot look up what is to be deleted")?;
            let mut batch = WriteBatch::new();
            for key in &keys {
                batch
                    .delete(&keyspace, key)
                    .context(|| format!("cannot delete {}", key::shown(key)))?;
            }
            if let Some((from, to)) = &range {
                batch.delete_range(&keyspace, from, to).context(|| "cannot delete the range")?;
            }
            store.db.write(batch, WriteOptions::SYNC).context(|| "cannot delete")?;
            session.out.report(&doomed.report())
        })
    }
}

/// A longer range is not read to count its keys.
const COUNTED_LEN_BYTES_MAX: u64 = 64 << 20;

/// What a deletion removes, read before it.
struct Doomed {
    /// Of the keys that the user named and no range covers: how many exist, and how many do not.
    found_count: u64,
    missing_count: u64,
    range: Option<RangeContent>,
}

/// What a range holds.
struct RangeContent {
    /// Its length in tables, by their indexes: 0 within one block.
    len_bytes: u64,
    /// `None` if the range is too long to count.
    key_count: Option<u64>,
}

type KeyRange = (Vec<u8>, Vec<u8>);

impl Doomed {
    fn of(
        keyspace: &Keyspace,
        keys: &BTreeSet<Vec<u8>>,
        range: Option<&KeyRange>,
    ) -> Result<Doomed, EngineError> {
        let mut counts = [0, 0];
        let is_covered = |key: &Vec<u8>| range.is_some_and(|(from, to)| from <= key && key < to);
        for key in keys.iter().filter(|key| !is_covered(key)) {
            counts[usize::from(keyspace.get(key)?.is_none())] += 1;
        }
        let [found_count, missing_count] = counts;
        let range = range.map(|range| RangeContent::of(keyspace, range)).transpose()?;
        Ok(Doomed { found_count, missing_count, range })
    }

    fn report(&self) -> Report {
        let in_range = self.range.as_ref().map_or(Some(0), |range| range.key_count);
        let removed = in_range.map(|count| count + self.found_count);
        let mut report = Report::default();
        report.row("keys removed", removed.map_or("not counted".to_owned(), grouped), removed);
        if self.missing_count > 0 {
            report.row("keys not found", grouped(self.missing_count), self.missing_count);
        }
        // What tables hold of a range without keys was deleted before.
        let Some(range) = self.range.as_ref().filter(|range| range.key_count != Some(0)) else {
            return report;
        };
        let len_bytes = range.len_bytes;
        report.row("space in tables", format!("about {}", ByteSize(len_bytes)), len_bytes);
        report.row("freed", "nothing yet; compactions free it, `imbrex compact` at once", 0);
        report
    }
}

impl RangeContent {
    fn of(keyspace: &Keyspace, (from, to): &KeyRange) -> Result<RangeContent, EngineError> {
        let len_bytes = keyspace.approximate_size(from..to)?;
        let count = || {
            keyspace.range(&from[..]..&to[..])?.try_fold(0, |count, entry| entry.map(|_| count + 1))
        };
        let is_counted = len_bytes <= COUNTED_LEN_BYTES_MAX;
        let key_count = match from < to {
            true => is_counted.then(count).transpose()?,
            false => Some(0),
        };
        Ok(RangeContent { len_bytes, key_count })
    }
}

/// Arguments of `imbrex compact`.
#[derive(clap::Args, Debug)]
pub(crate) struct CompactArgs {
    #[command(flatten)]
    store: DriveArgs,
    #[command(flatten)]
    keyspace: KeyspaceArgs,
}

impl CompactArgs {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        self.store.open_quiet()?.with(|store| {
            let keyspace = store.keyspace(&self.keyspace)?;
            let (entry_count, live_bytes) = held(store);
            let progress = Progress::new("compacting", Unit::Bytes, None);
            let done =
                keyspace.compact_range_with(None, None, &mut progress.watch(&session.interrupt));
            drop(progress);
            if !matches!(done, Ok(()) | Err(EngineError::Stopped { .. })) {
                return done.context(|| "cannot compact");
            }
            let metrics = store.db.metrics();
            let mut report = Report::default();
            report.row("compactions", grouped(metrics.compaction_count), metrics.compaction_count);
            for (name, len_bytes) in
                [("read", metrics.compaction_in_bytes), ("written", metrics.compaction_out_bytes)]
            {
                report.row(name, ByteSize(len_bytes).to_string(), len_bytes);
            }
            let (entries_left, bytes_left) = held(store);
            let removed = entry_count.saturating_sub(entries_left);
            report.row("removed", format!("{} entries", grouped(removed)), removed);
            let freed_bytes = live_bytes.saturating_sub(bytes_left);
            report.row("freed", ByteSize(freed_bytes).to_string(), freed_bytes);
            let kept_bytes = store.db.pins().checkpoints_len_bytes;
            if kept_bytes > 0 {
                let kept = ByteSize(kept_bytes).to_string();
                report.row("kept by checkpoints", kept, kept_bytes);
            }
            let told = session.out.report(&report);
            // Merges that ended before an interruption are kept, and were reported above.
            done.context(|| "cannot compact").and(told)
        })
    }
}

/// The number of entries in the tables, and the length of all files.
fn held(store: &Store) -> (u64, u64) {
    let keyspaces = store.db.metrics().keyspaces;
    let levels = keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
    (levels.map(|level| level.entry_count).sum(), store.files.space().live_bytes)
}
