//! The block device on a zoned drive, for commands that look at it without serving it.

use crate::error::{CliError, Context};
use crate::output::note;
use imbrex_disk::Disk;
use imbrex_translate::{BlockDriver, DriverCounters, DriverOptions};
use std::sync::Arc;

/// Opens it, as `serve` does: what a power cut left is put in order.
pub(crate) fn open(drive: Arc<dyn Disk>, shown: &str) -> Result<BlockDriver, CliError> {
    let driver = BlockDriver::open(drive, &DriverOptions::default());
    let driver = driver.context(|| format!("cannot open the block device on {shown}"))?;
    note_findings(&driver, shown);
    Ok(driver)
}

/// Tells of what opening found damaged and could mend, or took for what a power cut left.
pub(crate) fn note_findings(driver: &BlockDriver, shown: &str) {
    let DriverCounters { second_copies, broken_blocks, .. } = driver.driver_counters();
    if second_copies > 0 {
        note(format!(
            "imbrex: warning: {shown}: {second_copies} blocks were damaged, and read from their second copies"
        ));
    }
    if broken_blocks > 0 {
        note(format!(
            "imbrex: warning: {shown}: {broken_blocks} blocks cannot be read where writing had ended; they are what \
             they were before, as no flush is known to have followed: if the power did not fail, the drive loses data"
        ));
    }
}
