//! Tables as Markdown.

/// A row of a Markdown table.
pub(super) fn row(cells: &[String]) {
    println!("| {} |", cells.join(" | "));
}

pub(super) fn header(cells: &[&str]) {
    row(&cells.iter().map(|&cell| cell.to_owned()).collect::<Vec<_>>());
    println!("|{}", "---|".repeat(cells.len()));
}
