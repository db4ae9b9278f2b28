//! Loads and reads in operations per disk-second, each compared with the best that the head could
//! do.
//!
//! ```text
//!   a store loaded in order        fillseq
//!   a store loaded at random       filluniquerandom, readrandom, readseq, seekrandom (100 rows)
//!   the bare drive                 the same span written, read in order, and read at random
//! ```
//!
//! The bounds follow from the bare drive and from unavoidable work:
//!
//! | row | bound | because |
//! |---|---|---|
//! | both loads | write rate / (2 x record) | a record is written once to the log and once to a table |
//! | random read | 1 / (random read of 4 KiB in the span) | one seek, half a turn and a block; nothing cached |
//! | sequential read | read rate / record | |
//! | seek + 100 | 1 / (random read + 100 records / read rate) | one seek, then streaming |
//!
//! The span is as long as the user's data and is at the outer edge, where a fresh store is too. A
//! store keeps a few blocks in memory, so it may exceed the bound of random reads by that share.

use crate::benchmark::Task;
use crate::error::BenchError;
use crate::options::{BenchOptions, CompressionType};
use crate::report::{Report, RunReport};
use crate::run::run;
use crate::testbed::bare_drive;
use imbrex_clockwork::{Clock, Prng};
use imbrex_disk::ByteSize;
use imbrex_disk::{BLOCK_LEN_BYTES, Disk, DiskError, Lba, Persist};
use serde::Serialize;
use std::fmt;

const KEY_LEN_BYTES: usize = 16;
const VALUE_LEN_BYTES: usize = 4096;
const ROWS_PER_SEEK: u32 = 100;
/// User data at scale 1: 10 GB.
const DATA_LEN_BYTES: f64 = 1e10;
/// The block cache at scale 1: 64 MiB, a 150th of the data.
const CACHE_LEN_BYTES: f64 = 67_108_864.0;

/// Options of the disk-user measurement.
#[derive(Clone, Debug, clap::Args)]
pub struct DiskUserOptions {
    /// User data as a share of 10 GB
    #[arg(long, default_value_t = 1.0)]
    pub scale: f64,
    /// The drive's profile
    #[arg(long, default_value = "st13125nm007")]
    pub drive: String,
    /// The layout [default: the usual one for such a drive]
    #[arg(long)]
    pub layout: Option<String>,
    /// Bytes that a scan reads of each sorted run after a seek
    #[arg(long = "readahead_size", default_value = "512K")]
    pub readahead_size: ByteSize,
    /// The seed
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// The results of the disk-user measurement.
#[derive(Clone, Debug, Serialize)]
pub struct DiskUserReport {
    /// Bytes of user data.
    pub data_len_bytes: u64,
    /// The bare drive on a span of that length.
    pub bare: BareDrive,
    /// The results, one row per workload.
    pub rows: Vec<DiskUserRow>,
    /// The complete reports of the runs.
    pub runs: Vec<Report>,
}

/// The bare drive on a span at its outer edge.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct BareDrive {
    /// Sequential writes.
    pub write_bytes_per_second: f64,
    /// Sequential reads.
    pub read_bytes_per_second: f64,
    /// Random reads of one block, one at a time.
    pub random_read_ns: f64,
}

/// One workload.
#[derive(Clone, Debug, Serialize)]
pub struct DiskUserRow {
    /// The display name of the workload.
    pub name: &'static str,
    /// The store's rate.
    pub ops_per_disk_second: f64,
    /// The best rate of the head.
    pub bound_ops_per_disk_second: f64,
    /// The store's rate as a share of the best one.
    pub share_ratio: f64,
}

