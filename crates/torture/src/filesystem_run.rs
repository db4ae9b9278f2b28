//! Torture of the file system for foreign databases: paths, files and open handles, checked against
//! a model.
//!
//! ```text
//!   format --> life: create, append, sync, rename, read ... --> end --> recover, compare --> life ...
//! ```
//!
//! These are the properties on which RocksDB and LevelDB rely (V1 to V5 and J4 are the file
//! system's own):
//!
//! - N1 (V2). A synced file has every byte that it had at the sync, and a name. The databases sync
//!   a log that they have created, but not its directory.
//! - N2 (V2). Of the bytes appended since, a prefix is found, and no byte that was not written
//!   there. A log's reader stops at the first hole. After a write at a position or a truncation,
//!   the file is found as a whole, in its old or its new state.
//! - N3 (V1). Names are found as they were at one moment. A deleted table may be back. No table is
//!   gone that was not deleted, and no name exists that never existed, or together with the one
//!   that replaced it.
//! - N4 (V1). Syncing a directory makes every earlier change of names durable, in any directory.
//!   Syncing a file does so for the changes up to the last one that named *this file*. Renaming a
//!   directory names none of its files. RocksDB creates a checkpoint that way, and syncs the parent
//!   directory.
//! - N5 (V3). A rename replaces: one of the two files is found, and the new one is no shorter than
//!   it was when the rename began. `CURRENT` always names a manifest.
//! - N6. A handle continues to read and write whatever happens to the names, and it reads
//!   correctly.
//! - N7 (J4). Data that a killed process left in the drive's cache is found, and is durable with
//!   the first sync of anything. Before that, a power cut may revert to any state since the last
//!   sync.
//! - N8 (V4). When space is lacking, names do not change, and an append adds nothing. A table that
//!   finds no space when it is stored is lost, and every request for it says so; reopened, it is as
//!   it was synced. A removal is never refused, and the space that it frees can be written again,
//!   down to the last block.
//! - N9. After a failed commit every change is refused until the drive is opened again. A sync that
//!   succeeds after a failed one has really made its data durable.
//! - N10. An unreadable block is an error only of its file, and so is a bit that rots in a log. In
//!   a table such a bit is returned as it is: the database frames and checks its tables.

mod checks;
mod damage;
mod draw;
mod model;
mod names;
mod operations;
mod room;

use crate::rig::{Ending, Rig, Weather, chain};
use checks::read_to_end;
use imbrex_disk_sim::FaultPlan;
use imbrex_files::FileLayer;
use imbrex_filesystem::{FileSystem, FsError, FsOptions};
use model::{Found, Model};
use operations::Life;
use std::error::Error;

/// Any cause that keeps a drive from being opened.
type OpenError = Box<dyn Error + Send + Sync>;

/// An open drive.
struct Mounted {
    files: FileLayer,
    fs: FileSystem,
}

/// Runs the lives of one seed.
pub(crate) fn run(rig: &mut Rig) -> Result<(), String> {
    rig.format()?;
    let mut model = Model::default();
    let mut ending = Ending::Close;
    for _ in 0..rig.draw_life_count() {
        let mounted = recover(rig, &mut model, ending)?;
        rig.begin_life();
        let mut life = Life::new(&mounted.fs);
        ending = life.live(rig, &mut model)?;
        rig.note_life(&mounted.files);
        ending = end_life(rig, life, &mut model, ending)?;
        drop(mounted);
        ending = rig.reboot(ending)?;
    }
    if rig.has_last_act() && rig.prng.chance(1, 2) {
        return damage::run(rig, &mut model, ending);
    }
    let mounted = recover(rig, &mut model, ending)?;
    room::empty_the_drive(rig, &mounted.fs)
}

fn open(rig: &mut Rig) -> Result<Mounted, OpenError> {
    let files = rig.open_files()?;
    let options = FsOptions { unix_time_s: || 1_600_000_000 };
    let fs = FileSystem::open(rig.all_files(&files), options)?;
    Ok(Mounted { files, fs })
}

