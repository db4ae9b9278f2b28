//! `get` and `scan`: entries of a store, as bytes, JSON or hexadecimal.

use crate::checkpoint;
use crate::error::{CliError, Context, Exit};
use crate::key::{self, KeyNotation, entry_json, to_hex};
use crate::output::{EntryFormat, Output, note};
use crate::progress::{Progress, Unit};
use crate::session::Session;
use crate::store::{KeyspaceArgs, ReadDriveArgs, Store, keyspace_in, salvage_hint};
use imbrex_engine::{Iter, Keyspace, ReadOptions, prefix_end};
use std::ffi::OsString;

/// Arguments of `imbrex get`.
#[derive(clap::Args, Debug)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    store: ReadDriveArgs,
    /// The key to look up
    key: OsString,
    #[command(flatten)]
    notation: KeyNotation,
    #[command(flatten)]
    keyspace: KeyspaceArgs,
    /// Read a checkpoint instead of the present state
    #[arg(long, value_name = "NAME")]
    checkpoint: Option<String>,
}

impl GetArgs {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        let key = self.notation.bytes(&self.key)?;
        let format = session.out.entry_format()?;
        self.store.open_quiet()?.with(|store| {
            let keyspace = keyspace(store, &self.keyspace, self.checkpoint.as_deref())?;
            let value = keyspace.get(&key).context(|| format!("cannot get {}", key::shown(&key)));
            let value = value
                .map_err(|error| error.with_damage_hint(|| salvage_hint(&store.path)))?
                .ok_or_else(|| {
                    CliError::new(Exit::NotFound, format!("{}: no such key", key::shown(&key)))
                })?;
            match format {
                EntryFormat::Json => {
                    let line = entry_json(&key, Some(&value)).to_string();
                    session.out.line(line)
                }
                EntryFormat::Hex => session.out.line(to_hex(&value)),
                EntryFormat::Raw => {
                    session.out.bytes(&value)?;
                    // A file or a pipe gets the exact bytes. On a terminal the prompt starts a new line.
                    if session.out.is_terminal() && value.last() != Some(&b'\n') {
                        session.out.bytes(b"\n")?;
                    }
                    Ok(())
                }
            }
        })
    }
}

/// The keyspace that `args` names: as it is now, or at a checkpoint.
fn keyspace(
    store: &Store,
    args: &KeyspaceArgs,
    checkpoint: Option<&str>,
) -> Result<Keyspace, CliError> {
    match checkpoint {
        None => store.keyspace(args),
        Some(name) => keyspace_in(&checkpoint::open(store, name)?, args),
    }
}

/// Arguments of `imbrex scan`.
#[derive(clap::Args, Debug)]
pub(crate) struct ScanArgs {
    #[command(flatten)]
    store: ReadDriveArgs,
    /// Print only keys that start with this prefix
    #[arg(long, conflicts_with_all = ["from", "to"])]
    prefix: Option<OsString>,
    /// Start at this key, inclusive
    #[arg(long)]
    from: Option<OsString>,
    /// Stop before this key
    #[arg(long)]
    to: Option<OsString>,
    /// Print at most this many entries
    #[arg(long, value_name = "COUNT")]
    limit: Option<u64>,
    /// Print from the last key to the first
    #[arg(long)]
    reverse: bool,
    /// Print keys without their values
    #[arg(long)]
    keys_only: bool,
    /// Skip damaged places and print the rest; values may be outdated, and deleted keys may reappear
    #[arg(long)]
    skip_damage: bool,
    #[command(flatten)]
    notation: KeyNotation,
    #[command(flatten)]
    keyspace: KeyspaceArgs,
    /// Read a checkpoint instead of the present state
    #[arg(long, value_name = "NAME")]
    checkpoint: Option<String>,
}

