//! Figure 5.3: the life of flash by the share of writes that is offloaded. A formula; nothing is
//! run.

use crate::chart::{Axis, Chart, Series};
use crate::figure::{Figure, Runs};
use crate::figures::measures::GB;
use crate::page::{Better, Claim, Page, Table};
use imbrex_disk_sim::flash_life_bytes;

/// Sizes of flash and disk in GB. The first pair is the thesis' example, the last its machine.
const PAIRS: [(u64, u64); 4] = [(40, 8_000), (80, 8_000), (160, 8_000), (16, 160)];
const SHARES_PERCENT: [u64; 10] = [10, 20, 30, 40, 50, 60, 70, 80, 90, 100];
const TB: f64 = 1e12;

pub(in super::super::super) const FIGURE_5_3: Figure = Figure {
    name: "thesis-5.3",
    title: "life of flash, by the share of writes that is offloaded",
    paper: "thesis, figure 5.3: 3,000 write cycles",
    runs: Runs::Arrivals(|_| Vec::new()),
    page: |_, _| {
        let mut page = Page::default();
        let (flash_bytes, disk_bytes) = (40 * GB, (8_000 * GB) as f64);
        for (ratio, tera_bytes, overwrites) in [(1.0, 120.0, 15.0), (0.4, 300.0, 37.5)] {
            let life_bytes = flash_life_bytes(flash_bytes, ratio);
            let what = format!("40 GB beside 8 TB, {:.0} % offloaded: written", 100.0 * ratio);
            page.claims.push(Claim::new(what, Better::Same, tera_bytes, life_bytes / TB, "TB"));
            let what = format!("40 GB beside 8 TB, {:.0} % offloaded: the disk", 100.0 * ratio);
            let ours = life_bytes / disk_bytes;
            page.claims.push(Claim::new(what, Better::Same, overwrites, ours, "times"));
        }
        let header = ["flash / disk", "10 %", "40 %", "70 %", "100 %"];
        let mut table = Table::new("overwrites of the disk, by the share offloaded", &header);
        let mut lines = Vec::new();
        for (flash, disk) in PAIRS {
            let overwrites = |percent: u64| {
                let life_bytes = flash_life_bytes(flash * GB, percent as f64 / 100.0);
                life_bytes / (disk * GB) as f64
            };
            let name = format!("{flash} GB / {disk} GB");
            table.row(name.clone(), &[10, 40, 70, 100].map(overwrites));
            let points = SHARES_PERCENT.map(|percent| (percent as f64, overwrites(percent)));
            lines.push(Series::new(name, points.to_vec()));
        }
        let (x, y) = (Axis::linear("% offloaded"), Axis::log("overwrites of the disk"));
        page.charts.push(Chart::lines("total writes until flash is worn out", x, y, lines));
        page.tables.push(table);
        page
    },
};
