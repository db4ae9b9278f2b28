//! The claims as Markdown, as kept in `docs/results`.

use crate::page::Table;
use crate::reproduction::{FigurePage, Reproduction};
use std::fmt::Write;

impl Reproduction {
    /// The claims and notes as Markdown, as kept in `docs/results`.
    pub fn to_markdown(&self) -> String {
        page(self)
    }
}

/// The claims, tables and notes of `reproduction`, one heading per figure.
fn page(reproduction: &Reproduction) -> String {
    let size = reproduction.size;
    let mut out = format!(
        "Scale {} of the papers' sizes, seed {}: {}.\n",
        size.scale,
        size.seed,
        reproduction.verdicts()
    );
    if let Some(names) = reproduction.unfinished_names() {
        let _ = writeln!(out, "\nStopped before the end of {names}.");
    }
    for figure in &reproduction.figures {
        section(&mut out, figure);
    }
    out
}

fn section(out: &mut String, figure: &FigurePage) {
    let _ = writeln!(out, "\n### {}: {}\n\n{}.", figure.name, figure.title, figure.paper);
    let page = &figure.page;
    if !page.claims.is_empty() {
        table(out, &page.claim_table());
    }
    for more in page.further_tables() {
        let _ = writeln!(out, "\nIn numbers: {}.", more.title);
        table(out, &more);
    }
    for note in &page.notes {
        let _ = writeln!(out, "\n{note}");
    }
    for missing in &page.missing {
        let _ = writeln!(out, "\nNot run: {missing}.");
    }
}

fn table(out: &mut String, table: &Table) {
    let row = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |", cells.join(" | "))
    };
    let _ = writeln!(out, "\n{}", row(&table.header));
    let _ = writeln!(out, "|{}", "---|".repeat(table.header.len()));
    for cells in &table.rows {
        let _ = writeln!(out, "{}", row(cells));
    }
}
