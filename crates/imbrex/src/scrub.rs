//! Scrub: all tables of a drive are read and verified, and damaged ones are replaced from second copies.
//!
//! ```text
//!   tables, oldest first --verify--> sound
//!                             '----> damaged --> its own copies (index, tombstones, footer)  --.
//!                                           '--> a backup that has the table                 --+-> one commit
//!                                           '--> neither: lost, with the range of its keys
//! ```
//!
//! Each opening for writing has already healed the catalog, which has two copies.
//!
//! Invariants
//!   M1  A table is replaced by the bytes that it had, or not at all: the whole table is verified, as it reads back from the
//!       drive, before the commit.
//!   M2  A scrub that is stopped or killed has changed nothing but replaced tables. It continues after the number that it
//!       reported last, and no damaged table has a number up to that, unless it was reported as lost.
//!
//! Sources of ideas: ZFS, whose scrub reads in the background, heals from a redundant copy and continues after a restart.
//! Not here: the verification (`engine::open::scrub`), references and the order of keys (`imbrex check`), what to do about
//! lost tables ([`salvage`](mod@crate::salvage)).

use crate::backup::tables_numbered;
use crate::stack::FoundDrives;
use crate::{Error, ErrorKind};
use imbrex_clockwork::Runtime;
pub use imbrex_engine::{MendedFrom, ScrubbedTable};
use imbrex_engine::{Watch, mend_table};
use std::path::PathBuf;

/// How a scrub works.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubOptions {
    /// The number of the table after which it begins; 0 for all tables.
    pub after: u64,
    /// A backup of the store, in a directory, for tables that cannot be mended from themselves.
    pub backup: Option<PathBuf>,
}

/// What a scrub found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubReport {
    /// The tables that were read.
    pub table_count: u64,
    /// Their length.
    pub len_bytes: u64,
    /// Damaged tables that were replaced.
    pub mended: Vec<(ScrubbedTable, MendedFrom)>,
    /// Damaged tables for which nothing sound was found.
    pub lost: Vec<ScrubbedTable>,
    /// What is wrong with the places of files and the catalog, one sentence each.
    pub findings: Vec<String>,
    /// Whether all tables were read. Otherwise the scrub was stopped, and nothing was replaced.
    pub is_complete: bool,
    /// The number after which a scrub that was stopped continues.
    pub after: u64,
}

impl ScrubReport {
    /// Whether nothing is damaged any more.
    pub fn is_sound(&self) -> bool {
        self.lost.is_empty() && self.findings.is_empty()
    }
}

/// Scrubs the store on `drives`, which is not open. `progressed` gets the number after which the scrub would continue, after
/// each table.
///
/// Cost: reads all tables once; writes damaged ones, with memory for one of them, twice.
///
/// # Errors
/// As [`FoundDrives::open`]; [`ErrorKind::NoSpace`]: the drive has no room for a table that is replaced; errors of
/// [`copies`](crate::backup::copies) for the backup. Being stopped is not an error.
pub fn scrub(
    drives: &FoundDrives,
    options: &ScrubOptions,
    watch: &mut Watch<'_>,
    progressed: &mut dyn FnMut(u64),
) -> Result<ScrubReport, Error> {
    let path = &drives.paths.main;
    if let Some(backup) = &options.backup {
        // A wrong path is reported before hours of reading.
        tables_numbered(backup, 0)?;
    }
    let runtime = Runtime::threads(1);
    let stack = drives.open(&runtime, |options| {
        options.background_work = false;
        options.create_if_missing = false;
    })?;
    let mut report = ScrubReport { after: options.after, ..ScrubReport::default() };
    let placed = match &stack.tiers {
        Some(tiers) => tiers.check(),
        None => stack.files.check(),
    };
    let placed = placed.map_err(|error| Error::at("scrub", path, error))?;
    report.findings = placed.findings.iter().map(ToString::to_string).collect();
    let mut damaged = Vec::new();
    let scrubbed = stack.db.scrub_with(options.after, watch, &mut |table| {
        report.table_count += 1;
        report.len_bytes += table.len_bytes;
        if !table.findings.is_empty() {
            damaged.push(table);
        } else if damaged.is_empty() {
            report.after = table.id;
            progressed(table.id);
        }
    });
    let closed = stack.close();
    match scrubbed.map_err(|error| Error::at("scrub", path, error)) {
        Err(error) if error.kind() == ErrorKind::Stopped => report.lost = damaged,
        scrubbed => {
            scrubbed?;
            report.is_complete = true;
            mend(drives, options, damaged, &runtime, &mut report)?;
        }
    }
    closed.map_err(|error| Error::at("close", path, error))?;
    Ok(report)
}

/// Replaces the tables of `damaged` for which there is a second copy.
fn mend(
    drives: &FoundDrives,
    options: &ScrubOptions,
    damaged: Vec<ScrubbedTable>,
    runtime: &Runtime,
    report: &mut ScrubReport,
) -> Result<(), Error> {
    if damaged.is_empty() {
        return Ok(());
    }
    let path = &drives.paths.main;
    let mounted = drives.mount(runtime)?;
    let files = mounted.all_files();
    for table in damaged {
        let mut failed = None;
        let mut elsewhere = |id: u64| match &options.backup {
            None => Vec::new(),
            Some(backup) => tables_numbered(backup, id).unwrap_or_else(|error| {
                failed = Some(error);
                Vec::new()
            }),
        };
        let mended = mend_table(&*files, table.id, &mut elsewhere);
        match mended.map_err(|error| Error::at("repair", path, error))? {
            Some(from) => report.mended.push((table, from)),
            None => report.lost.push(table),
        }
        if let Some(error) = failed {
            return Err(error);
        }
    }
    mounted.files.end_cleaning();
    Ok(())
}

#[cfg(test)]
mod tests;
