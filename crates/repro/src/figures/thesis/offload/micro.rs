//! Figure 5.5: random puts and the sequential gets right after them, by the target of offloading.

use super::{AT_ONCE, Bands, Offload, STATE, size, state, store};
use crate::chart::{Axis, Chart};
use crate::figure::{Figure, Runs};
use crate::figures::measures::{need, over, rate};
use crate::page::{Better, Claim, Page, Table};
use crate::results::Results;
use crate::spec::Phase;
use crate::spec::{FILE_READ_AHEAD_LEN_BYTES, LoadOrder, RunSpec, Size};

const PUTS: u64 = 2_500_000;
const VALUE_LEN_BYTES: usize = 4096;
const GETS: u64 = 10_000;
/// The thesis' delay, and the time that Linux sleeps when asked for it: Linux timers have a slack
/// of 50 us, and the wakeup takes longer still (decision 27).
const DELAYS_NS: [u64; 2] = [10_000, 70_000];

/// The four cases of the thesis, and its fourth as its machine may have executed it.
const PLACES: [Offload; 5] = [
    Offload::Nowhere,
    Offload::Disk,
    Offload::Flash,
    Offload::DelayedFlash { delay_ns: DELAYS_NS[0] },
    Offload::DelayedFlash { delay_ns: DELAYS_NS[1] },
];
const NOWHERE: usize = 0;
const TO_DISK: usize = 1;
const TO_FLASH: usize = 2;
const DELAYED: usize = 3;
const SLEPT: usize = 4;
const SLEPT_FOR: &str = "a delay of 70 us, which Linux makes of a sleep of 10 us";

fn run(asked: &Size, offload: Offload, bands: Bands) -> RunSpec {
    // Fewer and cheaper operations than in the other figures, so twice their scale.
    let size = size(&Size { scale: 2.0 * asked.scale, ..*asked });
    let entry_len_bytes = (16 + VALUE_LEN_BYTES) as u64;
    let bytes = size.count(PUTS, 4_000) * entry_len_bytes;
    let count = size.count(GETS, 500);
    let gets = Phase::ReadSequential { count, read_ahead_len_bytes: FILE_READ_AHEAD_LEN_BYTES };
    let puts = Phase::load(LoadOrder::Random, bytes, VALUE_LEN_BYTES);
    store(&size, offload, bands, vec![puts, gets])
}

fn runs(size: &Size) -> Vec<RunSpec> {
    let both = [Bands::ByValue, Bands::AtOnce];
    both.into_iter().flat_map(|bands| PLACES.map(|place| run(size, place, bands))).collect()
}

/// One of the values of [`Found`].
type Measure = fn(&Found) -> f64;

/// The measurements of one case.
#[derive(Clone, Copy, Default)]
struct Found {
    puts: f64,
    gets: f64,
    state: [f64; 4],
    /// Percent of the bytes written that are on the other device.
    beside: f64,
}

fn found(page: &mut Page, results: &Results, spec: &RunSpec) -> Found {
    let Some(run) = need(page, results, spec) else { return Found::default() };
    let Some(load) = run.load() else { return Found::default() };
    Found {
        puts: load.ops_per_second(),
        gets: rate(run.read_sequential(FILE_READ_AHEAD_LEN_BYTES)),
        state: state(load),
        beside: 100.0
            * over(load.tiers.beside_bytes as f64, load.totals_at_last_op.user_bytes as f64),
    }
}

