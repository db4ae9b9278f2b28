//! Figure 12: write amplification of the store (WA), of the drive (AWA) and of both (MWA).

use super::bands::whole_bands;
use super::{STORES, by_key, large_reads, random, restless};
use crate::chart::{Axis, Chart};
use crate::figure::{Figure, Runs};
use crate::figures::measures::{need, over};
use crate::page::{Better, Claim, Page};
use crate::results::Totals;
use imbrex_bench::svg::short;

pub(in super::super) const FIGURE_12: Figure = Figure {
    name: "sealdb-12",
    title: "write amplification of three stores",
    paper: "SEALDB, figure 12: 100 GB random load",
    runs: Runs::Stores(|size| {
        let others = [
            large_reads(size, "leveldb-banded"),
            whole_bands(size),
            restless(size, "leveldb-banded"),
            restless(size, "sealdb"),
            by_key(size),
        ];
        STORES.iter().map(|s| random(size, s)).chain(others).collect()
    }),
    page: |size, results| {
        let mut page = Page::default();
        let totals: Vec<Totals> = STORES
            .iter()
            .map(|store| {
                let run = need(&mut page, results, &random(size, store));
                run.and_then(|run| run.load()).map_or(Totals::default(), |load| load.totals)
            })
            .collect();
        let of = |f: fn(&Totals) -> f64| totals.iter().map(f).collect::<Vec<f64>>();
        let wa = of(Totals::write_amp_ratio);
        let awa = of(Totals::added_write_amp_ratio);
        let mwa = of(Totals::multiplied_write_amp_ratio);
        let mut load_of = |spec| {
            let run = need(&mut page, results, &spec);
            run.and_then(|run| run.load()).map_or(Totals::default(), |load| load.totals)
        };
        let whole = load_of(whole_bands(size)).added_write_amp_ratio();
        let large = load_of(large_reads(size, "leveldb-banded"));
        let by_key = load_of(by_key(size)).write_amp_ratio();
        let [banded_at_once, sealdb_at_once] = ["leveldb-banded", "sealdb"]
            .map(|store| load_of(restless(size, store)).write_amp_ratio());
        page.claims = vec![
            Claim::new("MWA, LevelDB over SEALDB", Better::Larger, 6.70, over(mwa[0], mwa[2]), "x")
                .under(
                    format!("rewrites of whole bands, with an AWA of {}", short(whole)),
                    over(wa[0] * whole, mwa[2]),
                )
                .under(
                    "LevelDB reads 4 MB at a time in compactions",
                    over(large.multiplied_write_amp_ratio(), mwa[2]),
                ),
            Claim::new("AWA of SEALDB", Better::Same, 1.0, awa[2], ""),
            Claim::new("AWA of SMRDB", Better::Same, 1.0, awa[1], ""),
            Claim::new("WA, SEALDB over LevelDB", Better::Same, 1.0, over(wa[2], wa[0]), "x")
                .under(
                    "counted when the last put of the load returns",
                    over(sealdb_at_once, banded_at_once),
                )
                .under("SEALDB takes victims by key", over(by_key, wa[0])),
            Claim::shown("WA, SMRDB over LevelDB (the paper: below 1)", over(wa[1], wa[0]), "x"),
        ];
        let groups = STORES.map(str::to_owned).to_vec();
        let y = || Axis::linear("multiple");
        let both = vec![("WA".to_owned(), wa), ("AWA".to_owned(), awa)];
        page.charts.push(Chart::bars("(a) WA and AWA", groups.clone(), y(), both));
        page.charts.push(Chart::bars("(b) MWA", groups, y(), vec![("MWA".to_owned(), mwa)]));
        page
    },
};