impl ScanArgs {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        let (lower, upper) = self.bounds()?;
        session.out.entry_format()?;
        if !self.skip_damage {
            return self.store.open_quiet()?.with(|store| {
                let printed = self.print(store, session, lower, upper);
                let hint = || "--skip-damage skips damaged places and prints the rest".to_owned();
                printed.map_err(|error| error.with_damage_hint(hint))
            });
        }
        self.store.open_to_salvage()?.with(|store| {
            let printed = self.print(store, session, lower, upper);
            let (losses, shown) = (store.db.losses(), store.path.display());
            for loss in &losses {
                note(format!("imbrex: {shown}: {loss}"));
            }
            printed?;
            if losses.is_empty() {
                return Ok(());
            }
            Err(CliError::new(
                Exit::Corrupt,
                format!(
                    "{shown}: {} damaged places were left out; values in this output may be outdated, and \
                     deleted keys may reappear in it",
                    losses.len()
                ),
            ))
        })
    }

    /// The first key of the range, and the first key after it.
    #[expect(clippy::type_complexity, reason = "two bounds, each of which may be missing")]
    fn bounds(&self) -> Result<(Option<Vec<u8>>, Option<Vec<u8>>), CliError> {
        let bytes = |text: &Option<OsString>| -> Result<Option<Vec<u8>>, CliError> {
            text.as_ref().map(|text| self.notation.bytes(text)).transpose()
        };
        if let Some(prefix) = bytes(&self.prefix)? {
            let past = prefix_end(&prefix);
            return Ok((Some(prefix), past));
        }
        let (from, to) = (bytes(&self.from)?, bytes(&self.to)?);
        if let (Some(from), Some(to)) = (&from, &to)
            && from > to
        {
            return Err(CliError::usage(format!(
                "--from {} is greater than --to {}; swap them",
                key::shown(from),
                key::shown(to)
            )));
        }
        Ok((from, to))
    }

    fn print(
        &self,
        store: &Store,
        session: &mut Session,
        lower: Option<Vec<u8>>,
        upper: Option<Vec<u8>>,
    ) -> Result<(), CliError> {
        let keyspace = keyspace(store, &self.keyspace, self.checkpoint.as_deref())?;
        let options = ReadOptions {
            lower: lower.map(Into::into),
            upper: upper.map(Into::into),
            fill_cache: false,
            ..ReadOptions::default()
        };
        let format = session.out.entry_format()?;
        let what = || format!("cannot scan {}", store.path.display());
        let mut iter: Iter = keyspace.iter(options).context(what)?;
        if self.reverse { iter.seek_to_last() } else { iter.seek_to_first() }.context(what)?;
        // On a terminal the entries themselves show the progress.
        let progress = (!session.out.is_terminal())
            .then(|| Progress::new("scanning", Unit::Items, self.limit));
        let mut count = 0;
        let mut left = self.limit.unwrap_or(u64::MAX);
        while iter.valid() && left > 0 {
            session.interrupt.check()?;
            let value = (!self.keys_only).then(|| iter.value());
            print_entry(&mut session.out, format, iter.key(), value)?;
            left -= 1;
            count += 1;
            if let Some(progress) = &progress {
                progress.set(count);
            }
            if left > 0 {
                if self.reverse { iter.prev() } else { iter.next() }.context(what)?;
            }
        }
        Ok(())
    }
}

/// One line: `key TAB value`, a JSON object, or both in hexadecimal.
fn print_entry(
    out: &mut Output,
    format: EntryFormat,
    key: &[u8],
    value: Option<&[u8]>,
) -> Result<(), CliError> {
    match format {
        EntryFormat::Json => out.line(entry_json(key, value).to_string()),
        EntryFormat::Hex => {
            out.bytes(to_hex(key).as_bytes())?;
            if let Some(value) = value {
                out.bytes(b"\t")?;
                out.bytes(to_hex(value).as_bytes())?;
            }
            out.bytes(b"\n")
        }
        EntryFormat::Raw => {
            out.bytes(key)?;
            if let Some(value) = value {
                out.bytes(b"\t")?;
                out.bytes(value)?;
            }
            out.bytes(b"\n")
        }
    }
}
