//! Torture of the whole stack: a key-value store, checked against a map.
//!
//! What must hold after a recovery: the store equals the model after some prefix of the
//! acknowledged writes that includes every synced one. Batches are there as a whole or not at all.
//! After a close in good order nothing is missing. The check of the whole store finds nothing. Then
//! comes damage (`damage`).

mod backup;
mod cursor;
mod damage;
mod model;
mod operations;

use crate::rig::{Ending, Rig, Weather, chain};
use imbrex::stack::LayoutError;
use imbrex_clockwork::Prng;
use imbrex_engine::{
    Compression, Db, EngineError, Keyspace, KeyspaceOptions, Options, ReadOptions,
};
use imbrex_files::FileLayer;
use model::{Bytes, Map, Model, State};
use operations::Life;
use std::collections::BTreeMap;

/// The default keyspace and two more.
const KEYSPACES: [&str; 2] = ["beta", "gamma"];

/// Runs the lives of one seed.
pub(crate) fn run(rig: &mut Rig) -> Result<(), String> {
    rig.format()?;
    let mut model = Model::new(1 + KEYSPACES.len());
    let mut ending = Ending::Close;
    for _ in 0..rig.draw_life_count() {
        let mut store = recover(rig, &mut model, ending)?;
        rig.begin_life();
        ending = Life::new(&mut store).live(rig, &mut model)?;
        note_life(rig, &store);
        ending = end_life(rig, store, &mut model, ending)?;
    }
    let store = recover(rig, &mut model, ending)?;
    rig.world.run_until_idle();
    let got = store.read_all().map_err(|error| chain(&error))?;
    if let Some(difference) = model.now.difference(&got) {
        return Err(format!("after background work came to rest: {difference}"));
    }
    store.check()?;
    note_life(rig, &store);
    end_life(rig, store, &mut model, Ending::Close)?;
    if rig.has_last_act() { damage::run(rig, &mut model) } else { Ok(()) }
}

/// Records what the store did in a finished life.
fn note_life(rig: &mut Rig, store: &Store) {
    rig.note_life(&store.files);
    let compaction = store.keyspaces[0].options().compaction;
    rig.work.note(&store.db.metrics(), compaction);
}

/// Ends a life as drawn. Returns the ending that counts.
fn end_life(
    rig: &mut Rig,
    store: Store,
    model: &mut Model,
    ending: Ending,
) -> Result<Ending, String> {
    rig.kill(ending);
    let ending = match store.close() {
        Ok(()) if ending == Ending::Close => {
            model.synced();
            ending
        }
        Ok(()) => ending,
        Err(error) if ending == Ending::Close => {
            rig.excuse("close", &error)?;
            Ending::PowerCut
        }
        Err(error) => {
            rig.say(format!("close failed: {}", chain(&error)));
            ending
        }
    };
    rig.reboot(ending)
}

/// An open store with its keyspaces.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) files: FileLayer,
    pub(crate) db: Db,
    pub(crate) keyspaces: Vec<Keyspace>,
}

impl Store {
    pub(crate) fn open(rig: &mut Rig, options: &Options) -> Result<Store, LayoutError> {
        let files = rig.open_files()?;
        rig.say("open the store".to_string());
        Store::open_on(files, rig, options)
            .map_err(|source| LayoutError::Engine { what: "opening the store", source })
    }

    fn open_on(files: FileLayer, rig: &Rig, options: &Options) -> Result<Store, EngineError> {
        let db = Db::open(rig.all_files(&files), rig.runtime.clone(), options.clone())?;
        let mut keyspaces = vec![db.default_keyspace()];
        for name in KEYSPACES {
            let keyspace = match db.keyspace(name) {
                Err(EngineError::NoKeyspace { .. }) => {
                    db.create_keyspace(name, options.keyspace.clone())?
                }
                other => other?,
            };
            keyspaces.push(keyspace);
        }
        Ok(Store { files, db, keyspaces })
    }

    /// All entries, by a forward scan of each keyspace.
    pub(crate) fn read_all(&self) -> Result<State, EngineError> {
        let maps = self.keyspaces.iter().map(|keyspace| {
            let mut map = Map::new();
            let mut iter = keyspace.iter(ReadOptions::default())?;
            iter.seek_to_first()?;
            while iter.valid() {
                map.insert(Bytes::from(iter.key()), Bytes::from(iter.value()));
                iter.next()?;
            }
            Ok(map)
        });
        Ok(State { maps: maps.collect::<Result<_, EngineError>>()? })
    }

