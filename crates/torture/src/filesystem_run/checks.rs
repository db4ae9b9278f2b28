//! Checks of a file system that is open.

use super::model::Model;
use crate::rig::{Rig, chain};
use imbrex_filesystem::{FileSystem, FsError, Reader};

/// Reads like a database, in pieces of one length until nothing more comes.
pub(super) fn read_to_end(rig: &mut Rig, reader: &Reader) -> Result<Vec<u8>, FsError> {
    let mut bytes = Vec::new();
    let mut piece = vec![0; [4096, 32_768, 70_000, 2 << 20][rig.prng.below(4) as usize]];
    loop {
        match reader.read_at(bytes.len() as u64, &mut piece)? {
            0 => return Ok(bytes),
            len => bytes.extend_from_slice(&piece[..len]),
        }
    }
}

/// Checks, after a sync of everything, that every stored file belongs to a file of the tree, and
/// the reverse.
pub(super) fn check_stores(fs: &FileSystem, model: &Model) -> Result<(), String> {
    let mut named = Vec::new();
    let mut seen = Vec::new();
    for path in model.file_paths() {
        let reader = fs.open_read(&path).map_err(|error| chain(&error))?;
        if !seen.contains(&reader.unique_id()) {
            seen.push(reader.unique_id());
            named.extend(reader.stores());
        }
    }
    named.sort();
    let stored: Vec<String> = fs.files().list("").into_iter().map(|info| info.name).collect();
    if named == stored {
        return Ok(());
    }
    Err(format!("the tree names {named:?}, but {stored:?} are stored"))
}

/// If everything is durable, a sync stores nothing, and any error comes from the sync itself.
pub(super) fn check_synced(fs: &FileSystem) -> Result<Result<(), FsError>, String> {
    let stored = || fs.files().list("").into_iter().map(|info| info.name);
    let before: Vec<String> = stored().collect();
    let synced = fs.sync_all();
    let after: Vec<String> = stored().collect();
    if before == after {
        return Ok(synced);
    }
    Err(format!("{before:?} were stored, and after a second sync {after:?}"))
}
