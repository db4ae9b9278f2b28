//! What to run and on what: the flags of `imbrex bench`, under db_bench's names where it has them, and
//! those that `imbrex ycsb` shares ([`TestbedOptions`]).
//!
//! A flag that db_bench has means here what it means there, with two differences that make a run
//! repeatable: `--seed` has a fixed default, and a write benchmark is by default followed by a
//! flush and by waiting for the background work it caused (`--settle=false` for db_bench's way).

use crate::benchmark::Task;
use crate::byte_count::ByteCount;
use crate::profile_choice::DriveShape;
use imbrex_engine::{KEY_LEN_BYTES_MAX, VALUE_LEN_BYTES_MAX};
use std::path::PathBuf;
use std::str::FromStr;

/// More are a mistake: each has a stack of its own.
pub(crate) const THREAD_COUNT_MAX: u32 = 10_000;

/// The options of one `imbrex bench`.
#[derive(Clone, Debug, clap::Args)]
pub struct BenchOptions {
    /// What to run, in order: fillseq, fillrandom, filluniquerandom, fillsync, overwrite,
    /// readrandom, multireadrandom, readmissing, readseq, readreverse, seekrandom,
    /// readwhilewriting, deleteseq, deleterandom, flush, compact, waitforcompaction; with a colon
    /// and a number, so many operations of it
    #[arg(long, value_delimiter = ',', default_value = "fillseq,fillrandom,readrandom,readseq")]
    pub benchmarks: Vec<Task>,

    /// Keys in the store: every key is a number below it
    #[arg(long, default_value_t = 1_000_000)]
    pub num: u64,

    /// Operations of a read benchmark [default: as --num]
    #[arg(long)]
    pub reads: Option<u64>,

    /// Clients at work at once
    #[arg(long, default_value_t = 1)]
    pub threads: u32,

    /// Bytes a value
    #[arg(long = "value_size", alias = "value-size", default_value_t = 100)]
    pub value_size: usize,

    /// Bytes a key, at least 8
    #[arg(long = "key_size", alias = "key-size", default_value_t = 16)]
    pub key_size: usize,

    /// The seed: in virtual time the same seed gives the same figures
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// Writes put into one batch; lookups of one multireadrandom
    #[arg(long = "batch_size", alias = "batch-size", default_value_t = 1)]
    pub batch_size: usize,

    /// How far values shrink under a compressor: 0.5 means to half
    #[arg(long = "compression_ratio", alias = "compression-ratio", default_value_t = 0.5)]
    pub compression_ratio: f64,

    /// Sync the log at every write
    #[arg(long)]
    pub sync: bool,

    /// Stop each benchmark after so many seconds of its clock
    #[arg(long)]
    pub duration: Option<u64>,

    /// Steps after each seek of seekrandom
    #[arg(long = "seek_nexts", alias = "seek-nexts", default_value_t = 0)]
    pub seek_nexts: u32,

    /// Bytes that an iterator reads of each sorted run after a seek, and up to eight times as many
    /// later [default: one block, then more and more]
    #[arg(long = "readahead_size", alias = "readahead-size")]
    pub readahead_size: Option<ByteCount>,

    /// Keep what the store holds: a fill benchmark otherwise starts with an empty one. Of a drive that was
    /// there before, that is the keyspace imbrex-bench alone: no other is written to
    #[arg(long = "use_existing_db", alias = "use-existing-db")]
    pub use_existing_db: bool,

    /// After a write benchmark flush, and wait for the background work it caused
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub settle: bool,

    /// Whose time counts: virtual (a modelled disk, deterministic) or threads (this machine)
    #[arg(long, default_value = "virtual")]
    pub mode: Mode,

    /// What it runs on
    #[command(flatten)]
    pub testbed: TestbedOptions,
}

/// What a benchmark runs on: a drive, a layout, and the store's own options.
#[derive(Clone, Debug, clap::Args)]
pub struct TestbedOptions {
    /// Compression of tables: none, lz4 or zstd [default: the layout's]
    #[arg(long = "compression_type", alias = "compression-type")]
    pub compression_type: Option<CompressionType>,

    /// Bytes of the block cache (K, M, G understood) [default: the layout's]
    #[arg(long = "cache_size", alias = "cache-size")]
    pub cache_size: Option<ByteCount>,

    /// Bytes of one memtable [default: the layout's]
    #[arg(long = "write_buffer_size", alias = "write-buffer-size")]
    pub write_buffer_size: Option<ByteCount>,

    /// Bits of filter a key; 0 for none [default: the layout's]
    #[arg(long = "bloom_bits", alias = "bloom-bits")]
    pub bloom_bits: Option<u32>,

    /// Bytes of a data block before compression [default: the layout's]
    #[arg(long = "block_size", alias = "block-size")]
    pub block_size: Option<ByteCount>,

