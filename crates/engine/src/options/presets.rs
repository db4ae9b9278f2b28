//! Options by the name of the design they follow: the values of each paper, and our choices where
//! the paper gives none.
//!
//! All of them leave blocks uncompressed, so that lengths on the drive are the user's lengths.

use super::{
    CompactionKind, Compression, KeyspaceOptions, MEMTABLE_LEN_BYTES_MAX, Options, VictimGrowth,
    VictimOrder,
};

impl Options {
    /// LevelDB 1.19 on a file system: a memtable of 4 MiB, a block cache of 8 MiB, and compactions
    /// that read 128 KiB at a time. See [`KeyspaceOptions::leveldb_1_19`].
    pub fn leveldb_1_19() -> Options {
        Options {
            memtable_len_bytes: 4 << 20,
            log_len_bytes_max: 16 << 20,
            block_cache_len_bytes: 8 << 20,
            compaction_read_len_bytes: 128 << 10,
            keyspace: KeyspaceOptions::leveldb_1_19(),
            ..Options::default()
        }
    }

    /// SEALDB: [`Options::leveldb_1_19`] with sets. A compaction reads each table whole, in the
    /// order of the set. See [`KeyspaceOptions::set_aware`].
    pub fn set_aware() -> Options {
        Options {
            // More than a table with its blocks and index, so that a table is one read.
            compaction_read_len_bytes: 8 << 20,
            keyspace: KeyspaceOptions::set_aware(),
            ..Options::leveldb_1_19()
        }
    }

    /// SMRDB with its own organisation, SMRDB-SOC. See [`KeyspaceOptions::smrdb`].
    pub fn smrdb(band_len_bytes: u64) -> Options {
        Options::of_bands(band_len_bytes, KeyspaceOptions::smrdb(band_len_bytes))
    }

    fn of_bands(band_len_bytes: u64, keyspace: KeyspaceOptions) -> Options {
        Options {
            // Shorter than a table, so that a flush never writes two tables of which one is almost
            // empty.
            memtable_len_bytes: (band_len_bytes - band_len_bytes / 16).min(MEMTABLE_LEN_BYTES_MAX),
            log_len_bytes_max: band_len_bytes.saturating_mul(4),
            block_cache_len_bytes: 8 << 20,
            // Reading whole tables would take a band of memory for each input.
            compaction_read_len_bytes: 4 << 20,
            keyspace,
            ..Options::default()
        }
    }

    /// SMRDB-LOC: leveled compaction of tables as long as a band. See
    /// [`KeyspaceOptions::smrdb_leveled`].
    pub fn smrdb_leveled(band_len_bytes: u64) -> Options {
        Options::of_bands(band_len_bytes, KeyspaceOptions::smrdb_leveled(band_len_bytes))
    }
}

impl KeyspaceOptions {
    /// LevelDB 1.19: tables of 4 MiB; level 0 goes down at 4 runs, slows writes at 8 and stops them
    /// at 12; level 1 of 10 MiB, factor 10; one victim at a time, round-robin; no filters. Flushes go
    /// as deep as level 2 where nothing is in the way, and tables that gets miss often go down.
    pub fn leveldb_1_19() -> KeyspaceOptions {
        KeyspaceOptions {
            table_len_bytes: 4 << 20,
            compression: Compression::None,
            filter_bits_per_key: 0,
            l0_compact_run_count: 4,
            l0_slowdown_run_count: 8,
            l0_stop_run_count: 12,
            base_level_len_bytes: 10 << 20,
            level_factor: 10,
            grandparent_table_count_max: 10,
            victim_order: VictimOrder::RoundRobin,
            victim_growth: VictimGrowth::Single,
            flushes_pass_levels: true,
            missed_tables_go_down: true,
            ..KeyspaceOptions::default()
        }
    }

    /// Like [`KeyspaceOptions::leveldb_1_19`], with the sets of SEALDB. Tables end where sets below them
    /// end. Victims are taken by key: that writes less than taking those of the deadest set, as the paper
    /// says, and leaves no more dead tables.
    pub fn set_aware() -> KeyspaceOptions {
        KeyspaceOptions {
            compaction: CompactionKind::SetAware,
            cuts_at_sets: true,
            ..KeyspaceOptions::leveldb_1_19()
        }
    }

    /// Two levels of tables as long as a band, with filters and byte histograms. Level 0 goes down
    /// at 4 runs, slows writes at 8 and stops them at 12, as in LevelDB.
    pub fn smrdb(band_len_bytes: u64) -> KeyspaceOptions {
        KeyspaceOptions {
            compaction: CompactionKind::Smrdb,
            table_len_bytes: table_len_bytes_in(band_len_bytes),
            filter_bits_per_key: 10,
            histogram_len_bytes: 4 << 10,
            ..KeyspaceOptions::leveldb_1_19()
        }
    }

    /// Like [`KeyspaceOptions::leveldb_1_19`], but with tables as long as a band, filters, and a
    /// level 1 of five tables, which is LevelDB's own ratio (10 MB and 2 MB).
    pub fn smrdb_leveled(band_len_bytes: u64) -> KeyspaceOptions {
        KeyspaceOptions {
            table_len_bytes: table_len_bytes_in(band_len_bytes),
            base_level_len_bytes: band_len_bytes.saturating_mul(5),
            filter_bits_per_key: 10,
            ..KeyspaceOptions::leveldb_1_19()
        }
    }
}

/// A little less than the band. A table ends shortly after it reaches this length, and must still
/// fit into the band with the rest of its last block, its index and its footer.
fn table_len_bytes_in(band_len_bytes: u64) -> u64 {
    band_len_bytes - band_len_bytes / 64
}
