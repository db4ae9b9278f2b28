//! Figure 13: the fragments between dynamic bands.

use super::{by_key, cleaned, narrow_guards, prefix, random};
use crate::chart::{Axis, Chart, Series};
use crate::figure::{Figure, Runs};
use crate::figures::measures::{GB, grown, growth_to, megabytes, need, over};
use crate::page::{Better, Claim, Page, Table};
use crate::results::{RunResult, SpaceState};
use crate::spec::RunSpec;

pub(in super::super) const FIGURE_13: Figure = Figure {
    name: "sealdb-13",
    title: "fragments between dynamic bands",
    paper: "SEALDB, figure 13: 40 GB random load; fragments are free runs below the mean set",
    runs: Runs::Stores(|size| {
        vec![random(size, "sealdb"), narrow_guards(size), by_key(size), cleaned(size)]
    }),
    page: |size, results| {
        let mut page = Page::default();
        let share = prefix(size, 40 * GB);
        let Some(run) = need(&mut page, results, &random(size, "sealdb")) else { return page };
        let Some(load) = run.load() else { return page };
        let Some(state) = load.at_share(share) else { return page };
        let space = state.space;
        let fragments = |space: &SpaceState| {
            100.0 * over(space.fragment_bytes as f64, space.reach_bytes as f64)
        };
        let before = load.at_share(share / 4.0).map_or(0.0, |state| fragments(&state.space));
        let now = fragments(&space);
        let at_paper = grown(state.totals.user_bytes, 40 * GB, before, now);
        let mut there = |spec: RunSpec| {
            let load = need(&mut page, results, &spec).and_then(RunResult::load);
            load.and_then(|load| load.at_share(share)).map(|state| state.space).unwrap_or_default()
        };
        let narrow = fragments(&there(narrow_guards(size)));
        let (by_key, cleaned) = (there(by_key(size)), there(cleaned(size)));
        let dead =
            |space: &SpaceState| 100.0 * over(space.dead_bytes as f64, space.reach_bytes as f64);
        let what = "fragments, relative to the space occupied";
        page.claims.push(
            Claim::new(what, Better::Smaller, 9.32, now, "%")
                .under(growth_to(40 * GB, before, now), at_paper)
                .under("guards of 2 MB instead of 4", narrow)
                .under("victims by key", fragments(&by_key))
                .under("cleaned in the background", fragments(&cleaned)),
        );
        let what = "dead tables in sets that are still partly live (not counted in the paper)";
        page.claims.push(
            Claim::shown(what, dead(&space), "%")
                .under("victims by key", dead(&by_key))
                .under("cleaned in the background", dead(&cleaned)),
        );
        let header = ["", "dead sets first", "victims by key", "cleaned"];
        let mut table = Table::new("space, MB", &header);
        let spaces = [space, by_key, cleaned];
        let mut row = |name: &str, of: fn(&SpaceState) -> u64| {
            table.row(name, &spaces.map(|space| megabytes(of(&space))));
        };
        row("valid", |space| space.valid_bytes);
        row("dead tables in partly live sets", |space| space.dead_bytes);
        row("guards (some lie in fragments)", |space| space.guard_bytes);
        row("mean set", |space| space.mean_set_bytes);
        row("highest address used", |space| space.reach_bytes);
        row("fragments", |space| space.fragment_bytes);
        table.row("number of fragments", &spaces.map(|space| space.fragment_count as f64));
        page.tables.push(table);
        let points = |f: fn(&SpaceState) -> u64| {
            let states = load.milestones.iter();
            states.map(|m| (megabytes(m.totals.user_bytes), megabytes(f(&m.space)))).collect()
        };
        let series = vec![
            Series::new("valid", points(|s| s.valid_bytes)),
            Series::new("dead, not yet freed", points(|s| s.dead_bytes)),
            Series::new("highest address", points(|s| s.reach_bytes)),
            Series::new("fragments", points(|s| s.fragment_bytes)),
        ];
        let x = Axis::linear("MB loaded");
        page.charts.push(Chart::lines("space over the load", x, Axis::linear("MB"), series));
        let ratio = over(space.occupied_bytes as f64, space.valid_bytes as f64);
        page.notes.push(format!(
            "Valid data, dead tables in partly live sets and fragments together are {ratio:.2} \
             times the valid data. A set frees the space of its dead tables only when its last \
             table dies."
        ));
        page
    },
};
