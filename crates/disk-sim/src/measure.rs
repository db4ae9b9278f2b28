//! Measures a profile: its figures in virtual time, next to those published for the real drive.
//!
//! ```text
//!     for each workload:   a fresh drive in memory, a clock of its own
//!                          warm up, then bytes or requests by the time that passed
//! ```
//!
//! Every drive runs six workloads: sequential read and write at both radii, and random 4 KiB read
//! and write. The workloads of the profile's publishers are added. A random write goes to
//! conventional space; a host-managed drive without any has no such figure.

use crate::profile::{Profile, Workload};
use crate::{BuildError, SimDisk};
use imbrex_clockwork::{Clock, Prng};
use imbrex_disk::{Blocks, Disk, DiskError, Geometry, GeometrySpec, Lba, Persist, Rule};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A sequential workload moves this much before it is timed, and again while it is timed.
const WARM_LEN_BYTES: u64 = 64 << 20;
const TIMED_LEN_BYTES: u64 = 256 << 20;

/// Requests of sequential workloads.
const SEQUENTIAL_REQUEST_BYTES: u64 = 1 << 20;

/// Enough random requests for a mean within about one percent.
const RANDOM_REQUEST_COUNT: u64 = 4_000;

/// One figure of one drive.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What was measured.
    pub workload: Workload,
    /// The figure that this simulator measured, in the workload's unit.
    pub measured: f64,
    /// The figure published for the real drive, in the same unit.
    pub published: Option<f64>,
    /// The publisher.
    pub source: Option<String>,
}

impl Figure {
    /// Measured divided by published, if there is a published figure.
    pub fn ratio(&self) -> Option<f64> {
        self.published.map(|published| self.measured / published)
    }
}

/// The figures of one drive.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// The profile's name.
    pub profile: String,
    /// The drive's name in words.
    pub title: String,
    /// One line a workload.
    pub figures: Vec<Figure>,
}

/// Why a profile could not be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// The profile describes no possible disk.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The simulated disk refused a request.
    #[error("measuring {workload}")]
    Disk {
        /// The workload that was being measured.
        workload: Workload,
        /// The refusal.
        #[source]
        source: DiskError,
    },
}

/// Measures every workload of `profile` in virtual time. The figures are the same on any machine.
///
/// Takes a second or so of real time.
///
/// # Errors
/// [`MeasureError`]: above all a drive too small for the workloads.
pub fn measure(profile: &Profile) -> Result<Measurement, MeasureError> {
    let mut figures = Vec::new();
    for workload in workloads(profile) {
        let Some(measured) = measure_one(profile, workload)? else { continue };
        let published = profile.published().iter().find(|p| p.workload == workload);
        figures.push(Figure {
            workload,
            measured,
            published: published.map(|p| p.value),
            source: published.map(|p| p.source.clone()),
        });
    }
    let (name, title) = (profile.name().to_owned(), profile.title().to_owned());
    Ok(Measurement { profile: name, title, figures })
}

fn workloads(profile: &Profile) -> Vec<Workload> {
    let mut workloads = vec![
        Workload::SequentialReadOuter,
        Workload::SequentialReadInner,
        Workload::SequentialWriteOuter,
        Workload::SequentialWriteInner,
        Workload::RandomRead { len_bytes: 4_096, queue_depth: 1 },
        Workload::RandomWrite { len_bytes: 4_096 },
    ];
    for published in profile.published() {
        if !workloads.contains(&published.workload) {
            workloads.push(published.workload);
        }
    }
    workloads
}

fn measure_one(profile: &Profile, workload: Workload) -> Result<Option<f64>, MeasureError> {
    let clock = Arc::new(OwnClock::default());
    let geometry = lenient(&profile.geometry());
    let disk = SimDisk::builder(geometry).profile(profile.clone()).clock(clock.clone()).memory()?;
    let len = geometry.len();
    let span = sequential_span(&geometry);
    // Inner workloads end with the disk; on zones they start where a zone starts, to be writable.
    let inner = aligned_down(&geometry, len.saturating_sub(span));
    let outer_write = Lba::new(first_sequential(&geometry).get());
    let run = match workload {
        Workload::SequentialReadOuter => sequential(&disk, &clock, Lba::new(0), span, false),
        Workload::SequentialReadInner => sequential(&disk, &clock, inner, span, false),
        Workload::SequentialWriteOuter => sequential(&disk, &clock, outer_write, span, true),
        Workload::SequentialWriteInner => sequential(&disk, &clock, inner, span, true),
        Workload::RandomWrite { len_bytes } => {
            let space = conventional_space(&geometry);
            if space < Blocks::holding(len_bytes) {
                return Ok(None);
            }
            random_writes(&disk, &clock, profile, Blocks::holding(len_bytes), space)
        }
        Workload::RandomRead { len_bytes, queue_depth } => {
            return Ok(Some(random_reads(profile, len_bytes, queue_depth)));
        }
    };
    run.map(Some).map_err(|source| MeasureError::Disk { workload, source })
}

