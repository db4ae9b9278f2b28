//! `demo`: what the project is for, in less than half a minute: the same load on three stores, then the
//! whole path on a new drive, with a power cut.
//!
//! The records are real. On a Debian machine they are the packages in `/var/lib/dpkg/status`, and the files
//! of each package. On other machines they are the files below the current directory, by path.

mod records;
mod three_ways;

use crate::amplification::{Amplification, ratio_text};
use crate::count::{counted, grouped};
use crate::drive;
use crate::error::{CliError, Context, Exit};
use crate::key;
use crate::session::Session;
use crate::target::Target;
use crate::zones::{svg, text};
use imbrex::stack::{FoundDrive, Layout, Recipe, Recording, Stack, mount};
use imbrex_bench::profile_choice::DriveShape;
use imbrex_clockwork::{Prng, Runtime};
use imbrex_disk::ByteSize;
use imbrex_disk::{Blocks, Counters, Disk, Geometry, GeometrySpec, Rule};
use imbrex_disk_sim::SimDisk;
use imbrex_engine::{
    Compression, Db, Keyspace, KeyspaceOptions, Metrics, Options, Totals, WriteBatch, WriteOptions,
};
use imbrex_files::FileLayer;
use records::Collection;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Arguments of `imbrex demo`.
#[derive(clap::Args, Debug)]
pub(crate) struct DemoArgs {
    /// Keep the drive and its picture in this directory [default: a temporary directory, removed at the
    /// end]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Layout of the store on the drive; `imbrex layouts` lists them
    #[arg(long, value_name = "NAME", default_value = "imbrex-zones")]
    layout: String,
    /// Seed that selects the unflushed writes that the power cut loses
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The length of a drive without zones.
const CAPACITY_BYTES: u64 = 8 << 30;
/// A zoned drive is half as long again as the records, in whole zones: few enough for one screen.
const CAPACITY_PERCENT: u64 = 150;
const ZONE_COUNT_MAX: u64 = 96;
const ZONE_COUNT_MIN: u64 = 48;
const ZONE_LEN_BYTES_MIN: u64 = 256 << 10;

/// Lines are not longer than this.
const WIDTH: usize = 80;

/// A store on the demo's drive, between two power cuts.
struct Stand {
    disk: Arc<SimDisk>,
    /// The disk below the files: the drive, or a translation layer over it.
    below: Arc<dyn Disk>,
    files: FileLayer,
    db: Db,
}

impl DemoArgs {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        if session.out.is_json()? {
            return Err(CliError::usage(
                "the demo prints text for people and has no JSON form; omit --format",
            ));
        }
        let temporary;
        let dir = match &self.dir {
            Some(dir) => {
                std::fs::create_dir_all(dir)
                    .context(|| format!("cannot make directory {}", dir.display()))?;
                dir.as_path()
            }
            None => {
                temporary = tempfile::Builder::new()
                    .prefix("imbrex-demo-")
                    .tempdir()
                    .context(|| "cannot make a temporary directory")?;
                temporary.path()
            }
        };
        let path = dir.join("demo.imbrex");
        let layout = Layout::by_name(&self.layout).context(|| "cannot use --layout")?;
        if layout.takes_flash() {
            let message =
                format!("the demo has one drive, and {layout} takes two; choose another layout");
            return Err(CliError::usage(message));
        }
        compare(layout, session)?;
        let collections = records::collect()?;
        let len_bytes = collections.iter().map(Collection::len_bytes).sum();
        let stand = create(&path, layout, len_bytes, session)?;
        load(&stand, &collections, session)?;
        read(&stand, &collections, session)?;
        delete(&stand, &collections, session)?;
        stand.db.wait_idle().context(|| "background work failed")?;
        let cost = (stand.db.metrics(), stand.below.counters(), stand.db.totals_since_opening());
        let stand = power_cut(stand, self.seed, session)?;
        show(&stand, &path, session)?;
        show_cost(&cost.0, &cost.1, &cost.2, session)?;
        stand.db.close().context(|| "cannot close the store")?;
        match &self.dir {
            Some(_) => session.out.line(format!(
                "\nThe drive stays at {}, its picture beside it:\n  imbrex scan {0} --keyspace {} --limit 3",
                path.display(),
                collections.first().map_or("default", |collection| collection.name)
            )),
            None => session.out.line(
                "\nThe drive was removed; `imbrex demo --dir DIR` keeps it for other commands.",
            ),
        }
    }
}

