//! The same load on three stores: LevelDB on a conventional disk's surface that is really shingled in bands, a
//! leveled store on zones, and a layout of the user's choice. Each has a drive of its own in memory, with the
//! same mechanics and length, in modelled time: the figures are the same on any machine.

use crate::amplification::{Amplification, ratio_text};
use crate::count::grouped;
use crate::error::{CliError, Context};
use crate::interrupt::Interrupt;
use crate::output::Table;
use imbrex::stack::{Layout, Recording, Stack};
use imbrex_bench::profile_choice::DriveShape;
use imbrex_clockwork::{Clock, Order, Prng, Runtime, fan_out};
use imbrex_disk::{ByteSize, Disk};
use imbrex_disk_sim::SimDisk;
use imbrex_engine::{Compression, Db, EngineError, Total, Totals};
use imbrex_files::{FileLayer, Files};
use imbrex_translate::Staging;
use std::sync::Arc;

/// The profile whose mechanics all drives have.
pub(super) const PROFILE: &str = "hc620";
/// The layouts beside the user's.
const CONVENTIONAL: &str = "leveldb-banded";
const LEVELED: &str = "leveled-zones";

const CAPACITY_BYTES: u64 = 80 << 20;
const ZONE_LEN_BYTES: u64 = 256 << 10;
/// LevelDB's tables and its bands are a sixteenth of their usual length, 4 MiB and 40 MiB, as are the tracks.
/// The tables of the other layouts follow the length of the drive.
const SHRUNK_BY: u64 = 16;
const TRACK_LEN_BYTES: u64 = 16 << 10;
const MEMTABLE_LEN_BYTES: u64 = 1 << 20;

const KEY_COUNT: u64 = 36_000;
const VALUE_LEN_BYTES: usize = 1024;
/// After each key was written once, in random order, so many writes go to random keys.
const OVERWRITE_COUNT: u64 = 72_000;
/// The space is measured once in so many writes.
const LOOK_EVERY: u64 = 500;

/// What the columns mean.
pub(super) const LEGEND: [(&str, &str); 8] = [
    ("busy", "how long the drive worked for the load and what it left to do"),
    ("writes/s", "of the user, for each second that the drive was busy"),
    ("written", "bytes that the drive wrote for each byte of the user"),
    ("no log", "the same without the log of the store"),
    ("space", "the most that files took, for each byte of live data"),
    ("banded", "a store for conventional disks on bands of shingled tracks: a"),
    ("", "write into a band rewrites what comes after it (once, as in"),
    ("", "published emulations; a journal would write it twice)"),
];

/// What a layout made of the load.
struct Outcome {
    layout: Layout,
    /// `None` if the drive was too short for it.
    figures: Option<Figures>,
}

struct Figures {
    totals: Totals,
    worst: Worst,
}

/// The worst moments of a load.
#[derive(Clone, Copy, Default)]
struct Worst {
    /// The most space that files took.
    space_bytes: u64,
    /// How long the slowest put took.
    put_ns: u64,
}

/// Runs the load on each layout, and returns a table of what it cost.
pub(super) fn compare(layout: Layout, interrupt: &Interrupt) -> Result<Table, CliError> {
    let named = |name| Layout::by_name(name).context(|| format!("cannot use layout {name}"));
    let mut layouts = vec![named(CONVENTIONAL)?, named(LEVELED)?];
    if !layouts.iter().any(|other| other.name() == layout.name()) {
        layouts.push(layout);
    }
    // The first takes longest by far, so the others share the second thread.
    let outcomes = fan_out(2, &layouts, |layout| run(*layout, interrupt));
    let outcomes = outcomes.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut table = Table::new(&[
        "layout",
        "busy, s",
        "writes/s",
        "written",
        "no log",
        "space",
        "longest put, s",
    ]);
    outcomes.iter().for_each(|outcome| table.row(outcome.row()));
    Ok(table)
}

/// The load in words.
pub(super) fn load_in_words() -> String {
    format!(
        "{} keys with values of {} in random order, then {} writes to random ones of them; on {} of a drive \
         with the mechanics of {PROFILE}, in modelled time",
        grouped(KEY_COUNT),
        ByteSize(VALUE_LEN_BYTES as u64),
        grouped(OVERWRITE_COUNT),
        ByteSize(CAPACITY_BYTES)
    )
}

fn live_bytes() -> u64 {
    KEY_COUNT * (size_of::<u64>() + VALUE_LEN_BYTES) as u64
}

impl Outcome {
    fn row(&self) -> Vec<String> {
        let mut row = vec![self.layout.name().to_owned()];
        let Some(Figures { totals, worst }) = &self.figures else {
            row.push("refused".to_owned());
            return row;
        };
        let busy_s = totals.get(Total::BusyNs) as f64 / 1e9;
        let [with_log, without_log] = Amplification::of_drive(totals).ratios();
        let per_s = totals.get(Total::UserWrites) as f64 / busy_s.max(1e-9);
        row.extend([
            format!("{busy_s:.1}"),
            grouped(per_s as u64),
            ratio_text(with_log),
            ratio_text(without_log),
            format!("{:.2}", worst.space_bytes as f64 / live_bytes() as f64),
            format!("{:.2}", worst.put_ns as f64 / 1e9),
        ]);
        row
    }
}

