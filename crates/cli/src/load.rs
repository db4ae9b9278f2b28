//! `load`: stores many records from a file or a pipe.
//!
//! Records are written in batches of some hundred KiB. `--sync-every` bounds how much of a load a power
//! cut can lose. A malformed line ends the load, or is reported and skipped.

mod delimited;
mod lines;
mod rates;
mod record;
mod source;

use crate::count::grouped;
use crate::error::{CliError, Context};
use crate::interrupt::Interrupt;
use crate::key;
use crate::output::{Report, note};
use crate::progress::{Progress, Unit};
use crate::recorder::RecordArgs;
use crate::session::Session;
use crate::store::{DriveArgs, KeyspaceArgs, Store};
use crate::watched::subject;
use clap::ValueEnum;
use delimited::Delimited;
use imbrex_clockwork::{Clock, WallClock};
use imbrex_disk::ByteSize;
use imbrex_engine::{
    EngineError, KEY_LEN_BYTES_MAX, Keyspace, KeyspaceOptions, VALUE_LEN_BYTES_MAX, WriteBatch,
    WriteOptions,
};
use imbrex_watch::{Tap, Title};
use rates::Rates;
use record::{BadLine, Fields, JsonLines, Record, Records};
use source::Source;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// The format of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Lines {
    /// One JSON object per line
    Json,
    /// Comma-separated, with quotes where needed; the first line names the columns
    Csv,
    /// Tab-separated, without quotes; the first line names the columns
    Tsv,
}

/// What to do about a malformed line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnError {
    /// Stop; the records before it are stored
    Stop,
    /// Report it and continue with the next line; a quote that never closes ends the load
    Skip,
}

/// Arguments of `imbrex load`.
#[derive(clap::Args, Debug)]
pub(crate) struct LoadArgs {
    #[command(flatten)]
    store: DriveArgs,
    /// The file with the records; `-` reads standard input; zstd and gzip are detected
    file: PathBuf,
    /// Format of the records [default: by the file's name: .csv, .tsv, otherwise json]
    #[arg(long, value_enum)]
    lines: Option<Lines>,
    /// The field or column that holds the key
    #[arg(long, value_name = "NAME", default_value = "key")]
    key_field: String,
    /// The field or column that holds the value
    #[arg(long, value_name = "NAME", default_value = "value")]
    value_field: String,
    /// CSV and TSV: the first line is a record; --key-field and --value-field are column numbers
    /// [default: 1 and 2]
    #[arg(long)]
    no_header: bool,
    /// Make the records durable after every COUNT of them [default: once, at the end]
    #[arg(long, value_name = "COUNT")]
    sync_every: Option<std::num::NonZeroU64>,
    /// What to do about a malformed line
    #[arg(long, value_enum, default_value = "stop")]
    on_error: OnError,
    #[command(flatten)]
    keyspace: KeyspaceArgs,
    #[command(flatten)]
    record: RecordArgs,
}

/// Counts of a load.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    record_count: u64,
    key_bytes: u64,
    value_bytes: u64,
    skipped_count: u64,
}

impl Tally {
    /// The fate of the records before a failure, for its message.
    fn before(&self) -> String {
        match self.record_count {
            0 => "nothing before it was stored".to_owned(),
            1 => "the record before it is stored".to_owned(),
            count => format!("the {} records before it are stored", grouped(count)),
        }
    }
}