/// Memtables and tables of a drive without zones are 1/64 of their usual length, so that a few records
/// already fill several levels. Those of a zoned drive follow its length.
const SHRUNK_BY: u64 = 64;

fn options(layout: Layout, geometry: &Geometry) -> Options {
    let recipe = layout.recipe(geometry);
    let is_short = geometry.zone_count() > 0;
    let mut options = if is_short { recipe } else { recipe.shrunk(SHRUNK_BY) }.options;
    options.keyspace.level_factor = 4;
    // The space on the map is then that of the records.
    options.keyspace.compression = Compression::None;
    options
}

/// The same load on three stores.
fn compare(layout: Layout, session: &mut Session) -> Result<(), CliError> {
    session.out.line("1. One load, three stores\n")?;
    session.out.line(wrapped(&three_ways::load_in_words()))?;
    session.out.flush()?;
    let table = three_ways::compare(layout, &session.interrupt)?.text_right();
    session.out.line("")?;
    for line in table.lines() {
        session.out.line(format!("   {line}"))?;
    }
    session.out.line("")?;
    for (what, words) in three_ways::LEGEND {
        session.out.line(format!("   {what:<8} {words}"))?;
    }
    Ok(())
}

/// The drive for records of so many bytes.
fn shape_for(layout: Layout, len_bytes: u64) -> DriveShape {
    let zoned = layout.recording() == Recording::Zoned;
    let mut zone_len_bytes = ZONE_LEN_BYTES_MIN;
    let wanted_bytes = len_bytes * CAPACITY_PERCENT / 100;
    while wanted_bytes.div_ceil(zone_len_bytes) > ZONE_COUNT_MAX {
        zone_len_bytes *= 2;
    }
    let zone_count = wanted_bytes.div_ceil(zone_len_bytes).max(ZONE_COUNT_MIN);
    let capacity_bytes = if zoned { zone_count * zone_len_bytes } else { CAPACITY_BYTES };
    DriveShape {
        capacity: Some(ByteSize(capacity_bytes)),
        zone_len: zoned.then_some(ByteSize(zone_len_bytes)),
        ..DriveShape::default()
    }
}

/// `text` in lines that fit, broken between words; all lines are indented.
fn wrapped(text: &str) -> String {
    let mut lines = vec!["  ".to_owned()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is a line from the start");
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(format!("     {word}"));
        } else {
            line.push_str(&format!(" {word}"));
        }
    }
    lines.join("\n")
}

fn create(
    path: &Path,
    layout: Layout,
    len_bytes: u64,
    session: &mut Session,
) -> Result<Stand, CliError> {
    session.out.line("\n2. A drive\n")?;
    let shape = shape_for(layout, len_bytes);
    let profile = shape.profile(None, Some(layout)).context(|| "cannot make the drive")?;
    let geometry = without_conventional_zones(profile.geometry())?;
    let title = profile.title().to_owned();
    let disk = SimDisk::builder(geometry)
        .profile(profile)
        // Without a write cache the power cut would lose nothing.
        .write_cache(Blocks::holding(8 << 20))
        .create_image(path, "demo", 1)
        .context(|| "cannot create drive")?;
    let disk = Arc::new(disk);
    let runtime = Runtime::threads(2);
    let drive = Arc::clone(&disk) as Arc<dyn Disk>;
    let recipe = Recipe { options: options(layout, &geometry), ..layout.recipe(&geometry) };
    let stack = layout
        .format_with(drive, &runtime, &recipe, 0)
        .context(|| format!("cannot format {}", path.display()))?;
    for line in [
        path.display().to_string(),
        format!("{title}, cut down to {}", ByteSize(geometry.len().bytes())),
        recording(&geometry),
        format!("layout {layout}: {}", layout.summary()),
    ] {
        session.out.line(wrapped(&line))?;
    }
    Ok(Stand::new(disk, stack))
}

