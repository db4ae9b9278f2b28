//! The data file of a results page: what was asked, measured and left open, as JSON.
//!
//! A cell is a text or a number. A number keeps its digits as they stand in the file: nothing is rounded on the way
//! to the page.

use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Data {
    /// What the page answers, as a question.
    pub(super) question: String,
    /// What was run, as typed.
    pub(super) command: String,
    /// The same at its smallest, so that a test can run it.
    pub(super) smallest: String,
    pub(super) commit: String,
    /// When the figures were recorded: year, month, day.
    pub(super) date: String,
    pub(super) machine: String,
    /// What the figures do not say.
    pub(super) limits: Vec<String>,
    pub(super) chart: Chart,
    /// The first is the page's.
    pub(super) tables: Vec<Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    pub(super) title: String,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Vec<Cell>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Column {
    pub(super) name: String,
    #[serde(default)]
    pub(super) unit: String,
}

/// Bars of the first table: a group for each row, a bar for each column of values.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Chart {
    pub(super) title: String,
    /// The columns that name a row.
    pub(super) label: Vec<usize>,
    /// The columns that are drawn.
    pub(super) values: Vec<usize>,
    /// Whether the axis is logarithmic.
    #[serde(default)]
    pub(super) log: bool,
    /// Where a line stands, such as at 1 for ratios.
    #[serde(default)]
    pub(super) mark: Option<f64>,
    /// Only rows in which this column has this text.
    #[serde(default)]
    pub(super) only: Option<(usize, String)>,
}

/// What stands in a cell: a text, or the digits of a number.
#[derive(Deserialize)]
#[serde(try_from = "Box<RawValue>")]
pub(super) struct Cell(String);

impl TryFrom<Box<RawValue>> for Cell {
    type Error = serde_json::Error;

    fn try_from(raw: Box<RawValue>) -> Result<Cell, serde_json::Error> {
        let raw = raw.get();
        match raw.starts_with('"') {
            true => serde_json::from_str(raw).map(Cell),
            false => serde_json::from_str::<f64>(raw).map(|_| Cell(grouped(raw))),
        }
    }
}

impl Cell {
    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// The number that the cell begins with.
    pub(super) fn number(&self) -> Option<f64> {
        let digits: String = self
            .0
            .trim_start_matches('*')
            .chars()
            .filter(|c| *c != ',')
            .take_while(|c| c.is_ascii_digit() || matches!(c, '.' | '-'))
            .collect();
        digits.parse().ok()
    }
}

impl Data {
    pub(super) fn parse(text: &str) -> Result<Data, String> {
        let data: Data = serde_json::from_str(text).map_err(|err| err.to_string())?;
        match data.tables.first() {
            Some(_) => Ok(data),
            None => Err("has no table".to_owned()),
        }
    }

    /// The table that the page shows.
    pub(super) fn table(&self) -> &Table {
        &self.tables[0]
    }

    /// What is wrong with it.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.limits.len() != 3 {
            faults.push(format!("{} limits; a page has three (P3)", self.limits.len()));
        }
        let fields = [
            &self.question,
            &self.command,
            &self.smallest,
            &self.commit,
            &self.date,
            &self.machine,
        ];
        if fields.iter().any(|field| field.is_empty()) {
            faults.push("an empty field (P3)".to_owned());
        }
        for table in &self.tables {
            let count = table.columns.len();
            if let Some(row) = table.rows.iter().position(|row| row.len() != count) {
                let title = &table.title;
                faults
                    .push(format!("{title:?}: row {row} has no cell for each of {count} columns"));
            }
        }
        let chart = &self.chart;
        let columns = chart.label.iter().chain(&chart.values);
        if let Some(column) = columns.max().filter(|max| **max >= self.table().columns.len()) {
            faults.push(format!("the chart draws column {column}, which is not there"));
        }
        faults
    }
}

/// The digits of a number with a comma between thousands, from 10,000 on.
fn grouped(digits: &str) -> String {
    let (whole, part) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    if whole.trim_start_matches('-').len() < 5 {
        return digits.to_owned();
    }
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_stay_as_they_are_in_the_file() {
        let cells =
            serde_json::from_str::<Vec<Cell>>(r#"[4.50, 22902895, -12345.0, 1000, "5 of 6"]"#);
        let cells = cells.unwrap();
        let texts: Vec<&str> = cells.iter().map(Cell::text).collect();
        assert_eq!(texts, ["4.50", "22,902,895", "-12,345.0", "1000", "5 of 6"]);
        let numbers: Vec<_> = cells.iter().map(Cell::number).collect();
        assert_eq!(
            numbers,
            [Some(4.5), Some(22_902_895.0), Some(-12345.0), Some(1000.0), Some(5.0)]
        );
    }

    #[test]
    fn an_object_is_no_cell() {
        assert!(serde_json::from_str::<Cell>("{}").is_err());
        assert!(serde_json::from_str::<Cell>("null").is_err());
    }
}
