//! A figure's outcome: claims side by side, conditions, pictures, words.
//!
//! Invariants
//!   P1  A claim of an order is met only on its own side of equality: a tie is none, and no tolerance reaches
//!       across.
//!   P2  What could not be measured is no number (a NaN), and no claim: a page names it. A measured 0 is judged
//!       by its side as any other value.

use crate::chart::Chart;
use imbrex_bench::svg::short;
use serde::Serialize;

/// What a figure came to.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Page {
    /// The paper's values beside ours.
    pub claims: Vec<Claim>,
    /// Figures without a counterpart in the paper, and the conditions compared.
    pub tables: Vec<Table>,
    /// Pictures in the paper's form.
    pub charts: Vec<Chart>,
    /// What a reader must know to judge the numbers.
    pub notes: Vec<String>,
    /// Runs that could not be made, and why.
    pub missing: Vec<String>,
}

/// One claim of a paper, and what was found.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    /// What is claimed.
    pub what: String,
    /// The paper's value; 1 where it has an order alone; none where it draws it without either.
    pub paper: Option<f64>,
    /// Ours; no number where it could not be measured.
    pub ours: f64,
    /// The unit of both.
    pub unit: String,
    /// Ours as a share of the paper's.
    pub ratio: Option<f64>,
    /// How it came out.
    pub verdict: Verdict,
    /// The same claim as measured under other conditions.
    pub elsewhere: Vec<Elsewhere>,
    #[serde(skip)]
    better: Better,
    /// Which of two is ahead is all that the paper says.
    #[serde(skip)]
    is_order: bool,
}

/// A claim measured again, or read off differently, under another condition of the same run.
#[derive(Clone, Debug, Serialize)]
pub struct Elsewhere {
    /// Which condition.
    pub condition: String,
    /// What the claim comes to there.
    pub value: f64,
    /// Whether this condition carries the claim: there it is met or exceeded, or, where it should be
    /// the same, the paper's value lies between ours and the one there.
    pub carries: bool,
}

/// How a claim came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Within the tolerance of the paper's value; of an order, on its side.
    Met,
    /// Better than the paper's value by more than the tolerance.
    Exceeded,
    /// Worse by more than the tolerance, and a condition that was measured as well carries it.
    Explained,
    /// Worse by more than the tolerance; nothing measured says why.
    Missed,
    /// The paper has no number to hold it against.
    Shown,
}

/// Which side of the paper's value is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// The larger.
    Larger,
    /// The smaller.
    Smaller,
    /// Neither: it should come out the same.
    Same,
}

/// Ours may be so much worse than the paper's value and still meet it: papers round. Equality is no number
/// that a paper has rounded: an order is judged without (P1).
const TOLERANCE: f64 = 0.05;

impl Claim {
    /// A claim with the paper's value.
    pub fn new(
        what: impl Into<String>,
        better: Better,
        paper: f64,
        ours: f64,
        unit: &str,
    ) -> Claim {
        Claim {
            what: what.into(),
            paper: Some(paper),
            ours,
            unit: unit.to_owned(),
            ratio: Some(ours / paper).filter(|r| r.is_finite()),
            verdict: judge(better, paper, ours),
            elsewhere: Vec::new(),
            better,
            is_order: false,
        }
    }

    /// A claim of a paper that says only that of two one is ahead: `ours` is the one over the other, and
    /// `better`, which is a side, says on which side of 1 it should be.
    pub fn order(what: impl Into<String>, better: Better, ours: f64) -> Claim {
        assert!(better != Better::Same, "P1: an order has a side");
        let claim = Claim::new(what, better, 1.0, ours, "x");
        Claim { verdict: judge_order(better, ours), is_order: true, ..claim }
    }

    /// A value that the paper shows without a number.
    pub fn shown(what: impl Into<String>, ours: f64, unit: &str) -> Claim {
        Claim {
            what: what.into(),
            paper: None,
            ours,
            unit: unit.to_owned(),
            ratio: None,
            verdict: Verdict::Shown,
            elsewhere: Vec::new(),
            better: Better::Same,
            is_order: false,
        }
    }

