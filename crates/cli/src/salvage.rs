//! `salvage`: everything that can still be read on a drive, into another store.

use crate::count::grouped;
use crate::error::{CliError, Exit};
use crate::key;
use crate::output::{Report, note};
use crate::progress::{Progress, Unit};
use crate::session::Session;
use crate::store::DriveArgs;
use imbrex::ErrorKind;
use imbrex::salvage::{Doubt, FoundReport, SalvageOptions, SalvageReport, salvage_path};
use imbrex::stack::FoundDrive;
use imbrex_disk::ByteSize;
use serde_json::{Value, json};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Arguments of `imbrex salvage`.
#[derive(clap::Args, Debug)]
pub(crate) struct SalvageArgs {
    /// The damaged drive: an image file, or a block device such as /dev/sdb; it is only read
    drive: PathBuf,
    /// The drive to write to, with an empty store; `imbrex drive create` makes one
    target: PathBuf,
    /// The flash drive of the damaged store, if its layout has one
    #[arg(long, value_name = "FILE")]
    flash: Option<PathBuf>,
    /// The flash drive of the target, if its layout has one
    #[arg(long, value_name = "FILE")]
    target_flash: Option<PathBuf>,
    /// Search the drive for tables and logs although its catalog can be read
    #[arg(long)]
    ignore_catalog: bool,
    /// The store to take, if the drive has traces of several: an id in hexadecimal
    #[arg(long, value_name = "ID", value_parser = store_id)]
    store: Option<u64>,
    /// Write to a target that holds entries, but no objects; entries of the same keys are overwritten
    #[arg(long)]
    add: bool,
}

fn store_id(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text, 16).map_err(|_| "expected up to 16 hexadecimal digits".to_owned())
}

/// Whether two paths lead to the same image or device.
fn is_same(one: &Path, other: &Path) -> Result<bool, CliError> {
    let (one, other) =
        (FoundDrive::canonical_path(one, true)?, FoundDrive::canonical_path(other, false)?);
    let (Ok(a), Ok(b)) = (one.metadata(), other.metadata()) else { return Ok(one == other) };
    let are_devices = a.file_type().is_block_device() && b.file_type().is_block_device();
    let is_same_file = (a.dev(), a.ino()) == (b.dev(), b.ino());
    Ok(is_same_file || are_devices && a.rdev() == b.rdev())
}

impl SalvageArgs {
    /// Refuses a drive that is both read and written.
    fn check_drives(&self) -> Result<(), CliError> {
        for target in std::iter::once(&self.target).chain(&self.target_flash) {
            for source in std::iter::once(&self.drive).chain(&self.flash) {
                if is_same(source, target)? {
                    return Err(CliError::usage(format!(
                        "{} is both the damaged drive and the target; name another drive as the target",
                        source.display()
                    )));
                }
            }
        }
        Ok(())
    }

    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        session.out.is_json()?;
        let shown = self.drive.display().to_string();
        self.check_drives()?;
        let options = SalvageOptions {
            flash: self.flash,
            ignore_catalog: self.ignore_catalog,
            store: self.store,
            add: self.add,
        };
        let target_shown = self.target.display().to_string();
        let target = DriveArgs::new(self.target, None).with_flash(self.target_flash);
        target.open()?.with(|store| {
            let progress = Progress::new("salvaging", Unit::Bytes, None);
            let salvaged = salvage_path(
                &self.drive,
                &store.db,
                &options,
                &mut progress.watch(&session.interrupt),
            );
            drop(progress);
            let salvaged = salvaged.map_err(|error| match error.kind() {
                ErrorKind::AlreadyExists => CliError::new(
                    Exit::Store,
                    format!(
                        "cannot salvage to {target_shown}: it holds entries already; create an empty drive for it, \
                         or add to them with --add"
                    ),
                ),
                _ => error.into(),
            })?;
            let told = session.out.report(&report(&shown, &salvaged));
            for loss in &salvaged.losses {
                note(format!("imbrex: {shown}: {loss}"));
            }
            for doubt in &salvaged.doubts {
                note(format!("imbrex: {shown}: {}", doubt_text(doubt)));
            }
            if salvaged.is_whole() {
                return told;
            }
            let count = salvaged.losses.len() + salvaged.doubts.len();
            let mut message = format!(
                "{shown}: {} entries were saved; {count} places are missing or in doubt",
                grouped(salvaged.entry_count())
            );
            if salvaged.no_catalog.is_none() {
                message.push_str("; --ignore-catalog also finds tables that the catalog does not name, with older or newer values");
            }
            Err(CliError::new(Exit::Corrupt, message))
        })
    }
}

fn report(shown: &str, salvaged: &SalvageReport) -> Report {
    let mut report = Report::default();
    report.row("salvaged", shown, shown);
    let catalog = salvaged.no_catalog.as_deref();
    report.row(
        "catalog",
        catalog.unwrap_or("used"),
        json!({ "used": catalog.is_none(), "error": catalog }),
    );
    if let Some(found) = &salvaged.found {
        found_rows(&mut report, found);
    }
    report.section("written");
    for copy in &salvaged.copies {
        report.row(
            copy.name.as_str(),
            format!("{} entries, {}", grouped(copy.entry_count), ByteSize(copy.len_bytes)),
            json!({ "entries": copy.entry_count, "bytes": copy.len_bytes }),
        );
    }
    report.section("result");
    let count = |len: usize| match len {
        0 => "none".to_owned(),
        len => grouped(len as u64),
    };
    report.row("damaged places", count(salvaged.losses.len()), json!(salvaged.losses));
    let doubts: Vec<Value> = salvaged.doubts.iter().map(doubt_json).collect();
    report.row("ranges in doubt", count(doubts.len()), json!(doubts));
    report
}

fn found_rows(report: &mut Report, found: &FoundReport) {
    report.section("found");
    for (name, bytes) in [("read", found.read_bytes), ("unreadable", found.unreadable_bytes)] {
        report.row(name, ByteSize(bytes).to_string(), bytes);
    }
    for (name, count) in [
        ("whole tables", found.table_count),
        ("damaged tables", found.damaged_table_count),
        ("missing tables", found.missing_table_count),
        ("superseded tables", found.superseded_table_count),
        ("logs", found.log_count),
    ] {
        report.row(name, grouped(count as u64), count);
    }
}

fn doubt_text(doubt: &Doubt) -> String {
    let bound =
        |key: &Option<Vec<u8>>, end: &str| key.as_deref().map_or(end.to_owned(), key::shown);
    let what = match doubt.is_outdated {
        true => "may be missing or outdated, and deleted keys may be back",
        false => "may be missing",
    };
    format!(
        "keyspace {:?}: entries from {} to {} {what}: {}",
        doubt.keyspace,
        bound(&doubt.from, "the first key"),
        bound(&doubt.upto, "the last key"),
        doubt.reason
    )
}

fn doubt_json(doubt: &Doubt) -> Value {
    let shown = |key: &Option<Vec<u8>>| key.as_deref().map(key::shown);
    json!({
        "keyspace": doubt.keyspace,
        "from": shown(&doubt.from),
        "to": shown(&doubt.upto),
        "may_be_outdated": doubt.is_outdated,
        "reason": doubt.reason,
    })
}
