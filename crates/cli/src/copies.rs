//! `backup`, `restore`, `copies`: copies of a store in a directory.

use crate::count::grouped;
use crate::error::{CliError, Exit};
use crate::output::{Report, Table, note};
use crate::progress::{Progress, Unit};
use crate::session::Session;
use crate::store::{DriveArgs, ReadDriveArgs};
use imbrex::ErrorKind;
use imbrex::backup::{
    BackupOptions, BackupReport, CopyInfo, backup_db, backup_to_drives, copies, remove_copy,
    restore_to,
};
use imbrex_disk::ByteSize;
use imbrex_files::Files;
use serde_json::json;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Arguments of `imbrex backup`.
#[derive(clap::Args, Debug)]
pub(crate) struct BackupArgs {
    #[command(flatten)]
    drive: ReadDriveArgs,
    /// The directory for the copies, best on another disk; or a drive with an empty store or an earlier copy
    target: PathBuf,
    /// Keep the newest N copies, and remove older ones after the new one is complete
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    keep: Option<u64>,
    /// Also read the tables that the directory has already, on the drive and there, and replace those that
    /// are damaged there
    #[arg(long)]
    full: bool,
    /// Continue a backup of another store, from which this one was restored
    #[arg(long)]
    adopt: bool,
    /// Copy a checkpoint instead of the present state
    #[arg(long, value_name = "NAME")]
    checkpoint: Option<String>,
    /// The flash drive of the target, if TARGET is a drive and its layout has one
    #[arg(long, value_name = "FILE")]
    target_flash: Option<PathBuf>,
}

impl BackupArgs {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        session.out.is_json()?;
        if is_drive(&self.target) {
            return self.run_to_drive(session);
        }
        let BackupArgs { drive, target, keep, full, adopt, checkpoint, target_flash } = self;
        if target_flash.is_some() {
            return Err(CliError::usage("--target-flash belongs to a TARGET that is a drive"));
        }
        let shown = drive.shown();
        drive.open_to_copy()?.with(|store| {
            let checkpoint = match &checkpoint {
                None => None,
                Some(name) => Some(crate::checkpoint::open(store, name)?),
            };
            let options = BackupOptions { adopt, full, keep };
            let progress = Progress::new("backing up", Unit::Bytes, None);
            let report = backup_db(
                checkpoint.as_ref().unwrap_or(&store.db),
                store.files.format_id(),
                store.layout,
                &target,
                &options,
                &mut progress.watch(&session.interrupt),
            );
            drop(progress);
            let report = report.map_err(|error| match error.kind() {
                ErrorKind::Damaged => CliError::from(error).with_hint(
                    "`imbrex salvage` writes everything that can still be read to another store",
                ),
                _ => error.into(),
            })?;
            if is_on_one_file_system(&store.path, &target) {
                note(format!(
                    "imbrex: warning: {} is in the same file system as {shown}; a copy on another disk survives the loss \
                     of this one",
                    target.display()
                ));
            }
            if let Some(why) = &report.not_removed {
                note(format!("imbrex: warning: {}: {why}", target.display()));
            }
            session.out.report(&backup_report(&shown, &target, &report))
        })
    }
}

impl BackupArgs {
    /// Brings a copy on another drive up to the present store.
    fn run_to_drive(self, session: &mut Session) -> Result<(), CliError> {
        let BackupArgs { drive, target, keep, full, adopt, checkpoint, target_flash } = self;
        if keep.is_some() || full || adopt {
            return Err(CliError::usage(
                "--keep, --full and --adopt belong to a TARGET that is a directory: a drive has one copy",
            ));
        }
        let (shown, target_shown) = (drive.shown(), target.display().to_string());
        drive.open_to_copy()?.with(|store| {
            let checkpoint = match &checkpoint {
                None => None,
                Some(name) => Some(crate::checkpoint::open(store, name)?),
            };
            let target = DriveArgs::new(target, None).with_flash(target_flash).find(false)?;
            let progress = Progress::new("backing up", Unit::Bytes, None);
            let done = backup_to_drives(
                checkpoint.as_ref().unwrap_or(&store.db),
                store.files.format_id(),
                store.layout,
                &target,
                &mut progress.watch(&session.interrupt),
            )?;
            drop(progress);
            let mut report = Report::default();
            report.row("backed up", shown.as_str(), shown.as_str());
            report.row("to", target_shown.as_str(), target_shown.as_str());
            table_rows(
                &mut report,
                [done.table_count, done.len_bytes],
                [done.written_table_count, done.written_bytes],
            );
            session.out.report(&report)
        })
    }
}

