//! Torture of full drives: a store with the default options of its layout on a small drive, filled,
//! emptied and filled again.
//!
//! ```text
//!   fill until a put is refused --> deletes, flush, close, reopen: all pass --> delete half --> puts pass
//! ```
//!
//! What must hold, besides what holds for every store:
//!
//! - A refusal names more bytes than are free.
//! - After a refusal, every delete passes, synced or not. So do a flush and a close.
//! - After a close, a kill or a power cut, the store opens without kept logs, and takes deletes.
//! - After half of what was live is deleted and compacted as far as there is room, puts pass.
//!
//! A drive may be too small for its layout, and is then refused when it is formatted.

use super::model::{Bytes, Change, Model};
use super::operations::write;
use super::store::Store;
use super::{end_life, note_life, recover};
use crate::rig::{Ending, Rig, Weather, chain, draw_len};
use imbrex_disk::Disk;
use imbrex_engine::{Db, EngineError};
use imbrex_files::Files;

/// How much one life writes, in bits, unless it fills the drive: 1 to 16 MiB.
const LIFE_LEN_BITS: (u64, u64) = (20, 25);
/// Longer drives are not filled, and a life ends after so many refusals, so that a seed takes seconds.
const FILL_LEN_BYTES_MAX: u64 = 24 << 20;
const REFUSALS_PER_LIFE: u64 = 2;
/// How many keys there are, at most.
const KEY_COUNT_BITS: (u64, u64) = (4, 18);

/// What one life writes.
#[derive(Clone, Copy, Debug)]
struct Load {
    key_count: u64,
    key_bits_max: u64,
    value_bits_max: u64,
    sync_one_in: u64,
    delete_percent: u64,
    is_compressible: bool,
    left_bytes: u64,
}

impl Load {
    fn draw(rig: &mut Rig) -> Load {
        let fill_bytes = rig.disk.geometry().len().bytes().min(FILL_LEN_BYTES_MAX);
        let prng = &mut rig.prng;
        let fills = prng.chance(1, 2);
        let bits =
            |prng: &mut imbrex_clockwork::Prng, (least, end)| least + prng.below(end - least);
        Load {
            key_count: 1 << if fills { KEY_COUNT_BITS.1 } else { bits(prng, KEY_COUNT_BITS) },
            // Longer keys fill the catalog of a small drive, because each table's record holds two.
            key_bits_max: if prng.chance(1, 8) { 10 } else { 4 + prng.below(5) },
            value_bits_max: if fills { bits(prng, (8, 18)) } else { bits(prng, (0, 21)) },
            sync_one_in: [1, 1, 7, 100, u64::MAX][prng.below(5) as usize],
            delete_percent: [0, 0, 5, 30][prng.below(4) as usize],
            is_compressible: !fills && prng.chance(1, 4),
            left_bytes: if fills { fill_bytes } else { 1 << bits(prng, LIFE_LEN_BITS) },
        }
    }

    /// Key number `n`, whose length depends on the number alone.
    fn key(&self, n: u64) -> Bytes {
        let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let len_max = 1u64 << (mixed % (self.key_bits_max + 1));
        let mut key = mixed.to_be_bytes().to_vec();
        key.resize((mixed >> 32) as usize % len_max as usize + 1, b'k');
        key.into()
    }

    fn change(&self, rig: &mut Rig, model: &mut Model) -> Change {
        let keyspace = rig.prng.below(5).saturating_sub(2) as usize;
        let key = self.key(rig.prng.below(self.key_count));
        if rig.prng.below(100) < self.delete_percent {
            return Change::Delete { keyspace, key };
        }
        let len = draw_len(&mut rig.prng, self.value_bits_max.min(4), self.value_bits_max + 1);
        let mut value = format!("v{}.", model.next_value()).into_bytes();
        let head_len = value.len();
        value.resize(head_len + len as usize, b'.');
        if !self.is_compressible {
            rig.prng.fill(&mut value[head_len..]);
        }
        Change::Put { keyspace, key, value: value.into() }
    }
}

