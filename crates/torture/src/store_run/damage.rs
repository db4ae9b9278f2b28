//! The last act: damage that no flush protects from, done while the store is closed.
//!
//! - A bit of a table rots, or a run of its blocks becomes unreadable. From then on every answer
//!   must be right or an error that names the damage, and the check of the whole store must notice.
//!   In half of the runs everything is compacted before the first read: a compaction that copies
//!   the rot into a new table gives it a checksum that is right.
//! - A bit of a log rots, or a block of it becomes unreadable. The store was closed, so every write
//!   is durable. The store opens with all of them, or it is refused and opens for salvage.
//! - A write of a short last life is acknowledged and lands elsewhere. During that life every
//!   answer must be right or an error. The next opening may lack the content of that write, but
//!   everything that it finds was once written, under that key.

use super::keys::{KEY_COUNT, draw_key, key_of};
use super::model::{Bytes, Model, describe, key_in_words};
use super::store::{Store, draw_options};
use crate::rig::{Ending, Rig, chain, draw_len};
use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, Lba};
use imbrex_disk_sim::{FaultPlan, Misdirect};
use imbrex_engine::{OpenMode, Options};
use imbrex_files::{FileInfo, Files, Tier};

/// Draws the damage, does it, and checks everything.
pub(crate) fn run(rig: &mut Rig, model: &mut Model) -> Result<(), String> {
    let rots = rig.prng.chance(1, 2);
    match rig.prng.below(4) {
        0 => misdirect_a_write(rig, model),
        1 => damage_a_log(rig, model, rots),
        _ => damage_a_table(rig, model, rots),
    }
}

/// Damages a byte of a file whose name ends with `suffix`; false if there is none.
fn damage_a_file(rig: &mut Rig, suffix: &str, rots: bool) -> Result<bool, String> {
    let files = rig.open_files().map_err(|error| chain(&error))?;
    let mut found = files.list("");
    let is_one = |file: &FileInfo| file.name.ends_with(suffix) && !file.name.contains('/');
    found.retain(|file| is_one(file) && file.tier == Tier::Main && file.len_bytes > 0);
    drop(files);
    rig.world.drop_jobs();
    if found.is_empty() {
        return Ok(false);
    }
    let nth = rig.prng.below(found.len() as u64) as usize;
    let file = &found[nth];
    let offset = rig.prng.below(file.len_bytes);
    let block = rig.on_drive(block_at(file, offset)?);
    if rots {
        let bit = rig.prng.below(8) as u32;
        rig.say(format!("flip bit {bit} of byte {offset} of {}", file.name));
        let bit = (offset % BLOCK_LEN_BYTES as u64) as u32 * 8 + bit;
        rig.disk.flip_bit(block, bit).map_err(|error| error.to_string())?;
    } else {
        rig.say(format!("byte {offset} of {} cannot be read any more", file.name));
        rig.disk.damage(BlockRange::new(block, Blocks::new(1)));
    }
    Ok(true)
}

/// Writes a log and closes the store. Damages the log, opens the store and reads everything.
fn damage_a_log(rig: &mut Rig, model: &mut Model, rots: bool) -> Result<(), String> {
    let options = Options { background_work: false, ..draw_options(rig) };
    let Some(store) = open(rig, &options) else {
        return Err("the store does not open before anything was damaged".to_string());
    };
    for _ in 0..1 + rig.prng.below(40) {
        let changes = vec![super::operations::draw_any_change(rig, model)];
        let sync = rig.prng.chance(1, 4);
        match super::operations::write(&store, &changes, sync) {
            Ok(()) => model.wrote(changes, sync),
            // The run has left a full drive.
            Err(error) if error.is_no_space() => break,
            Err(error) => return Err(chain(&error)),
        }
    }
    store.close().map_err(|error| chain(&error))?;
    rig.world.drop_jobs();
    if !damage_a_file(rig, ".log", rots)? {
        return Ok(());
    }
    let options = Options { background_work: false, ..draw_options(rig) };
    if let Some(store) = open(rig, &options) {
        return compare_or_error(rig, &store, model);
    }
    rig.world.drop_jobs();
    let options = Options { open_mode: OpenMode::Salvage, ..options };
    let store = Store::open(rig, &options)
        .map_err(|error| format!("a damaged log, opened for salvage: {}", chain(&error)))?;
    match store.db.losses().is_empty() {
        true => Err("the store was refused, and salvage found nothing lost".to_string()),
        false => Ok(()),
    }
}

/// Damages one closed table, opens the store and reads everything.
fn damage_a_table(rig: &mut Rig, model: &Model, rots: bool) -> Result<(), String> {
    if !damage_a_file(rig, ".tbl", rots)? {
        return Ok(());
    }
    // A compaction that meets the damage stops the store before any read has.
    let options = Options { background_work: false, ..draw_options(rig) };
    let Some(store) = open(rig, &options) else { return Ok(()) };
    if rig.prng.chance(1, 2) {
        // A compaction may have dropped the table, so the check proves nothing.
        compact_over(rig, &store, model);
    } else if let Ok(true) = store.db.check().map(|report| report.is_sound()) {
        return Err("the check of a damaged store found nothing".to_string());
    }
    compare_or_error(rig, &store, model)
}

