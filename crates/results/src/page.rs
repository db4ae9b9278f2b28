//! The generated block of a results page: table, chart, what was run, limits.

use crate::data::{Data, Table};
use std::fmt::Write;

const START: &str = "<!-- results: written by `cargo xtask results` -->\n";
const END: &str = "<!-- end of results -->";

/// `page` with the block of its data between the markers.
pub(crate) fn filled(page: &str, name: &str, data: &Data) -> Result<String, String> {
    between_markers(page, &block(name, data))
}

/// The index of all results: each page with its title and question.
pub(crate) fn index(page: &str, pages: &[(String, String, String)]) -> Result<String, String> {
    let mut table = "| page | question |\n|---|---|\n".to_owned();
    for (name, title, question) in pages {
        let _ = writeln!(table, "| [{title}]({name}.md) | {question} |");
    }
    between_markers(page, &table)
}

/// The first heading of a page.
pub(crate) fn title(page: &str) -> &str {
    page.lines().next().unwrap_or_default().trim_start_matches("# ")
}

pub(crate) fn between_markers(page: &str, block: &str) -> Result<String, String> {
    let (before, rest) = page.split_once(START).ok_or(format!("no line {:?}", START.trim()))?;
    let (_, after) = rest.split_once(END).ok_or(format!("no line {END:?}"))?;
    Ok(format!("{before}{START}{block}{END}{after}"))
}

fn block(name: &str, data: &Data) -> String {
    let mut out = format!("{}:\n\n", data.table().title);
    table(&mut out, data.table());
    let _ = write!(out, "\n![{}](charts/{name}.svg)\n", data.chart.title);
    let _ = write!(out, "\n```sh\n{}\n```\n\n", data.command);
    let _ = writeln!(out, "Commit `{}`, recorded {}. {}", data.commit, data.date, data.machine);
    out.push_str("\n**Limits**\n\n");
    for (at, limit) in data.limits.iter().enumerate() {
        let _ = writeln!(out, "{}. {limit}", at + 1);
    }
    let _ = write!(out, "\nThe data: [{name}.json](data/{name}.json)");
    match data.tables.get(1..) {
        Some(more) if !more.is_empty() => {
            let _ = writeln!(out, ", with {} more tables.", more.len());
        }
        _ => out.push_str(".\n"),
    }
    out
}

fn table(out: &mut String, table: &Table) {
    for column in &table.columns {
        let _ = match column.unit.as_str() {
            "" => write!(out, "| {} ", column.name),
            unit => write!(out, "| {}, {unit} ", column.name),
        };
    }
    out.push_str("|\n");
    for _ in &table.columns {
        out.push_str("|---");
    }
    out.push_str("|\n");
    for row in &table.rows {
        for cell in row {
            let _ = write!(out, "| {} ", cell.text());
        }
        out.push_str("|\n");
    }
}
