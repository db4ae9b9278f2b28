//! A backup on another drive: a store that is brought up to the present one, with the tables that it has.
//!
//! The other drive is a store like any other, only that nothing else writes to it. It has the newest copy, and no earlier one.

use crate::error::{Error, ErrorKind};
use crate::stack::{FoundDrives, Layout};
use imbrex_clockwork::Runtime;
use imbrex_engine::salvage::has_entries;
use imbrex_engine::{Db, Watch};
use imbrex_files::Files;

/// What a backup to a drive did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriveBackup {
    /// The tables that the drive has now.
    pub table_count: u64,
    /// Their length.
    pub len_bytes: u64,
    /// The tables that were written.
    pub written_table_count: u64,
    /// The length of those.
    pub written_bytes: u64,
}

/// Copies the store `db`, whose drive has the id `store_id` and holds `layout`, to the drives `target`. They hold an empty
/// store, or an earlier copy of this one, which is replaced in one commit.
///
/// Cost: a flush; a few reads for each table; reads and writes the tables that the target does not have, and reads them there.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`]: the target holds anything else. [`ErrorKind::WrongLayout`]. [`ErrorKind::Damaged`]: a table
/// is damaged here, or was not written as it is. [`ErrorKind::NoSpace`]: until the commit, the target needs room for what is
/// new and for what it has. [`ErrorKind::Stopped`]. Else as [`FoundDrives::open`]. The target has its earlier copy then.
pub fn backup_to_drives(
    db: &Db,
    store_id: u64,
    layout: Layout,
    target: &FoundDrives,
    watch: &mut Watch<'_>,
) -> Result<DriveBackup, Error> {
    let path = &target.paths.main;
    let failed = |error: imbrex_engine::EngineError| Error::at("back up to", path, error);
    let runtime = Runtime::threads(1);
    let stack = target.open(&runtime, |options| options.background_work = false)?;
    let pinned = db.pin()?;
    let (held, target_id) = (stack.layout, stack.files.format_id());
    let is_empty = !has_entries(&stack.db).map_err(failed)? && stack.db.checkpoints().is_empty();
    let may_replace = is_empty || {
        let may = pinned.may_replace(store_id, &stack.db, target_id);
        may.map_err(failed)?
    };
    stack.close().map_err(|error| Error::at("back up to", path, error))?;
    if held != layout {
        let message = format!(
            "cannot back up to {}: it has layout {held}, and the store has {layout}; make it with `--layout {layout}`, or back \
             up to a directory, from which a copy can be restored to any layout",
            path.display()
        );
        return Err(Error::new(ErrorKind::WrongLayout, message));
    }
    if !may_replace {
        let message = format!(
            "cannot back up to {}: it holds more than an earlier copy of this store; name a drive with an empty store, or a \
             directory",
            path.display()
        );
        return Err(Error::new(ErrorKind::AlreadyExists, message));
    }
    let mounted = target.mount(&runtime)?;
    let updated = pinned.update(&*mounted.all_files(), watch);
    mounted.files.end_cleaning();
    let updated = updated.map_err(failed)?;
    Ok(DriveBackup {
        table_count: pinned.tables().len() as u64,
        len_bytes: pinned.len_bytes(),
        written_table_count: updated.written_table_count,
        written_bytes: updated.written_bytes,
    })
}
