//! `check`: verifies what a drive holds.
//!
//! | content | verified |
//! |---|---|
//! | a store | every checksum, extent, write pointer and reference |
//! | files of another database | their extents, and the logs that opening reads |
//! | a block device | every block that a client wrote can be read |

use crate::count::grouped;
use crate::device;
use crate::error::{CliError, Context, Exit};
use crate::output::{Report, note};
use crate::progress::{Progress, Unit};
use crate::scrub;
use crate::session::Session;
use crate::store::ReadDriveArgs;
use imbrex::scrub::{ScrubOptions, ScrubReport};
use imbrex_clockwork::{Runtime, unix_time_s};
use imbrex_disk::ByteSize;
use imbrex_disk::{Blocks, Disk};
use imbrex_filesystem::{FileSystem, FsOptions, holds_file_system};
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;

/// Arguments of `imbrex check`.
#[derive(clap::Args, Debug)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    store: ReadDriveArgs,
    /// Replace damaged tables first, from their own copies and from the backup that --from names; what cannot
    /// be replaced is listed with its range of keys, and stays as it is
    #[arg(long, conflicts_with_all = ["read_only", "without_flash"])]
    repair: bool,
    /// A backup of the store (`imbrex backup`), for --repair
    #[arg(long, value_name = "DIR", requires = "repair")]
    from: Option<PathBuf>,
}

/// The result for sound files of another database.
const SOUND: &str = "nothing is wrong with the files and the logs that were open; only the database can check \
                     the content of other files";

