//! The tables of a reproduction for the data file of a results page: all figures together, then each one's own.

use crate::page::{Table, Verdict};
use crate::reproduction::{FigurePage, Reproduction};
use imbrex_bench::svg::short;

impl Reproduction {
    /// Every claim, the same claims under other conditions, claims by figure, and the further tables of each figure.
    /// Tables without rows are left out.
    pub fn tables(&self) -> Vec<Table> {
        let mut tables = vec![self.claims(), self.conditions(), self.verdicts_by_figure()];
        for FigurePage { name, page, .. } in &self.figures {
            let named = |table: &Table| Table {
                title: format!("{name}: {}", table.title),
                ..table.clone()
            };
            tables.extend(page.tables.iter().map(named));
        }
        tables.retain(|table| !table.rows.is_empty());
        tables
    }

    fn claims(&self) -> Table {
        let header = ["figure", "claim", "paper", "ours", "ratio", "unit", "came out"];
        let mut table = Table::new("Every claim", &header);
        for FigurePage { name, page, .. } in &self.figures {
            for cells in page.claim_table().rows {
                table.rows.push([&[(*name).to_owned()], &cells[..]].concat());
            }
        }
        table
    }

    fn conditions(&self) -> Table {
        let header = ["figure", "claim", "condition", "paper", "ours", "there", ""];
        let mut table = Table::new("The same claims under other conditions", &header);
        for FigurePage { name, page, .. } in &self.figures {
            for claim in &page.claims {
                for other in &claim.elsewhere {
                    let carries = if other.carries { "carries it" } else { "" };
                    let names = [*name, &claim.what, &other.condition].map(str::to_owned);
                    let paper = claim.paper.map_or("-".to_owned(), short);
                    let cells = [paper, short(claim.ours), short(other.value), carries.to_owned()];
                    table.rows.push([names.to_vec(), cells.to_vec()].concat());
                }
            }
        }
        table
    }

    fn verdicts_by_figure(&self) -> Table {
        const VERDICTS: [Verdict; 4] =
            [Verdict::Met, Verdict::Exceeded, Verdict::Explained, Verdict::Missed];
        let header = [&["figure"], &VERDICTS.map(Verdict::word)[..]].concat();
        let mut table = Table::new("Claims by figure", &header);
        for FigurePage { name, page, .. } in &self.figures {
            let count =
                |verdict| page.claims.iter().filter(|claim| claim.verdict == verdict).count();
            let counts = VERDICTS.map(|verdict| count(verdict) as f64);
            if counts.iter().sum::<f64>() > 0.0 {
                table.row(*name, &counts);
            }
        }
        table
    }
}
