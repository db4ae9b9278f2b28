//! The store under test, and the options that a run draws for it.

use super::model::{Bytes, Map, State};
use crate::rig::{Rig, chain};
use imbrex::stack::LayoutError;
use imbrex_clockwork::Prng;
use imbrex_engine::{
    Compression, Db, EngineError, Keyspace, KeyspaceOptions, Options, ReadOptions,
};
use imbrex_files::FileLayer;
use std::collections::BTreeMap;

/// The default keyspace and two more.
pub(crate) const KEYSPACES: [&str; 2] = ["beta", "gamma"];

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

    pub(crate) fn open_on(
        files: FileLayer,
        rig: &Rig,
        options: &Options,
    ) -> Result<Store, EngineError> {
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

    pub(crate) fn read_checkpoints(&self) -> Result<BTreeMap<String, State>, EngineError> {
        let names = self.db.checkpoints().into_iter();
        names.map(|name| self.read_checkpoint(&name).map(|state| (name, state))).collect()
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let report = self.db.check().map_err(|error| format!("check: {}", chain(&error)))?;
        if report.is_sound() {
            Ok(())
        } else {
            Err(format!("check: {}", report.findings.join("; ")))
        }
    }

    pub(crate) fn close(self) -> Result<(), EngineError> {
        drop(self.keyspaces);
        self.db.close()
    }
}

/// Everything is tiny, so that flushes, compactions and new logs happen all the time. Full drives have
/// the options of their layout.
pub(crate) fn draw_options(rig: &mut Rig) -> Options {
    if let Some(recipe) = rig.default_recipe() {
        return recipe.options;
    }
    let mut options = draw_lengths(&mut rig.prng);
    if rig.prng.chance(1, 4) {
        options.keyspace.values_apart_from_bytes = 64 << rig.prng.below(6);
    }
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
        seek_read_len_bytes: [0, 2000, 40_000][prng.below(3) as usize],
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