    /// The claim, and what it comes to under `condition`; nothing is added where that was not
    /// measured, which leaves 0 or no number.
    pub fn under(mut self, condition: impl Into<String>, value: f64) -> Claim {
        if !value.is_finite() || value == 0.0 {
            return self;
        }
        let carries = self.paper.is_some_and(|paper| {
            let is_between = (self.ours - paper) * (value - paper) <= 0.0;
            let there = match self.is_order {
                true => judge_order(self.better, value),
                false => judge(self.better, paper, value),
            };
            there != Verdict::Missed || self.better == Better::Same && is_between
        });
        if carries && self.verdict == Verdict::Missed && self.is_measured() {
            self.verdict = Verdict::Explained;
        }
        self.elsewhere.push(Elsewhere { condition: condition.into(), value, carries });
        self
    }

    fn is_measured(&self) -> bool {
        self.ours.is_finite()
    }
}

/// How a value comes out against the paper's.
fn judge(better: Better, paper: f64, ours: f64) -> Verdict {
    let ratio = ours / paper;
    match better {
        _ if !ratio.is_finite() => Verdict::Missed,
        Better::Larger if ratio > 1.0 + TOLERANCE => Verdict::Exceeded,
        Better::Larger if ratio >= 1.0 - TOLERANCE => Verdict::Met,
        Better::Smaller if ratio < 1.0 - TOLERANCE => Verdict::Exceeded,
        Better::Smaller if ratio <= 1.0 + TOLERANCE => Verdict::Met,
        Better::Same if (ratio - 1.0).abs() <= TOLERANCE => Verdict::Met,
        _ => Verdict::Missed,
    }
}

/// How one over the other comes out against an order (P1).
fn judge_order(better: Better, ours: f64) -> Verdict {
    match better {
        Better::Larger if ours > 1.0 => judge(better, 1.0, ours),
        Better::Smaller if ours < 1.0 => judge(better, 1.0, ours),
        _ => Verdict::Missed,
    }
}

impl Verdict {
    /// One word.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::Exceeded => "exceeded",
            Verdict::Explained => "explained",
            Verdict::Missed => "missed",
            Verdict::Shown => "shown",
        }
    }
}

/// Rows of text under a heading.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// What it tells.
    pub title: String,
    /// Names of the columns.
    pub header: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub fn new(title: impl Into<String>, header: &[&str]) -> Table {
        let header = header.iter().map(|&cell| cell.to_owned()).collect();
        Table { title: title.into(), header, rows: Vec::new() }
    }

    /// Adds a row that starts with a name and goes on with numbers.
    pub fn row(&mut self, name: impl Into<String>, values: &[f64]) {
        let mut cells = vec![name.into()];
        cells.extend(values.iter().map(|v| short(*v)));
        self.rows.push(cells);
    }

    /// Lines for a terminal, columns aligned.
    pub(crate) fn lines(&self) -> Vec<String> {
        let all: Vec<&Vec<String>> = std::iter::once(&self.header).chain(&self.rows).collect();
        let columns = all.iter().map(|row| row.len()).max().unwrap_or(0);
        let width = |c: usize| {
            all.iter().filter_map(|row| row.get(c)).map(|cell| cell.chars().count()).max()
        };
        let widths: Vec<usize> = (0..columns).map(|c| width(c).unwrap_or(0)).collect();
        all.iter()
            .map(|row| {
                let cells = row.iter().zip(&widths).enumerate().map(|(c, (cell, width))| {
                    if c == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
                });
                cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
            })
            .collect()
    }
}

impl Page {
    /// The page without claims that runs which could not be made would have to answer, and without those
    /// that the runs which were made could not (P2).
    pub(super) fn without_the_unmeasured(mut self) -> Page {
        if !self.missing.is_empty() {
            // What a missing run leaves may be 0 as well.
            self.claims.retain(|claim| claim.is_measured() && claim.ours != 0.0);
            return self;
        }
        let is_told = |claim: &Claim| claim.is_measured() || claim.verdict == Verdict::Shown;
        let (told, unmeasured): (Vec<Claim>, Vec<Claim>) =
            self.claims.into_iter().partition(is_told);
        self.claims = told;
        if !unmeasured.is_empty() {
            let names: Vec<String> = unmeasured.into_iter().map(|claim| claim.what).collect();
            self.notes.push(format!(
                "Not measured at this size, or with nothing to divide by, and so neither met nor missed: {}.",
                names.join("; ")
            ));
        }
        self
    }

