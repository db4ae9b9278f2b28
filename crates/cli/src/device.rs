//! The block device on a zoned drive, for commands that inspect it without serving it.

use crate::error::{CliError, Context};
use crate::memory;
use crate::output::note;
use imbrex_disk::Disk;
use imbrex_translate::{BlockDriver, DriverCounters, DriverOptions};
use std::sync::Arc;

/// Opens the block device on `drive`, which recovers from a power cut as `serve` does.
pub(crate) fn open(drive: Arc<dyn Disk>, shown: &str) -> Result<BlockDriver, CliError> {
    let map_memory_bytes = memory::for_map(None)?;
    let options = DriverOptions { map_memory_bytes, ..DriverOptions::default() };
    let driver = BlockDriver::open(drive, &options);
    let driver = driver.context(|| format!("cannot open the block device on {shown}"))?;
    note_findings(&driver, shown);
    Ok(driver)
}

/// Warns of damage that opening repaired, and of blocks that it attributes to a power cut.
pub(crate) fn note_findings(driver: &BlockDriver, shown: &str) {
    let DriverCounters { second_copies, broken_blocks, .. } = driver.driver_counters();
    if second_copies > 0 {
        note(format!(
            "imbrex: warning: {shown}: {second_copies} blocks were damaged and were read from their second copies"
        ));
    }
    if broken_blocks > 0 {
        note(format!(
            "imbrex: warning: {shown}: {broken_blocks} of the last written blocks cannot be read; no flush after them \
             is recorded, so they were restored to their earlier content: if the power did not fail, the drive \
             loses data"
        ));
    }
}
