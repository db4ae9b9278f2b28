//! The sampler: from an open store to frames.

use crate::frame::GapChange;
use crate::frame::{
    Activities, DriveTotals, EndedCompaction, FRAME_VERSION, FileChange, Frame, Head, LevelNow,
    Now, OpTimes, RunningNow, Stalls, StoreTotals, ZoneChange, ZoneNow,
};
use imbrex::stack::{BandShape, Stack};
use imbrex_disk::{BlockRange, Disk, Rule, ZoneInfo, ZoneState};
use imbrex_engine::inspect::{KeyspaceParts, StallMetrics};
use imbrex_engine::{Db, Metrics};
use imbrex_files::inspect::FilesStats;
use imbrex_files::tiers::TieredFiles;
use imbrex_files::{FileInfo, FileKind, FileLayer, Files, Tier};
use std::collections::BTreeMap;

/// Keys are cut to this many bytes.
const KEY_LEN_BYTES_MAX: usize = 48;

/// The level that a log has in a frame.
const LOG_LEVEL: u8 = u8::MAX;

/// A store to sample, with the layers below it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The store.
    pub db: &'a Db,
    /// The files of the main drive.
    pub layer: &'a FileLayer,
    /// All files: those of the main drive, and those on flash if there is a flash drive.
    pub files: &'a dyn Files,
    /// What the files lie on: the drive, or a translation over it.
    pub disk: &'a dyn Disk,
    /// The drive.
    pub drive: &'a dyn Disk,
    /// The fixed bands of a translation, if there is one.
    pub bands: Option<BandShape>,
}

impl<'a> Subject<'a> {
    /// The store of `stack`.
    pub fn of(stack: &'a Stack) -> Subject<'a> {
        let disks = (&*stack.disk, &*stack.drive);
        let subject = Subject::new(&stack.db, &stack.files, stack.tiers.as_ref(), disks);
        Subject { bands: stack.bands, ..subject }
    }

    /// The store `db` on `layer`, or on `tiers` if there is a flash drive; then what the files lie on, and the drive.
    pub fn new(
        db: &'a Db,
        layer: &'a FileLayer,
        tiers: Option<&'a TieredFiles>,
        (disk, drive): (&'a dyn Disk, &'a dyn Disk),
    ) -> Subject<'a> {
        let files = tiers.map_or(layer as &dyn Files, |tiers| tiers);
        Subject { db, layer, files, disk, drive, bands: None }
    }
}

/// When the next frame is due, by one clock.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    every_ns: u64,
    next_ns: u64,
}

impl Pace {
    /// A frame every `every_ns`, the first at once.
    pub fn new(every_ns: u64) -> Pace {
        Pace { every_ns, next_ns: 0 }
    }

    /// Whether a frame is due at `now_ns`.
    pub fn is_due(&self, now_ns: u64) -> bool {
        self.next_ns <= now_ns
    }

    /// A frame was taken from `start_ns` to `end_ns`; the next comes a hundred times as long after it, at least (W2).
    pub fn took(&mut self, start_ns: u64, end_ns: u64) {
        let rest_ns = end_ns.saturating_sub(start_ns).saturating_mul(100);
        self.next_ns = end_ns.saturating_add(self.every_ns.max(rest_ns));
    }
}

/// Takes frames of one store, each with what changed since the last.
#[derive(Debug)]
pub struct Sampler {
    id: u32,
    files: BTreeMap<String, FileChange>,
    zones: Vec<ZoneChange>,
    gaps: BTreeMap<u64, GapChange>,
    ended_count: u64,
    /// Totals of the openings before this one, and those of the last frame.
    before: StoreTotals,
    last: StoreTotals,
}

impl Sampler {
    /// A sampler of the store `id`, which has taken no frame.
    pub fn new(id: u32) -> Sampler {
        Sampler {
            id,
            files: BTreeMap::new(),
            zones: Vec::new(),
            gaps: BTreeMap::new(),
            ended_count: 0,
            before: StoreTotals::default(),
            last: StoreTotals::default(),
        }
    }

    /// The head for its frames. `name` is for people.
    pub fn head(&self, name: &str, layout: &str, subject: Subject<'_>, is_virtual: bool) -> Head {
        let geometry = subject.disk.geometry();
        let below = subject.drive.geometry().rule();
        let mut head = Head {
            version: FRAME_VERSION,
            id: self.id,
            name: name.to_owned(),
            layout: layout.to_owned(),
            rule: geometry.rule().name().to_owned(),
            below: if below == geometry.rule() { String::new() } else { below.name().to_owned() },
            len_blocks: geometry.len().get(),
            zone_count: geometry.zone_count(),
            is_virtual,
            catalog: pairs(&subject.layer.reserved()),
            ..Head::default()
        };
        if let Some(bands) = subject.bands {
            head.band_blocks = bands.band_len.get();
            head.band_guard_blocks = bands.guard_len.get();
        }
        match geometry.rule() {
            Rule::AtPointer(zones) => {
                head.zone_len_blocks = zones.zone_len.get();
                head.open_zone_count_max = zones.open_zone_limit.unwrap_or(0);
            }
            Rule::IsolationDistance(tracks) => head.guard_blocks = tracks.isolation_len().get(),
            Rule::Neighbours(tracks) => {
                head.bottom_track_blocks = tracks.bottom_track_len.get();
                head.top_track_blocks = tracks.top_track_len.get();
            }
            Rule::Anywhere => {}
        }
        head
    }

