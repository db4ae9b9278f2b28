//! The command line of RocksDB's `db_bench` for pairs of 1 KB, and what the drive did for a program.

use crate::adapters::counters::Counters;
use crate::adapters::session::Session;
use anyhow::Result;

/// A pair has 1 KB, including a key of 16 bytes.
pub(super) const PAIR_LEN_BYTES: u64 = 1024;

/// `db_bench` on `/db` with pairs of 1 KB, with KVIMR's settings of RocksDB.
pub(super) fn db_bench(
    table_len_bytes: u64,
    base_level_len_bytes: u64,
    more: &[String],
) -> Vec<String> {
    let usual = [
        "db_bench",
        "--db=/db",
        "--key_size=16",
        "--value_size=1008",
        "--compression_type=none",
        "--bloom_bits=10",
        "--compaction_readahead_size=2097152",
        // The paper's 20 and 36 memtables would fill these small drives.
        "--level0_file_num_compaction_trigger=4",
        "--level0_slowdown_writes_trigger=8",
        "--level0_stop_writes_trigger=12",
    ];
    let lens = [
        format!("--write_buffer_size={table_len_bytes}"),
        format!("--target_file_size_base={table_len_bytes}"),
        format!("--max_bytes_for_level_base={base_level_len_bytes}"),
    ];
    usual.iter().map(|&arg| arg.to_owned()).chain(lens).chain(more.iter().cloned()).collect()
}

/// The data length of a table that fits `len_bytes` with its index and filter.
pub(super) fn within(len_bytes: u64) -> u64 {
    len_bytes - len_bytes / 32
}

pub(super) fn measure(session: &Session, program: &[String]) -> Result<Counters> {
    let program: Vec<&str> = program.iter().map(String::as_str).collect();
    session.measure(&program)
}
