//! The flags of `imbrex bench`, under db_bench's names if it has them, and those that `imbrex ycsb` shares
//! ([`TestbedOptions`]).
//!
//! A flag of db_bench has the same meaning here, with two differences that make a run repeatable. `--seed` has
//! a fixed default. A write benchmark is followed by a flush and by a wait for its background work, unless
//! `--settle=false` asks for db_bench's behaviour.

use crate::benchmark::Task;
use crate::profile_choice::DriveShape;
use imbrex_disk::ByteSize;
use imbrex_engine::{KEY_LEN_BYTES_MAX, VALUE_LEN_BYTES_MAX};
use imbrex_workload::keys::Skew;
use std::path::PathBuf;
use std::str::FromStr;

/// The most client threads; each needs its own stack, so more are probably a mistake.
pub(crate) const THREAD_COUNT_MAX: u32 = 10_000;

/// The options of one `imbrex bench`.
#[derive(Clone, Debug, clap::Args)]
pub struct BenchOptions {
    /// Benchmarks to run, in order: fillseq, fillrandom, filluniquerandom, fillsync, overwrite,
    /// readrandom, multireadrandom, readmissing, readseq, readreverse, seekrandom,
    /// readwhilewriting, deleteseq, deleterandom, flush, compact, waitforcompaction; readrandom:1000
    /// runs 1000 operations of it
    #[arg(long, value_delimiter = ',', default_value = "fillseq,fillrandom,readrandom,readseq")]
    pub benchmarks: Vec<Task>,

    /// Number of keys; each key is a number below it
    #[arg(long, default_value_t = 1_000_000)]
    pub num: u64,

    /// Operations of a read benchmark [default: the value of --num]
    #[arg(long)]
    pub reads: Option<u64>,

    /// Number of concurrent clients
    #[arg(long, default_value_t = 1)]
    pub threads: u32,

    /// Length of a value, such as 100 or 4KiB
    #[arg(long = "value_size", alias = "value-size", default_value = "100", value_parser = len_bytes::<usize>)]
    pub value_size: usize,

    /// Length of a key, at least 8 bytes
    #[arg(long = "key_size", alias = "key-size", default_value = "16", value_parser = len_bytes::<usize>)]
    pub key_size: usize,

    /// Seed: in virtual time the same seed gives the same figures
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// Keys that overwrite takes more often than others: uniform (none), zipfian (a few all over the
    /// key range) or hot-range (the first tenth takes nine tenths)
    #[arg(long, default_value_t = Skew::Uniform, value_name = "SKEW")]
    pub overwrites: Skew,

    /// Writes per batch; lookups per operation of multireadrandom
    #[arg(long = "batch_size", alias = "batch-size", default_value_t = 1)]
    pub batch_size: usize,

    /// Compressibility of values: 0.5 compresses to half the length
    #[arg(long = "compression_ratio", alias = "compression-ratio", default_value_t = 0.5)]
    pub compression_ratio: f64,

    /// Sync the log after every write
    #[arg(long)]
    pub sync: bool,

    /// Stop each benchmark after this many seconds of its clock
    #[arg(long)]
    pub duration: Option<u64>,

    /// Steps after each seek of seekrandom
    #[arg(long = "seek_nexts", alias = "seek-nexts", default_value_t = 0)]
    pub seek_nexts: u32,

    /// Bytes that an iterator reads from each sorted run after a seek, and up to eight times as many
    /// later [default: one block, then increasing]
    #[arg(long = "readahead_size", alias = "readahead-size")]
    pub readahead_size: Option<ByteSize>,

    /// Keep the existing keys; otherwise a fill benchmark starts with an empty store. On an existing drive
    /// only the keyspace imbrex-bench is written
    #[arg(long = "use_existing_db", alias = "use-existing-db")]
    pub use_existing_db: bool,

    /// After a write benchmark, flush and wait for its background work
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub settle: bool,

    /// Clock: virtual (a modelled disk, deterministic) or threads (this machine's time)
    #[arg(long, default_value = "virtual")]
    pub mode: Mode,

    /// The drive, the layout and the store
    #[command(flatten)]
    pub testbed: TestbedOptions,
}

/// The subject of a benchmark: a drive, a layout, and the store's own options.
#[derive(Clone, Debug, clap::Args)]
pub struct TestbedOptions {
    /// Compression of tables: none, lz4 or zstd [default: the layout's]
    #[arg(long = "compression_type", alias = "compression-type")]
    pub compression_type: Option<CompressionType>,

    /// Size of the block cache, such as 64M [default: the layout's]
    #[arg(long = "cache_size", alias = "cache-size")]
    pub cache_size: Option<ByteSize>,

    /// Size of a memtable, such as 64M [default: the layout's]
    #[arg(long = "write_buffer_size", alias = "write-buffer-size")]
    pub write_buffer_size: Option<ByteSize>,

