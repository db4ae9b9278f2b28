//! Figure 5.6: back-to-back inserts by one, four and eight clients.

use super::{
    A_SECOND, BY_VALUE, Bands, DISK, Offload, STATE, band_len_bytes, drive_bytes, moved_a_second,
    offer, size, state, store,
};
use crate::chart::{Axis, Chart};
use crate::client_phase::ClientPhase;
use crate::figure::{Figure, Runs};
use crate::figures::measures::{need, over};
use crate::page::{Better, Claim, Page, Table};
use crate::results::PhaseResult;
use crate::spec::Phase;
use crate::spec::{RunSpec, Size, Tune};
use imbrex_bench::emulated::{DriveRule, DriveSpec};
use imbrex_bench::svg::short;
use imbrex_workload::ycsb::presets::YcsbWorkload;

const INSERTS: u64 = 10_000_000;
const CLIENT_COUNTS: [u32; 3] = [1, 4, 8];
const PLACES: [Offload; 3] = [Offload::Nowhere, Offload::Disk, Offload::Flash];

fn inserts(size: &Size, client_count: u32) -> Phase {
    let inserts = offer(YcsbWorkload::Inserts, size.count(INSERTS, 8_000), None);
    Phase::Clients(ClientPhase { client_count, ..inserts })
}

fn run(asked: &Size, offload: Offload, client_count: u32, bands: Bands) -> RunSpec {
    let size = size(asked);
    store(&size, offload, bands, vec![inserts(&size, client_count)])
}

/// One client with calls of twice the duration.
fn patient(asked: &Size, offload: Offload) -> RunSpec {
    let size = size(asked);
    let phase = match inserts(&size, 1) {
        Phase::Clients(offer) => {
            Phase::Clients(ClientPhase { call_ns: 2 * offer.call_ns, ..offer })
        }
        other => other,
    };
    store(&size, offload, Bands::AtOnce, vec![phase])
}

const PATIENT: &str = "a call takes 100 microseconds";

/// LevelDB with the same memtable, on the same disk without bands.
fn leveldb(asked: &Size) -> RunSpec {
    let size = size(asked);
    let drive = DriveSpec::whole(DISK, DriveRule::Conventional, drive_bytes(&size));
    let memtable_len_bytes = Some(band_len_bytes(&size));
    let tune = Tune { memtable_len_bytes, ..Tune::default().without_rest() };
    RunSpec::new("leveldb-cmr", drive, vec![inserts(&size, CLIENT_COUNTS[2])]).tuned(tune)
}

fn runs(size: &Size) -> Vec<RunSpec> {
    let at_once = PLACES.into_iter().flat_map(|place| {
        CLIENT_COUNTS.map(|client_count| run(size, place, client_count, Bands::AtOnce))
    });
    let by_value = PLACES.map(|place| run(size, place, CLIENT_COUNTS[2], Bands::ByValue));
    let patient = PLACES.map(|place| patient(size, place));
    at_once.chain(by_value).chain(patient).chain([leveldb(size)]).collect()
}

/// Inserts per second, and the columns of [`STATE`].
#[derive(Clone, Copy, Default)]
struct Found {
    rate: f64,
    state: [f64; 4],
    /// Bytes that compactions read per second of the load.
    moved_a_second: f64,
}

impl Found {
    fn of(phase: Option<&PhaseResult>) -> Found {
        phase.map_or(Found::default(), |phase| Found {
            rate: phase.ops_per_second(),
            state: state(phase),
            moved_a_second: moved_a_second(phase),
        })
    }
}

pub(in super::super::super) const FIGURE_5_6: Figure = Figure {
    name: "thesis-5.6",
    title: "back-to-back inserts by 1, 4 and 8 clients",
    paper: "thesis, figure 5.6: 10 million inserts of 1 KB",
    runs: Runs::Stores(runs),
    page: |size, results| {
        let mut page = Page::default();
        let mut find = |spec: RunSpec| {
            Found::of(need(&mut page, results, &spec).and_then(|run| run.phases.first()))
        };
        let all = PLACES
            .map(|place| CLIENT_COUNTS.map(|count| find(run(size, place, count, Bands::AtOnce))));
        let by_value = PLACES.map(|place| find(run(size, place, CLIENT_COUNTS[2], Bands::ByValue)));
        let patient = PLACES.map(|place| find(patient(size, place)));
        let leveldb = find(leveldb(size));
        page.claims = claims(&all, &by_value, &patient, leveldb);
        let header = [&["writes go", "inserts/s"], &STATE[..]].concat();
        let mut table = Table::new("throughput, and the state when the last insert ended", &header);
        for (place, of_place) in PLACES.iter().zip(&all) {
            for (count, found) in CLIENT_COUNTS.iter().zip(of_place) {
                let row = [&[found.rate], &found.state[..]].concat();
                table.row(format!("{}, {count}T", place.name()), &row);
            }
        }
        for (place, found) in PLACES.iter().zip(&by_value) {
            let row = [&[found.rate], &found.state[..]].concat();
            table.row(format!("{}, 8T, value by value", place.name()), &row);
        }
        for (place, found) in PLACES.iter().zip(&patient) {
            let row = [&[found.rate], &found.state[..]].concat();
            table.row(format!("{}, 1T, 100 us per call", place.name()), &row);
        }
        let row = [&[leveldb.rate], &leveldb.state[..]].concat();
        table.row("LevelDB, 8T", &row);
        page.tables.push(table);
        let groups = || CLIENT_COUNTS.map(|count| format!("{count}T")).to_vec();
        let bars = |of: &dyn Fn(&Found) -> f64| -> Vec<(String, Vec<f64>)> {
            let bars = PLACES.iter().zip(&all);
            bars.map(|(place, found)| (place.name(), found.iter().map(of).collect())).collect()
        };
        let mut rates = bars(&|found| found.rate);
        rates.push(("LevelDB".to_owned(), vec![0.0, 0.0, leveldb.rate]));
        let y = Axis::linear("inserts/s");
        let labels = |(_, bars): &(String, Vec<f64>)| {
            // LevelDB ran with 8 clients only.
            bars.iter().map(|rate| if *rate > 0.0 { short(*rate) } else { String::new() }).collect()
        };
        let labels = rates.iter().map(labels).collect();
        let chart = Chart::bars("inserts by clients", groups(), y, rates);
        page.charts.push(chart.labelled(labels));
        for (at, what) in STATE.iter().enumerate() {
            let y = Axis::linear("% of bytes written");
            let bars = bars(&|found| found.state[at]);
            page.charts.push(Chart::bars(what.trim_start_matches("% "), groups(), y, bars));
        }
        page.notes.push(NOTE.to_owned());
        page
    },
};