    /// Bytes of a table [default: the layout's]
    #[arg(long = "target_file_size_base", alias = "target-file-size-base")]
    pub target_file_size_base: Option<ByteCount>,

    /// Layouts that offload writes: how long each waits while many files lie on flash [default: not at all]
    #[arg(long = "offload_delay_us", alias = "offload-delay-us", value_name = "MICROSECONDS")]
    pub offload_delay_us: Option<u64>,

    /// How many may lie there before writes wait so [default: 10]
    #[arg(long = "offloaded_files", alias = "offloaded-files", value_name = "COUNT")]
    #[arg(requires = "offload_delay_us")]
    pub offloaded_files: Option<usize>,

    /// The drive: a profile's name or TOML file, emulated in memory, or the path of an image made
    /// by `imbrex drive create` [default: hc620, or what the layout is for]
    #[arg(long)]
    pub drive: Option<String>,

    /// How it differs from the real one
    #[command(flatten)]
    pub shape: DriveShape,

    /// The layout; `imbrex layouts` lists them [default: the usual one of such a drive, or what the
    /// image holds]
    #[arg(long, value_name = "NAME")]
    pub layout: Option<String>,

    /// Whether the emulated disk moves: without mechanics no time is modelled
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub mechanics: bool,

    /// Keep the emulated drive in this new file instead of in memory
    #[arg(long)]
    pub image: Option<PathBuf>,

    /// The flash drive beside it, where its layout has one: the image that belongs to --drive, or a new
    /// file beside --image
    #[arg(long, value_name = "FILE")]
    pub flash: Option<PathBuf>,
}

impl BenchOptions {
    /// The options with every flag at its default.
    pub fn new() -> BenchOptions {
        #[derive(Debug, clap::Parser)]
        struct Only {
            #[command(flatten)]
            options: BenchOptions,
        }
        <Only as clap::Parser>::parse_from(["bench"]).options
    }

    /// Bytes of user data when every key has a value.
    pub fn data_len_bytes(&self) -> u64 {
        self.num.saturating_mul((self.key_size + self.value_size) as u64)
    }

    /// What makes these options meaningless, in words.
    pub(crate) fn fault(&self) -> Option<String> {
        if self.num == 0 {
            return Some("--num is 0: there is nothing to do".into());
        }
        if self.threads == 0 || self.batch_size == 0 {
            return Some("--threads and --batch_size are at least 1".into());
        }
        if THREAD_COUNT_MAX < self.threads {
            return Some(format!(
                "--threads is {}; at most {THREAD_COUNT_MAX} are run",
                self.threads
            ));
        }
        if self.key_size < 8 {
            return Some(format!("--key_size is {}; a key is at least 8 bytes", self.key_size));
        }
        for (flag, got, max) in [
            ("key_size", self.key_size, KEY_LEN_BYTES_MAX),
            ("value_size", self.value_size, VALUE_LEN_BYTES_MAX),
        ] {
            if max < got {
                return Some(format!("--{flag} is {got}; it is at most {max} bytes"));
            }
        }
        if !(0.0..=1.0).contains(&self.compression_ratio) {
            return Some(format!(
                "--compression_ratio is {}; it lies between 0 and 1",
                self.compression_ratio
            ));
        }
        None
    }
}

impl Default for BenchOptions {
    fn default() -> BenchOptions {
        BenchOptions::new()
    }
}

/// Whose time counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// One thread, a modelled disk, time that only its work moves: deterministic.
    Virtual,
    /// Threads and the machine's own clock; the modelled disk only adds up its busy time.
    Threads,
}

impl FromStr for Mode {
    type Err = String;
    fn from_str(text: &str) -> Result<Mode, String> {
        match text {
            "virtual" => Ok(Mode::Virtual),
            "threads" => Ok(Mode::Threads),
            _ => Err(format!("{text:?} is no mode; there are virtual and threads")),
        }
    }
}

/// Compression of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CompressionType {
    /// Blocks as they are.
    None,
    /// LZ4.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl FromStr for CompressionType {
    type Err = String;
    fn from_str(text: &str) -> Result<CompressionType, String> {
        match text {
            "none" => Ok(CompressionType::None),
            "lz4" => Ok(CompressionType::Lz4),
            "zstd" => Ok(CompressionType::Zstd),
            _ => Err(format!("{text:?} is no compression here; there are none, lz4 and zstd")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senseless_options_are_named() {
        let check = |change: fn(&mut BenchOptions), want: &str| {
            let mut options = BenchOptions::new();
            change(&mut options);
            let fault = options.fault().unwrap_or_default();
            assert!(fault.contains(want), "{fault:?} names {want:?}");
        };
        check(|_| (), "");
        check(|o| o.num = 0, "--num");
        check(|o| o.threads = 0, "--threads");
        check(|o| o.threads = 10_001, "--threads");
        check(|o| o.key_size = 7, "--key_size");
        check(|o| o.compression_ratio = f64::NAN, "--compression_ratio");
    }
}
