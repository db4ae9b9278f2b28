//! The stand: a drive, the file layer, a store on it, and the time they live in.
//!
//! ```text
//!   Db -> Files (placement) -> SimDisk (rule x mechanics x memory or a sparse file)
//!    \________ Runtime: virtual world, or threads
//! ```

use crate::error::BenchError;
use crate::host;
use crate::options::{BenchOptions, CompressionType, Mode};
use crate::report::{DriveFigures, EngineFigures, HostFigures, SpaceFigures};
use imbrex::{CompactionLine, Compression, Db, Keyspace, KeyspaceOptions, Metrics, Options};
use imbrex_clockwork::{Clock, Order, Runtime, VirtualWorld};
use imbrex_disk::{Counters, Disk, Geometry, Rule};
use imbrex_disk_sim::{OpenOptions, Profile, ProfileError, SimDisk};
use imbrex_files::{FileLayer, Files, FormatOptions, PlacementKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Threads for background work in threads mode: one flush and one compaction side by side.
const WORKER_COUNT: usize = 2;

/// The keyspace that benchmarks use on a drive of the user's, whose other data stay untouched.
const GUEST_KEYSPACE: &str = "bench";

/// A drive with a store on it.
pub(crate) struct Stand {
    runtime: Runtime,
    world: Option<Arc<VirtualWorld>>,
    disk: Arc<dyn Disk>,
    files: Arc<dyn Files>,
    db: Db,
    keyspace: Keyspace,
    layout: String,
    origin: Origin,
}

/// Where the drive comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Origin {
    /// Made for this run, in memory.
    Memory,
    /// Made for this run, in a file that stays.
    NewImage(PathBuf),
    /// Was there before.
    UsersImage,
}

/// All counters at one moment.
pub(crate) struct Reading {
    pub(crate) now_ns: u64,
    metrics: Metrics,
    counters: Counters,
    pub(crate) space: SpaceFigures,
    cpu_ns: u64,
    anonymous_bytes: Option<u64>,
}

impl Stand {
    /// A fresh drive with an empty store, or what `options.drive` holds if it is an image.
    pub(crate) fn new(options: &BenchOptions) -> Result<Stand, BenchError> {
        let (runtime, world) = match options.mode {
            Mode::Virtual => {
                let (runtime, world) = Runtime::virtual_time(Order::SmallestTime);
                (runtime, Some(world))
            }
            Mode::Threads => (Runtime::threads(WORKER_COUNT), None),
        };
        let (origin, disk) = open_drive(options, &runtime)?;
        let disk: Arc<dyn Disk> = Arc::new(disk);
        let layer = match origin {
            Origin::UsersImage => FileLayer::open(Arc::clone(&disk), &runtime),
            Origin::Memory | Origin::NewImage(_) => {
                let placement = placement(options, disk.geometry())?;
                FileLayer::format(Arc::clone(&disk), &FormatOptions::new(placement), &runtime)
            }
        }
        .map_err(|source| BenchError::Files { what: "opening the file layer".into(), source })?;
        let layout = layer.placement_name().to_string();
        runtime.scheduler.spawn(layer.clean_job());
        let files: Arc<dyn Files> = Arc::new(layer);
        let failed = |source| BenchError::Engine { what: "opening the store".into(), source };
        let store = store_options(options);
        let db = Db::open(Arc::clone(&files), runtime.clone(), store.clone()).map_err(failed)?;
        let keyspace = match origin {
            Origin::Memory | Origin::NewImage(_) => db.default_keyspace(),
            Origin::UsersImage if db.keyspace_names().iter().any(|n| n == GUEST_KEYSPACE) => {
                db.keyspace(GUEST_KEYSPACE).map_err(failed)?
            }
            Origin::UsersImage => {
                db.create_keyspace(GUEST_KEYSPACE, store.keyspace).map_err(failed)?
            }
        };
        Ok(Stand { runtime, world, disk, files, db, keyspace, layout, origin })
    }