/// Moves [`WARM_LEN_BYTES`], then times the rest of `span`. Returns 10^6 bytes per second.
fn sequential(
    disk: &SimDisk,
    clock: &OwnClock,
    start: Lba,
    span: Blocks,
    write: bool,
) -> Result<f64, DiskError> {
    // Stays within one zone, because a write may not cross its end.
    let writable = disk.geometry().zones().map_or(span, |zones| zones.zone_capacity);
    // At least two requests: the first one is warm-up.
    let half = Blocks::new((span.get() / 2).max(1));
    let request = Blocks::holding(SEQUENTIAL_REQUEST_BYTES).min(half).min(writable);
    let mut buf = vec![0; request.bytes() as usize];
    let warm = span.bytes() * WARM_LEN_BYTES / (WARM_LEN_BYTES + TIMED_LEN_BYTES);
    let (mut at, mut timed_bytes, mut start_ns) = (start, 0, clock.now_ns());
    let (begin_ns, mut moved_bytes) = (start_ns, 0);
    while at + request <= start + span {
        if let Some(next) = next_zone_if_full(disk.geometry(), at, request) {
            at = next;
            continue;
        }
        let is_warm = (at - start).bytes() >= warm;
        if is_warm && timed_bytes == 0 {
            start_ns = clock.now_ns();
        }
        if write {
            disk.write(at, &buf, Persist::Cached)?;
        } else {
            disk.read(at, &mut buf)?;
        }
        if is_warm {
            timed_bytes += request.bytes();
        }
        moved_bytes += request.bytes();
        at += request;
    }
    if timed_bytes == 0 {
        // A drive of a few blocks has no room for a second request.
        (timed_bytes, start_ns) = (moved_bytes, begin_ns);
    }
    let elapsed_ns = (clock.now_ns() - start_ns).max(1);
    Ok(timed_bytes as f64 * 1e3 / elapsed_ns as f64)
}

/// The start of the next zone, if the zone at `at` has no room for `request`.
fn next_zone_if_full(geometry: &Geometry, at: Lba, request: Blocks) -> Option<Lba> {
    let zone = geometry.zone_of(at)?;
    let (range, capacity) = (geometry.zone_range(zone)?, geometry.zone_capacity(zone)?);
    (at + request > range.start + capacity).then(|| range.end())
}

/// Keeps `queue_depth` reads queued at all times, as a benchmark on the real drive does.
/// [`Disk::read_batch`] cannot do this, because it waits for the whole batch.
fn random_reads(profile: &Profile, len_bytes: u64, queue_depth: u64) -> f64 {
    let len = profile.geometry().len();
    let request = Blocks::holding(len_bytes).min(len);
    let mut mechanics = profile.mechanics(len);
    let mut prng = Prng::new(1).derive("random reads");
    let mut draw = || aligned_random(&mut prng, request, len);
    let mut queue: Vec<(u64, u64)> = (0..queue_depth).map(|_| (draw(), request.get())).collect();
    let mut now_ns = 0;
    for _ in 0..RANDOM_REQUEST_COUNT {
        // Removed, not swapped: the queue stays in order of arrival.
        let (block, len) = queue.remove(mechanics.pick(now_ns, &queue));
        now_ns = mechanics.read(now_ns, block, len);
        queue.push((draw(), request.get()));
    }
    RANDOM_REQUEST_COUNT as f64 * 1e9 / now_ns.max(1) as f64
}

fn random_writes(
    disk: &SimDisk,
    clock: &OwnClock,
    profile: &Profile,
    request: Blocks,
    space: Blocks,
) -> Result<f64, DiskError> {
    let mut prng = Prng::new(1).derive("random writes");
    let data = vec![0; request.bytes() as usize];
    let mut write = |disk: &SimDisk| {
        disk.write(Lba::new(aligned_random(&mut prng, request, space)), &data, Persist::Cached)
    };
    // Only a full cache shows the rate of the platter.
    for _ in 0..profile.write_cache_blocks() / request.get() + RANDOM_REQUEST_COUNT / 4 {
        write(disk)?;
    }
    let start_ns = clock.now_ns();
    for _ in 0..RANDOM_REQUEST_COUNT {
        write(disk)?;
    }
    Ok(RANDOM_REQUEST_COUNT as f64 * 1e9 / (clock.now_ns() - start_ns).max(1) as f64)
}

fn aligned_random(prng: &mut Prng, request: Blocks, space: Blocks) -> u64 {
    prng.below(space.get() / request.get()) * request.get()
}

/// The same drive, except that it allows reads of unwritten blocks: only its timing matters here.
fn lenient(geometry: &Geometry) -> Geometry {
    let mut rule = *geometry.rule();
    if let Rule::AtPointer(zones) = &mut rule {
        zones.strict_reads = false;
    }
    Geometry::new(GeometrySpec { len: geometry.len(), rule })
        .expect("strict reads are no part of what is checked")
}

/// How much a sequential workload moves: less on a small drive, and whole zones at most.
fn sequential_span(geometry: &Geometry) -> Blocks {
    let wanted = Blocks::holding(WARM_LEN_BYTES + TIMED_LEN_BYTES);
    let quarter = Blocks::new((geometry.len().get() / 4).max(1));
    wanted.min(quarter)
}

fn aligned_down(geometry: &Geometry, at: Blocks) -> Lba {
    let unit = geometry.zones().map_or(1, |zones| zones.zone_len.get());
    let first = first_sequential(geometry).get();
    Lba::new((at.get() / unit * unit).max(first))
}

/// Where sequential zones begin, or the disk's start if it has none.
fn first_sequential(geometry: &Geometry) -> Blocks {
    let space = conventional_space(geometry);
    if space < geometry.len() { space } else { Blocks::ZERO }
}

fn conventional_space(geometry: &Geometry) -> Blocks {
    geometry.zones().map_or(geometry.len(), |zones| {
        let space = u64::from(zones.conventional_zone_count) * zones.zone_len.get();
        Blocks::new(space).min(geometry.len())
    })
}

/// A clock for one measurement. It stands where the disk last moved it.
#[derive(Debug, Default)]
struct OwnClock(AtomicU64);

impl Clock for OwnClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
    fn advance_to_ns(&self, at_ns: u64) {
        self.0.fetch_max(at_ns, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