    /// Values from this length on are written once, apart from their keys, such as 64KiB [default: none]
    #[arg(long = "values_apart", alias = "values-apart")]
    pub values_apart: Option<ByteSize>,

    /// Bits of the Bloom filter per key; 0 for no filter [default: the layout's]
    #[arg(long = "bloom_bits", alias = "bloom-bits")]
    pub bloom_bits: Option<u32>,

    /// Size of a data block before compression, such as 4K [default: the layout's]
    #[arg(long = "block_size", alias = "block-size")]
    pub block_size: Option<ByteSize>,

    /// Size of a table, such as 64M [default: the layout's]
    #[arg(long = "target_file_size_base", alias = "target-file-size-base")]
    pub target_file_size_base: Option<ByteSize>,

    /// Layouts that offload writes to flash: delay of each write, in microseconds, while too many files are
    /// on flash [default: no delay]
    #[arg(long = "offload_delay_us", alias = "offload-delay-us", value_name = "MICROSECONDS")]
    pub offload_delay_us: Option<u64>,

    /// Number of files on flash above which writes are delayed [default: 10]
    #[arg(long = "offloaded_files", alias = "offloaded-files", value_name = "COUNT")]
    #[arg(requires = "offload_delay_us")]
    pub offloaded_files: Option<usize>,

    /// The drive: a profile's name or TOML file, emulated in memory, or the path of an image from
    /// `imbrex drive create` [default: hc620, or the profile that suits the layout]
    #[arg(long)]
    pub drive: Option<String>,

    /// The differences from the real drive
    #[command(flatten)]
    pub shape: DriveShape,

    /// The layout; `imbrex layouts` lists them. `imbrex bench` takes several, separated by commas, and
    /// measures one after the other [default: the usual one for such a drive, or the one that the image
    /// records]
    #[arg(long, value_name = "NAME")]
    pub layout: Option<String>,

    /// Model the mechanics of the drive; false models no time
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub mechanics: bool,

    /// Create the emulated drive in this new file instead of in memory
    #[arg(long)]
    pub image: Option<PathBuf>,

    /// The flash drive, if the layout has one: the image that belongs to --drive, or a new file that
    /// belongs to --image
    #[arg(long, value_name = "FILE")]
    pub flash: Option<PathBuf>,

    /// Capacity of a new flash drive, such as 64GiB [default: the usual share of the drive]
    #[arg(long = "flash-size", alias = "flash_size", value_name = "SIZE")]
    pub flash_size: Option<ByteSize>,
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

    /// Bytes of user data if every key has a value.
    pub fn data_len_bytes(&self) -> u64 {
        self.num.saturating_mul((self.key_size + self.value_size) as u64)
    }

    /// Why these options make no sense, if they do not.
    pub(crate) fn fault(&self) -> Option<String> {
        if self.num == 0 {
            return Some("--num is 0, so there is nothing to do".into());
        }
        if self.threads == 0 || self.batch_size == 0 {
            return Some("--threads and --batch_size must be at least 1".into());
        }
        if THREAD_COUNT_MAX < self.threads {
            return Some(format!(
                "--threads is {}; at most {THREAD_COUNT_MAX} are allowed",
                self.threads
            ));
        }
        if self.key_size < 8 {
            return Some(format!("--key_size is {}; it must be at least 8 bytes", self.key_size));
        }
        for (flag, got, max) in [
            ("key_size", self.key_size, KEY_LEN_BYTES_MAX),
            ("value_size", self.value_size, VALUE_LEN_BYTES_MAX),
        ] {
            if max < got {
                return Some(format!("--{flag} is {got}; it must be at most {max} bytes"));
            }
        }
        if !(0.0..=1.0).contains(&self.compression_ratio) {
            return Some(format!(
                "--compression_ratio is {}; it must be between 0 and 1",
                self.compression_ratio
            ));
        }
        None
    }
}

/// A length in memory, written as a size.
pub(crate) fn len_bytes<N: TryFrom<u64>>(text: &str) -> Result<N, String> {
    let ByteSize(bytes) = text.parse()?;
    N::try_from(bytes).map_err(|_| format!("{text:?} is more than this machine can address"))
}

impl Default for BenchOptions {
    fn default() -> BenchOptions {
        BenchOptions::new()
    }
}

/// The clock of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// One thread and a modelled disk, whose work alone advances the time: deterministic.
    Virtual,
    /// Threads and the machine's clock; the modelled disk only adds up its busy time.
    Threads,
}

impl FromStr for Mode {
    type Err = String;
    fn from_str(text: &str) -> Result<Mode, String> {
        match text {
            "virtual" => Ok(Mode::Virtual),
            "threads" => Ok(Mode::Threads),
            _ => Err(format!("{text:?} is not a mode; the modes are virtual and threads")),
        }
    }
}

/// Compression of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CompressionType {
    /// No compression.
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
            _ => Err(format!("{text:?} is not a supported compression; use none, lz4 or zstd")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_names_the_senseless_option() {
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