    /// A stand like this one whose store holds nothing of a benchmark.
    pub(crate) fn emptied(mut self, options: &BenchOptions) -> Result<Stand, BenchError> {
        if self.origin == Origin::UsersImage {
            let failed = |source| BenchError::Engine { what: "emptying the store".into(), source };
            self.db.drop_keyspace(GUEST_KEYSPACE).map_err(failed)?;
            self.keyspace = self
                .db
                .create_keyspace(GUEST_KEYSPACE, store_options(options).keyspace)
                .map_err(failed)?;
            return Ok(self);
        }
        let origin = self.origin.clone();
        self.close()?;
        if let Origin::NewImage(path) = origin {
            std::fs::remove_file(&path).map_err(|source| BenchError::Drive {
                drive: path.display().to_string(),
                source: source.into(),
            })?;
        }
        Stand::new(options)
    }

    /// Closes the store.
    pub(crate) fn close(self) -> Result<(), BenchError> {
        drop(self.keyspace);
        let closed = self
            .db
            .close()
            .map_err(|source| BenchError::Engine { what: "closing the store".into(), source });
        if let Some(world) = &self.world {
            // Jobs hold the runtime that holds them; without this the memory would stay.
            world.drop_jobs();
        }
        closed
    }

    pub(crate) fn db(&self) -> &Db {
        &self.db
    }

    pub(crate) fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// Whose time counts.
    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.runtime.clock
    }

    /// The world of virtual mode.
    pub(crate) fn world(&self) -> Option<&VirtualWorld> {
        self.world.as_deref()
    }

    pub(crate) fn layout(&self) -> &str {
        &self.layout
    }

    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.disk.geometry().len().bytes()
    }

    /// Reads all counters.
    pub(crate) fn reading(&self) -> Reading {
        let space = self.files.space();
        Reading {
            now_ns: self.clock().now_ns(),
            metrics: self.db.metrics(),
            counters: self.disk.counters(),
            space: SpaceFigures {
                capacity_bytes: space.capacity_bytes,
                occupied_bytes: space.live_bytes + space.dead_bytes,
                valid_bytes: space.live_bytes,
                utilisation_ratio: space.utilisation_ratio(),
            },
            cpu_ns: host::cpu_ns(),
            anonymous_bytes: host::anonymous_bytes(),
        }
    }
}

/// The profile that `options` name, cut to the capacity asked for.
fn profile(options: &BenchOptions) -> Result<Profile, BenchError> {
    let failed = |source: ProfileError| drive_error(&options.drive, source);
    let profile = Profile::by_name(&options.drive).map_err(failed)?;
    match options.capacity {
        Some(capacity) => profile.scaled(capacity.0).map_err(failed),
        None => Ok(profile),
    }
}

fn open_drive(options: &BenchOptions, runtime: &Runtime) -> Result<(Origin, SimDisk), BenchError> {
    let path = Path::new(&options.drive);
    if path.exists() {
        let open =
            OpenOptions::default().clock(Arc::clone(&runtime.clock)).mechanics(options.mechanics);
        let disk = SimDisk::open_image(path, open).map_err(|e| drive_error(&options.drive, e))?;
        return Ok((Origin::UsersImage, disk));
    }
    let profile = profile(options)?;
    let builder = SimDisk::builder(profile.geometry())
        .profile(profile)
        .mechanics(options.mechanics)
        .clock(Arc::clone(&runtime.clock));
    match &options.image {
        None => {
            let disk = builder.memory().map_err(|e| drive_error(&options.drive, e))?;
            Ok((Origin::Memory, disk))
        }
        Some(path) => {
            let disk = builder
                .create_image(path, "bench", options.seed)
                .map_err(|e| drive_error(&options.drive, e))?;
            Ok((Origin::NewImage(path.clone()), disk))
        }
    }
}

/// A drive in memory with its mechanics and a clock of its own, with nothing on it.
pub(crate) fn bare_drive(
    options: &BenchOptions,
) -> Result<(SimDisk, Arc<VirtualWorld>), BenchError> {
    let (runtime, world) = Runtime::virtual_time(Order::SmallestTime);
    let profile = profile(options)?;
    let disk = SimDisk::builder(profile.geometry())
        .profile(profile)
        .clock(runtime.clock)
        .memory()
        .map_err(|e| drive_error(&options.drive, e))?;
    Ok((disk, world))
}