    /// All entries of a checkpoint.
    pub(crate) fn read_checkpoint(&self, name: &str) -> Result<State, EngineError> {
        let db = self.db.open_checkpoint(name)?;
        let mut keyspaces = vec![db.default_keyspace()];
        for keyspace in KEYSPACES {
            keyspaces.push(db.keyspace(keyspace)?);
        }
        Store { files: self.files.clone(), db, keyspaces }.read_all()
    }

    fn read_checkpoints(&self) -> Result<BTreeMap<String, State>, EngineError> {
        let names = self.db.checkpoints().into_iter();
        names.map(|name| self.read_checkpoint(&name).map(|state| (name, state))).collect()
    }

    fn check(&self) -> Result<(), String> {
        let report = self.db.check().map_err(|error| format!("check: {}", chain(&error)))?;
        if report.is_sound() {
            Ok(())
        } else {
            Err(format!("check: {}", report.findings.join("; ")))
        }
    }

    fn close(self) -> Result<(), EngineError> {
        drop(self.keyspaces);
        self.db.close()
    }
}

/// Opens the store, through power cuts, and compares what it found with the model.
fn recover(rig: &mut Rig, model: &mut Model, ending: Ending) -> Result<Store, String> {
    // A store may be opened with other options each time; the options of keyspaces are stored.
    let options = draw_options(rig);
    for attempt in 0.. {
        if attempt < 3 {
            rig.begin_recovery(attempt);
        }
        match Store::open(rig, &options) {
            Ok(store) if !rig.is_foul() => {
                rig.set_weather(Weather::Fair);
                rig.say("compare everything".to_string());
                let got = store.read_all().map_err(|e| format!("recovery: {}", chain(&e)))?;
                let lost = model.settle(got, ending != Ending::Close)?;
                if lost > 0 {
                    rig.say(format!("{lost} unsynced writes are gone"));
                }
                let checkpoints = store.read_checkpoints();
                let checkpoints = checkpoints.map_err(|e| format!("checkpoints: {}", chain(&e)))?;
                model.settle_checkpoints(checkpoints)?;
                store.check()?;
                rig.check_pair()?;
                return Ok(store);
            }
            Ok(store) => {
                rig.kill(Ending::PowerCut);
                drop(store);
            }
            Err(error) => rig.excuse("recovery", &error)?,
        }
        rig.reboot(Ending::PowerCut)?;
    }
    unreachable!("in fair weather a recovery succeeds or ends the run")
}

/// Everything is tiny, so that flushes, compactions and new logs happen all the time.
fn draw_options(rig: &mut Rig) -> Options {
    let options = draw_lengths(&mut rig.prng);
    rig.scenario.fit(options, &mut rig.prng)
}

fn draw_lengths(prng: &mut Prng) -> Options {
    // Not smaller: the catalog of such a small drive has room for about a hundred tables.
    let table_len_bytes = 16_384 << prng.below(3);
    Options {
        memtable_len_bytes: 4096 << prng.below(4),
        immutable_memtable_count_max: 1 + prng.below(3) as usize,
        log_len_bytes_max: 16_384 << prng.below(4),
        log_frame_len_bytes: 4096 << prng.below(5),
        block_cache_len_bytes: prng.below(4) * 16_384,
        max_background_jobs: 1 + prng.below(3) as usize,
        compaction_read_len_bytes: 4096 << prng.below(4),
        logs_are_tables: prng.chance(1, 4),
        keyspace: KeyspaceOptions {
            table_len_bytes,
            block_len_bytes: 512 << prng.below(4),
            compression: [Compression::None, Compression::Lz4, Compression::Zstd]
                [prng.below(3) as usize],
            filter_bits_per_key: [0, 3, 10][prng.below(3) as usize],
            l0_compact_run_count: 1 + prng.below(4) as u32,
            l0_slowdown_run_count: 5,
            l0_stop_run_count: 6,
            base_level_len_bytes: table_len_bytes * (1 + prng.below(3)),
            level_factor: 2 + prng.below(3) as u32,
            grandparent_table_count_max: 1 + prng.below(4) as u32,
            ..KeyspaceOptions::default()
        },
        ..Options::default()
    }
}
