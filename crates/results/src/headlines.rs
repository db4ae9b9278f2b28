//! The page of headline claims: a table for each paper, with figures from the data files of other pages.
//!
//! ```text
//!   docs/results/headlines.json   which claims, why they came out so, and where each figure is
//!        |  "repro_sealdb | Every claim | `sealdb-8` | random load | ours"
//!        v   page           table         labels of the row            column
//!   docs/results/data/*.json  -->  the block between the markers of docs/results/headlines.md
//! ```
//!
//! Invariants
//!   H1  Every figure is a cell of a data file, or a text that begins with `=`. So a figure that is measured anew
//!       changes here as well.
//!   H2  What a row says of a claim agrees with what its data say: a claim that held up was met or exceeded there, one
//!       that did not was missed or needs a condition.
//!   H3  A row with figures from before a change of what was measured has a mark.

use crate::data::{Cell, Data};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// What the page says, without the figures.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Headlines {
    papers: Vec<Paper>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Paper {
    /// The paper, as a heading.
    paper: String,
    /// Where all its claims are, as Markdown.
    more: String,
    /// What equal conditions are.
    equal: String,
    /// The day from which on figures are those of the code of today, and what changed then.
    since: String,
    change: String,
    rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    claim: String,
    paper: String,
    ours: String,
    /// Under conditions that are the same for both stores.
    equal: String,
    /// What the data say of it.
    out: String,
    held: Held,
    why: String,
}

/// Whether a claim held up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Held {
    /// At the paper's conditions and at equal ones.
    Yes,
    /// At the paper's conditions, and what carries it is a condition.
    ByCondition,
    No,
    /// The paper does not say enough, or contradicts itself.
    NotKnown,
}

impl Held {
    fn words(self) -> &'static str {
        match self {
            Held::Yes => "**yes**",
            Held::ByCondition => "by a condition",
            Held::No => "**no**",
            Held::NotKnown => "nobody can know",
        }
    }

    /// Whether that agrees with what the data say (H2).
    fn agrees(self, out: &str) -> bool {
        let is = |words: &[&str]| words.iter().any(|word| out.starts_with(word));
        match self {
            Held::Yes => is(&["met", "exceeded"]),
            Held::ByCondition => is(&["met", "exceeded", "explained"]),
            Held::No => is(&["missed", "explained"]),
            Held::NotKnown => true,
        }
    }
}

impl Headlines {
    pub(crate) fn parse(text: &str) -> Result<Headlines, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// The block of the page, from the data of the pages that it names.
    pub(crate) fn block(&self, data: &BTreeMap<String, Data>) -> Result<String, String> {
        let mut out = String::new();
        for paper in &self.papers {
            paper.write(data, &mut out)?;
        }
        Ok(out)
    }
}

impl Paper {
    fn write(&self, data: &BTreeMap<String, Data>, out: &mut String) -> Result<(), String> {
        let _ = write!(out, "## {}\n\n", self.paper);
        out.push_str("| claim | paper | ours | ours, equal conditions | held up | because |\n");
        out.push_str("|---|---|---|---|---|---|\n");
        let mut old: BTreeSet<(&str, &str)> = BTreeSet::new();
        for row in &self.rows {
            let mut ages = BTreeSet::new();
            let mut figure = |place: &str| figure(data, place, &mut ages);
            let (paper, ours) = (figure(&row.paper)?, figure(&row.ours)?);
            let (equal, came_out) = (figure(&row.equal)?, figure(&row.out)?);
            if !row.held.agrees(&came_out) {
                return Err(format!(
                    "{:?} is {:?}, but came out {came_out:?} (H2)",
                    row.claim, row.held
                ));
            }
            ages.retain(|(date, _)| *date < self.since.as_str());
            let mark = if ages.is_empty() { "" } else { "†" };
            let held = row.held.words();
            let _ = writeln!(
                out,
                "| {} | {paper} | {ours}{mark} | {equal} | {held} | {} |",
                row.claim, row.why
            );
            old.append(&mut ages);
        }
        out.push('\n');
        if !old.is_empty() {
            let commits: Vec<_> =
                old.iter().map(|(date, commit)| format!("`{commit}` of {date}")).collect();
            let _ = write!(out, "† of {}. {}.\n\n", commits.join(", "), self.change);
        }
        let _ = write!(out, "Equal conditions: {}. All claims: {}.\n\n", self.equal, self.more);
        Ok(())
    }
}

/// The figure at `place`, whose date and commit go to `ages` (H1).
fn figure<'a>(
    data: &'a BTreeMap<String, Data>,
    place: &str,
    ages: &mut BTreeSet<(&'a str, &'a str)>,
) -> Result<String, String> {
    if let Some(text) = place.strip_prefix('=') {
        return Ok(text.to_owned());
    }
    let missing = |what: &str| format!("{place:?}: no such {what} (H1)");
    let parts: Vec<&str> = place.split(" | ").collect();
    let [page, title, labels @ .., column] = &parts[..] else { return Err(missing("place")) };
    let of_page = data.get(*page).ok_or_else(|| missing("page"))?;
    let table = of_page.tables.iter().find(|table| table.title == *title);
    let table = table.ok_or_else(|| missing("table"))?;
    let at = table.columns.iter().position(|of| of.name == *column);
    let at = at.ok_or_else(|| missing("column"))?;
    // "a > b" is the first row b behind a row a.
    let (above, labels): (Option<&str>, Vec<&str>) = match labels.split_first() {
        Some((first, rest)) if first.contains(" > ") => {
            let (above, first) = first.split_once(" > ").unwrap_or_default();
            (Some(above), std::iter::once(first).chain(rest.iter().copied()).collect())
        }
        _ => (None, labels.to_vec()),
    };
    let is_above = |row: &&Vec<Cell>| {
        above.is_none_or(|above| row.first().is_some_and(|cell| cell.text() == above))
    };
    let from = table.rows.iter().position(|row| is_above(&row)).ok_or_else(|| missing("row"))?;
    let is_row = |row: &&Vec<Cell>| {
        labels
            .iter()
            .enumerate()
            .all(|(at, label)| row.get(at).is_some_and(|cell| cell.text() == *label))
    };
    let mut rows = table.rows[from..].iter().filter(is_row);
    let row = rows.next().ok_or_else(|| missing("row"))?;
    if above.is_none() && rows.next().is_some() {
        return Err(format!("{place:?}: several such rows (H1)"));
    }
    ages.insert((&of_page.date, &of_page.commit));
    Ok(row.get(at).map_or_else(String::new, |cell| cell.text().to_owned()))
}