impl LoadArgs {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        session.out.is_json()?;
        if self.no_header && self.lines() == Lines::Json {
            return Err(CliError::usage(
                "--no-header is for CSV and TSV, and the input is taken for JSON; name its format with \
                 --lines",
            ));
        }
        // The drive is opened first: if it is in use, the user learns that without waiting for a slow pipe.
        let store = self.store.open()?;
        let tap = self.tap(&store)?;
        let mut loaded = None;
        let clock = WallClock::new();
        let mut rates = None;
        let result = store.with(|store| {
            let mut source = source::open(&self.file, &session.interrupt)?;
            let mut records = match self.records(&mut source) {
                // An interruption can cut the header short; that is no malformed header.
                Err(_) if session.interrupt.is_asked() => None,
                records => Some(records?),
            };
            let (name, tally) = loaded.insert((source.name.clone(), Tally::default()));
            let keyspace = self.keyspace(store)?;
            let mut loader = Loader::new(&self, store, &keyspace, name, tap.as_ref());
            if let Some(records) = &mut records {
                loader.take(&mut **records, &source, &session.interrupt, tally)?;
            }
            // The next command then has no log to replay.
            store.db.flush().context(|| "cannot flush")?;
            loader.watch_now();
            rates =
                Some(Rates { took_ns: clock.now_ns(), totals: store.db.totals_since_opening() });
            Ok(())
        });
        let told = match &loaded {
            Some((source, tally)) => self.report(session, source, tally, rates.as_ref()),
            None => Ok(()),
        };
        result.and_then(|()| session.interrupt.check()).and(told)
    }

    /// The recording of the load, if the user asked for one.
    fn tap(&self, store: &Store) -> Result<Option<Tap>, CliError> {
        let recorder = self.record.begin()?;
        Ok(recorder.map(|recorder| {
            let name = format!("load of {}", self.store.drive.display());
            let layout = store.layout.name().to_owned();
            recorder.tap(0, Title { name, layout, is_virtual: false })
        }))
    }

    fn lines(&self) -> Lines {
        self.lines.unwrap_or_else(|| lines_by_name(&self.file))
    }

    fn records(&self, source: &mut Source) -> Result<Box<dyn Records>, CliError> {
        let reader = std::mem::replace(&mut source.reader, Box::new(std::io::empty()));
        let mut fields = Fields { key: self.key_field.clone(), value: self.value_field.clone() };
        if self.no_header {
            for (field, name, number) in
                [(&mut fields.key, "key", "1"), (&mut fields.value, "value", "2")]
            {
                if field == name {
                    *field = number.to_owned();
                }
            }
        }
        Ok(match self.lines() {
            Lines::Json => Box::new(JsonLines::new(reader, &source.name, fields)),
            Lines::Csv => {
                Box::new(Delimited::new(reader, &source.name, &fields, b',', !self.no_header)?)
            }
            Lines::Tsv => {
                Box::new(Delimited::new(reader, &source.name, &fields, b'\t', !self.no_header)?)
            }
        })
    }

    /// The keyspace to load into; created if it does not exist.
    fn keyspace(&self, store: &Store) -> Result<Keyspace, CliError> {
        match &self.keyspace.keyspace {
            Some(name) if !store.db.keyspace_names().contains(name) => store
                .db
                .create_keyspace(name, KeyspaceOptions::default())
                .context(|| format!("cannot create keyspace {name:?}")),
            _ => store.keyspace(&self.keyspace),
        }
    }

    fn report(
        &self,
        session: &mut Session,
        source: &str,
        tally: &Tally,
        rates: Option<&Rates>,
    ) -> Result<(), CliError> {
        let mut report = Report::default();
        report.row("source", source, source);
        report.row("records", grouped(tally.record_count), tally.record_count);
        report.row("key bytes", ByteSize(tally.key_bytes).to_string(), tally.key_bytes);
        report.row("value bytes", ByteSize(tally.value_bytes).to_string(), tally.value_bytes);
        report.row("skipped lines", grouped(tally.skipped_count), tally.skipped_count);
        if let Some(rates) = rates.filter(|_| tally.record_count > 0) {
            rates.add_to(&mut report, tally);
        }
        session.out.report(&report)
    }
}

/// The format by the file's name: `a.csv`, `a.csv.zst` and so on; otherwise JSON.
fn lines_by_name(path: &Path) -> Lines {
    let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase());
    let name = name.unwrap_or_default();
    let plain = [".zst", ".gz"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
    match plain.rsplit_once('.') {
        Some((_, "csv")) => Lines::Csv,
        Some((_, "tsv")) => Lines::Tsv,
        _ => Lines::Json,
    }
}

/// Records on their way into a store.
struct Loader<'a> {
    args: &'a LoadArgs,
    store: &'a Store,
    keyspace: &'a Keyspace,
    source: &'a str,
    batch: WriteBatch,
    unwritten: Tally,
    /// The records that are certainly durable.
    synced: Tally,
    unsynced_count: u64,
    /// The recording of the load, if there is one, and its clock.
    tap: Option<&'a Tap>,
    clock: WallClock,
}

/// The length of a batch: long enough to share the cost of a write, short enough to need little memory.
const BATCH_LEN_BYTES: usize = 256 << 10;

/// How many skipped lines are reported one by one.
const SKIPPED_SHOWN_COUNT: u64 = 20;

impl<'a> Loader<'a> {
    fn new(
        args: &'a LoadArgs,
        store: &'a Store,
        keyspace: &'a Keyspace,
        source: &'a str,
        tap: Option<&'a Tap>,
    ) -> Self {
        Loader {
            args,
            store,
            keyspace,
            source,
            batch: WriteBatch::new(),
            unwritten: Tally::default(),
            synced: Tally::default(),
            unsynced_count: 0,
            tap,
            clock: WallClock::new(),
        }
    }

    /// The last frame.
    fn watch_now(&self) {
        if let Some(tap) = self.tap {
            tap.take(self.clock.now_ns(), subject(self.store));
        }
    }

