//! The data file of a results page: what was asked, measured and left open, as JSON.
//!
//! A cell is a text or a number. A number keeps its digits as they stand in the file: nothing is rounded on the way
//! to the page. The file has one form ([`Data::text`]), a row a line, so that a diff shows what changed.

use serde::Deserialize;
use serde_json::value::RawValue;
use std::fmt::Write;

/// A data file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// The question that the page answers.
    pub(crate) question: String,
    /// The command that was run, as typed.
    pub command: String,
    /// The same command at its smallest, so that a test can run it.
    pub smallest: String,
    pub(crate) commit: String,
    /// When the figures were recorded: year, month, day.
    pub(crate) date: String,
    pub(crate) machine: String,
    /// The limits of the figures.
    pub(crate) limits: Vec<String>,
    pub(crate) chart: Chart,
    /// The first is the page's.
    pub(crate) tables: Vec<Table>,
}

/// A table with a title.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    pub(crate) title: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

/// A column.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Column {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) unit: String,
}

/// Bars of the first table: a group for each row, a bar for each column of values.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Chart {
    pub(crate) title: String,
    /// The columns that name a row.
    pub(crate) label: Vec<usize>,
    /// The columns that are drawn.
    pub(crate) values: Vec<usize>,
    /// Whether the axis is logarithmic.
    #[serde(default)]
    pub(crate) log: bool,
    /// Where a line stands, such as at 1 for ratios.
    #[serde(default)]
    pub(crate) mark: Option<f64>,
    /// Only rows in which this column has this text.
    #[serde(default)]
    pub(crate) only: Option<(usize, String)>,
}

/// A cell: a text, or a number.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Box<RawValue>")]
pub(crate) struct Cell {
    /// The digits as they are in the file, if it is a number.
    digits: Option<String>,
    /// As the page shows it.
    shown: String,
}

impl TryFrom<Box<RawValue>> for Cell {
    type Error = serde_json::Error;

    fn try_from(raw: Box<RawValue>) -> Result<Cell, serde_json::Error> {
        let raw = raw.get();
        match raw.starts_with('"') {
            true => serde_json::from_str(raw).map(|shown| Cell { digits: None, shown }),
            false => serde_json::from_str::<f64>(raw).map(|_| Cell::of_digits(raw)),
        }
    }
}

impl From<String> for Cell {
    /// A number if the text is one as JSON writes it.
    fn from(text: String) -> Cell {
        match serde_json::from_str::<f64>(&text) {
            Ok(_) if text.trim() == text => Cell::of_digits(&text),
            _ => Cell { digits: None, shown: text },
        }
    }
}

impl Cell {
    fn of_digits(digits: &str) -> Cell {
        Cell { digits: Some(digits.to_owned()), shown: grouped(digits) }
    }

    pub(crate) fn text(&self) -> &str {
        &self.shown
    }

    pub(crate) fn is_number(&self) -> bool {
        self.digits.is_some()
    }

    /// The number that the cell begins with.
    pub(crate) fn number(&self) -> Option<f64> {
        let digits: String = self
            .shown
            .trim_start_matches('*')
            .chars()
            .filter(|c| *c != ',')
            .take_while(|c| c.is_ascii_digit() || matches!(c, '.' | '-'))
            .collect();
        digits.parse().ok()
    }
}

impl Table {
    /// An empty table.
    pub fn new<N: Into<String>>(
        title: impl Into<String>,
        columns: impl IntoIterator<Item = N>,
    ) -> Table {
        let column = |name: N| Column { name: name.into(), unit: String::new() };
        let columns = columns.into_iter().map(column).collect();
        Table { title: title.into(), columns, rows: Vec::new() }
    }

    /// Adds a row. A text that is a number in JSON's form becomes a number.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.into_iter().map(Cell::from).collect());
    }

    fn write(&self, out: &mut String) {
        let _ = write!(out, "    {{\n      \"title\": {},\n", quoted(&self.title));
        let columns: Vec<String> = self.columns.iter().map(Column::text).collect();
        list(out, "      ", "columns", &columns);
        out.push_str(",\n");
        let row = |cells: &Vec<Cell>| {
            let cells = cells.iter().map(|cell| cell.digits.clone().unwrap_or(quoted(&cell.shown)));
            format!("[{}]", cells.collect::<Vec<_>>().join(", "))
        };
        list(out, "      ", "rows", &self.rows.iter().map(row).collect::<Vec<_>>());
        out.push_str("\n    }");
    }
}

impl Column {
    fn text(&self) -> String {
        let name = quoted(&self.name);
        match self.unit.as_str() {
            "" => format!("{{\"name\": {name}}}"),
            unit => format!("{{\"name\": {name}, \"unit\": {}}}", quoted(unit)),
        }
    }
}

impl Chart {
    /// Bars for the first column of numbers.
    pub(crate) fn of(table: &Table) -> Chart {
        let is_number = |at: &usize| {
            table.rows.first().and_then(|row| row.get(*at)).is_some_and(Cell::is_number)
        };
        Chart {
            title: table.title.clone(),
            label: vec![0],
            values: (1..table.columns.len()).find(is_number).into_iter().collect(),
            ..Chart::default()
        }
    }

    fn text(&self) -> String {
        let (label, values) = (&self.label, &self.values);
        let mut out = format!("{{\"title\": {}, ", quoted(&self.title));
        let _ = write!(out, "\"label\": {label:?}, \"values\": {values:?}");
        if let Some((at, text)) = &self.only {
            let _ = write!(out, ", \"only\": [{at}, {}]", quoted(text));
        }
        if self.log {
            out.push_str(", \"log\": true");
        }
        if let Some(mark) = self.mark {
            let _ = write!(out, ", \"mark\": {mark}");
        }
        out + "}"
    }
}

/// A text as JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A list with an item on each line.
fn list(out: &mut String, indent: &str, name: &str, items: &[String]) {
    let _ = write!(out, "{indent}\"{name}\": [");
    for (at, item) in items.iter().enumerate() {
        let _ = write!(out, "{}\n{indent}  {item}", if at > 0 { "," } else { "" });
    }
    let _ = match items.is_empty() {
        true => write!(out, "]"),
        false => write!(out, "\n{indent}]"),
    };
}

impl Data {
    /// The file as text.
    pub fn text(&self) -> String {
        let mut out = "{\n".to_owned();
        for (name, text) in [
            ("question", &self.question),
            ("command", &self.command),
            ("smallest", &self.smallest),
            ("commit", &self.commit),
            ("date", &self.date),
            ("machine", &self.machine),
        ] {
            let _ = writeln!(out, "  \"{name}\": {},", quoted(text));
        }
        list(&mut out, "  ", "limits", &self.limits.iter().map(|l| quoted(l)).collect::<Vec<_>>());
        let _ = write!(out, ",\n  \"chart\": {},\n  \"tables\": [", self.chart.text());
        for (at, table) in self.tables.iter().enumerate() {
            out.push_str(if at > 0 { ",\n" } else { "\n" });
            table.write(&mut out);
        }
        out + "\n  ]\n}\n"
    }

    /// Reads a data file.
    ///
    /// # Errors
    /// It is not JSON of this form, or has no table.
    pub fn parse(text: &str) -> Result<Data, String> {
        let data: Data = serde_json::from_str(text).map_err(|err| err.to_string())?;
        match data.tables.first() {
            Some(_) => Ok(data),
            None => Err("has no table".to_owned()),
        }
    }

    /// The table that the page shows.
    pub(crate) fn table(&self) -> &Table {
        &self.tables[0]
    }

    /// What is wrong with it.
    pub(crate) fn faults(&self) -> Vec<String> {
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