/// A line of the zone map, indented; a key that is too long continues below itself.
fn folded(line: &str) -> String {
    let indented = format!("   {line}");
    // The rows of zones are indented already.
    if line.starts_with(' ') {
        return line.trim_end().to_owned();
    }
    if indented.chars().count() <= WIDTH {
        return indented.trim_end().to_owned();
    }
    let mut lines = vec![String::new()];
    for part in line.split("  ") {
        let last = lines.last_mut().expect("there is a line from the start");
        if last.is_empty() {
            last.push_str(&format!("   {part}"));
        } else if last.chars().count() + 2 + part.chars().count() > WIDTH {
            lines.push(format!("          {part}"));
        } else {
            last.push_str(&format!("  {part}"));
        }
    }
    lines.join("\n")
}

/// A key in at most half a line.
fn short(shown: &str) -> String {
    match shown.char_indices().nth(WIDTH / 2) {
        Some((at, _)) => format!("{}...", &shown[..at]),
        None => shown.to_owned(),
    }
}

/// The rule of the drive for writes, in words.
fn recording(geometry: &Geometry) -> String {
    match geometry.rule() {
        Rule::AtPointer(zones) => format!(
            "{} zones of {}; each takes writes only at its write pointer",
            geometry.zone_count(),
            ByteSize(zones.zone_len.bytes())
        ),
        Rule::IsolationDistance(tracks) => format!(
            "shingled tracks: a write destroys the {} after it",
            ByteSize(tracks.track_len.bytes() * u64::from(tracks.overlap_tracks))
        ),
        Rule::Neighbours(tracks) => format!(
            "interlaced tracks of {}: a write to a bottom track destroys its two top neighbours",
            ByteSize(tracks.bottom_track_len.bytes())
        ),
        Rule::Anywhere => "conventional: it takes writes anywhere".to_owned(),
    }
}

/// The geometry without conventional zones. The real drive has one conventional zone in a hundred, so a
/// drive of 32 zones has none, and every write must follow the rule of the write pointer.
fn without_conventional_zones(geometry: Geometry) -> Result<Geometry, CliError> {
    let mut rule = *geometry.rule();
    if let Rule::AtPointer(zones) = &mut rule {
        zones.conventional_zone_count = 0;
    }
    Geometry::new(GeometrySpec { len: geometry.len(), rule }).context(|| "cannot make the drive")
}

impl Stand {
    fn new(disk: Arc<SimDisk>, stack: Stack) -> Stand {
        let Stack { disk: below, files, db, .. } = stack;
        Stand { disk, below, files, db }
    }

    /// Opens the store on `disk`.
    fn open(disk: Arc<SimDisk>) -> Result<Stand, CliError> {
        let runtime = Runtime::threads(2);
        let drive = Arc::clone(&disk) as Arc<dyn Disk>;
        let geometry = *drive.geometry();
        let mounted = mount(drive, &runtime).context(|| "cannot recover the files")?;
        let options = options(mounted.layout, &geometry);
        let stack = mounted.open_db(&runtime, options).context(|| "cannot recover the store")?;
        Ok(Stand::new(disk, stack))
    }

    /// The options of a new keyspace: those of the default one.
    fn keyspace_options(&self) -> KeyspaceOptions {
        self.db.default_keyspace().options().clone()
    }
}

fn load(stand: &Stand, collections: &[Collection], session: &mut Session) -> Result<(), CliError> {
    session.out.line("\n3. Load\n")?;
    for collection in collections {
        let keyspace = stand
            .db
            .create_keyspace(collection.name, stand.keyspace_options())
            .context(|| format!("cannot create keyspace {}", collection.name))?;
        let mut batch = WriteBatch::new();
        let mut len_bytes = 0;
        for (key, value) in shuffled(collection) {
            session.interrupt.check()?;
            batch
                .put(&keyspace, key, value)
                .context(|| format!("cannot put {}", key::shown(key)))?;
            len_bytes += key.len() + value.len();
            if batch.len_bytes() > 64 << 10 {
                let full = std::mem::take(&mut batch);
                stand.db.write(full, WriteOptions::default()).context(|| "cannot load")?;
            }
        }
        stand.db.write(batch, WriteOptions::SYNC).context(|| "cannot load")?;
        session.out.line(format!(
            "   keyspace {:<8} {:>9} records, {:>8}: {}",
            collection.name,
            grouped(collection.records.len() as u64),
            ByteSize(len_bytes as u64).to_string(),
            collection.source
        ))?;
    }
    stand.db.flush().context(|| "cannot flush")
}

