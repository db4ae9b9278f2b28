//! Table II: sequential and random throughput of the modelled disk.

use crate::figure::{Figure, Runs};
use crate::page::{Better, Claim, Page};
use imbrex_disk_sim::{Profile, Workload, measure};

pub(in super::super) const TABLE_2: Figure = Figure {
    name: "sealdb-table-2",
    title: "the disk alone: sequential and random reads and writes",
    paper: "SEALDB, table II: Seagate ST1000DM003",
    runs: Runs::Stores(|_| Vec::new()),
    page: |_, _| {
        let mut page = Page::default();
        let measured = match Profile::by_name("st1000dm003") {
            Ok(profile) => measure(&profile),
            Err(error) => {
                page.missing.push(error.to_string());
                return page;
            }
        };
        let figures = match measured {
            Ok(measured) => measured.figures,
            Err(error) => {
                page.missing.push(error.to_string());
                return page;
            }
        };
        type Is = fn(&Workload) -> bool;
        let rows: [(Is, &str, f64); 4] = [
            (|w| *w == Workload::SequentialReadOuter, "sequential read", 169.0),
            (|w| *w == Workload::SequentialWriteOuter, "sequential write", 155.0),
            (|w| matches!(w, Workload::RandomRead { .. }), "random read, 4 KB", 64.0),
            (|w| matches!(w, Workload::RandomWrite { .. }), "random write, 4 KB", 143.0),
        ];
        for (is, what, paper) in rows {
            let Some(figure) = figures.iter().find(|f| is(&f.workload)) else { continue };
            let unit = figure.workload.unit();
            page.claims.push(Claim::new(what, Better::Same, paper, figure.measured, unit));
        }
        page.notes.push(
            "The profile is calibrated to these figures; `imbrex drive bench st1000dm003` measures \
             it. The raw shingled drives of the other figures have the same mechanics."
                .to_owned(),
        );
        page
    },
};