/// Runs the lives of one seed.
pub(crate) fn run(rig: &mut Rig) -> Result<(), String> {
    // Drives that are too small are refused by the formatting, or here.
    if let Err(refused) = rig.format() {
        rig.say(refused.clone());
        // The words of the placements and of fixed bands.
        let is_short = ["cannot use this drive", "their guards need"];
        let is_short = is_short.iter().any(|words| refused.contains(words));
        return if is_short { Ok(()) } else { Err(refused) };
    }
    let mut model = Model::new(1 + super::KEYSPACES.len());
    let mut ending = Ending::Close;
    for _ in 0..rig.draw_life_count() {
        let mut store = recover(rig, &mut model, ending)?;
        if rig.life_count() == 0
            && let Err(refused) = store.db.check_room()
        {
            rig.say(format!("too small: {}", chain(&refused)));
            return Ok(());
        }
        check_is_writable(rig, &store, &mut model)?;
        rig.begin_life();
        let after = draw_len(&mut rig.prng, 8, 16);
        let is_cut = rig.prng.chance(1, 4);
        rig.set_weather(if is_cut { Weather::PowerCut { after } } else { Weather::Fair });
        let load = Load::draw(rig);
        rig.say(format!("{load:?}"));
        let is_over = live(rig, &mut store, &mut model, load)?;
        note_life(rig, &store);
        ending = if is_over { Ending::PowerCut } else { rig.ending() };
        ending = end_life(rig, store, &mut model, ending)?;
    }
    let store = recover(rig, &mut model, ending)?;
    check_is_writable(rig, &store, &mut model)?;
    end_life(rig, store, &mut model, Ending::Close)?;
    Ok(())
}

/// A store that could be written before can be written now.
fn check_is_writable(rig: &mut Rig, store: &Store, model: &mut Model) -> Result<(), String> {
    let kept_log_count = store.db.recovery().kept_log_count;
    if kept_log_count > 0 {
        return Err(format!("{kept_log_count} logs found no room: {}", use_of(store)));
    }
    delete(rig, store, model, 1).map(drop)
}

fn use_of(store: &Store) -> String {
    let space = store.files.space();
    let levels = store.db.property("levels").unwrap_or_default();
    let levels: Vec<&str> = levels.lines().filter(|line| line.len() < 200).take(20).collect();
    format!("{space:?}\n{}", levels.join("\n"))
}