/// Whether a backup goes to a drive: an image file or a block device.
fn is_drive(target: &Path) -> bool {
    target.metadata().is_ok_and(|found| found.is_file() || found.file_type().is_block_device())
}

/// The rows of the tables of a copy: their number and their length, of all and of those written.
fn table_rows(report: &mut Report, all: [u64; 2], written: [u64; 2]) {
    for (name, [count, len]) in [("tables", all), ("written and verified", written)] {
        let text = format!("{}, {}", grouped(count), ByteSize(len));
        report.row(name, text, json!({ "count": count, "bytes": len }));
    }
}

fn backup_report(shown: &str, target: &Path, done: &BackupReport) -> Report {
    let target = target.display().to_string();
    let mut report = Report::default();
    report.row("backed up", shown, shown);
    report.row("to", target.as_str(), target.as_str());
    report.row("copy", grouped(done.number), done.number);
    table_rows(
        &mut report,
        [done.table_count, done.len_bytes],
        [done.written_table_count, done.written_bytes],
    );
    if !done.removed_copies.is_empty() || done.removed_table_count > 0 {
        let (copies, tables) = (done.removed_copies.len() as u64, done.removed_table_count);
        report.row(
            "removed",
            format!("{} copies, {} tables", grouped(copies), grouped(tables)),
            json!({ "copies": done.removed_copies, "tables": tables }),
        );
    }
    report
}

/// Whether the image at `drive` and the directory are in one file system.
fn is_on_one_file_system(drive: &Path, target: &Path) -> bool {
    let (Ok(drive), Ok(target)) = (drive.metadata(), target.metadata()) else { return false };
    drive.is_file() && drive.dev() == target.dev()
}

/// Arguments of `imbrex restore`.
#[derive(clap::Args, Debug)]
pub(crate) struct RestoreArgs {
    /// The directory of the backup; it is only read
    source: PathBuf,
    #[command(flatten)]
    target: DriveArgs,
    /// The copy to restore [default: the newest]
    #[arg(long, value_name = "N")]
    copy: Option<u64>,
    /// Accept a drive with another layout than the copy: all entries are written anew
    #[arg(long)]
    any_layout: bool,
}

impl RestoreArgs {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        session.out.is_json()?;
        let shown = self.target.shown();
        let target = self.target.find(false).map_err(|error| {
            if self.target.drive.exists() {
                return error;
            }
            error.with_hint(format!("`imbrex drive create {shown}` makes an empty drive"))
        })?;
        let progress = Progress::new("restoring", Unit::Bytes, None);
        let restored = restore_to(
            &self.source,
            self.copy,
            &target,
            self.any_layout,
            &mut progress.watch(&session.interrupt),
        );
        drop(progress);
        let done = restored?;
        let source = self.source.display().to_string();
        let mut report = Report::default();
        report.row("restored", source.as_str(), source.as_str());
        report.row("copy", grouped(done.number), done.number);
        report.row("made", utc(done.unix_time_s), done.unix_time_s);
        report.row("to", shown.as_str(), shown.as_str());
        report.row(
            "tables, checked",
            format!("{}, {}", grouped(done.table_count), ByteSize(done.len_bytes)),
            json!({ "count": done.table_count, "bytes": done.len_bytes }),
        );
        report.row("entries, checked", grouped(done.entry_count), done.entry_count);
        let how = if done.by_entries { "entry by entry" } else { "table by table" };
        report.row("written", how, how);
        session.out.report(&report)
    }
}

