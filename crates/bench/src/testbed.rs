//! The testbed: a drive, the file layer, a store on it, and their clock.
//!
//! ```text
//!   Layout: Db -> Files (placement) -> [translation] -> SimDisk (memory or a sparse file)
//!            \________ Runtime: virtual world, or threads
//! ```

mod opened_drives;

pub(crate) use opened_drives::bare_drive;

use crate::error::BenchError;
use crate::host;
use crate::options::{BenchOptions, CompressionType, Mode, TestbedOptions};
use crate::profile_choice::layout_for;
use crate::report::{DriveFigures, EngineFigures, HostFigures, SpaceFigures};
use imbrex::stack::{Layout, LayoutError, Stack, mount};
use imbrex_clockwork::{Clock, Order, Runtime, VirtualWorld};
use imbrex_disk::ByteSize;
use imbrex_disk::Counters;
use imbrex_engine::inspect::CompactionLine;
use imbrex_engine::{Compression, Db, Keyspace, Metrics, Options};
use imbrex_files::Files;
use imbrex_watch::Subject;
use opened_drives::{Origin, TestbedDrives};
use std::sync::Arc;

/// Threads for background work in threads mode: one flush and one compaction in parallel.
const WORKER_COUNT: usize = 2;

/// The keyspace of benchmarks on a user's drive, whose other data stay untouched. It is emptied
/// without asking, so it has a name that a user would not choose. The help of `--use_existing_db`
/// names it.
const GUEST_KEYSPACE: &str = "imbrex-bench";

/// How to set up a testbed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TestbedPlan<'a> {
    pub(crate) options: &'a TestbedOptions,
    pub(crate) mode: Mode,
    pub(crate) seed: u64,
    pub(crate) keyspace: KeyspaceChoice<'a>,
}

/// The keyspace that is used.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyspaceChoice<'a> {
    /// On a drive of our own the default keyspace; on a user's drive [`GUEST_KEYSPACE`].
    Bench,
    /// The keyspace of that name, created if needed.
    Table(&'a str),
    /// The keyspace of that name. A user's drive without it is refused.
    LoadedTable(&'a str),
}

impl BenchOptions {
    pub(crate) fn plan(&self) -> TestbedPlan<'_> {
        let (options, mode, seed) = (&self.testbed, self.mode, self.seed);
        TestbedPlan { options, mode, seed, keyspace: KeyspaceChoice::Bench }
    }
}

/// A drive with a store on it.
pub(crate) struct Testbed {
    runtime: Runtime,
    world: Option<Arc<VirtualWorld>>,
    stack: Stack,
    keyspace: Keyspace,
    drive_name: String,
    origin: Origin,
}

/// All counters at one moment.
pub(crate) struct Reading {
    pub(crate) now_ns: u64,
    metrics: Metrics,
    counters: Counters,
    flash_written_bytes: u64,
    pub(crate) space: SpaceFigures,
    cpu_ns: u64,
    anonymous_bytes: Option<u64>,
}

impl Testbed {
    /// A fresh drive with an empty store, or the content of `options.drive` if that is an image.
    pub(crate) fn new(plan: TestbedPlan<'_>) -> Result<Testbed, BenchError> {
        let options = plan.options;
        let (runtime, world) = match plan.mode {
            Mode::Virtual => {
                let (runtime, world) = Runtime::virtual_time(Order::SmallestTime);
                (runtime, Some(world))
            }
            Mode::Threads => (Runtime::threads(WORKER_COUNT), None),
        };
        let layout = options.layout.as_deref().map(Layout::by_name).transpose();
        let layout = layout.map_err(BenchError::layout)?;
        let TestbedDrives { name: drive_name, origin, geometry, drives } =
            TestbedDrives::new(plan, layout, &runtime)?;
        let stack = if origin == Origin::UsersImage {
            let mounted = mount(drives, &runtime).map_err(BenchError::layout)?;
            if let Some(asked) = layout.filter(|asked| *asked != mounted.layout) {
                let (recorded, asked) = (mounted.layout.name().to_owned(), asked.name());
                return Err(BenchError::layout(LayoutError::Other { recorded, asked }));
            }
            let usual = mounted.layout.recipe(&geometry).options;
            mounted.open_db(&runtime, store_options(options, usual)?)
        } else {
            let layout = layout_for(&geometry, layout)?;
            let mut recipe = layout.recipe(&geometry);
            recipe.options = store_options(options, recipe.options)?;
            // Figures do not depend on this seed. But drives in files persist, and it identifies
            // the flash drive of a pair.
            layout.format_with(drives, &runtime, &recipe, plan.seed)
        }
        .map_err(BenchError::layout)?;
        let keyspace = keyspace(&stack, plan, &origin)?;
        Ok(Testbed { runtime, world, stack, keyspace, drive_name, origin })
    }