    /// The claims as a table.
    pub(crate) fn claim_table(&self) -> Table {
        let mut table = Table::new("claims", &["claim", "paper", "ours", "ratio", "unit", ""]);
        for claim in &self.claims {
            let or_dash = |value: Option<f64>| value.map_or("-".to_owned(), short);
            table.rows.push(vec![
                claim.what.clone(),
                or_dash(claim.paper),
                short(claim.ours),
                or_dash(claim.ratio),
                claim.unit.clone(),
                claim.verdict.word().to_owned(),
            ]);
        }
        table
    }

    /// The claims under other conditions, if there are any.
    pub(crate) fn condition_table(&self) -> Option<Table> {
        let title = "the same claims under other conditions";
        let mut table = Table::new(title, &["claim", "condition", "paper", "there", ""]);
        for claim in &self.claims {
            for other in &claim.elsewhere {
                table.rows.push(vec![
                    claim.what.clone(),
                    other.condition.clone(),
                    claim.paper.map_or("-".to_owned(), short),
                    short(other.value),
                    if other.carries { "carries it" } else { "" }.to_owned(),
                ]);
            }
        }
        Some(table).filter(|table| !table.rows.is_empty())
    }

    /// All tables but that of the claims.
    pub(crate) fn further_tables(&self) -> impl Iterator<Item = Table> {
        self.condition_table().into_iter().chain(self.tables.iter().cloned())
    }

