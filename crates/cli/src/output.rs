//! The output of a command: reports as a table for people or JSON for programs, and raw bytes.
//!
//! Standard output goes through [`Output`]. `println!` would panic after a reader such as `head` has closed
//! its end of the pipe; here the command ends quietly, unless something else failed. Messages go to
//! standard error through [`note`].

use crate::error::{CliError, Context, Exit};
use clap::ValueEnum;
use serde_json::{Map, Value};
use std::fmt;
use std::io::{self, BufWriter, IsTerminal, Write};

/// How a command prints its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table for people
    Table,
    /// JSON for programs: one document; `get` and `scan` print one object per line
    Json,
    /// The exact bytes (`get` and `scan`)
    Raw,
    /// Hexadecimal (`get` and `scan`)
    Hex,
    /// A self-contained page for a browser (`repro`)
    #[value(hide = true)]
    Html,
}

/// How `get` and `scan` print keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryFormat {
    Json,
    Raw,
    Hex,
}

/// Standard output.
pub(crate) struct Output {
    to: BufWriter<io::StdoutLock<'static>>,
    format: Option<Format>,
}

impl Output {
    pub(crate) fn new(format: Option<Format>) -> Output {
        Output { to: BufWriter::with_capacity(1 << 16, io::stdout().lock()), format }
    }

    /// Whether the user gave `--format`.
    pub(crate) fn is_chosen(&self) -> bool {
        self.format.is_some()
    }

    /// Whether a report should be JSON.
    pub(crate) fn is_json(&self) -> Result<bool, CliError> {
        match self.format {
            None | Some(Format::Table) => Ok(false),
            Some(Format::Json) => Ok(true),
            Some(Format::Raw | Format::Hex) => Err(CliError::usage(
                "--format raw and hex belong to get and scan; use table or json here",
            )),
            Some(Format::Html) => {
                Err(CliError::usage("--format html belongs to repro; use table or json here"))
            }
        }
    }

    /// Refuses a page for a browser, for a command that prints no report.
    pub(crate) fn check_no_page(&self) -> Result<(), CliError> {
        match self.format {
            Some(Format::Html) => {
                Err(CliError::usage("--format html belongs to repro; leave it out here"))
            }
            _ => Ok(()),
        }
    }

    /// The format of figures: a table, JSON or HTML.
    #[cfg(feature = "repro")]
    pub(crate) fn page_format(&self) -> Result<Format, CliError> {
        match self.format {
            Some(Format::Html) => Ok(Format::Html),
            _ if self.is_json()? => Ok(Format::Json),
            _ => Ok(Format::Table),
        }
    }

    /// The format of keys and values.
    pub(crate) fn entry_format(&self) -> Result<EntryFormat, CliError> {
        match self.format {
            None | Some(Format::Table | Format::Raw) => Ok(EntryFormat::Raw),
            Some(Format::Json) => Ok(EntryFormat::Json),
            Some(Format::Hex) => Ok(EntryFormat::Hex),
            Some(Format::Html) => {
                Err(CliError::usage("--format html belongs to repro; use raw, json or hex here"))
            }
        }
    }

    pub(crate) fn is_terminal(&self) -> bool {
        io::stdout().is_terminal()
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        self.to.write_all(bytes).map_err(failed)
    }

    pub(crate) fn line(&mut self, line: impl AsRef<str>) -> Result<(), CliError> {
        self.bytes(line.as_ref().as_bytes())?;
        self.bytes(b"\n")
    }

    pub(crate) fn json(&mut self, value: &Value) -> Result<(), CliError> {
        let text = serde_json::to_string_pretty(value).context(|| "cannot write JSON")?;
        self.line(text)
    }

    /// A report: names and values, as a table or as one JSON object.
    pub(crate) fn report(&mut self, report: &Report) -> Result<(), CliError> {
        if self.is_json()? {
            self.json(&report.json())
        } else {
            self.bytes(report.text().as_bytes())
        }
    }

    pub(crate) fn flush(&mut self) -> Result<(), CliError> {
        self.to.flush().map_err(failed)
    }
}

fn failed(error: io::Error) -> CliError {
    match error.kind() {
        io::ErrorKind::BrokenPipe => CliError::reader_gone(),
        _ => CliError::new(Exit::Store, format!("cannot write to standard output: {error}")),
    }
}

/// Writes a line to standard error, and ignores a failure to do so: `eprintln!` would panic.
pub(crate) fn note(line: impl fmt::Display) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Named values, in sections.
#[derive(Debug, Default)]
pub(crate) struct Report {
    sections: Vec<Section>,
}

#[derive(Debug)]
struct Section {
    title: String,
    /// The name of the section in JSON; empty if the title is.
    json_name: String,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    name: String,
    text: String,
    value: Value,
}