pub(in super::super::super) const FIGURE_5_5: Figure = Figure {
    name: "thesis-5.5",
    title: "random puts, then sequential gets, by the target of offloading",
    paper: "thesis, figure 5.5: 2.5 million puts of 4 KB, then at once 10,000 gets in order",
    runs: Runs::Stores(runs),
    page: |size, results| {
        let mut page = Page::default();
        let by_value = PLACES.map(|p| found(&mut page, results, &run(size, p, Bands::ByValue)));
        let at_once = PLACES.map(|p| found(&mut page, results, &run(size, p, Bands::AtOnce)));
        page.claims = claims(&by_value, &at_once);
        for (all, bands) in [(&by_value, Bands::ByValue), (&at_once, Bands::AtOnce)] {
            let header =
                [&["writes go", "puts/s", "gets/s"], &STATE[..], &["% on other device"]].concat();
            let mut table = Table::new(format!("state after the puts, {}", bands.name()), &header);
            for (place, found) in PLACES.iter().zip(all) {
                let row = [&[found.puts, found.gets], &found.state[..], &[found.beside]].concat();
                table.row(place.name(), &row);
            }
            page.tables.push(table);
            let groups = || PLACES.map(Offload::name).to_vec();
            let bars = |what: &str, of: fn(&Found) -> f64| {
                vec![(what.to_owned(), all.iter().map(of).collect::<Vec<f64>>())]
            };
            let title = format!("random puts, {}", bands.name());
            let y = Axis::linear("puts/s");
            page.charts.push(Chart::bars(title, groups(), y, bars("puts", |f| f.puts)));
            let title = format!("sequential gets, {}", bands.name());
            let y = Axis::linear("gets/s");
            page.charts.push(Chart::bars(title, groups(), y, bars("gets", |f| f.gets)));
        }
        page.notes.push(NOTE.to_owned());
        page
    },
};

const NOTE: &str = "As in the thesis, the main claims read values of unsorted bands one by one. \
                    The bytes of a compaction count when it ends, as in LevelDB's own statistics. \
                    Here `many files on flash` means more than ten, the number of bands that \
                    triggers a compaction; the thesis gives no number.";

fn claims(one: &[Found; 5], all: &[Found; 5]) -> Vec<Claim> {
    let ratios = |of: Measure, a: usize, b: usize| {
        [one, all].map(|found| over(of(&found[a]), of(&found[b])))
    };
    let ahead = |what: &str, of: Measure, a: usize, b: usize| {
        let [ours, there] = ratios(of, a, b);
        Claim::order(what, Better::Larger, ours).under(AT_ONCE, there)
    };
    let percent = |what: &str, paper, of: Measure, at: usize| {
        Claim::new(what, Better::Same, paper, of(&one[at]), "%").under(AT_ONCE, of(&all[at]))
    };
    let slept = |claim: Claim, of: Measure, over_flash: bool| {
        let at = |found: &[Found; 5]| match over_flash {
            true => over(of(&found[SLEPT]), of(&found[TO_FLASH])),
            false => of(&found[SLEPT]),
        };
        claim.under(SLEPT_FOR, at(one)).under(format!("{SLEPT_FOR}; {AT_ONCE}"), at(all))
    };
    let measures: [Measure; 4] = [|f| f.puts, |f| f.gets, |f| f.state[1], |f| f.state[2]];
    let [puts, gets, rewritten, unsorted] = measures;
    let [twice, twice_there] = ratios(puts, TO_DISK, NOWHERE);
    vec![
        Claim::new("puts, to disk over no offload", Better::Larger, 2.0, twice, "x")
            .under(AT_ONCE, twice_there),
        ahead("puts, to flash over to disk", puts, TO_FLASH, TO_DISK),
        percent("unsorted, no offload", 78.36, unsorted, NOWHERE),
        percent("unsorted, to disk", 68.38, unsorted, TO_DISK),
        slept(percent("unsorted, to flash with a delay", 30.0, unsorted, DELAYED), unsorted, false),
        percent("on flash after the puts", 76.0, |f| f.beside, TO_FLASH),
        ahead("gets, to disk over no offload", gets, TO_DISK, NOWHERE),
        ahead("gets, to flash over to disk", gets, TO_FLASH, TO_DISK),
        slept(
            ahead("rewritten, to flash, with a delay over without", rewritten, DELAYED, TO_FLASH),
            rewritten,
            true,
        ),
        slept(
            ahead("gets, to flash, with a delay over without", gets, DELAYED, TO_FLASH),
            gets,
            true,
        ),
    ]
}
