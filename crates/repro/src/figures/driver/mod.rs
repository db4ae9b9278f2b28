//! "On the Design of SMR HDD Block Device Driver" (Hao et al.): the replays that its figures share.
//!
//! The paper's setting: ten hours of three LUNs of the SYSTOR '17 traces and of five benchmarks of
//! HiBench 7.0, zones of 256 MB, and write buffers of 0 to 5 GB. We may not distribute these
//! traces. By default each is synthetic, of a shape that the paper itself implies (`shapes`;
//! decisions 25 and 46). A user who has a trace passes it: `--trace LUN0=FILE`. Traces recorded on
//! other machines appear next to them, without values of the paper: those that come with the
//! program, and any other trace that is passed.
//!
//! The footprint, the write buffer and the number of files and streams shrink together. Requests,
//! files and turns keep their length. At `--scale 0.02` LUN0 has 2.5 GB.
//!
//! All figures use the same replays: each buffer length, with LRU and with the largest region. A
//! further row is the default of the block device (decision 35); no claim uses it.

pub(super) mod cleaning;
pub(super) mod latency;
pub(super) mod mapping;
mod shapes;
pub(super) mod tables;

use crate::figures::measures::{GB, MIB};
use crate::page::{Page, Table};
use crate::replays::{CleaningChoice, JOURNAL_BUFFER_COUNT, ReplaySpec, ReplayTrace};
use crate::results::Results;
use crate::spec::Size;
use imbrex_bench::replay::ReplayReport;
use imbrex_bench::svg::short;
use imbrex_translate::EvictionOrder;
use imbrex_workload::trace::{BUNDLED, BundledTrace, Shape};
use shapes::{PAPER, PaperTrace};

/// Write buffers of the paper, in bytes, and their names.
const BUFFERS: [(u64, &str); 4] =
    [(0, "0"), (512 * MIB, "512 MB"), (1024 * MIB, "1 GB"), (5 * 1024 * MIB, "5 GB")];
/// The columns of a buffer of 1 GB and of 5 GB.
const AT_1_GB: usize = 2;
const AT_5_GB: usize = 3;
const ZONE_LEN_BYTES: u64 = 256 * MIB;
/// Zones shrink half as much as the rest, because a run of the mapping ends with its zone.
const ZONE_SHARE: f64 = 2.0;
/// A given trace that is not one of the paper's is scaled as if it were LUN0.
const FOOTPRINT_BYTES: u64 = 125 * GB;
/// The shares of the paper's sizes for recorded traces. With them, buffers range from a few percent
/// of the written data to about all of it.
const VM_SCALE: f64 = 1.0 / 8.0;
const FILE_SYSTEM_SCALE: f64 = 1.0 / 32.0;
/// The share of the data zones that a given or recorded trace fills.
const GIVEN_FILL_PERCENT: u64 = 80;

/// A trace of the paper, synthetic or given, or a recorded one.
#[derive(Clone, Copy)]
struct Subject {
    trace: ReplayTrace,
    paper: Option<&'static PaperTrace>,
    /// The share of the paper's sizes that it has.
    scale: f64,
    fill_percent: u64,
    /// Whether a request arrives when the one before completes, instead of at its own time.
    is_closed_loop: bool,
}

/// A condition under which a claim is measured again, on synthetic traces.
#[derive(Clone, Copy)]
enum Condition {
    TouchedInTenHours,
    InTenHours,
    OneAfterAnother,
    ReadsOfWritten,
    CountedReads,
    Scattered,
}

const CONDITIONS: [Condition; 6] = [
    Condition::TouchedInTenHours,
    Condition::InTenHours,
    Condition::OneAfterAnother,
    Condition::ReadsOfWritten,
    Condition::CountedReads,
    Condition::Scattered,
];

impl Condition {
    fn words(self) -> &'static str {
        match self {
            Condition::TouchedInTenHours => "as slow as touching the dataset in ten hours allows",
            Condition::InTenHours => "all writes of the shape in ten hours",
            Condition::OneAfterAnother => "each request arrives when the one before completes",
            Condition::ReadsOfWritten => "reads only of written files",
            Condition::CountedReads => "reads as counted in an hour of the LUN",
            Condition::Scattered => "writes to any file at any time",
        }
    }
}

/// The subjects that the user asked for.
fn subjects(size: &Size) -> Vec<Subject> {
    let is_asked =
        |subject: &Subject| size.only.is_empty() || size.only.iter().any(|name| subject.is(name));
    all_subjects(size).into_iter().filter(is_asked).collect()
}