/// Arguments of `imbrex copies`.
#[derive(clap::Args, Debug)]
pub(crate) struct CopiesArgs {
    /// The directory of the backup
    target: PathBuf,
    /// Read all tables and verify them
    #[arg(long)]
    verify: bool,
    /// Delete copy N, and the tables that no other copy needs
    #[arg(long, value_name = "N", conflicts_with = "verify")]
    delete: Option<u64>,
}

impl CopiesArgs {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        let is_json = session.out.is_json()?;
        if let Some(number) = self.delete {
            return Ok(remove_copy(&self.target, number)?);
        }
        let progress = Progress::new("verifying", Unit::Bytes, None);
        let found = copies(&self.target, self.verify, &mut progress.watch(&session.interrupt));
        drop(progress);
        let found = found?;
        match is_json {
            true => session.out.json(&json!(found.iter().map(copy_json).collect::<Vec<_>>()))?,
            false => session.out.bytes(copies_table(&found, self.verify).as_bytes())?,
        }
        let damaged: Vec<_> = found.iter().filter(|copy| !copy.findings.is_empty()).collect();
        for copy in &damaged {
            for finding in &copy.findings {
                note(format!("imbrex: copy {}: {finding}", copy.number));
            }
        }
        if damaged.is_empty() {
            return Ok(());
        }
        let shown = self.target.display();
        Err(CliError::new(
            Exit::Corrupt,
            format!(
                "{shown}: {} of {} copies are damaged; `imbrex backup DRIVE {shown} --full` replaces damaged tables that \
                 the drive still has",
                damaged.len(),
                found.len()
            ),
        ))
    }
}

fn copies_table(copies: &[CopyInfo], is_verified: bool) -> String {
    let mut table = Table::new(&["copy", "made (UTC)", "tables", "bytes", "layout", "state"]);
    for copy in copies {
        let state = match (copy.findings.is_empty(), is_verified) {
            (false, _) => "damaged",
            (true, true) => "verified",
            (true, false) => "complete",
        };
        table.row(vec![
            copy.number.to_string(),
            utc(copy.unix_time_s),
            grouped(copy.table_count),
            ByteSize(copy.len_bytes).to_string(),
            copy.layout.clone(),
            state.to_owned(),
        ]);
    }
    table.text()
}

fn copy_json(copy: &CopyInfo) -> serde_json::Value {
    json!({
        "copy": copy.number,
        "unix_time_s": copy.unix_time_s,
        "made": utc(copy.unix_time_s),
        "store": format!("{:016x}", copy.store_id),
        "layout": copy.layout,
        "tables": copy.table_count,
        "bytes": copy.len_bytes,
        "findings": copy.findings,
    })
}

/// A moment as `2026-11-27 09:05:00`, in UTC; `unknown` for 0.
fn utc(unix_time_s: u64) -> String {
    if unix_time_s == 0 {
        return "unknown".to_owned();
    }
    let (days, second) = (unix_time_s / 86_400, unix_time_s % 86_400);
    // Years begin in March, so that a leap day ends one; an era has 400 years, or 146,097 days.
    let day = days + 719_468;
    let (era, day_of_era) = (day / 146_097, day % 146_097);
    let year = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day_of_month:02} {hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_shown_in_utc() {
        for (unix_time_s, expected) in [
            (0, "unknown"),
            (1, "1970-01-01 00:00:01"),
            (951_782_399, "2000-02-28 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (951_868_800, "2000-03-01 00:00:00"),
            (1_700_000_000, "2023-11-14 22:13:20"),
            (4_107_542_400, "2100-03-01 00:00:00"),
        ] {
            assert_eq!(utc(unix_time_s), expected);
        }
    }
}