    /// A frame at `at_ns` by the store's clock. Cost: a walk over all tables, and over all zones or free runs.
    pub fn frame(&mut self, at_ns: u64, subject: Subject<'_>, ops: Option<OpTimes>) -> Frame {
        let metrics = subject.db.metrics();
        let stats = subject.layer.stats();
        self.last = self.before.plus(store_totals(&metrics, &stats));
        Frame {
            id: self.id,
            at_ns,
            drive: drive_totals(subject.disk),
            store: self.last,
            now: now(&metrics, subject),
            ops,
            files: self.file_changes(subject),
            zones: self.zone_changes(subject.disk),
            gaps: self.gap_changes(subject.layer),
            ended: self.ended(&metrics),
            note: None,
        }
    }

    /// The store was opened anew and counts from zero; its frames go on counting, as the drive does.
    pub fn reopened(&mut self) {
        self.ended_count = 0;
        self.before = self.last;
    }

    fn file_changes(&mut self, subject: Subject<'_>) -> Vec<FileChange> {
        let keyspaces = subject.db.parts();
        let files = subject.files.list("");
        let files: BTreeMap<String, FileChange> =
            files.into_iter().map(|file| (file.name.clone(), file_now(&file))).collect();
        let mut files = files;
        for keyspace in &keyspaces {
            add_tables(&mut files, keyspace);
        }
        let gone = self.files.keys().filter(|name| !files.contains_key(*name));
        let gone = gone.map(|name| FileChange {
            name: name.clone(),
            is_gone: true,
            ..FileChange::default()
        });
        let mut changes: Vec<FileChange> = gone.collect();
        let new = files.iter().filter(|(name, file)| self.files.get(*name) != Some(file));
        changes.extend(new.map(|(_, file)| file.clone()));
        self.files = files;
        changes
    }

    fn zone_changes(&mut self, disk: &dyn Disk) -> Vec<ZoneChange> {
        let zones: Vec<ZoneChange> = disk.report_zones().iter().map(zone_now).collect();
        // A scene begins with empty zones, so an empty zone is no change of the first frame.
        let empty = |zone: &ZoneChange| ZoneChange { zone: zone.zone, ..ZoneChange::default() };
        let before = |at: usize, zone| self.zones.get(at).copied().unwrap_or(empty(zone));
        let changed = zones.iter().enumerate().filter(|(at, zone)| before(*at, zone) != **zone);
        let changes = changed.map(|(_, zone)| *zone).collect();
        self.zones = zones;
        changes
    }

    fn gap_changes(&mut self, layer: &FileLayer) -> Vec<GapChange> {
        let runs = layer.free_runs();
        let gaps = runs.iter().map(|run| GapChange {
            start_block: run.range.start.get(),
            len_blocks: run.range.len.get(),
            guard_blocks: run.guard.get(),
        });
        let gaps: BTreeMap<u64, GapChange> = gaps.map(|gap| (gap.start_block, gap)).collect();
        let gone = self.gaps.keys().filter(|start| !gaps.contains_key(start));
        let gone = gone.map(|&start_block| GapChange { start_block, ..GapChange::default() });
        let mut changes: Vec<GapChange> = gone.collect();
        let new = gaps.iter().filter(|(start, gap)| self.gaps.get(start) != Some(gap));
        changes.extend(new.map(|(_, gap)| *gap));
        self.gaps = gaps;
        changes
    }

    fn ended(&mut self, metrics: &Metrics) -> Vec<EndedCompaction> {
        let new = metrics.compaction_count.saturating_sub(self.ended_count);
        self.ended_count = metrics.compaction_count;
        let known = metrics.compactions.len();
        let skipped = known.saturating_sub(usize::try_from(new).unwrap_or(usize::MAX));
        let lines = metrics.compactions.iter().skip(skipped);
        let ended = lines.map(|line| EndedCompaction {
            start_ns: line.start_ns,
            end_ns: line.end_ns,
            plan: line.plan.clone(),
            read_bytes: line.in_len_bytes,
            written_bytes: line.out_len_bytes,
        });
        ended.collect()
    }
}

fn file_now(file: &FileInfo) -> FileChange {
    let is_log = file.kind == FileKind::Log;
    FileChange {
        name: file.name.clone(),
        is_gone: false,
        part: if is_log { "log" } else { "other" }.to_owned(),
        level: if is_log { LOG_LEVEL } else { file.level },
        is_on_flash: file.tier != Tier::Main,
        len_bytes: file.len_bytes,
        extents: pairs(&file.extents),
        ..FileChange::default()
    }
}

/// First block and number of blocks of each range.
fn pairs(ranges: &[BlockRange]) -> Vec<(u64, u64)> {
    ranges.iter().map(|range| (range.start.get(), range.len.get())).collect()
}