impl CheckArgs {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        session.out.is_json()?;
        if self.check_other(session)?.is_some() {
            return Ok(());
        }
        let repaired = self.repair.then(|| self.repair(session)).transpose()?;
        self.store.open_quiet()?.with(|store| {
            let shown = store.path.display();
            let files = match &store.tiers {
                Some(tiers) => tiers.check(),
                None => store.files.check(),
            };
            let files = files.context(|| format!("cannot check the files on {shown}"))?;
            let progress = Progress::new("checking", Unit::Bytes, None);
            let engine = store
                .db
                .check_with(&mut progress.watch(&session.interrupt))
                .context(|| format!("cannot check the store on {shown}"))?;
            drop(progress);
            let mut findings: Vec<String> =
                files.findings.iter().map(ToString::to_string).collect();
            findings.extend(engine.findings.iter().cloned());

            let mut report = Report::default();
            report.section("checked");
            for (name, count) in [
                ("zones", files.zone_count),
                ("files", files.file_count),
                ("extents", files.extent_count),
                ("catalog records", files.catalog_record_count),
                ("tables", engine.table_count as u64),
                ("entries", engine.entry_count),
                ("logs", engine.log_count as u64),
                ("checkpoints", engine.checkpoint_count as u64),
            ] {
                report.row(name, grouped(count), count);
            }
            if !engine.left_out.is_empty() {
                let count = grouped(engine.left_out.len() as u64);
                report.row("left out, on flash", count, json!(engine.left_out));
            }
            let healed = store.files.stats().catalog_mended;
            if healed > 0 {
                // Opening the store for writing has repaired them.
                report.row("catalog parts healed from a copy", grouped(healed), healed);
            }
            let len_bytes = engine.table_len_bytes;
            report.row("table bytes", ByteSize(len_bytes).to_string(), len_bytes);
            if let Some(repaired) = &repaired {
                report.section("repaired");
                scrub::damage_rows(&mut report, repaired);
            }
            report.section("result");
            let result = match findings.len() {
                0 => "nothing is wrong".to_owned(),
                1 => "1 thing is wrong".to_owned(),
                count => format!("{count} things are wrong"),
            };
            report.row("findings", result.as_str(), json!(findings));
            let told = session.out.report(&report);
            if findings.is_empty() {
                return told;
            }
            for finding in &findings {
                note(format!("imbrex: {shown}: {finding}"));
            }
            Err(CliError::new(
                Exit::Corrupt,
                format!(
                    "{shown}: {result}; save what can still be read with `imbrex salvage {shown} TARGET`"
                ),
            ))
        })
    }

    /// Replaces damaged tables from second copies.
    fn repair(&self, session: &Session) -> Result<ScrubReport, CliError> {
        let found = self.store.find(false)?;
        let options = ScrubOptions { after: 0, backup: self.from.clone() };
        let repaired = scrub::run(&found, &options, None, &session.interrupt, &mut |_| ())?;
        if !repaired.is_complete {
            return Err(CliError::interrupted());
        }
        scrub::print_damage(&self.store.shown(), &repaired);
        Ok(repaired)
    }

    /// Checks a drive that holds a block device or the files of another database; `None` if it holds a store.
    fn check_other(&self, session: &mut Session) -> Result<Option<()>, CliError> {
        let (found, mounted) = self.store.mount(&Runtime::threads(1))?;
        let mounted = match mounted {
            Err(unmounted) if unmounted.is_block_device() => {
                return self.check_device(session, found.drives().main).map(Some);
            }
            mounted => mounted.map_err(|unmounted| self.store.cannot_open(unmounted))?,
        };
        if !holds_file_system(&mounted.files) {
            return Ok(None);
        }
        let shown = self.store.shown();
        let what = || format!("cannot check the files on {shown}");
        let found = mounted.files.check().context(what)?;
        let options = FsOptions { unix_time_s };
        let files = FileSystem::open(Arc::new(mounted.files), options).context(what)?;
        let mut report = Report::default();
        report.section("checked");
        report.row("files of another database", grouped(found.file_count), found.file_count);
        report.row("extents", grouped(found.extent_count), found.extent_count);
        let placed = found.findings.iter().map(ToString::to_string);
        let findings = placed.chain(files.damaged().iter().map(ToString::to_string)).collect();
        self.conclude(session, report, SOUND, findings).map(Some)
    }

    /// Reads every block that a block device holds.
    fn check_device(&self, session: &mut Session, disk: Arc<dyn Disk>) -> Result<(), CliError> {
        let shown = self.store.shown();
        let driver = device::open(disk, &shown)?;
        let progress = Progress::new("checking", Unit::Bytes, None);
        let found = driver.check_with(&mut |done, all| {
            progress.set_of(done.bytes(), Some(all.bytes()));
            session.interrupt.flow()
        });
        drop(progress);
        let found = found.context(|| format!("cannot check the block device on {shown}"))?;
        let Some(found) = found else { return Err(CliError::interrupted()) };
        let counters = driver.driver_counters();
        let mut report = Report::default();
        report.section("checked");
        for (name, len) in [
            ("the device", driver.geometry().len()),
            ("in data zones", found.mapped),
            ("in its write buffer", found.buffered),
        ] {
            report.row(name, ByteSize(len.bytes()).to_string(), len.bytes());
        }
        for (name, count) in [
            ("mapping nodes", counters.mapping_nodes),
            ("journal entries replayed", counters.replayed_entries),
            ("blocks read from second copies", counters.second_copies),
            ("blocks broken by a power cut", counters.broken_blocks),
        ] {
            report.row(name, grouped(count), count);
        }
        let findings = found.unreadable.iter().map(|range| {
            format!(
                "{} at byte {} of the device cannot be read: damaged on the drive; writing there again \
                 makes it readable",
                ByteSize(range.len.bytes()),
                Blocks::new(range.start.get()).bytes()
            )
        });
        self.conclude(session, report, "every block can be read", findings.collect())
    }

    /// Completes the report of a drive that holds no store.
    fn conclude(
        &self,
        session: &mut Session,
        mut report: Report,
        sound: &str,
        findings: Vec<String>,
    ) -> Result<(), CliError> {
        let shown = self.store.shown();
        report.section("result");
        let result = match findings.len() {
            0 => sound.to_owned(),
            1 => "1 thing is wrong".to_owned(),
            count => format!("{count} things are wrong"),
        };
        report.row("findings", result, json!(findings));
        let told = session.out.report(&report);
        let Some((last, others)) = findings.split_last() else { return told };
        for finding in others {
            note(format!("imbrex: {shown}: {finding}"));
        }
        Err(CliError::new(Exit::Corrupt, format!("{shown}: {last}")))
    }
}
