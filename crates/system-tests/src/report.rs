//! The tables of a measurement: printed as Markdown while it runs, and kept for the data file of a results page.

use crate::program::said;
use anyhow::{Context, Result, anyhow};
use imbrex_results::{Data, Measured, Table, command_line};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The option of every command that measures.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct DataArgs {
    /// Also write the tables to this data file of a results page; an existing one keeps its other content.
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
}

/// The tables so far.
pub(crate) struct Report {
    path: Option<PathBuf>,
    /// The text of the data file, if it exists.
    before: Option<String>,
    tables: Vec<Table>,
}

impl Report {
    /// # Errors
    /// The file that `args` names is no data file: a measurement may take an hour, so this fails before it.
    pub(crate) fn new(args: &DataArgs) -> Result<Report> {
        let path = args.data.clone();
        let existing = path.as_ref().filter(|path| path.exists());
        let before = existing.map(|path| {
            let shown = path.display();
            let text =
                std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
            Data::parse(&text)
                .map_err(|fault| anyhow!("{shown} is no data file of a results page: {fault}"))?;
            anyhow::Ok(text)
        });
        Ok(Report { path, before: before.transpose()?, tables: Vec::new() })
    }

    /// Begins a table, and prints its title and its header.
    pub(crate) fn table(&mut self, title: &str, columns: &[&str]) {
        println!("\n{title}:\n\n| {} |\n|{}", columns.join(" | "), "---|".repeat(columns.len()));
        self.tables.push(Table::new(title, columns.iter().copied()));
    }

    /// Prints a row of the last table, and keeps it.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        println!("| {} |", cells.join(" | "));
        self.tables.last_mut().expect("a row follows the header of its table").row(cells);
    }

    /// Keeps a table that is printed in another form.
    pub(crate) fn keep(&mut self, table: Table) {
        self.tables.push(table);
    }

    /// Writes the data file, if one is named, with the commit of `root` and the date.
    pub(crate) fn write(self, root: &Path) -> Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let arguments = std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned());
        let head = ["rev-parse", "--short", "HEAD"];
        // Without git they stay empty, and `cargo xtask results` asks for them.
        let or_nothing =
            |command: &mut Command| said(command).unwrap_or_default().trim().to_owned();
        let measured = Measured {
            command: command_line("cargo xtask", arguments),
            commit: or_nothing(Command::new("git").current_dir(root).args(head)),
            date: or_nothing(Command::new("date").args(["--utc", "+%F"])),
            tables: self.tables,
        };
        let text = measured.into_text(self.before.as_deref()).map_err(anyhow::Error::msg)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(path: &Path) -> Result<Report> {
        Report::new(&DataArgs { data: Some(path.to_owned()) })
    }

    #[test]
    fn printed_tables_become_a_data_file_that_is_written_again_in_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        for rate in ["17.5", "18"] {
            let mut report = report(&path).unwrap();
            report.table("Rates", &["load", "a second"]);
            report.row(vec!["randread".to_owned(), rate.to_owned()]);
            report.write(dir.path()).unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("        [\"randread\", 18]\n") && !text.contains("17.5"), "{text}");
        assert_eq!(Data::parse(&text).unwrap().text(), text);
        std::fs::write(&path, "{}").unwrap();
        assert!(report(&path).is_err());
        assert!(report(&dir.path().join("nowhere/a.json")).unwrap().write(dir.path()).is_err());
    }
}
