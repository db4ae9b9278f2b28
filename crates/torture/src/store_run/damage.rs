//! The last act: bits of tables flip while nobody looks.
//!
//! From then on every answer must be right or an error that names the damage, and the check of the
//! whole store must notice.

use super::model::{Model, describe, key_in_words};
use super::{Store, draw_options};
use crate::rig::{Rig, chain};
use imbrex_disk::{BLOCK_LEN_BYTES, Blocks};
use imbrex_files::{FileInfo, Files};

/// Flips bits of closed tables, opens the store and reads everything.
pub(crate) fn run(rig: &mut Rig, model: &Model) -> Result<(), String> {
    let files = rig.open_files().map_err(|error| chain(&error))?;
    let mut tables = files.list("");
    tables.retain(|file| file.name.ends_with(".tbl") && !file.name.contains('/'));
    drop(files);
    rig.world.drop_jobs();
    if tables.is_empty() {
        return Ok(());
    }
    let nth = rig.prng.below(tables.len() as u64) as usize;
    flip(rig, &tables[nth])?;
    let mut options = draw_options(&mut rig.prng);
    // A compaction that meets the damage stops the store before anybody has asked for it.
    options.background_work = false;
    let store = match Store::open(rig, &options) {
        Ok(store) => store,
        Err(error) => {
            rig.say(format!("the damaged store is refused: {}", chain(&error)));
            return Ok(());
        }
    };
    if let Ok(true) = store.db.check().map(|report| report.is_sound()) {
        return Err("the check of a damaged store found nothing".to_string());
    }
    for (index, map) in model.now.maps.iter().enumerate() {
        for (key, value) in map {
            match store.keyspaces[index].get(key) {
                Ok(Some(got)) if *got == **value => {}
                Ok(got) => {
                    let (key, got) = (key_in_words(key), describe(got.as_deref()));
                    let expected = describe(Some(&**value));
                    return Err(format!("damaged, get {key}: expected {expected}, got {got}"));
                }
                Err(error) => rig.say(format!("get {}: {}", key_in_words(key), chain(&error))),
            }
        }
    }
    Ok(())
}

/// Flips one bit of one byte of `table`.
fn flip(rig: &mut Rig, table: &FileInfo) -> Result<(), String> {
    let mut offset = rig.prng.below(table.len_bytes);
    let bit = rig.prng.below(8) as u32;
    rig.say(format!("flip bit {bit} of byte {offset} of {} ({})", table.name, table.len_bytes));
    for extent in &table.extents {
        if offset < extent.len.bytes() {
            let block = extent.start + Blocks::new(offset / BLOCK_LEN_BYTES as u64);
            let bit = (offset % BLOCK_LEN_BYTES as u64) as u32 * 8 + bit;
            return rig.disk.flip_bit(block, bit).map_err(|error| error.to_string());
        }
        offset -= extent.len.bytes();
    }
    Err(format!("{} has fewer blocks than bytes", table.name))
}
