//! Figure 8: loads and reads, normalised to LevelDB on fixed bands.

use super::{
    STORES, block_reads_smrdb, by_key, cleaned, compressed, compressed_over, file_reads_smrdb,
    filtered, large_reads, left_out, level_0_empty, random, restless, restless_of, sequential,
};
use crate::chart::{Axis, Chart};
use crate::figure::{Figure, Runs};
use crate::figures::measures::{READ_COST, need, over, rate, read_cost};
use crate::page::{Better, Claim, Page, Table};
use crate::results::{Results, RunResult};
use crate::spec::Size;
use crate::spec::{FILE_READ_AHEAD_LEN_BYTES, RunSpec, TABLE_READ_AHEAD_LEN_BYTES};
use imbrex_bench::svg::short;

pub(in super::super) const FIGURE_8: Figure = Figure {
    name: "sealdb-8",
    title: "loads and reads of three stores",
    paper: "SEALDB, figure 8: 100 GB loads, 100 thousand reads",
    runs: Runs::Stores(|size| {
        let loads = STORES.iter().flat_map(|s| [random(size, s), sequential(size, s)]);
        loads.chain(variants(size).into_iter().map(|(_, spec)| spec)).collect()
    }),
    page: |size, results| {
        let mut page = Page::default();
        let stores: Vec<Rates> =
            STORES.iter().map(|s| Rates::of(&mut page, results, &random(size, s))).collect();
        let others: Vec<Rates> =
            variants(size).iter().map(|(_, spec)| Rates::of(&mut page, results, spec)).collect();
        page.claims = claims(size, &stores, &others);
        let bars: Vec<[f64; 4]> = STORES
            .iter()
            .zip(&stores)
            .map(|(store, rates)| {
                let in_order = need(&mut page, results, &sequential(size, store));
                let in_order = rate(in_order.and_then(RunResult::load));
                [rates.put, in_order, rates.scan_of(store), rates.get]
            })
            .collect();
        page.charts.push(normalised(&bars));
        page.tables.push(loads(size, results));
        page.tables.push(gets(size, results));
        page.tables.push(scans(size, results));
        page.notes.push(
            "Throughput counts up to the return of the last put, as in db_bench. The column \
             `settled` also counts the compactions that remain after a load. LevelDB reads 128 KB \
             ahead in a sequential read, as Linux does for a file. The stores that know the place \
             of their tables read 4 MB ahead."
                .to_owned(),
        );
        page.notes.push(
            "The figures with cleaning are of the journal version (TPDS 2019), which has two \
             light-weight policies. Ours moves the living members of a set if more comes back than \
             moves. In these runs it cleans all the time; by itself only below 20 % free space."
                .to_owned(),
        );
        page.notes.extend(left_out(size));
        page
    },
};

