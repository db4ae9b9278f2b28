//! The page of a figure: claims, conditions, charts, notes.
//!
//! Invariants
//!   P1  A claim about an order is met only on its own side of 1. A tie does not meet it, and no
//!       tolerance applies.
//!   P2  A value that could not be measured is NaN; it makes no claim, and the page names it. A
//!       measured 0 is judged like any other value.
//!   P3  A lead that a store has because it is run with more than its rival is no lead. A claim that
//!       would be missed at equal conditions is missed, whatever it is elsewhere.

use crate::chart::Chart;
use imbrex_bench::svg::short;
use serde::Serialize;

/// The outcome of a figure.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Page {
    /// The paper's values next to ours.
    pub claims: Vec<Claim>,
    /// Tables without a counterpart in the paper, and the conditions.
    pub tables: Vec<Table>,
    /// Charts in the paper's form.
    pub charts: Vec<Chart>,
    /// Notes that a reader needs to judge the numbers.
    pub notes: Vec<String>,
    /// Failed runs, and why.
    pub missing: Vec<String>,
}

/// One claim of a paper, and our result.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    /// The claim.
    pub what: String,
    /// The paper's value; 1 if the paper gives only an order; `None` if it only draws the value.
    pub paper: Option<f64>,
    /// Our value; NaN if it could not be measured.
    pub ours: f64,
    /// The unit of both.
    pub unit: String,
    /// Our value divided by the paper's.
    pub ratio: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// The claim under other conditions.
    pub elsewhere: Vec<Elsewhere>,
    #[serde(skip)]
    better: Better,
    /// Whether the paper says only which of two is ahead.
    #[serde(skip)]
    is_order: bool,
    /// Whether it holds only because the stores are not alike in something else (P3).
    #[serde(skip)]
    is_unequal: bool,
}

/// A claim measured again, or evaluated differently, under another condition of the same run.
#[derive(Clone, Debug, Serialize)]
pub struct Elsewhere {
    /// The condition.
    pub condition: String,
    /// Our value under it.
    pub value: f64,
    /// Whether this condition explains the claim: under it the claim is met or exceeded; or, for a
    /// claim of equality, the paper's value lies between our two values.
    pub carries: bool,
}

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Within the tolerance of the paper's value; for an order, on its side.
    Met,
    /// Better than the paper's value by more than the tolerance.
    Exceeded,
    /// Worse by more than the tolerance, but a measured condition explains it.
    Explained,
    /// Worse by more than the tolerance, and no measured condition explains it.
    Missed,
    /// The paper gives no number to compare with.
    Shown,
}

/// The better side of the paper's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// The larger.
    Larger,
    /// The smaller.
    Smaller,
    /// Neither: the values should be equal.
    Same,
}

/// How much worse than the paper's value ours may be and still meet it, because papers round their
/// values. An order has no rounded value, so it is judged without tolerance (P1).
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
            is_unequal: false,
        }
    }

    /// A claim that gives only an order: `ours` is the ratio of the two, and `better`, which is not
    /// `Same`, is the expected side of 1.
    pub fn order(what: impl Into<String>, better: Better, ours: f64) -> Claim {
        assert!(better != Better::Same, "P1: an order has a side");
        let claim = Claim::new(what, better, 1.0, ours, "x");
        Claim { verdict: judge_order(better, ours), is_order: true, ..claim }
    }

    /// A value for which the paper gives no number.
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
            is_unequal: false,
        }
    }

    /// Adds the value at equal conditions, which the claim must meet as well (P3).
    pub fn at_equal(mut self, condition: impl Into<String>, value: f64) -> Claim {
        let is_measured = value.is_finite() && value != 0.0;
        let holds = is_measured && self.judge_there(value) != Verdict::Missed;
        if is_measured && !holds && self.verdict != Verdict::Shown {
            self.verdict = Verdict::Missed;
            self.is_unequal = true;
        }
        self.under(condition, value)
    }

    /// The verdict if `value` were ours.
    fn judge_there(&self, value: f64) -> Verdict {
        match self.paper {
            Some(_) if self.is_order => judge_order(self.better, value),
            Some(paper) => judge(self.better, paper, value),
            None => Verdict::Shown,
        }
    }

    /// Adds the value under `condition`, unless it was not measured (0 or NaN).
    pub fn under(mut self, condition: impl Into<String>, value: f64) -> Claim {
        if !value.is_finite() || value == 0.0 {
            return self;
        }
        let carries = self.paper.is_some_and(|paper| {
            let is_between = (self.ours - paper) * (value - paper) <= 0.0;
            let there = self.judge_there(value);
            there != Verdict::Missed || self.better == Better::Same && is_between
        });
        let is_missed = self.verdict == Verdict::Missed && !self.is_unequal;
        if carries && is_missed && self.is_measured() {
            self.verdict = Verdict::Explained;
        }
        self.elsewhere.push(Elsewhere { condition: condition.into(), value, carries });
        self
    }

    fn is_measured(&self) -> bool {
        self.ours.is_finite()
    }
}

/// Judges a value against the paper's.
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

/// Judges a ratio against an order (P1).
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

/// A table of text.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// Its title.
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

    /// Adds a row with a name and numbers.
    pub fn row(&mut self, name: impl Into<String>, values: &[f64]) {
        let mut cells = vec![name.into()];
        cells.extend(values.iter().map(|v| short(*v)));
        self.rows.push(cells);
    }

    /// Lines for a terminal, with aligned columns.
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
    /// The page without claims that depend on failed runs, and without those that the completed
    /// runs could not measure (P2).
    pub(super) fn without_the_unmeasured(mut self) -> Page {
        if !self.missing.is_empty() {
            // A missing run may also leave a 0.
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

    /// The claims under other conditions, if any.
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

    /// All tables except that of the claims.
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
    fn a_lead_by_unequal_conditions_is_missed_whatever_else_carries_it() {
        let claim = |ours| Claim::new("", Better::Larger, 1.7, ours, "x");
        assert_eq!(claim(5.2).at_equal("reads", 1.75).verdict, Verdict::Exceeded);
        assert_eq!(claim(5.2).at_equal("reads", 1.2).verdict, Verdict::Missed);
        assert_eq!(claim(5.2).under("space", 4.0).at_equal("reads", 1.2).verdict, Verdict::Missed);
        assert_eq!(claim(5.2).at_equal("reads", 1.2).under("space", 4.0).verdict, Verdict::Missed);
        assert_eq!(claim(5.2).at_equal("reads", f64::NAN).verdict, Verdict::Exceeded, "not run");
        let order = Claim::order("", Better::Larger, 2.0).at_equal("reads", 0.99);
        assert_eq!(order.verdict, Verdict::Missed);
        assert_eq!(Claim::shown("", 1.0, "x").at_equal("reads", 2.0).verdict, Verdict::Shown);
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

    /// An order used to count as met up to 5 % on the wrong side, as if 1 were a number that a
    /// paper had rounded: SEALDB behind LevelDB counted as ahead of it (P1).
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
        // A condition that also reverses the order does not explain a missed one either.
        let there = |value| {
            let claim = larger(0.9).under("a", value);
            (claim.verdict, claim.elsewhere[0].carries)
        };
        assert_eq!(there(0.99), (missed, false));
        assert_eq!(there(1.0), (missed, false));
        assert_eq!(there(1.01), (Verdict::Explained, true));
    }

    /// Values that no run could measure used to count as missed (P2).
    #[test]
    fn an_unmeasured_value_is_named_and_makes_no_claim() {
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
