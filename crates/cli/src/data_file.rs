//! `--data FILE`: what a command measured, as the data file of a results page (`imbrex_results`).

use crate::error::{CliError, Context};
use crate::target::Target;
use imbrex_results::{Data, Measured, Table, command_line};
use std::path::PathBuf;

/// The option, for every command that measures.
#[derive(clap::Args, Debug)]
pub(crate) struct DataArgs {
    /// Also write the tables to this data file of a results page; an existing one keeps its other content
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
}

/// A data file that can be written.
#[derive(Debug)]
pub(crate) struct DataFile {
    target: Target,
    /// Its text, if it exists.
    before: Option<String>,
}

impl DataArgs {
    /// The file, if one is named. A file that cannot be written, or is no data file, fails now: a run may take an hour.
    pub(crate) fn open(&self) -> Result<Option<DataFile>, CliError> {
        let Some(path) = &self.data else { return Ok(None) };
        let target = Target::new(path, &[])?;
        let shown = path.display();
        let before = match path.is_file() {
            true => Some(std::fs::read_to_string(path).context(|| format!("cannot read {shown}"))?),
            false => None,
        };
        let fault = before.as_deref().and_then(|text| Data::parse(text).err());
        match fault {
            Some(fault) => Err(CliError::usage(format!(
                "cannot write {shown}: it is no data file of a results page: {fault}; name another file"
            ))),
            None => Ok(Some(DataFile { target, before })),
        }
    }
}

impl DataFile {
    /// Writes the tables and the command line of this process.
    pub(crate) fn write(&self, tables: Vec<Table>) -> Result<(), CliError> {
        let arguments = std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned());
        let command = command_line("imbrex", arguments);
        let measured = Measured { command, commit: String::new(), date: String::new(), tables };
        let text = measured.into_text(self.before.as_deref()).map_err(CliError::data)?;
        self.target.write(&text)
    }
}