const NOTE: &str = "The way to the store and back takes 50 microseconds of each call. This is an \
                    assumption: the thesis says that a single client waits for its framework, but \
                    not how long. Clients share only the store here. So the two explanations that \
                    the thesis offers for 8 clients being no faster than 4 (the framework, locks) \
                    have no counterpart. LevelDB's level 1 has 10 MB at any scale.";

fn claims(
    all: &[[Found; 3]; 3],
    by_value: &[Found; 3],
    patient: &[Found; 3],
    leveldb: Found,
) -> Vec<Claim> {
    let rate = |found: &Found| found.rate;
    let moved = |found: &Found| found.state[0];
    let a_second = |found: &Found| found.moved_a_second;
    let unsorted = |found: &Found| found.state[2];
    let claim = |what: &str, better, of: &dyn Fn(&Found) -> f64, a: &Found, b: &Found| match better
    {
        Better::Same => Claim::new(what, better, 1.0, over(of(a), of(b)), "x"),
        side => Claim::order(what, side, over(of(a), of(b))),
    };
    let (more, less, same) = (Better::Larger, Better::Smaller, Better::Same);
    let one = |what: &str, better, of: &dyn Fn(&Found) -> f64, a: usize, b: usize| {
        let there = over(of(&patient[a]), of(&patient[b]));
        claim(&format!("1 client: {what}"), better, of, &all[a][0], &all[b][0])
            .under(PATIENT, there)
    };
    let eight = |what: &str, better, of: &dyn Fn(&Found) -> f64, a: usize, b: usize| {
        claim(&format!("8 clients: {what}"), better, of, &all[a][2], &all[b][2])
            .under(BY_VALUE, over(of(&by_value[a]), of(&by_value[b])))
    };
    let eight_moved = |what: &str, a: usize, b: usize| {
        let there = over(a_second(&all[a][2]), a_second(&all[b][2]));
        eight(what, more, &moved, a, b).under(A_SECOND, there)
    };
    let [none, _, flash] = all;
    vec![
        one("inserts, to disk over no offload", same, &rate, 1, 0),
        one("inserts, to flash over no offload", same, &rate, 2, 0),
        one("compaction, to disk over no offload", more, &moved, 1, 0),
        one("compaction, to flash over to disk", more, &moved, 2, 1),
        one("unsorted, to disk over no offload", less, &unsorted, 1, 0),
        one("unsorted, to flash over to disk", less, &unsorted, 2, 1),
        claim("no offload: inserts, 4 clients over 1", more, &rate, &none[1], &none[0]),
        claim("no offload: compaction, 4 clients over 1", less, &moved, &none[1], &none[0]),
        claim("no offload: unsorted, 4 clients over 1", more, &unsorted, &none[1], &none[0]),
        claim("4 clients: inserts, to flash over no offload", more, &rate, &flash[1], &none[1]),
        claim("4 clients: compaction, to flash over no offload", more, &moved, &flash[1], &none[1])
            .under(A_SECOND, over(a_second(&flash[1]), a_second(&none[1]))),
        eight("inserts, to disk over no offload", more, &rate, 1, 0),
        eight("inserts, to flash over no offload", more, &rate, 2, 0),
        eight("inserts, to flash over to disk", same, &rate, 2, 1),
        eight_moved("compaction, to disk over no offload", 1, 0),
        eight_moved("compaction, to flash over no offload", 2, 0),
        eight_moved("compaction, to flash over to disk", 2, 1),
        claim("to flash: inserts, 8 clients over 4", same, &rate, &flash[2], &flash[1]),
        claim("8 clients: inserts, no offload over LevelDB", more, &rate, &none[2], &leveldb)
            .under(BY_VALUE, over(by_value[0].rate, leveldb.rate)),
    ]
}
