//! Table 5.1: eight workloads, one after the other, on one disk.

use super::{Bands, Offload, STATE, offer, shorter, state, store};
use crate::arrivals::ArrivalSource;
use crate::chart::{Axis, Chart};
use crate::client_phase::{ClientPhase, OpenLoop};
use crate::figure::{Figure, Runs};
use crate::figures::measures::{least, megabytes, most, need};
use crate::page::{Better, Claim, Page, Table};
use crate::results::{PhaseResult, RunResult};
use crate::spec::Phase;
use crate::spec::{RunSpec, Size};
use imbrex_workload::ycsb::presets::YcsbWorkload;

/// A row of the thesis' table.
struct Row {
    written_mb: u64,
    rate_per_s: u64,
    /// The modulation of a diurnal workload; `None` for a self-similar one.
    modulation_per_s: Option<u64>,
    /// Percent read, rewritten and offloaded.
    found: [f64; 3],
}

const ROWS: [Row; 8] = [
    row(22_180, 5_000, None, [1500.75, 1497.55, 94.73]),
    row(5_607, 5_000, None, [1597.4, 1539.77, 99.98]),
    row(123, 100, None, [34_556.1, 34_493.5, 50.41]),
    row(431, 100, None, [17_426.45, 17_330.39, 71.46]),
    row(124, 100, Some(90), [50_995.0, 50_849.0, 50.0]),
    row(123, 500, Some(490), [20_125.25, 20_026.02, 40.0]),
    row(1_109, 1_000, Some(950), [2925.79, 2915.87, 94.41]),
    row(2_896, 5_000, Some(4_900), [2266.82, 2132.35, 97.86]),
];

const fn row(
    written_mb: u64,
    rate_per_s: u64,
    modulation_per_s: Option<u64>,
    found: [f64; 3],
) -> Row {
    Row { written_mb, rate_per_s, modulation_per_s, found }
}

/// The first workloads are pure inserts; the others have 70 % scans.
const LOAD_COUNT: usize = 2;
const SCAN_PERCENT: u8 = 70;
const BIAS_PERCENT: u64 = 65;
const CYCLE_LEN_MS: u64 = 900_000;
const SHAPE_PERCENT: u64 = 150;
const ENTRY_LEN_BYTES: u64 = 16 + super::VALUE_LEN_BYTES as u64;

/// Whether scans are answered from memory: first the run itself, then the condition.
const IN_MEMORY: [bool; 2] = [false, true];

/// This table moves thirty times the data that its users write, so it runs at a quarter of the
/// scale of the others.
fn size(asked: &Size) -> Size {
    super::size(&Size { scale: asked.scale / 4.0, ..*asked })
}

impl Row {
    fn phase(&self, at: usize, size: &Size, scans_in_memory: bool) -> Phase {
        let writes = size.count(self.written_mb * 1_000_000 / ENTRY_LEN_BYTES, 100);
        let (workload, count) = match at < LOAD_COUNT {
            true => (YcsbWorkload::Inserts, writes),
            false => (
                YcsbWorkload::Scans { scan_percent: SCAN_PERCENT },
                writes * 100 / u64::from(100 - SCAN_PERCENT),
            ),
        };
        let source = match self.modulation_per_s {
            None => ArrivalSource::SelfSimilar { bias_percent: BIAS_PERCENT },
            Some(modulation_per_s) => ArrivalSource::Diurnal {
                modulation_per_s,
                cycle_len_ms: shorter(CYCLE_LEN_MS * 1_000_000, size) / 1_000_000,
                shape_percent: SHAPE_PERCENT,
            },
        };
        let arrivals = OpenLoop { source, rate_per_s: self.rate_per_s };
        Phase::Clients(ClientPhase { scans_in_memory, ..offer(workload, count, Some(arrivals)) })
    }

    fn name(&self, at: usize) -> String {
        let model = match self.modulation_per_s {
            None => "self-similar".to_owned(),
            Some(modulation) => format!("diurnal, {modulation}/s around the mean"),
        };
        format!("{}: {model}, {}/s", at + 1, self.rate_per_s)
    }
}

fn run(asked: &Size, in_memory: bool) -> RunSpec {
    let size = size(asked);
    let phases = ROWS.iter().enumerate().map(|(at, row)| row.phase(at, &size, in_memory));
    store(&size, Offload::Flash, Bands::AtOnce, phases.collect())
}

