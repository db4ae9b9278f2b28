//! The last act: damage that no flush protects from, done while the drive is closed.
//!
//! A bit of a stored file rots, or one of its blocks becomes unreadable. The drive must still open,
//! and every other file must be right. The damaged file is right or an error, at each opening,
//! whatever else happens. Only a bit in a table is left to the database (N10).

use super::checks::read_to_end;
use super::model::Model;
use super::names::need_file;
use super::operations::Life;
use super::{end_life, open, recover};
use crate::rig::{Ending, Rig, Weather, chain};
use imbrex_disk::{BlockRange, Blocks};
use imbrex_files::{FileInfo, FileKind, Hints};
use imbrex_filesystem::{FileSystem, FsError};
use std::collections::BTreeMap;

/// The damage, and the stored file that it hit.
struct Damage {
    store: String,
    /// Whether a read cannot notice it.
    is_silent: bool,
}

/// Draws the damage, does it, and checks everything.
pub(super) fn run(rig: &mut Rig, model: &mut Model, ending: Ending) -> Result<(), String> {
    let mounted = recover(rig, model, ending)?;
    // A closed file has a recorded length, so a log that is shorter counts as damaged.
    end_life(rig, Life::new(&mounted.fs), model, Ending::Kill)?;
    drop(mounted);
    rig.reboot(Ending::Kill)?;
    let mounted = open(rig).map_err(|error| chain(&*error))?;
    if !super::commit_what_was_found(rig, &mounted.fs)? {
        return Ok(());
    }
    let stores = list(&mounted.fs, model).map_err(|error| chain(&error))?;
    rig.kill(Ending::Kill);
    drop(mounted);
    rig.reboot(Ending::Kill)?;
    rig.set_weather(Weather::Fair);
    let Some(damage) = damage_a_store(rig, &stores)? else { return Ok(()) };
    for is_worked_with in [false, true, true] {
        let mounted =
            open(rig).map_err(|error| format!("one damaged block: {}", chain(&*error)))?;
        compare_all(rig, &mounted.fs, model, &damage)?;
        if is_worked_with {
            work(rig, &mounted.fs)?;
            compare_all(rig, &mounted.fs, model, &damage)?;
        }
        rig.kill(Ending::Kill);
        drop(mounted);
        rig.reboot(Ending::Kill)?;
    }
    Ok(())
}

/// The stored files, and for each whether it holds raw bytes instead of a log's frames.
fn list(fs: &FileSystem, model: &mut Model) -> Result<Vec<(FileInfo, bool)>, FsError> {
    let mut owners = BTreeMap::new();
    for path in model.file_paths() {
        for store in fs.open_read(&path)?.stores() {
            owners.insert(store, path.clone());
        }
    }
    let mut is_plain = |info: &FileInfo| {
        let Some(path) = owners.get(&info.name) else { return false };
        let Ok(file) = need_file(model.names(), path) else { return false };
        let len = info.len_bytes.min(64) as usize;
        let (bytes, mut scratch) = (model.file(file).bytes(), Vec::new());
        let reader = fs.files().open(&info.name);
        let begins = |head: &[u8]| len > 0 && bytes.windows(len).any(|window| window == head);
        reader.is_ok_and(|reader| reader.read_at(0, len, &mut scratch).is_ok_and(begins))
    };
    let stored = fs.files().list("").into_iter();
    Ok(stored.map(|info| (info.clone(), is_plain(&info))).collect())
}

fn damage_a_store(rig: &mut Rig, stores: &[(FileInfo, bool)]) -> Result<Option<Damage>, String> {
    if stores.is_empty() {
        return Ok(None);
    }
    let (info, is_plain) = &stores[rig.prng.below(stores.len() as u64) as usize];
    let len = info.extents.iter().map(|extent| extent.len.get()).sum::<u64>();
    if len == 0 {
        return Ok(None);
    }
    let mut nth = rig.prng.below(len);
    let holds = |extent: &&BlockRange| {
        let is_in = nth < extent.len.get();
        nth -= if is_in { 0 } else { extent.len.get() };
        is_in
    };
    let Some(extent) = info.extents.iter().find(holds) else { return Ok(None) };
    let block = rig.on_drive(extent.start + Blocks::new(nth));
    let store = info.name.clone();
    if rig.prng.chance(1, 2) {
        rig.say(format!("{block}, of {store}, cannot be read any more"));
        rig.disk.damage(BlockRange::new(block, Blocks::new(1)));
        return Ok(Some(Damage { store, is_silent: false }));
    }
    let bit = rig.prng.below(4096 * 8) as u32;
    rig.say(format!("bit {bit} of {block}, of {store}, rots"));
    rig.disk.flip_bit(block, bit).map_err(|error| error.to_string())?;
    Ok(Some(Damage { store, is_silent: *is_plain }))
}

/// Checks that every file is unchanged, or an error where it has the damaged block.
fn compare_all(
    rig: &mut Rig,
    fs: &FileSystem,
    model: &mut Model,
    damage: &Damage,
) -> Result<(), String> {
    rig.say("compare everything".to_string());
    for path in model.file_paths() {
        let file = need_file(model.names(), &path).map_err(|r| format!("{r:?}"))?;
        let reader = fs.open_read(&path).map_err(|error| chain(&error))?;
        let is_damaged = reader.stores().contains(&damage.store);
        let expected = model.file(file).bytes();
        match read_to_end(rig, &reader) {
            Ok(found) if found == expected => {}
            Ok(found) if is_damaged && damage.is_silent && found.len() == expected.len() => {}
            Ok(_) => return Err(format!("{path} differs from what was written, without an error")),
            Err(error) if !is_damaged => return Err(format!("{path}: {}", chain(&error))),
            Err(FsError::Damaged { .. }) => {}
            Err(FsError::Files { source, .. }) if source.is_damage() => {}
            Err(error) => return Err(format!("{path}: damage is reported as {}", chain(&error))),
        }
    }
    Ok(())
}

/// Works next to the damage: creates and removes files, and cleans if needed.
fn work(rig: &mut Rig, fs: &FileSystem) -> Result<(), String> {
    rig.say("work next to the damage".to_string());
    for n in 0..rig.prng.below(6) {
        let kind = if n % 2 == 0 { FileKind::Table } else { FileKind::Log };
        let written = fs.create("beside", Hints::new(kind)).and_then(|writer| {
            writer.append(&vec![7; 4096 * 40])?;
            writer.sync()
        });
        match written {
            Err(error) if !error.is_no_space() => return Err(format!("beside: {}", chain(&error))),
            _ => rig.world.run_until_idle(),
        }
    }
    if fs.metadata("beside").is_ok() {
        fs.unlink("beside").map_err(|error| chain(&error))?;
    }
    match fs.sync_names() {
        Err(error) if !error.is_no_space() => Err(format!("beside: {}", chain(&error))),
        _ => Ok(()),
    }
}