/// Adds to `files` what `keyspace` knows of its tables.
fn add_tables(files: &mut BTreeMap<String, FileChange>, keyspace: &KeyspaceParts) {
    for table in &keyspace.tables {
        let Some(file) = files.get_mut(&table.file_name) else { continue };
        file.part =
            if table.is_base { "base".to_owned() } else { format!("level {}", table.level) };
        file.level = table.level;
        file.keyspace = Some(keyspace.name.clone());
        file.partition = table.partition.and_then(|partition| u32::try_from(partition).ok());
        file.first_key = Some(shown_key(&table.smallest));
        file.last_key = Some(shown_key(&table.largest));
        file.entries = table.entry_count;
    }
}

fn shown_key(key: &[u8]) -> String {
    let cut = &key[..key.len().min(KEY_LEN_BYTES_MAX)];
    let dots = if cut.len() < key.len() { "..." } else { "" };
    format!("{}{dots}", cut.escape_ascii())
}

fn zone_now(zone: &ZoneInfo) -> ZoneChange {
    let state = match zone.state {
        ZoneState::NoPointer => ZoneNow::Conventional,
        ZoneState::Empty => ZoneNow::Empty,
        ZoneState::Open { .. } => ZoneNow::Open,
        ZoneState::Closed { .. } => ZoneNow::Closed,
        ZoneState::Full => ZoneNow::Full,
        ZoneState::ReadOnly => ZoneNow::ReadOnly,
        ZoneState::Offline => ZoneNow::Offline,
    };
    let written_blocks = match zone.state {
        ZoneState::Full => zone.capacity.get(),
        state => state.write_pointer(zone.start).map_or(0, |at| (at - zone.start).get()),
    };
    ZoneChange { zone: zone.zone.0, state, written_blocks }
}

fn drive_totals(disk: &dyn Disk) -> DriveTotals {
    let counters = disk.counters();
    DriveTotals {
        reads: counters.reads,
        writes: counters.writes,
        flushes: counters.flushes,
        seeks: counters.seeks,
        zone_resets: counters.zone_resets,
        read_bytes: counters.read_bytes,
        written_bytes: counters.written_bytes,
        added_written_bytes: counters.added_written_bytes,
        busy_ns: counters.busy_ns,
        seek_ns: counters.seek_ns,
        turn_ns: counters.turn_ns,
        transfer_ns: counters.transfer_ns,
        head_block: disk.head().map(|at| at.get()),
        activities: Activities::of(&counters.by_activity),
    }
}

fn store_totals(metrics: &Metrics, stats: &FilesStats) -> StoreTotals {
    StoreTotals {
        user_ops: metrics.user_op_count,
        user_bytes: metrics.user_bytes,
        log_bytes: metrics.log_bytes,
        flush_bytes: metrics.flush_out_bytes,
        flushes: metrics.flush_count,
        compaction_read_bytes: metrics.compaction_in_bytes,
        compaction_written_bytes: metrics.compaction_out_bytes,
        compactions: metrics.compaction_count,
        cleaning_bytes: stats.cleaning_moved_bytes,
        catalog_bytes: stats.catalog_written_bytes,
        cache_hits: metrics.cache_hit_count,
        cache_misses: metrics.cache_miss_count,
        stopped: stalls(metrics.stall_stop),
        slowed: stalls(metrics.stall_slowdown),
        offload: stalls(metrics.stall_offload),
    }
}

fn stalls(metrics: StallMetrics) -> Stalls {
    Stalls { count: metrics.count, total_ns: metrics.total_ns }
}

fn now(metrics: &Metrics, subject: Subject<'_>) -> Now {
    let space = subject.layer.space();
    let mut levels = Vec::new();
    let mut base_merge_waits = None;
    for keyspace in &metrics.keyspaces {
        levels.extend(keyspace.levels.iter().map(|level| LevelNow {
            keyspace: keyspace.name.clone(),
            level: level.level,
            runs: level.run_count as u64,
            tables: level.table_count as u64,
            len_bytes: level.len_bytes,
        }));
        let merge = keyspace.partitions.as_ref().and_then(|own| own.base_merge.as_ref());
        if let Some(wait) = merge.and_then(|merge| merge.wait.as_ref()) {
            base_merge_waits = Some(wait.to_string());
        }
    }
    let running = metrics.running.iter().map(|running| RunningNow {
        plan: running.plan.clone(),
        len_bytes: running.len_bytes,
        done_bytes: running.done_len_bytes,
    });
    Now {
        memtable_bytes: metrics.memtable_len_bytes,
        cache_bytes: metrics.cache_len_bytes,
        table_memory_bytes: metrics.table_memory_len_bytes,
        snapshots: metrics.snapshot_count as u64,
        live_bytes: space.live_bytes,
        dead_bytes: space.dead_bytes,
        free_bytes: space.free_bytes,
        slack_bytes: metrics.slack_bytes,
        levels,
        running: running.collect(),
        next: subject.db.next_compaction(),
        base_merge_waits,
    }
}