/// The records in random order, so that the store has to sort them.
fn shuffled(collection: &Collection) -> Vec<(&Vec<u8>, &Vec<u8>)> {
    let mut records: Vec<_> = collection.records.iter().collect();
    let mut prng = Prng::new(1).derive(collection.name);
    for at in (1..records.len()).rev() {
        records.swap(at, prng.below(at as u64 + 1) as usize);
    }
    records
}

fn keyspace(stand: &Stand, name: &str) -> Result<Keyspace, CliError> {
    stand.db.keyspace(name).context(|| format!("cannot open keyspace {name}"))
}

fn read(stand: &Stand, collections: &[Collection], session: &mut Session) -> Result<(), CliError> {
    session.out.line("\n4. Read")?;
    for collection in collections {
        let keyspace = keyspace(stand, collection.name)?;
        session.out.line("")?;
        if let Some((key, _)) = collection.records.iter().nth(collection.records.len() / 3) {
            let value = keyspace.get(key).context(|| "cannot get")?.unwrap_or_default();
            let shown = String::from_utf8_lossy(&value);
            session.out.line(format!(
                "   get --keyspace {} {}",
                collection.name,
                short(&key::shown(key))
            ))?;
            for line in shown.lines().take(4) {
                let line: String = line.chars().take(WIDTH - 5).collect();
                session.out.line(format!("     {line}"))?;
            }
        }
        let prefix = &collection.prefix;
        session.out.line(format!(
            "   scan --keyspace {} --prefix {} --limit 3",
            collection.name,
            key::shown(prefix)
        ))?;
        for entry in keyspace.prefix(prefix).context(|| "cannot scan")?.take(3) {
            let (key, value) = entry.context(|| "cannot scan")?;
            let size = ByteSize(value.len() as u64);
            session.out.line(format!("     {}  {size}", short(&key::shown(&key))))?;
        }
    }
    let mut equal_count = 0;
    for collection in collections {
        let keyspace = keyspace(stand, collection.name)?;
        for (key, value) in &collection.records {
            session.interrupt.check()?;
            let got = keyspace.get(key).context(|| "cannot get")?;
            if got.as_deref() != Some(value.as_slice()) {
                let shown = key::shown(key);
                return Err(CliError::new(Exit::Corrupt, format!("{shown} reads back wrong")));
            }
            equal_count += 1;
        }
    }
    session.out.line(format!("\n   all {} records read back equal", grouped(equal_count)))
}

fn delete(
    stand: &Stand,
    collections: &[Collection],
    session: &mut Session,
) -> Result<(), CliError> {
    session.out.line("\n5. Delete\n")?;
    let Some(collection) = collections.first() else { return Ok(()) };
    let keyspace = keyspace(stand, collection.name)?;
    let doomed: Vec<_> =
        collection.records.keys().filter(|key| key.starts_with(&collection.prefix)).collect();
    let mut batch = WriteBatch::new();
    for key in &doomed {
        batch.delete(&keyspace, key).context(|| "cannot delete")?;
    }
    stand.db.write(batch, WriteOptions::SYNC).context(|| "cannot delete")?;
    let left = keyspace.prefix(&collection.prefix).context(|| "cannot scan")?.count();
    let kept = keyspace.prefix("").context(|| "cannot scan")?.count();
    session.out.line(wrapped(&format!(
        "deleted {} with prefix {} from {}: {left} of them are left, {} other keys remain",
        counted(doomed.len() as u64, "key"),
        key::shown(&collection.prefix),
        collection.name,
        grouped(kept as u64)
    )))
}

/// The number of synced and of unsynced writes before the power cut.
const SYNCED_COUNT: u32 = 500;
const UNSYNCED_COUNT: u32 = 3_000;