/// A new store of `layout` on a drive of its own.
fn store(layout: Layout, runtime: &Runtime) -> Result<Stack, CliError> {
    let recording = layout.recording();
    let shape = DriveShape {
        rule: Some(recording),
        capacity: Some(ByteSize(CAPACITY_BYTES)),
        zone_len: (recording == Recording::Zoned).then_some(ByteSize(ZONE_LEN_BYTES)),
        track_len: (recording == Recording::Shingled).then_some(ByteSize(TRACK_LEN_BYTES)),
        ..DriveShape::default()
    };
    let profile = shape.profile(Some(PROFILE), Some(layout)).context(|| "cannot make the drive")?;
    let geometry = profile.geometry();
    let disk =
        SimDisk::builder(geometry).profile(profile).clock(Arc::clone(&runtime.clock)).memory();
    let disk = Arc::new(disk.context(|| "cannot make the drive")?);
    let mut recipe = layout.recipe(&geometry);
    if recipe.bands.is_some() {
        recipe = recipe.shrunk(SHRUNK_BY);
    }
    if let Some(bands) = &mut recipe.bands {
        // As in published emulations: no journal protects a rewrite, which would write it twice.
        bands.staging = Staging::None;
        bands.gather_len = bands.band_len;
    }
    recipe.options.memtable_len_bytes = MEMTABLE_LEN_BYTES;
    // Space and bytes written are then those of the records.
    recipe.options.keyspace.compression = Compression::None;
    layout
        .format_with(disk as Arc<dyn Disk>, runtime, &recipe, 1)
        .context(|| format!("cannot make a store with layout {layout}"))
}

fn run(layout: Layout, interrupt: &Interrupt) -> Result<Outcome, CliError> {
    let (runtime, world) = Runtime::virtual_time(Order::SmallestTime);
    let Stack { files, db, .. } = store(layout, &runtime)?;
    let client = world.client("load");
    let loaded = world.as_client(client, || load(&db, &files, &*runtime.clock, interrupt));
    let totals = db.totals_since_opening();
    files.end_cleaning();
    let closed = db.close().context(|| "cannot close the store");
    // Jobs hold the runtime, which holds the jobs.
    world.drop_jobs();
    interrupt.check()?;
    let figures = match loaded {
        Ok(worst) => Some(Figures { totals, worst }),
        Err(error) if error.is_no_space() => None,
        Err(error) => return Err(CliError::of(format!("layout {layout}: cannot write"), &error)),
    };
    closed.map(|()| Outcome { layout, figures })
}

/// Writes everything, and waits until the work that it caused is done.
fn load(
    db: &Db,
    files: &FileLayer,
    clock: &dyn Clock,
    interrupt: &Interrupt,
) -> Result<Worst, EngineError> {
    let mut prng = Prng::new(1);
    let mut keys: Vec<u64> = (0..KEY_COUNT).collect();
    for at in (1..keys.len()).rev() {
        keys.swap(at, prng.below(at as u64 + 1) as usize);
    }
    let again = (0..OVERWRITE_COUNT).map(|_| prng.below(KEY_COUNT));
    keys.extend(again.collect::<Vec<_>>());
    let keyspace = db.default_keyspace();
    let mut value = vec![0; VALUE_LEN_BYTES];
    let mut worst = Worst::default();
    for (count, key) in (1..).zip(keys) {
        prng.fill(&mut value);
        let start_ns = clock.now_ns();
        keyspace.put(key.to_be_bytes(), &value)?;
        worst.put_ns = worst.put_ns.max(clock.now_ns().saturating_sub(start_ns));
        if u64::is_multiple_of(count, LOOK_EVERY) {
            let space = files.space();
            worst.space_bytes = worst.space_bytes.max(space.live_bytes + space.dead_bytes);
            if interrupt.is_asked() {
                break;
            }
        }
    }
    db.flush()?;
    db.wait_idle()?;
    Ok(worst)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_a_row_and_the_figures_fit_a_line() {
        let layout = Layout::by_name("leveldb-banded").unwrap();
        let refused = Outcome { layout, figures: None };
        assert_eq!(refused.row(), ["leveldb-banded", "refused"]);
        let totals = Totals::default();
        let worst = Worst { space_bytes: 2 * live_bytes(), put_ns: 1_500_000_000 };
        let row = Outcome { layout, figures: Some(Figures { totals, worst }) }.row();
        assert_eq!(row, ["leveldb-banded", "0.0", "0", "-", "-", "2.00", "1.50"]);
    }
}