impl Report {
    /// Starts a section; rows are added to the newest one.
    pub(crate) fn section(&mut self, title: impl Into<String>) {
        let title = title.into();
        let json_name = json_name(&title);
        self.sections.push(Section { title, json_name, rows: Vec::new() });
    }

    /// Starts a section for an object that the user named. The JSON name keeps the user's spelling, so that
    /// two objects never share one.
    pub(crate) fn section_of(&mut self, kind: &str, name: &str) {
        let (title, json_name) = (format!("{kind} {name}"), format!("{kind}_{name}"));
        self.sections.push(Section { title, json_name, rows: Vec::new() });
    }

    /// Adds a row: its name, its text in the table, its value in JSON.
    pub(crate) fn row(
        &mut self,
        name: impl Into<String>,
        text: impl Into<String>,
        value: impl Into<Value>,
    ) {
        if self.sections.is_empty() {
            self.section("");
        }
        let row = Row { name: name.into(), text: text.into(), value: value.into() };
        if let Some(section) = self.sections.last_mut() {
            section.rows.push(row);
        }
    }

    /// One object; each section with a title is a nested object.
    pub(crate) fn json(&self) -> Value {
        let mut all = Map::new();
        for Section { title, json_name: name, rows } in &self.sections {
            let object: Map<_, _> =
                rows.iter().map(|row| (json_name(&row.name), row.value.clone())).collect();
            if title.is_empty() {
                all.extend(object);
            } else {
                all.insert(name.clone(), Value::Object(object));
            }
        }
        Value::Object(all)
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (at, Section { title, rows, .. }) in self.sections.iter().enumerate() {
            if at > 0 {
                text.push('\n');
            }
            let indent = if title.is_empty() { "" } else { "  " };
            if !title.is_empty() {
                text.push_str(title);
                text.push('\n');
            }
            let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
            for row in rows {
                text.push_str(&format!("{indent}{:<width$}  {}\n", row.name, row.text));
            }
        }
        text
    }
}

fn json_name(name: &str) -> String {
    name.to_ascii_lowercase().replace(',', "").replace([' ', '-', '/'], "_")
}

/// Columns of text; a column of numbers is aligned to the right.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(header: &[&str]) -> Table {
        Table { rows: vec![header.iter().map(|&cell| cell.to_owned()).collect()] }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The same for the data file of a results page.
    pub(crate) fn data(&self, title: impl Into<String>) -> imbrex_results::Table {
        let (header, rows) = self.rows.split_first().expect("a table has a header");
        let mut data = imbrex_results::Table::new(title, header);
        rows.iter().for_each(|cells| data.row(cells.clone()));
        data
    }

    /// The columns as text; all but the first are aligned to the right.
    pub(crate) fn text_right(&self) -> String {
        self.text_with(|column| column > 0)
    }

    pub(crate) fn text(&self) -> String {
        let is_number = |cell: &str| cell.starts_with(|c: char| c.is_ascii_digit() || c == '-');
        self.text_with(|column| {
            let mut cells = self.rows.iter().skip(1).filter_map(|row| row.get(column));
            cells.clone().next().is_some() && cells.all(|cell| is_number(cell))
        })
    }

    fn text_with(&self, is_to_right: impl Fn(usize) -> bool) -> String {
        let column_count = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(|r| r.get(column)).map(|c| c.chars().count()).max()
        };
        let widths: Vec<_> = (0..column_count).map(|c| width(c).unwrap_or(0)).collect();
        let to_right: Vec<_> = (0..column_count).map(is_to_right).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let width = widths[column];
                let cell = if to_right[column] {
                    format!("{cell:>width$}")
                } else {
                    format!("{cell:<width$}")
                };
                if column > 0 {
                    line.push_str("  ");
                }
                line.push_str(&cell);
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_aligns_numbers_to_the_right() {
        let mut table = Table::new(&["level", "files", "what"]);
        table.row(vec!["0".to_owned(), "7".to_owned(), "young".to_owned()]);
        table.row(vec!["1".to_owned(), "1234".to_owned(), "old".to_owned()]);
        assert_eq!(table.text(), "level  files  what\n    0      7  young\n    1   1234  old\n");
    }

    #[test]
    fn a_report_is_text_and_json_of_the_same_rows() {
        let mut report = Report::default();
        report.row("Drive", "a.imbrex", "a.imbrex");
        report.section("Zone states");
        report.row("read-only", "2 zones", 2);
        assert_eq!(report.text(), "Drive  a.imbrex\n\nZone states\n  read-only  2 zones\n");
        assert_eq!(
            report.json(),
            serde_json::json!({"drive": "a.imbrex", "zone_states": {"read_only": 2}})
        );
    }
}