/// Writes what `load` says. Returns true if the store must be opened again.
fn live(
    rig: &mut Rig,
    store: &mut Store,
    model: &mut Model,
    mut load: Load,
) -> Result<bool, String> {
    let mut refusal_count = 0;
    while load.left_bytes > 0 && refusal_count < REFUSALS_PER_LIFE && !rig.is_dark() {
        let change = load.change(rig, model);
        let sync = load.sync_one_in < u64::MAX && rig.prng.below(load.sync_one_in) == 0;
        let len_bytes = match &change {
            Change::Put { key, value, .. } => key.len() + value.len(),
            Change::Delete { key, .. } => key.len(),
            Change::DeleteRange { .. } => 0,
        };
        // A sync costs a block, and each operation some time.
        let cost_bytes = len_bytes as u64 + if sync { 1024 } else { 128 };
        load.left_bytes = load.left_bytes.saturating_sub(cost_bytes);
        let changes = vec![change];
        let written = write(store, &changes, sync);
        match written {
            Ok(()) => model.wrote(changes, sync),
            Err(error) if error.is_no_space() => {
                if matches!(changes[0], Change::Delete { .. }) {
                    let error = chain(&error);
                    return Err(format!("a delete was refused: {error}: {}", use_of(store)));
                }
                if full(rig, store, model, &error)? {
                    return Ok(true);
                }
                refusal_count += 1;
            }
            Err(error) => {
                rig.excuse("write", &error)?;
                model.wrote_perhaps(changes);
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// The drive is full. Returns true if the store must be opened again.
fn full(
    rig: &mut Rig,
    store: &mut Store,
    model: &mut Model,
    refusal: &EngineError,
) -> Result<bool, String> {
    rig.no_space_count += 1;
    rig.say(format!("full: {}", chain(refusal)));
    if let EngineError::NoSpace { needed_bytes, free_bytes, .. } = refusal
        && needed_bytes <= free_bytes
    {
        return Err(format!("a refusal contradicts itself: {refusal}"));
    }
    let live_bytes = live_len_bytes(model);
    let count = 1 + rig.prng.below(50);
    if delete(rig, store, model, count)? || barrier(rig, store, model, "flush", Db::flush)? {
        return Ok(true);
    }
    if rig.prng.chance(1, 4) {
        // Full as it is.
        return Ok(true);
    }
    while live_len_bytes(model) > live_bytes / 2 {
        let entry_count: usize = model.now.maps.iter().map(|map| map.len()).sum();
        if delete(rig, store, model, 1 + entry_count as u64 / 8)? {
            return Ok(true);
        }
    }
    if barrier(rig, store, model, "flush", Db::flush)? {
        return Ok(true);
    }
    for keyspace in store.keyspaces.clone() {
        rig.say("compact".to_string());
        match keyspace.compact_range(None, None) {
            Ok(()) => {}
            // A merge of everything may not fit. What was deleted makes room for puts all the same.
            Err(error) if error.is_no_space() => rig.say(chain(&error)),
            Err(error) => {
                rig.excuse("compact", &error)?;
                return Ok(true);
            }
        }
    }
    let key = Bytes::from(&b"a put after deletes"[..]);
    let value = Bytes::from(&[7; 1000][..]);
    let changes = vec![Change::Put { keyspace: 0, key, value }];
    match write(store, &changes, true) {
        Ok(()) => {
            model.wrote(changes, true);
            Ok(false)
        }
        Err(error) if error.is_no_space() => {
            let error = chain(&error);
            let now_bytes = live_len_bytes(model);
            Err(format!(
                "{now_bytes} bytes live of {live_bytes}, and a put is refused: {error}: {}",
                use_of(store)
            ))
        }
        Err(error) => {
            rig.excuse("put", &error)?;
            model.wrote_perhaps(changes);
            Ok(true)
        }
    }
}

fn live_len_bytes(model: &Model) -> u64 {
    let entries = model.now.maps.iter().flatten();
    entries.map(|(key, value)| (key.len() + value.len()) as u64).sum()
}

/// Deletes `count` keys. Returns true if the store must be opened again.
fn delete(rig: &mut Rig, store: &Store, model: &mut Model, count: u64) -> Result<bool, String> {
    for _ in 0..count {
        let keyspace = rig.prng.below(model.now.maps.len() as u64) as usize;
        let from = Bytes::from(&rig.prng.next_u64().to_be_bytes()[..]);
        let map = &model.now.maps[keyspace];
        let found = map.range(from..).next().or_else(|| map.first_key_value());
        let Some((key, _)) = found else { continue };
        let changes = vec![Change::Delete { keyspace, key: Bytes::clone(key) }];
        let sync = rig.prng.chance(1, 3);
        match write(store, &changes, sync) {
            Ok(()) => model.wrote(changes, sync),
            Err(error) if error.is_no_space() => {
                return Err(format!("a delete was refused: {}: {}", chain(&error), use_of(store)));
            }
            Err(error) => {
                rig.excuse("delete", &error)?;
                model.wrote_perhaps(changes);
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Returns true if the store must be opened again.
fn barrier(
    rig: &mut Rig,
    store: &Store,
    model: &mut Model,
    what: &str,
    barrier: impl FnOnce(&Db) -> Result<(), EngineError>,
) -> Result<bool, String> {
    rig.say(what.to_string());
    match barrier(&store.db) {
        Ok(()) => model.synced(),
        Err(error) if error.is_no_space() && !rig.is_foul() => {
            return Err(format!("a {what} was refused: {}: {}", chain(&error), use_of(store)));
        }
        Err(error) => {
            rig.excuse(what, &error)?;
            return Ok(true);
        }
    }
    Ok(false)
}