/// Runs the disk user's workloads in virtual time.
///
/// Calls `finished` after each workload.
///
/// # Errors
/// Those of [`run`].
pub fn disk_user(
    options: &DiskUserOptions,
    finished: &mut dyn FnMut(&RunReport),
) -> Result<DiskUserReport, BenchError> {
    let record_len_bytes = KEY_LEN_BYTES + VALUE_LEN_BYTES;
    let num = (DATA_LEN_BYTES * options.scale) as u64 / record_len_bytes as u64;
    if num == 0 {
        return Err(BenchError::Options(format!("--scale {}: no data", options.scale)));
    }
    let mut testbed = BenchOptions::new().testbed;
    // Tables are not compressed, so that 4 KB are 4 KB on the disk. The memory that backs the
    // emulated disk is compressed, so that 10 GB fit.
    testbed.compression_type = Some(CompressionType::None);
    // The cache holds the same share of the data at every scale.
    testbed.cache_size = Some(ByteSize((CACHE_LEN_BYTES * options.scale.min(1.0)) as u64));
    // Reading 16 KiB takes the head only 0.07 ms longer than 4 KiB, and the index then fits for
    // four times as many keys.
    testbed.block_size = Some(ByteSize(16 << 10));
    testbed.drive = Some(options.drive.clone());
    testbed.layout.clone_from(&options.layout);
    let bench = |benchmarks: Vec<Task>| BenchOptions {
        benchmarks,
        num,
        key_size: KEY_LEN_BYTES,
        value_size: VALUE_LEN_BYTES,
        seed: options.seed,
        compression_ratio: 0.05,
        seek_nexts: ROWS_PER_SEEK - 1,
        readahead_size: Some(ByteSize(options.readahead_size.0)),
        testbed: testbed.clone(),
        ..BenchOptions::new()
    };
    let task = |name: &str| name.parse::<Task>().map_err(BenchError::Options);
    let in_order = run(&bench(vec![task("fillseq")?]), finished)?;
    let random = vec![
        task("filluniquerandom")?,
        task("readrandom:20000")?,
        task("readseq")?,
        task("seekrandom:5000")?,
    ];
    let at_random = run(&bench(random), finished)?;
    let data_len_bytes = num * record_len_bytes as u64;
    let bare = measure_bare_drive(&bench(Vec::new()), data_len_bytes)?;

    let record = record_len_bytes as f64;
    let load_bound = bare.write_bytes_per_second / (2.0 * record);
    let random_read_s = bare.random_read_ns / 1e9;
    let rows_s = f64::from(ROWS_PER_SEEK) * record / bare.read_bytes_per_second;
    let row = |name, run: &RunReport, bound: f64| DiskUserRow {
        name,
        ops_per_disk_second: run.drive.ops_per_disk_second,
        bound_ops_per_disk_second: bound,
        share_ratio: run.drive.ops_per_disk_second / bound,
    };
    let r = &at_random.runs;
    let rows = vec![
        row("random load", &r[0], load_bound),
        row("sequential load", &in_order.runs[0], load_bound),
        row("random read", &r[1], 1.0 / random_read_s),
        row("sequential read", &r[2], bare.read_bytes_per_second / record),
        row("seek + 100", &r[3], 1.0 / (random_read_s + rows_s)),
    ];
    Ok(DiskUserReport { data_len_bytes, bare, rows, runs: vec![in_order, at_random] })
}

/// Measures a new drive on a span of `len_bytes`.
fn measure_bare_drive(options: &BenchOptions, len_bytes: u64) -> Result<BareDrive, BenchError> {
    const PIECE_LEN_BYTES: usize = 1 << 20;
    const RANDOM_READ_COUNT: u64 = 10_000;
    let (disk, clock) = bare_drive(&options.testbed)?;
    let context = |source: DiskError| BenchError::Disk { what: "bare drive".into(), source };
    let zones = disk.geometry().zones();
    let start = zones.map_or(0, |z| u64::from(z.conventional_zone_count) * z.zone_len.get());
    let piece_count = len_bytes.div_ceil(PIECE_LEN_BYTES as u64);
    let blocks_per_piece = (PIECE_LEN_BYTES / BLOCK_LEN_BYTES) as u64;
    let mut buf = vec![0; PIECE_LEN_BYTES];
    let at = |block: u64| Lba::new(start + block);
    let time = |work: &mut dyn FnMut() -> Result<(), DiskError>| {
        let start_ns = clock.now_ns();
        work().map_err(context)?;
        Ok::<f64, BenchError>((clock.now_ns() - start_ns) as f64)
    };
    let write_ns = time(&mut || {
        (0..piece_count)
            .try_for_each(|i| disk.write(at(i * blocks_per_piece), &buf, Persist::Cached))?;
        disk.flush()
    })?;
    let read_ns = time(&mut || {
        (0..piece_count).try_for_each(|i| disk.read(at(i * blocks_per_piece), &mut buf))
    })?;
    let mut prng = Prng::new(options.seed).derive("bare drive");
    let random_ns = time(&mut || {
        let block = &mut buf[..BLOCK_LEN_BYTES];
        (0..RANDOM_READ_COUNT)
            .try_for_each(|_| disk.read(at(prng.below(piece_count * blocks_per_piece)), block))
    })?;
    let span = (piece_count * PIECE_LEN_BYTES as u64) as f64;
    Ok(BareDrive {
        write_bytes_per_second: span * 1e9 / write_ns,
        read_bytes_per_second: span * 1e9 / read_ns,
        random_read_ns: random_ns / RANDOM_READ_COUNT as f64,
    })
}

impl DiskUserReport {
    /// The report as JSON, ending in a line feed.
    pub fn to_json(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(self).expect("a report is numbers, strings and lists");
        text.push('\n');
        text
    }
}

/// The table that docs/results/disk_user.md quotes.
impl fmt::Display for DiskUserReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "bare drive, outer {} MB: writes {:.1} MB/s, reads {:.1} MB/s, random 4 KiB read {:.2} ms",
            self.data_len_bytes / 1_000_000,
            self.bare.write_bytes_per_second / 1e6,
            self.bare.read_bytes_per_second / 1e6,
            self.bare.random_read_ns / 1e6
        )?;
        writeln!(f, "| workload | ops per disk-second | best of the head | share |")?;
        writeln!(f, "|---|---|---|---|")?;
        for row in &self.rows {
            writeln!(
                f,
                "| {} | {:.1} | {:.1} | {:.1} % |",
                row.name,
                row.ops_per_disk_second,
                row.bound_ops_per_disk_second,
                row.share_ratio * 100.0
            )?;
        }
        Ok(())
    }
}