fn power_cut(stand: Stand, seed: u64, session: &mut Session) -> Result<Stand, CliError> {
    session.out.line("\n6. A power cut\n")?;
    let trial = stand
        .db
        .create_keyspace("trial", stand.keyspace_options())
        .context(|| "cannot create keyspace trial")?;
    let value = |n: u32| format!("write number {n} {}", "=".repeat(n as usize % 200));
    for n in 0..SYNCED_COUNT + UNSYNCED_COUNT {
        trial.put(n.to_be_bytes(), value(n)).context(|| "cannot put")?;
        if n + 1 == SYNCED_COUNT {
            stand.db.sync().context(|| "cannot sync")?;
        }
    }
    stand.disk.cut_power();
    let Stand { disk, below, files, db } = stand;
    files.end_cleaning();
    drop((trial, db, files, below));
    let cycle =
        disk.power_cycle(&mut Prng::new(seed)).context(|| "cannot turn the power on again")?;
    let stand = Stand::open(disk)?;

    let trial = keyspace(&stand, "trial")?;
    let mut found_count = 0;
    for (n, entry) in (0_u32..).zip(trial.prefix("").context(|| "cannot scan")?) {
        let (key, got) = entry.context(|| "cannot scan")?;
        if key[..] != n.to_be_bytes() || got[..] != *value(n).as_bytes() {
            let message = format!("after the power cut write {n} is missing or wrong");
            return Err(CliError::new(Exit::Corrupt, message));
        }
        found_count = n + 1;
    }
    if found_count < SYNCED_COUNT {
        let message = format!("of {SYNCED_COUNT} synced writes {found_count} are left");
        return Err(CliError::new(Exit::Corrupt, message));
    }
    let unsynced = grouped(u64::from(UNSYNCED_COUNT));
    let kept = grouped(u64::from(found_count - SYNCED_COUNT));
    let lost = grouped(u64::from(SYNCED_COUNT + UNSYNCED_COUNT - found_count));
    for line in [
        format!("{SYNCED_COUNT} writes, a sync, {unsynced} more writes, then the power fails"),
        format!(
            "of the drive's write cache, {} blocks are lost and {} had reached the platter",
            cycle.lost.get(),
            cycle.survived.get()
        ),
        format!(
            "recovered: all {SYNCED_COUNT} synced writes, and the first {kept} of the others; the newest \
             {lost} are lost, without a gap"
        ),
    ] {
        session.out.line(wrapped(&line))?;
    }
    Ok(stand)
}

fn show(stand: &Stand, path: &Path, session: &mut Session) -> Result<(), CliError> {
    session.out.line("\n7. The drive\n")?;
    stand.db.flush().context(|| "cannot flush")?;
    let map = drive::map(&*stand.below, &stand.files, text::CELL_COUNT_MAX);
    for line in text::draw(&map).lines() {
        session.out.line(folded(line))?;
    }
    let picture = path.with_extension("svg");
    let map = drive::map(&*stand.below, &stand.files, svg::CELL_COUNT_MAX);
    let drive = FoundDrive::Image(Arc::clone(&stand.disk));
    drive::write_svg(&Target::new(&picture, &[path])?, path, &drive, &map)
}

/// The cost of the steps before the power cut.
fn show_cost(
    metrics: &Metrics,
    counters: &Counters,
    totals: &Totals,
    session: &mut Session,
) -> Result<(), CliError> {
    session.out.line("\n8. What it cost, up to the power cut\n")?;
    let size = |len_bytes: u64| ByteSize(len_bytes).to_string();
    let busy_s = counters.busy_ns as f64 / 1e9;
    let both = |amplification: Amplification| {
        let [with_log, without_log] = amplification.ratios().map(ratio_text);
        format!("{with_log} with the log, {without_log} without")
    };
    for (name, text) in [
        (
            "user",
            format!("{} in {}", size(metrics.user_bytes), counted(metrics.user_op_count, "write")),
        ),
        ("log", size(metrics.log_bytes)),
        ("flushes", format!("{}, {}", metrics.flush_count, size(metrics.flush_out_bytes))),
        (
            "compactions",
            format!(
                "{}, {} read, {} written",
                metrics.compaction_count,
                size(metrics.compaction_in_bytes),
                size(metrics.compaction_out_bytes)
            ),
        ),
        ("store wrote, per user byte", both(Amplification::of_store(totals))),
        ("drive wrote, per user byte", both(Amplification::of_drive(totals))),
        (
            "drive",
            format!(
                "{} written, {} read, {} seeks",
                size(counters.written_bytes),
                size(counters.read_bytes),
                grouped(counters.seeks)
            ),
        ),
        ("busy", format!("{busy_s:.2} s of the modelled drive, reads included")),
    ] {
        session.out.line(format!("   {name:<27} {text}"))?;
    }
    Ok(())
}