    /// The page for a terminal.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        let mut add = |lines: Vec<String>| {
            for line in lines {
                out.push_str("  ");
                out.push_str(&line);
                out.push('\n');
            }
        };
        if !self.claims.is_empty() {
            add(self.claim_table().lines());
        }
        for table in self.further_tables() {
            add(vec![String::new(), format!("{}:", table.title)]);
            add(table.lines());
        }
        for note in &self.notes {
            add(vec![String::new(), note.clone()]);
        }
        for missing in &self.missing {
            add(vec![format!("not run: {missing}")]);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_follow_the_better_side() {
        let verdict = |better, paper, ours| Claim::new("", better, paper, ours, "x").verdict;
        assert_eq!(verdict(Better::Larger, 3.42, 3.40), Verdict::Met);
        assert_eq!(verdict(Better::Larger, 3.42, 4.0), Verdict::Exceeded);
        assert_eq!(verdict(Better::Larger, 3.42, 3.0), Verdict::Missed);
        assert_eq!(verdict(Better::Smaller, 9.32, 5.0), Verdict::Exceeded);
        assert_eq!(verdict(Better::Smaller, 9.32, 12.0), Verdict::Missed);
        assert_eq!(verdict(Better::Same, 1.0, 1.0), Verdict::Met);
        assert_eq!(verdict(Better::Same, 1.0, 2.0), Verdict::Missed);
        assert_eq!(verdict(Better::Smaller, 9.32, 0.0), Verdict::Exceeded, "none at all is best");
        assert_eq!(verdict(Better::Larger, 9.32, 0.0), Verdict::Missed);
        assert_eq!(verdict(Better::Same, 9.32, 0.0), Verdict::Missed);
        assert_eq!(Claim::shown("", 1.0, "x").verdict, Verdict::Shown);
    }

    #[test]
    fn a_missed_claim_is_explained_by_a_condition_that_carries_it_and_by_nothing_else() {
        let claim = |better, ours| Claim::new("", better, 2.0, ours, "x");
        let verdict = |claim: Claim| (claim.verdict, claim.elsewhere.last().map(|e| e.carries));
        let missed = claim(Better::Larger, 1.0);
        assert_eq!(
            verdict(missed.clone().under("a", 1.5)),
            (Verdict::Missed, Some(false)),
            "nearer, and still missed"
        );
        assert_eq!(verdict(missed.clone().under("a", 1.95)), (Verdict::Explained, Some(true)));
        assert_eq!(verdict(missed.clone().under("a", 0.0)), (Verdict::Missed, None), "not run");
        assert_eq!(verdict(missed.under("a", f64::NAN)), (Verdict::Missed, None));
        let met = claim(Better::Larger, 2.0).under("a", 5.0);
        assert_eq!(verdict(met), (Verdict::Met, Some(true)));
        let same = claim(Better::Same, 1.0);
        assert_eq!(verdict(same.clone().under("a", 1.8)), (Verdict::Missed, Some(false)));
        assert_eq!(verdict(same.under("a", 3.0)), (Verdict::Explained, Some(true)), "between");
        let unmeasured = claim(Better::Smaller, f64::NAN).under("a", 1.0);
        assert_eq!(unmeasured.verdict, Verdict::Missed, "nothing of ours to explain");
        assert_eq!(
            verdict(Claim::shown("", 1.0, "x").under("a", 2.0)),
            (Verdict::Shown, Some(false))
        );
    }

    /// An order was met up to 5 % on the wrong side, as if 1 were a number that a paper had rounded: SEALDB
    /// behind LevelDB counted as ahead of it (P1).
    #[test]
    fn an_order_is_met_on_its_own_side_alone() {
        let larger = |ours| Claim::order("ahead", Better::Larger, ours);
        let smaller = |ours| Claim::order("less", Better::Smaller, ours);
        let verdicts = |claim: &dyn Fn(f64) -> Claim, all: [f64; 5]| all.map(|o| claim(o).verdict);
        let [missed, met, exceeded] = [Verdict::Missed, Verdict::Met, Verdict::Exceeded];
        assert_eq!(
            verdicts(&larger, [0.0, 0.97, 1.0, 1.01, 1.06]),
            [missed, missed, missed, met, exceeded]
        );
        assert_eq!(
            verdicts(&smaller, [0.0, 0.94, 0.99, 1.0, 1.03]),
            [exceeded, exceeded, met, missed, missed]
        );
        assert_eq!(larger(f64::NAN).verdict, missed);
        assert_eq!((larger(0.97).paper, larger(0.97).ratio), (Some(1.0), Some(0.97)));
        // Nor is a missed one explained by a condition that has the order turned round as well.
        let there = |value| {
            let claim = larger(0.9).under("a", value);
            (claim.verdict, claim.elsewhere[0].carries)
        };
        assert_eq!(there(0.99), (missed, false));
        assert_eq!(there(1.0), (missed, false));
        assert_eq!(there(1.01), (Verdict::Explained, true));
    }

    /// What no run could answer was missed, and so counted (P2).
    #[test]
    fn what_was_not_measured_is_named_and_no_claim() {
        let claims = vec![
            Claim::new("nothing to measure", Better::Same, 0.5, f64::NAN, "H"),
            Claim::new("no fragment", Better::Smaller, 9.32, 0.0, "%"),
            Claim::shown("a dash", f64::NAN, "%"),
        ];
        let page = Page { claims, ..Page::default() };
        let whole = page.clone().without_the_unmeasured();
        let told = |page: &Page| {
            page.claims.iter().map(|c| (c.what.clone(), c.verdict)).collect::<Vec<_>>()
        };
        let wanted = [("no fragment", Verdict::Exceeded), ("a dash", Verdict::Shown)];
        assert_eq!(told(&whole), wanted.map(|(what, verdict)| (what.to_owned(), verdict)));
        assert!(whole.notes[0].ends_with("missed: nothing to measure."), "{:?}", whole.notes);
        let lacking = Page { missing: vec!["a run".to_owned()], ..page };
        assert_eq!(told(&lacking.without_the_unmeasured()), [], "a 0 may be that of a missing run");
    }

    #[test]
    fn tables_line_up() {
        let mut table = Table::new("t", &["layout", "MB"]);
        table.row("sealdb", &[1234.0]);
        table.row("gear", &[1.5]);
        assert_eq!(table.lines(), ["layout    MB", "sealdb  1234", "gear     1.5"]);
    }
}
