//! What a command has measured, and how it goes into a data file (P4).

use crate::data::{Chart, Data, Table};

/// The part of a data file that a command knows.
#[derive(Debug)]
pub struct Measured {
    /// The command as typed ([`command_line`]).
    pub command: String,
    /// The commit of what was measured; empty if the command does not know it.
    pub commit: String,
    /// Year, month, day; empty if the command does not know them.
    pub date: String,
    /// The tables, the most important first.
    pub tables: Vec<Table>,
}

impl Measured {
    /// The text of the data file, which had the text `before`. A table replaces the one of its title; a new title goes
    /// to the end. Other tables stay, with all that a person wrote.
    ///
    /// # Errors
    /// `before` is no data file, or nothing was measured.
    pub fn into_text(self, before: Option<&str>) -> Result<String, String> {
        let mut data = before.map_or_else(|| Ok(Data::default()), Data::parse)?;
        let had_columns = data.tables.first().map(|first| first.columns.len());
        for table in self.tables {
            match data.tables.iter_mut().find(|old| old.title == table.title) {
                Some(old) => *old = table,
                None => data.tables.push(table),
            }
        }
        let first = data.tables.first().ok_or("nothing was measured")?;
        if had_columns != Some(first.columns.len()) {
            data.chart = Chart::of(first);
        }
        (data.command, data.commit, data.date) = (self.command, self.commit, self.date);
        Ok(data.text())
    }
}

/// A command as it was typed, for a shell, without `--data FILE`.
pub fn command_line(program: &str, arguments: impl IntoIterator<Item = String>) -> String {
    let mut line = program.to_owned();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        if argument == "--data" {
            arguments.next();
        } else if !argument.starts_with("--data=") {
            line.push(' ');
            line.push_str(&for_shell(&argument));
        }
    }
    line
}

/// Quoted if a shell would change it.
fn for_shell(argument: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    match !argument.is_empty() && argument.chars().all(is_plain) {
        true => argument.to_owned(),
        false => format!("'{}'", argument.replace('\'', "'\\''")),
    }
}