pub(in super::super::super) const TABLE_5_1: Figure = Figure {
    name: "thesis-table-5.1",
    title: "eight bursty workloads one after the other, offloaded to flash",
    paper: "thesis, table 5.1",
    runs: Runs::Stores(|size| IN_MEMORY.map(|is| run(size, is)).to_vec()),
    page: |size, results| {
        let mut page = Page::default();
        let runs = IN_MEMORY.map(|is| need(&mut page, results, &run(size, is)));
        let phase = |run: Option<&'_ RunResult>, at: usize| -> Option<PhaseResult> {
            run.and_then(|run| run.phases.get(at)).cloned()
        };
        let names = ["read", "rewritten", "offloaded"];
        let columns = |phase: &PhaseResult| {
            let [read, rewritten, _, offloaded] = state(phase);
            [read, rewritten, offloaded]
        };
        let header = [&["workload", "written, MB", "seconds"], &STATE[..]].concat();
        let mut table = Table::new("our results; MB written at this scale", &header);
        let mut columns_of: [(Vec<f64>, Vec<f64>); 2] = Default::default();
        for (at, row) in ROWS.iter().enumerate() {
            let Some(found) = phase(runs[0], at) else { continue };
            let ours = columns(&found);
            let other = phase(runs[1], at).map_or([f64::NAN; 3], |phase| columns(&phase));
            for (column, name) in names.iter().enumerate() {
                let what = format!("{}: {name}", row.name(at));
                let claim = Claim::new(what, Better::Same, row.found[column], ours[column], "%");
                page.claims.push(claim.under(SCANS_IN_MEMORY, other[column]));
            }
            let totals = &found.totals_at_last_op;
            let written = [megabytes(totals.user_bytes), found.elapsed_ns as f64 / 1e9];
            table.row(row.name(at), &[&written[..], &state(&found)].concat());
            for (columns, values) in columns_of.iter_mut().zip([ours, other]) {
                columns.0.push(values[0]);
                columns.1.push(values[2]);
            }
        }
        takeaways(&mut page, &columns_of);
        page.tables.push(table);
        let [(read, offloaded), (read_there, offloaded_there)] = columns_of;
        let groups = || (1..=ROWS.len()).map(|at| at.to_string()).collect::<Vec<_>>();
        let bars = |column: usize, ours: Vec<f64>, there: Vec<f64>| {
            let thesis = ROWS.iter().map(|row| row.found[column]).collect();
            let names = ["thesis", "ours", "ours, scans from memory"].map(str::to_owned);
            names.into_iter().zip([thesis, ours, there]).collect()
        };
        let read = bars(0, read, read_there);
        let y = Axis::log("% of bytes written");
        page.charts.push(Chart::bars("read by compactions", groups(), y, read));
        let offloaded = bars(2, offloaded, offloaded_there);
        let y = Axis::linear("% of bytes written");
        page.charts.push(Chart::bars("offloaded", groups(), y, offloaded));
        page.notes.push(NOTE.to_owned());
        page
    },
};

const SCANS_IN_MEMORY: &str = "scans are answered from memory";

const NOTE: &str = "The lengths follow from the bytes that the thesis wrote: one 1 KB value with \
                    its key per write, and 30 % writes from the third workload on. The thesis is \
                    silent on the following, which is decided here: there are as many inserts as \
                    updates; records are chosen uniformly; there are 8 clients; a drive counts as \
                    idle 5 s after a compaction, scaled as the bands are.";

/// The thesis' conclusions from its table, on the columns `read` and `offloaded`, for the run and
/// for the condition.
fn takeaways(page: &mut Page, found: &[(Vec<f64>, Vec<f64>); 2]) {
    if found.iter().any(|(read, _)| read.len() < ROWS.len()) {
        return;
    }
    let least = |of: &[f64]| least(of[2..5].iter().copied());
    let most = |of: &[f64]| most([0, 1, 7].map(|at| of[at]));
    let [ours, other] = found;
    let what = "offloaded at 100/s, minimum of workloads 3 to 5 (the thesis: 50 to 70 %)";
    let claim = Claim::new(what, Better::Larger, 50.0, least(&ours.1), "%");
    page.claims.push(claim.under(SCANS_IN_MEMORY, least(&other.1)));
    let what = "read, minimum at 100/s over maximum at 5,000/s";
    let claim = Claim::new(what, Better::Larger, 7.7, least(&ours.0) / most(&ours.0), "x");
    page.claims.push(claim.under(SCANS_IN_MEMORY, least(&other.0) / most(&other.0)));
    let worst = |of: &[f64]| match of.iter().any(|percent| percent.is_nan()) {
        true => f64::NAN,
        false => 1.0 + (0..of.len()).fold(0, |a, b| if of[a] < of[b] { b } else { a }) as f64,
    };
    let what = "the workload with the most compaction reads";
    let claim = Claim::new(what, Better::Same, 5.0, worst(&ours.0), "");
    page.claims.push(claim.under(SCANS_IN_MEMORY, worst(&other.0)));
}