/// The runs under other conditions, in the order of [`Other`].
fn variants(size: &Size) -> [(&'static str, RunSpec); 14] {
    [
        ("filters", large_reads(size, "leveldb-banded")),
        ("", random(size, "leveldb-cmr")),
        ("filters", large_reads(size, "leveldb-cmr")),
        ("no filters", file_reads_smrdb(size)),
        ("", block_reads_smrdb(size)),
        ("filters", filtered(size)),
        ("compressed", compressed(size)),
        ("at once", restless(size, "leveldb-banded")),
        ("at once", restless(size, "sealdb")),
        ("no filters, at once", restless_of(file_reads_smrdb(size))),
        ("victims by key", by_key(size)),
        ("cleaned", cleaned(size)),
        ("level 0 empty", level_0_empty(size, "leveldb-banded")),
        ("level 0 empty", level_0_empty(size, "sealdb")),
    ]
}

/// Index of each run in [`variants`].
#[derive(Clone, Copy)]
enum Other {
    Banded4M,
    Cmr,
    Cmr4M,
    SmrdbFile,
    SmrdbBlock,
    SealdbFilters,
    SealdbCompressed,
    BandedAtOnce,
    SealdbAtOnce,
    SmrdbAtOnce,
    SealdbByKey,
    SealdbCleaned,
    BandedEmpty,
    SealdbEmpty,
}

/// Operations per second of one run.
#[derive(Clone, Copy, Default)]
struct Rates {
    put: f64,
    get: f64,
    file_scan: f64,
    table_scan: f64,
}

impl Rates {
    fn of(page: &mut Page, results: &Results, spec: &RunSpec) -> Rates {
        let Some(run) = need(page, results, spec) else { return Rates::default() };
        Rates {
            put: rate(run.load()),
            get: rate(run.read_random()),
            file_scan: rate(run.read_sequential(FILE_READ_AHEAD_LEN_BYTES)),
            table_scan: rate(run.read_sequential(TABLE_READ_AHEAD_LEN_BYTES)),
        }
    }

    /// Sequential reads with the read-ahead that the paper's store uses.
    fn scan_of(&self, store: &str) -> f64 {
        if store == "leveldb-banded" { self.file_scan } else { self.table_scan }
    }
}

fn claims(size: &Size, stores: &[Rates], others: &[Rates]) -> Vec<Claim> {
    let [leveldb, smrdb, sealdb] = [stores[0], stores[1], stores[2]];
    let other = |which: Other| others[which as usize];
    let claim = |what: &str, paper, a: f64, b: f64| {
        Claim::new(what, Better::Larger, paper, over(a, b), "x")
    };
    let put_over = |which: Other| over(sealdb.put, other(which).put);
    let filters = other(Other::SealdbFilters).get;
    let shrunk = other(Other::SealdbCompressed);
    let at_once = over(other(Other::SealdbAtOnce).get, other(Other::BandedAtOnce).get);
    let cleaned = other(Other::SealdbCleaned).put;
    let emptied = over(other(Other::SealdbEmpty).get, other(Other::BandedEmpty).get);
    let shrinks = "values compress to half, and only SEALDB compresses";
    vec![
        claim("random load, SEALDB over LevelDB", 3.42, sealdb.put, leveldb.put)
            .under("LevelDB reads 4 MB at a time in compactions", put_over(Other::Banded4M))
            .under("LevelDB on a conventional disk", put_over(Other::Cmr))
            .under(
                "LevelDB on a conventional disk, compactions read 4 MB at a time",
                put_over(Other::Cmr4M),
            )
            .under("SEALDB takes victims by key", over(other(Other::SealdbByKey).put, leveldb.put))
            .under(shrinks, compressed_over(size, shrunk.put, leveldb.put)),
        claim("random load with cleaning, SEALDB over LevelDB", 2.65, cleaned, leveldb.put).under(
            "LevelDB reads 4 MB at a time in compactions",
            over(cleaned, other(Other::Banded4M).put),
        ),
        Claim::new(
            "random load, SEALDB with cleaning over without",
            Better::Same,
            2.65 / 3.42,
            over(cleaned, sealdb.put),
            "x",
        ),
        claim("random load, SEALDB over SMRDB", 1.67, sealdb.put, smrdb.put)
            .under("SMRDB reads 128 KB at a time in compactions", put_over(Other::SmrdbFile))
            .under("SMRDB reads 4 KB at a time in compactions", put_over(Other::SmrdbBlock)),
        claim("sequential read, SEALDB over LevelDB", 3.96, sealdb.table_scan, leveldb.file_scan)
            .under("both read 128 KB ahead", over(sealdb.file_scan, leveldb.file_scan))
            .under("both read 4 MB ahead", over(sealdb.table_scan, leveldb.table_scan))
            .under(shrinks, compressed_over(size, shrunk.table_scan, leveldb.file_scan)),
        claim("random read, SEALDB over LevelDB", 1.80, sealdb.get, leveldb.get)
            .under("both have filters", over(filters, other(Other::Banded4M).get))
            .under("gets start as soon as the last put returns", at_once)
            .under("level 0 is empty in both", emptied)
            .under(shrinks, compressed_over(size, shrunk.get, leveldb.get)),
        claim("random read, SEALDB over SMRDB", 1.80, sealdb.get, smrdb.get)
            .under("both without filters", over(sealdb.get, other(Other::SmrdbFile).get))
            .under(
                "both without filters, gets start as soon as the last put returns",
                over(other(Other::SealdbAtOnce).get, other(Other::SmrdbAtOnce).get),
            )
            .under("both have filters", over(filters, smrdb.get)),
    ]
}

const GROUPS: [&str; 4] = ["random write", "sequential write", "sequential read", "random read"];

fn normalised(rates: &[[f64; 4]]) -> Chart {
    let heights = |of: &[f64; 4]| of.iter().zip(rates[0]).map(|(r, base)| over(*r, base)).collect();
    let series = STORES.iter().zip(rates).map(|(store, of)| (store.to_string(), heights(of)));
    let labels = rates.iter().map(|of| of.iter().map(|v| short(*v)).collect()).collect();
    let groups = GROUPS.map(str::to_owned).to_vec();
    let title = "relative to LevelDB; labels are operations per second";
    Chart::bars(title, groups, Axis::linear("multiple of LevelDB"), series.collect())
        .labelled(labels)
}

/// All runs; those under the paper's conditions come first.
fn all(size: &Size) -> Vec<(String, RunSpec)> {
    let stores = STORES.map(|store| (store.to_owned(), random(size, store)));
    let named = |(what, spec): (&str, RunSpec)| match what {
        "" => (spec.layout.to_owned(), spec),
        what => (format!("{}, {what}", spec.layout), spec),
    };
    stores.into_iter().chain(variants(size).map(named)).collect()
}

fn loads(size: &Size, results: &Results) -> Table {
    let mut table = Table::new(
        "random load, by how much a compaction reads at a time",
        &["store", "read unit", "puts/s", "puts/s settled", "WA", "AWA", "seeks"],
    );
    for (name, spec) in all(size) {
        let Some(load) = results.get(&spec).ok().and_then(RunResult::load) else { continue };
        let unit = match (spec.tune.compaction_read_len_bytes, spec.layout) {
            (Some(bytes), _) => format!("{} KB", bytes >> 10),
            (None, "sealdb") => "whole tables".to_owned(),
            (None, "smrdb") => "4096 KB".to_owned(),
            (None, _) => "128 KB".to_owned(),
        };
        table.rows.push(vec![
            name,
            unit,
            short(load.ops_per_second()),
            short(load.settled_ops_per_second()),
            short(load.totals.write_amp_ratio()),
            short(load.totals.added_write_amp_ratio()),
            load.totals.seeks.to_string(),
        ]);
    }
    table
}

fn gets(size: &Size, results: &Results) -> Table {
    let mut table = Table::new("random reads by sorted runs and filters", &READ_COST);
    for (name, spec) in all(size) {
        let reads = results.get(&spec).ok().and_then(RunResult::read_random);
        if let Some(reads) = reads {
            table.row(name, &read_cost(reads));
        }
    }
    table
}

fn scans(size: &Size, results: &Results) -> Table {
    let header = ["store", "128 KB ahead", "4 MB ahead"];
    let mut table = Table::new("sequential reads, entries/s, by read-ahead", &header);
    for (name, spec) in all(size) {
        let Ok(run) = results.get(&spec) else { continue };
        let units = [FILE_READ_AHEAD_LEN_BYTES, TABLE_READ_AHEAD_LEN_BYTES];
        if units.iter().all(|&unit| run.read_sequential(unit).is_none()) {
            continue;
        }
        table.row(name, &units.map(|unit| rate(run.read_sequential(unit))));
    }
    table
}