    /// Stores all of `records`, up to their end or an interruption.
    fn take(
        &mut self,
        records: &mut dyn Records,
        source: &Source,
        interrupt: &Interrupt,
        tally: &mut Tally,
    ) -> Result<(), CliError> {
        let progress = Progress::new("loading", Unit::Bytes, source.len_bytes);
        while !interrupt.is_asked() {
            progress.set(source.read_bytes.load(Ordering::Relaxed));
            let next = records.next();
            if interrupt.is_asked() {
                // The interruption ended the input: the last record or error may be an artefact of that.
                break;
            }
            match next {
                Ok(None) => break,
                Ok(Some(Ok(record))) => self.add(record, tally)?,
                Ok(Some(Err(bad))) => self.refuse(bad, tally)?,
                Err(error) => {
                    self.finish(tally)?;
                    return Err(CliError::new(
                        error.exit(),
                        format!("{error}; {}", tally.before()),
                    ));
                }
            }
        }
        self.finish(tally)
    }

    fn add(&mut self, record: Record, tally: &mut Tally) -> Result<(), CliError> {
        if let Err(reason) = check_lengths(&record) {
            return self.refuse(BadLine { line: record.line, reason }, tally);
        }
        self.batch.put(self.keyspace, &record.key, &record.value).context(|| {
            format!("cannot put {} of line {}", key::shown(&record.key), record.line)
        })?;
        self.unwritten.record_count += 1;
        self.unwritten.key_bytes += record.key.len() as u64;
        self.unwritten.value_bytes += record.value.len() as u64;
        let is_sync_due = self
            .args
            .sync_every
            .is_some_and(|every| self.unsynced_count + self.unwritten.record_count >= every.get());
        if self.batch.len_bytes() >= BATCH_LEN_BYTES || is_sync_due {
            self.write(is_sync_due, tally)?;
        }
        Ok(())
    }

    fn refuse(&mut self, bad: BadLine, tally: &mut Tally) -> Result<(), CliError> {
        let place = format!("{}: line {}: {}", self.source, bad.line, bad.reason);
        match self.args.on_error {
            OnError::Stop => {
                self.finish(tally)?;
                let before = tally.before();
                Err(CliError::data(format!(
                    "{place}; {before}; correct the line, or pass --on-error skip"
                )))
            }
            OnError::Skip => {
                tally.skipped_count += 1;
                match tally.skipped_count {
                    count if count < SKIPPED_SHOWN_COUNT => {
                        note(format!("imbrex: {place}; skipped"));
                    }
                    SKIPPED_SHOWN_COUNT => {
                        note(format!(
                            "imbrex: {place}; skipped; further malformed lines are counted, not shown"
                        ));
                    }
                    _ => {}
                }
                Ok(())
            }
        }
    }

    fn write(&mut self, sync: bool, tally: &mut Tally) -> Result<(), CliError> {
        let batch = std::mem::take(&mut self.batch);
        let new = std::mem::take(&mut self.unwritten);
        if let Err(error) = self.store.db.write(batch, WriteOptions { sync }) {
            return Err(self.broken_off(&error, tally));
        }
        self.unsynced_count = if sync { 0 } else { self.unsynced_count + new.record_count };
        tally.record_count += new.record_count;
        tally.key_bytes += new.key_bytes;
        tally.value_bytes += new.value_bytes;
        if sync {
            self.synced = *tally;
        }
        if let Some(tap) = self.tap {
            tap.tick(self.clock.now_ns(), subject(self.store));
        }
        Ok(())
    }

    /// Ends a failed load with the number of records that are certainly stored. A full drive keeps everything
    /// written before; a failing drive may not.
    fn broken_off(&self, error: &EngineError, tally: &mut Tally) -> CliError {
        let written_count = tally.record_count;
        if self.store.db.sync().is_err() {
            *tally = Tally { skipped_count: tally.skipped_count, ..self.synced };
        }
        let count = grouped(tally.record_count);
        let unsure = match written_count - tally.record_count {
            0 => String::new(),
            more => format!(", and up to {} more after them may be", grouped(more)),
        };
        let what =
            format!("cannot load more of {}; {count} records are stored{unsure}", self.source);
        CliError::of(what, error)
    }

    /// Writes the last batch and makes everything durable.
    fn finish(&mut self, tally: &mut Tally) -> Result<(), CliError> {
        self.write(true, tally)
    }
}

fn check_lengths(record: &Record) -> Result<(), String> {
    let (key_len, value_len) = (record.key.len(), record.value.len());
    if key_len == 0 {
        return Err("the key is empty".to_owned());
    }
    if key_len > KEY_LEN_BYTES_MAX {
        return Err(format!(
            "the key has {key_len} bytes; at most {KEY_LEN_BYTES_MAX} are allowed"
        ));
    }
    if value_len > VALUE_LEN_BYTES_MAX {
        return Err(format!(
            "the value has {value_len} bytes; at most {VALUE_LEN_BYTES_MAX} are allowed"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_follows_from_the_file_name() {
        for (name, lines) in [
            ("a.csv", Lines::Csv),
            ("b/a.TSV.gz", Lines::Tsv),
            ("a.csv.zst", Lines::Csv),
            ("a.jsonl.zst", Lines::Json),
            ("-", Lines::Json),
            ("a", Lines::Json),
        ] {
            assert_eq!(lines_by_name(Path::new(name)), lines, "{name}");
        }
    }
}