    /// A testbed like this one, whose store holds no data of a benchmark.
    pub(crate) fn emptied(mut self, plan: TestbedPlan<'_>) -> Result<Testbed, BenchError> {
        if self.origin == Origin::UsersImage {
            let failed = |source| BenchError::Engine { what: "emptying the store".into(), source };
            self.stack.db.drop_keyspace(GUEST_KEYSPACE).map_err(failed)?;
            self.keyspace = keyspace(&self.stack, plan, &self.origin)?;
            return Ok(self);
        }
        let origin = self.origin.clone();
        self.close()?;
        origin.remove()?;
        Testbed::new(plan)
    }

    /// Closes the store.
    pub(crate) fn close(self) -> Result<(), BenchError> {
        drop(self.keyspace);
        let closed = self.stack.close().map_err(BenchError::layout);
        if let Some(world) = &self.world {
            // Jobs hold the runtime, which holds the jobs. Without this, the memory would leak.
            world.drop_jobs();
        }
        closed
    }

    /// Whether the drive existed before, with its data.
    pub(crate) fn was_there(&self) -> bool {
        self.origin == Origin::UsersImage
    }

    pub(crate) fn db(&self) -> &Db {
        &self.stack.db
    }

    pub(crate) fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// The store, for those who watch it.
    pub(crate) fn subject(&self) -> Subject<'_> {
        Subject::of(&self.stack)
    }

    /// The clock of the run.
    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.runtime.clock
    }

    /// The clock, shared.
    pub(crate) fn shared_clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.runtime.clock)
    }

    /// The world of virtual mode.
    pub(crate) fn world(&self) -> Option<&VirtualWorld> {
        self.world.as_deref()
    }

    pub(crate) fn layout(&self) -> Layout {
        self.stack.layout
    }

    pub(crate) fn drive_name(&self) -> &str {
        &self.drive_name
    }

    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.stack.drive.geometry().len().bytes()
    }

    /// Reads all counters.
    pub(crate) fn reading(&self) -> Reading {
        let space = self.stack.files.space();
        let flash = self.stack.tiers.as_ref().and_then(|tiers| tiers.flash());
        Reading {
            now_ns: self.clock().now_ns(),
            metrics: self.stack.db.metrics(),
            counters: self.stack.counters(),
            flash_written_bytes: flash.map_or(0, |flash| flash.disk().counters().written_bytes),
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

/// Opens or creates the keyspace of the plan.
fn keyspace(stack: &Stack, plan: TestbedPlan<'_>, origin: &Origin) -> Result<Keyspace, BenchError> {
    let failed = |source| BenchError::Engine { what: "opening the store".into(), source };
    let name = match plan.keyspace {
        KeyspaceChoice::Bench if *origin != Origin::UsersImage => {
            return Ok(stack.db.default_keyspace());
        }
        KeyspaceChoice::Bench => GUEST_KEYSPACE,
        KeyspaceChoice::Table(name) | KeyspaceChoice::LoadedTable(name) => name,
    };
    let is_there = stack.db.keyspace_names().iter().any(|known| known == name);
    if is_there {
        return stack.db.keyspace(name).map_err(failed);
    }
    if matches!(plan.keyspace, KeyspaceChoice::LoadedTable(_)) && *origin == Origin::UsersImage {
        let what = format!("the drive has no table {name:?}; load it first");
        return Err(BenchError::Options(what));
    }
    let usual = stack.layout.recipe(stack.drive.geometry()).options;
    let options = store_options(plan.options, usual)?;
    stack.db.create_keyspace(name, options.keyspace).map_err(failed)
}

/// The store's options: the flags, and the layout's own values for the rest.
fn store_options(options: &TestbedOptions, usual: Options) -> Result<Options, BenchError> {
    let mut store = usual;
    if let Some(us) = options.offload_delay_us {
        if !store.offloads {
            let what =
                "--offload_delay_us is for layouts that offload writes, as smrdb-offload does";
            return Err(BenchError::Options(what.to_owned()));
        }
        store.offload_delay_ns = us.saturating_mul(1000);
        let file_count_max = &mut store.offloaded_file_count_max;
        *file_count_max = options.offloaded_files.unwrap_or(*file_count_max);
    }
    let set = |to: &mut u64, from: Option<ByteSize>| *to = from.map_or(*to, |bytes| bytes.0);
    set(&mut store.memtable_len_bytes, options.write_buffer_size);
    set(&mut store.block_cache_len_bytes, options.cache_size);
    let keyspace = &mut store.keyspace;
    if let Some(bytes) = options.values_apart {
        keyspace.values_apart_from_bytes = u32::try_from(bytes.0).unwrap_or(u32::MAX);
    }
    set(&mut keyspace.table_len_bytes, options.target_file_size_base);
    if let Some(compression) = options.compression_type {
        keyspace.compression = match compression {
            CompressionType::None => Compression::None,
            CompressionType::Lz4 => Compression::Lz4,
            CompressionType::Zstd => Compression::Zstd,
        };
    }
    keyspace.filter_bits_per_key = options.bloom_bits.unwrap_or(keyspace.filter_bits_per_key);
    if let Some(bytes) = options.block_size {
        keyspace.block_len_bytes = u32::try_from(bytes.0).unwrap_or(u32::MAX);
    }
    Ok(store)
}

impl Reading {
    /// The work of the engine since `before`, and its current memory.
    pub(crate) fn engine_since(&self, before: &Reading) -> EngineFigures {
        let (now, then) = (&self.metrics, &before.metrics);
        let stalled_ns = |m: &Metrics| {
            m.stall_stop.total_ns + m.stall_slowdown.total_ns + m.stall_offload.total_ns
        };
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

    /// The compactions that started since `before`.
    pub(crate) fn compactions_since(&self, before: &Reading) -> Vec<CompactionLine> {
        let lines = self.metrics.compactions.iter();
        lines.filter(|line| line.start_ns >= before.now_ns).cloned().collect()
    }

    /// The work of the disk since `before`.
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
            flash_written_bytes: self.flash_written_bytes - before.flash_written_bytes,
            ..DriveFigures::default()
        }
    }

    /// The cost on this machine since `before`.
    pub(crate) fn host_since(&self, before: &Reading) -> HostFigures {
        HostFigures {
            cpu_ns: self.cpu_ns - before.cpu_ns,
            ops_per_cpu_second: 0.0,
            anonymous_bytes: self.anonymous_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::BenchOptions;

    #[test]
    fn a_delay_is_for_layouts_that_offload_writes() {
        let options = TestbedOptions {
            offload_delay_us: Some(10),
            offloaded_files: Some(3),
            ..BenchOptions::new().testbed
        };
        let offloads = store_options(&options, Options { offloads: true, ..Options::default() });
        let offloads = offloads.unwrap();
        assert_eq!((offloads.offload_delay_ns, offloads.offloaded_file_count_max), (10_000, 3));
        let refused = store_options(&options, Options::default()).unwrap_err().to_string();
        assert!(refused.contains("--offload_delay_us"), "{refused}");
        let usual = store_options(&BenchOptions::new().testbed, Options::default()).unwrap();
        assert_eq!(usual.offload_delay_ns, 0);
    }
}