/// Returns an error if `size` names an unknown trace.
pub(super) fn check_only(size: &Size) -> Result<(), String> {
    let all = all_subjects(size);
    match size.only.iter().find(|&name| !all.iter().any(|subject| subject.is(name))) {
        None => Ok(()),
        Some(name) => {
            let names: Vec<&str> = all.iter().map(|subject| subject.trace.name()).collect();
            Err(format!("there is no trace {name:?}; there are {}", names.join(", ")))
        }
    }
}

/// The paper's traces (given or synthetic), then those that come with the program, then other given
/// traces.
fn all_subjects(size: &Size) -> Vec<Subject> {
    let named = |name: &str| size.traces.iter().find(|t| t.name.eq_ignore_ascii_case(name));
    let papers = PAPER.iter().map(|paper| match named(paper.name) {
        Some(given) => Subject::given(ReplayTrace::Given(*given), Some(paper)),
        None => {
            let shape = paper.shape(shapes::scale(size));
            Subject {
                trace: ReplayTrace::Synthetic(shape),
                paper: Some(paper),
                scale: shapes::scale(size),
                fill_percent: paper.fill_percent(&shape),
                is_closed_loop: false,
            }
        }
    });
    let bundled = BUNDLED.into_iter().map(|bundled| match named(bundled.name) {
        Some(given) => Subject::given(ReplayTrace::Given(*given), None),
        None => Subject::bundled(bundled),
    });
    let is_placed = |name: &str| {
        let mut names = PAPER.iter().map(|paper| paper.name);
        names.any(|paper| paper.eq_ignore_ascii_case(name)) || BundledTrace::named(name).is_some()
    };
    let others = size.traces.iter().filter(|given| !is_placed(given.name));
    let others = others.map(|given| Subject::given(ReplayTrace::Given(*given), None));
    papers.chain(bundled).chain(others).collect()
}

impl Subject {
    fn given(trace: ReplayTrace, paper: Option<&'static PaperTrace>) -> Subject {
        let whole = paper.map_or(FOOTPRINT_BYTES, PaperTrace::footprint_bytes);
        let scale = trace.footprint_bytes() as f64 / whole as f64;
        let fill_percent = GIVEN_FILL_PERCENT;
        Subject { trace, paper, scale, fill_percent, is_closed_loop: false }
    }

    fn bundled(bundled: BundledTrace) -> Subject {
        let scale = if bundled.name == "vm" { VM_SCALE } else { FILE_SYSTEM_SCALE };
        let trace = ReplayTrace::Bundled(bundled);
        let fill_percent = GIVEN_FILL_PERCENT;
        Subject { trace, paper: None, scale, fill_percent, is_closed_loop: false }
    }

    /// Whether `name` is the name of its trace, ignoring case.
    fn is(&self, name: &str) -> bool {
        self.trace.name().eq_ignore_ascii_case(name)
    }

    /// Its name and origin.
    fn name(&self) -> String {
        match self.trace {
            ReplayTrace::Synthetic(shape) => format!("{} (synthetic)", shape.name),
            ReplayTrace::Bundled(bundled) => format!("{} (recorded)", bundled.name),
            ReplayTrace::Given(given) => given.name.to_owned(),
        }
    }

    /// The same trace under a condition; `None` if the trace is not synthetic or the condition
    /// changes nothing.
    fn under(&self, condition: Condition) -> Option<Subject> {
        let ReplayTrace::Synthetic(shape) = self.trace else { return None };
        let is_closed_loop = matches!(condition, Condition::OneAfterAnother);
        let shape = match condition {
            Condition::TouchedInTenHours => self.paper?.touched_in_ten_hours(shape),
            Condition::InTenHours => PaperTrace::in_ten_hours(shape, self.scale),
            Condition::OneAfterAnother => shape,
            Condition::ReadsOfWritten => Shape { read_written_percent: 100, ..shape },
            Condition::CountedReads => self.paper?.counted(shape)?,
            Condition::Scattered => PaperTrace::scattered(shape)?,
        };
        Some(Subject { trace: ReplayTrace::Synthetic(shape), is_closed_loop, ..*self })
    }

    /// The same trace with one request every `interval_ms`; `None` if it is not synthetic.
    fn each(&self, interval_ms: u64) -> Option<Subject> {
        let ReplayTrace::Synthetic(shape) = self.trace else { return None };
        let shape = Shape { interval_ns: interval_ms * 1_000_000, ..shape };
        Some(Subject { trace: ReplayTrace::Synthetic(shape), ..*self })
    }

