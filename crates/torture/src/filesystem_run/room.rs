//! Room: the space that a full drive frees.

use super::checks::read_to_end;
use super::model::Model;
use super::names::{Change, Entry};
use super::operations::Life;
use crate::rig::{Rig, chain};
use imbrex_files::{FileKind, Hints};
use imbrex_filesystem::{FileSystem, FsError};

/// Removes three of four files. Then there must be room for a small one (N8).
pub(super) fn make(life: &mut Life<'_>, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
    rig.say("make room".to_string());
    life.give_up_handles(model);
    let keep = rig.prng.below(4) as usize;
    let paths = model.file_paths().into_iter().enumerate();
    for (_, path) in paths.filter(|(index, _)| index % 4 != keep) {
        let change = Change::Unlink { path: path.clone() };
        if life.change(rig, model, change, |fs| fs.unlink(&path))?.is_none() {
            return Ok(()); // The weather.
        }
    }
    // Otherwise the caller that needs the room commits the removals.
    if rig.prng.chance(1, 2) {
        let synced = life.fs.sync_names();
        if let Err(error) = &synced
            && error.is_no_space()
        {
            return Err(format!("removals were not made durable: {}", chain(error)));
        }
        if !life.is_done(rig, "making removals durable", synced)? {
            return Ok(());
        }
        model.names_synced();
    }
    rig.world.run_until_idle();
    if rig.is_foul() {
        return Ok(());
    }
    // A log and a table may each need a zone.
    let (path, file) = ("room".to_owned(), model.new_file());
    if model.names().get(&path) == Some(&Entry::Dir) {
        return Ok(());
    }
    let hints = Hints::new([FileKind::Log, FileKind::Table][rig.prng.below(2) as usize]);
    model.change(&Change::Create { path: path.clone(), file }).map_err(|r| format!("{r:?}"))?;
    let bytes = model.new_bytes(10_000);
    model.file(file).append(&bytes);
    let written = life.fs.create(&path, hints).and_then(|writer| {
        writer.append(&bytes)?;
        writer.sync()
    });
    match &written {
        Ok(()) => model.synced(file),
        Err(error) if error.is_no_space() => {
            return Err(format!("three of four files are gone: {}", chain(error)));
        }
        Err(_) => {}
    }
    life.is_done(rig, "writing where three of four files were", written).map(drop)
}

/// Removes everything: nothing stays behind, all space comes back and can be used again.
pub(super) fn empty_the_drive(rig: &mut Rig, fs: &FileSystem) -> Result<(), String> {
    rig.say("remove everything".to_string());
    let fail = |error: FsError| format!("emptying the drive: {}", chain(&error));
    let mut dirs = vec![String::new()];
    let mut at = 0;
    while at < dirs.len() {
        let dir = dirs[at].clone();
        for entry in fs.list(&dir).map_err(fail)? {
            let path = format!("{dir}/{}", entry.name);
            if entry.is_dir {
                dirs.push(path);
            } else {
                fs.unlink(&path).map_err(fail)?;
            }
        }
        at += 1;
    }
    for dir in dirs[1..].iter().rev() {
        fs.remove_dir(dir).map_err(fail)?;
    }
    fs.sync_names().map_err(fail)?;
    rig.world.run_until_idle();
    let stored: Vec<String> = fs.files().list("").into_iter().map(|info| info.name).collect();
    let space = fs.files().space();
    let lost = space.capacity_bytes - space.free_bytes;
    if !stored.is_empty() || space.live_bytes != 0 || lost * 4 > space.capacity_bytes {
        return Err(format!("the drive is empty, but {stored:?} are stored: {space:?}"));
    }
    for n in 0..8 {
        let bytes = vec![n; (space.capacity_bytes / 24) as usize];
        let path = format!("again{n}");
        let writer = fs.create(&path, Hints::new(FileKind::Table)).map_err(fail)?;
        writer.append(&bytes).and_then(|()| writer.sync()).map_err(fail)?;
        let reader = fs.open_read(&path).map_err(fail)?;
        if read_to_end(rig, &reader).map_err(fail)? != bytes {
            return Err(format!("{path} is not what was written"));
        }
    }
    Ok(())
}