/// Ends a life as drawn, and drops its handles. Returns the ending that counts.
fn end_life(
    rig: &mut Rig,
    life: Life<'_>,
    model: &mut Model,
    mut ending: Ending,
) -> Result<Ending, String> {
    let fs = life.fs;
    let mut life = Some(life);
    match ending {
        Ending::Close if rig.prng.chance(1, 2) => {
            // Even names are not synced, so that the next process finds what this one has written.
            rig.say("leave".to_string());
        }
        Ending::Close => {
            life.take().iter_mut().for_each(|life| life.give_up_handles(model));
            rig.say("close".to_string());
            match fs.sync_all() {
                // An earlier failure may have changed nothing.
                Ok(()) if rig.is_foul() => {}
                Ok(()) => model.all_synced(),
                Err(error) if error.is_no_space() || model.excuses(&error) => {}
                Err(error) => {
                    rig.excuse("the last sync", &error)?;
                    ending = rig.ending();
                }
            }
        }
        // A sweep counts the events of the drive since the weather was set.
        Ending::Kill if rig.has_last_act() && rig.prng.chance(2, 3) => {
            rig.say("kill in a sync".to_string());
            let kill = FaultPlan { kill_in_sync_after: Some(0), ..FaultPlan::default() };
            rig.disk.set_faults(kill);
            life.iter_mut().for_each(|life| life.die_in_a_sync(rig, model));
        }
        Ending::Kill | Ending::PowerCut => {}
    }
    rig.kill(ending);
    drop(life);
    Ok(ending)
}

/// Opens the drive, through power cuts, and compares its content with the model.
fn recover(rig: &mut Rig, model: &mut Model, mut ending: Ending) -> Result<Mounted, String> {
    for attempt in 0..3 {
        rig.begin_recovery(attempt);
        rig.say("open the drive".to_string());
        match open(rig) {
            Ok(mounted) => {
                let is_synced = rig.prng.chance(1, 2) && commit_what_was_found(rig, &mounted.fs)?;
                if !rig.is_foul() {
                    rig.set_weather(Weather::Fair);
                    let is_durable = is_synced || ending == Ending::PowerCut;
                    verify(rig, &mounted, model, is_durable)?;
                    return Ok(mounted);
                }
                rig.kill(Ending::PowerCut);
                drop(mounted);
            }
            Err(error) => rig.excuse("recovery", &*error)?,
        }
        ending = Ending::PowerCut;
        rig.reboot(ending)?;
    }
    rig.set_weather(Weather::Fair);
    let mounted = open(rig).map_err(|error| format!("recovery: {}", chain(&*error)))?;
    verify(rig, &mounted, model, true)?;
    Ok(mounted)
}

/// The first commit of a process records what opening found. Returns whether it succeeded.
fn commit_what_was_found(rig: &mut Rig, fs: &FileSystem) -> Result<bool, String> {
    rig.say("sync what was found".to_string());
    match fs.sync_names() {
        Ok(()) => Ok(true),
        Err(error) if error.is_no_space() => Ok(false),
        Err(error) => rig.excuse("the first sync", &error).map(|()| false),
    }
}

/// Compares everything with the model, which expects the content found from then on.
fn verify(
    rig: &mut Rig,
    mounted: &Mounted,
    model: &mut Model,
    is_durable: bool,
) -> Result<(), String> {
    rig.say("verify".to_string());
    if let Some(damage) = mounted.fs.damaged().first() {
        return Err(format!("damage after a crash: {}", chain(damage)));
    }
    let found = walk(rig, &mounted.fs).map_err(|error| format!("verify: {}", chain(&error)))?;
    model.settle(&found, is_durable)?;
    rig.check_files(&mounted.files)
}

/// Reads everything.
fn walk(rig: &mut Rig, fs: &FileSystem) -> Result<Found, FsError> {
    let mut found = Found::new();
    let mut dirs = vec![String::new()];
    while let Some(dir) = dirs.pop() {
        for entry in fs.list(&dir)? {
            let path = if dir.is_empty() { entry.name } else { format!("{dir}/{}", entry.name) };
            if entry.is_dir {
                found.insert(path.clone(), None);
                dirs.push(path);
                continue;
            }
            let reader = fs.open_read(&path)?;
            let bytes = read_to_end(rig, &reader)?;
            found.insert(path, Some((reader.unique_id(), bytes)));
        }
    }
    Ok(found)
}
