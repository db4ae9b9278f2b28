//! Table I: memory of the mapping tree by the write buffer's length.

use super::shapes::{PaperTrace, scale};
use super::{BUFFERS, add, conditions, subjects, table, values};
use crate::figure::{Figure, Runs};
use crate::page::{Better, Claim, Page};
use crate::replays::ReplaySpec;
use crate::spec::Size;

fn runs(size: &Size) -> Vec<ReplaySpec> {
    subjects(size).iter().flat_map(super::Subject::ours).collect()
}

pub(in super::super) const TABLE_1: Figure = Figure {
    name: "driver-table-1",
    title: "memory of the mapping tree by write buffer",
    paper: "SMR block device driver, table I",
    runs: Runs::Replays(runs),
    page: |size, results| {
        let mut page = Page::default();
        let mut memory = table("memory of the mapping, MB, scaled to the paper's size", "source");
        let mut nodes = table("mapping nodes at the replayed size", "");
        for subject in subjects(size) {
            let specs = subject.ours();
            let megabytes = |bytes: u64| bytes as f64 / 1e6 / subject.scale;
            let ours = values(&mut page, results, &specs, |r| megabytes(r.mapping_bytes));
            let count = values(&mut page, results, &specs, |r| r.mapping_nodes as f64);
            add(&mut memory, &subject.name(), "ours", &ours);
            if let Some(paper) = subject.paper {
                add(&mut memory, &subject.name(), "paper", &paper.map_mb);
                for column in PaperTrace::UNFITTED_COLUMNS {
                    let what = format!("{}, buffer {}", subject.name(), BUFFERS[column].1);
                    let (theirs, ours) = (paper.map_mb[column], ours[column]);
                    page.claims.push(Claim::new(what, Better::Smaller, theirs, ours, "MB"));
                }
            }
            add(&mut nodes, &subject.name(), "", &count);
        }
        page.tables.extend([memory, nodes]);
        page.notes.push(conditions(size));
        page.notes.push(format!(
            "The megabytes are ours divided by the replayed share of the paper's size, {}, because \
             the length of a run in the mapping does not shrink with the footprint. The shapes are \
             fitted to the columns without a buffer and with 512 MB; the other columns are the \
             driver's own result. A node here is in two trees, one by LBA and one by PBA.",
            imbrex_bench::svg::short(scale(size))
        ));
        page
    },
};