    /// The replay with the buffer of this column.
    fn spec(&self, column: usize, evicts: EvictionOrder, cleans: CleaningChoice) -> ReplaySpec {
        let (buffer_bytes, _) = BUFFERS[column];
        let zone_scale = (self.scale * ZONE_SHARE).min(1.0);
        let zone_mib = (ZONE_LEN_BYTES as f64 * zone_scale) as u64 / MIB;
        ReplaySpec {
            trace: self.trace,
            buffer_bytes: (buffer_bytes as f64 * self.scale) as u64 / 4096 * 4096,
            // Without a buffer nothing is evicted, so the order does not matter.
            evicts: if column == 0 { EvictionOrder::LargestRegion } else { evicts },
            journal_buffer_count: JOURNAL_BUFFER_COUNT,
            cleans,
            zone_len_bytes: zone_mib.max(1) * MIB,
            fill_percent: self.fill_percent,
            is_closed_loop: self.is_closed_loop,
        }
    }

    /// All buffers with one order.
    fn row(&self, evicts: EvictionOrder, cleans: CleaningChoice) -> [ReplaySpec; 4] {
        std::array::from_fn(|column| self.spec(column, evicts, cleans))
    }

    fn lru(&self) -> [ReplaySpec; 4] {
        self.row(EvictionOrder::LeastRecentlyWritten, CleaningChoice::MostMerged)
    }

    fn ours(&self) -> [ReplaySpec; 4] {
        self.row(EvictionOrder::LargestRegion, CleaningChoice::MostMerged)
    }

    /// Not in the paper: the default of the block device.
    fn aged(&self) -> [ReplaySpec; 4] {
        self.row(EvictionOrder::LongestAndOldest, CleaningChoice::MostMerged)
    }
}

/// Journals of other lengths, in lengths of the write buffer; the paper does not tell its own.
const JOURNALS: [u64; 2] = [4, 16];

/// The largest region first, with a journal of this length.
fn with_journal(subject: &Subject, buffer_count: u64) -> [ReplaySpec; 4] {
    subject.ours().map(|spec| ReplaySpec { journal_buffer_count: buffer_count, ..spec })
}

/// The name of the rows of [`Subject::aged`].
const AGED: &str = "longest and oldest part";

/// All buffers, with LRU, with the largest region, and with the default of the block device.
fn eviction_runs(size: &Size) -> Vec<ReplaySpec> {
    let rows = |subject: &Subject| [subject.lru(), subject.ours(), subject.aged()].concat();
    subjects(size).iter().flat_map(rows).collect()
}

/// `of` for a replay. If the replay is missing, returns NaN and adds the reason to `page`.
fn value(
    page: &mut Page,
    results: &Results,
    spec: &ReplaySpec,
    of: impl Fn(&ReplayReport) -> f64,
) -> f64 {
    match results.replay(spec) {
        Ok(report) => of(report),
        Err(reason) => {
            let missing = format!("{}: {reason}", spec.label());
            if !page.missing.contains(&missing) {
                page.missing.push(missing);
            }
            f64::NAN
        }
    }
}

/// `of` for each buffer.
fn values(
    page: &mut Page,
    results: &Results,
    specs: &[ReplaySpec; 4],
    of: impl Fn(&ReplayReport) -> f64,
) -> [f64; 4] {
    specs.map(|spec| value(page, results, &spec, &of))
}

/// A table with one column per buffer.
fn table(title: &str, what: &str) -> Table {
    let mut header = vec!["trace", what];
    header.extend(BUFFERS.map(|(_, name)| name));
    Table::new(title, &header)
}

/// Adds a row; a value that was not measured is a dash.
fn add(table: &mut Table, name: &str, what: &str, values: &[f64]) {
    let cells = values.iter().map(|v| if v.is_finite() { short(*v) } else { "-".to_owned() });
    table.rows.push([name.to_owned(), what.to_owned()].into_iter().chain(cells).collect());
}

/// By how many percent `ours` is below `other`.
fn percent_below(ours: f64, other: f64) -> f64 {
    if other > 0.0 { 100.0 * (1.0 - ours / other) } else { f64::NAN }
}

/// A note on what was replayed.
fn conditions(size: &Size) -> String {
    let given: Vec<&str> = size.traces.iter().map(|given| given.name).collect();
    let given = match given.as_slice() {
        [] => String::new(),
        names => {
            format!(" Given as files, replayed in sectors of 512 bytes: {}.", names.join(", "))
        }
    };
    format!(
        "Synthetic traces have the shape that the paper implies (decisions 25 and 46), at {} of \
         its sizes. Buffers are named by the paper's lengths. Recorded traces: the virtual \
         machine's stands for an eighth of the paper's sizes, those of file systems for a 32nd. \
         Open loop, in virtual time.{given}",
        short(shapes::scale(size))
    )
}

#[cfg(test)]
mod tests;