fn drive_error(drive: &str, source: impl std::error::Error + Send + Sync + 'static) -> BenchError {
    BenchError::Drive { drive: drive.to_string(), source: Box::new(source) }
}

/// The placement that `options` name, or one that makes the best of the drive.
fn placement(options: &BenchOptions, geometry: &Geometry) -> Result<PlacementKind, BenchError> {
    let by_default = match geometry.rule() {
        Rule::AtPointer(_) => "zone-per-level",
        _ => "first-fit",
    };
    let name = options.layout.as_deref().unwrap_or(by_default);
    PlacementKind::by_name(name).ok_or_else(|| {
        let known: Vec<&str> = PlacementKind::names().collect();
        BenchError::Options(format!("--layout {name}: there are {}", known.join(", ")))
    })
}

fn store_options(options: &BenchOptions) -> Options {
    let mut keyspace = KeyspaceOptions {
        compression: match options.compression_type {
            CompressionType::None => Compression::None,
            CompressionType::Lz4 => Compression::Lz4,
            CompressionType::Zstd => Compression::Zstd,
        },
        filter_bits_per_key: options.bloom_bits,
        ..KeyspaceOptions::default()
    };
    if let Some(bytes) = options.block_size {
        keyspace.block_len_bytes = u32::try_from(bytes.0).unwrap_or(u32::MAX);
    }
    if let Some(bytes) = options.target_file_size_base {
        keyspace.table_len_bytes = bytes.0;
    }
    Options {
        memtable_len_bytes: options.write_buffer_size.0,
        block_cache_len_bytes: options.cache_size.0,
        keyspace,
        ..Options::default()
    }
}

impl Reading {
    /// What the engine did since `before`, and what it holds now.
    pub(crate) fn engine_since(&self, before: &Reading) -> EngineFigures {
        let (now, then) = (&self.metrics, &before.metrics);
        let stalled_ns = |m: &Metrics| m.stall_stop.total_ns + m.stall_slowdown.total_ns;
        EngineFigures {
            log_bytes: now.log_bytes - then.log_bytes,
            flush_bytes: now.flush_out_bytes - then.flush_out_bytes,
            compaction_in_bytes: now.compaction_in_bytes - then.compaction_in_bytes,
            compaction_out_bytes: now.compaction_out_bytes - then.compaction_out_bytes,
            flush_count: now.flush_count - then.flush_count,
            compaction_count: now.compaction_count - then.compaction_count,
            stall_ns: stalled_ns(now) - stalled_ns(then),
            write_amp_ratio: 0.0,
            memtable_bytes: now.memtable_len_bytes,
            block_cache_bytes: now.cache_len_bytes,
            table_memory_bytes: now.table_memory_len_bytes,
        }
    }

    /// The compactions that began since `before`.
    pub(crate) fn compactions_since(&self, before: &Reading) -> Vec<CompactionLine> {
        let lines = self.metrics.compactions.iter();
        lines.filter(|line| line.start_ns >= before.now_ns).cloned().collect()
    }

    /// What the disk did since `before`.
    pub(crate) fn drive_since(&self, before: &Reading) -> DriveFigures {
        let c = self.counters - before.counters;
        DriveFigures {
            reads: c.reads,
            writes: c.writes,
            flushes: c.flushes,
            seeks: c.seeks,
            read_bytes: c.read_bytes,
            written_bytes: c.written_bytes,
            added_read_bytes: c.added_read_bytes,
            added_written_bytes: c.added_written_bytes,
            busy_ns: c.busy_ns,
            ..DriveFigures::default()
        }
    }

    /// What this machine spent since `before`.
    pub(crate) fn host_since(&self, before: &Reading) -> HostFigures {
        HostFigures {
            cpu_ns: self.cpu_ns - before.cpu_ns,
            ops_per_cpu_second: 0.0,
            anonymous_bytes: self.anonymous_bytes,
        }
    }
}