/// Compacts everything, under a few values that are written once more so that no table is merely
/// moved. Any part may fail.
fn compact_over(rig: &mut Rig, store: &Store, model: &Model) {
    for (index, map) in model.now.maps.iter().enumerate() {
        let keyspace = &store.keyspaces[index];
        let mut again = map.iter().step_by(1 + rig.prng.below(8) as usize);
        let written = again.try_for_each(|(key, value)| keyspace.put(key, value));
        let compacted = written.and_then(|()| keyspace.compact_range(None, None));
        rig.say(match compacted {
            Ok(()) => format!("keyspace {index} is compacted"),
            Err(error) => format!("keyspace {index} is not compacted: {}", chain(&error)),
        });
    }
}

/// Writes while one write of the disk lands elsewhere. Reads everything before and after a restart.
fn misdirect_a_write(rig: &mut Rig, model: &mut Model) -> Result<(), String> {
    let options = draw_options(rig);
    let Some(store) = open(rig, &options) else {
        return Err("the store does not open before anything was damaged".to_string());
    };
    let misdirect = Misdirect {
        after: draw_len(&mut rig.prng, 0, 7),
        shift: Blocks::new(1 + rig.prng.below(rig.scenario.geometry().len().get() - 1)),
    };
    rig.say(format!("{misdirect:?}"));
    let plan = FaultPlan { misdirect_write: Some(misdirect), ..FaultPlan::default() };
    rig.disk.set_faults(plan);
    for _ in 0..60 + rig.prng.below(200) {
        let change = super::operations::draw_any_change(rig, model);
        let outcome = super::operations::write(&store, std::slice::from_ref(&change), false);
        if let Err(error) = outcome.and_then(|()| match rig.prng.below(20) {
            0 => store.db.flush(),
            1 => store.keyspaces[0].compact_range(None, None),
            _ => Ok(()),
        }) {
            rig.say(format!("the write failed: {}", chain(&error)));
            model.wrote_perhaps(vec![change]);
            break;
        }
        model.wrote(vec![change], false);
        let keyspace = rig.prng.below(model.now.maps.len() as u64) as usize;
        let key = draw_key(&mut rig.prng);
        let expected = model.now.maps[keyspace].get(&key).map(|value| &**value);
        match store.keyspaces[keyspace].get(&key) {
            Ok(got) if got.as_deref() == expected => {}
            Ok(got) => return Err(wrong(&key, expected, got.as_deref())),
            Err(error) => rig.say(format!("get {}: {}", key_in_words(&key), chain(&error))),
        }
    }
    rig.kill(Ending::Kill);
    drop(store);
    rig.reboot(Ending::Kill)?;
    let options = Options { background_work: false, ..draw_options(rig) };
    let Some(store) = open(rig, &options) else { return Ok(()) };
    for (index, keyspace) in store.keyspaces.iter().enumerate() {
        for n in 0..KEY_COUNT {
            let key = key_of(n);
            match keyspace.get(&key) {
                Ok(None) => {}
                Ok(Some(got)) if model.was_ever(index, &key, &got) => {}
                Ok(Some(got)) => {
                    let (key, got) = (key_in_words(&key), describe(Some(&got)));
                    return Err(format!("misdirected, get {key}: {got} was never written there"));
                }
                Err(error) => rig.say(format!("get {}: {}", key_in_words(&key), chain(&error))),
            }
        }
    }
    Ok(())
}

/// Opens a store that may be damaged. `None` if it is refused.
fn open(rig: &mut Rig, options: &Options) -> Option<Store> {
    match Store::open(rig, options) {
        Ok(store) => Some(store),
        Err(error) => {
            rig.say(format!("the damaged store is refused: {}", chain(&error)));
            None
        }
    }
}

/// Checks that every key has the value of the model, none if it was deleted, or that reading it is
/// an error.
fn compare_or_error(rig: &mut Rig, store: &Store, model: &Model) -> Result<(), String> {
    for (index, map) in model.now.maps.iter().enumerate() {
        for n in 0..KEY_COUNT {
            let key = key_of(n);
            let expected = map.get(&key).map(|value| &**value);
            match store.keyspaces[index].get(&key) {
                Ok(got) if got.as_deref() == expected => {}
                Ok(got) => return Err(wrong(&key, expected, got.as_deref())),
                Err(error) => rig.say(format!("get {}: {}", key_in_words(&key), chain(&error))),
            }
        }
    }
    match store.read_all() {
        Ok(got) => match model.now.difference(&got) {
            Some(difference) => Err(format!("damaged, scan: {difference}")),
            None => Ok(()),
        },
        Err(error) => {
            rig.say(format!("scan: {}", chain(&error)));
            Ok(())
        }
    }
}

fn wrong(key: &Bytes, expected: Option<&[u8]>, got: Option<&[u8]>) -> String {
    let (key, expected, got) = (key_in_words(key), describe(expected), describe(got));
    format!("damaged, get {key}: expected {expected}, got {got}")
}

/// The block of the disk that holds byte `offset` of `file`.
fn block_at(file: &FileInfo, mut offset: u64) -> Result<Lba, String> {
    for extent in &file.extents {
        if offset < extent.len.bytes() {
            return Ok(extent.start + Blocks::new(offset / BLOCK_LEN_BYTES as u64));
        }
        offset -= extent.len.bytes();
    }
    Err(format!("{} has fewer blocks than bytes", file.name))
}
